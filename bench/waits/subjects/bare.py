"""A list and a watch by hand, and nothing besides: the floor that no client can go below.

It lists again when its stream ends, since otherwise it would not be comparable at all; it does not
notice a silent stream, a lost phase or another object under the same name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import urllib3
from plain import Server, loaded, met, server
from protocol import TimedOut, Wait, serve


def answer(wait: Wait) -> None:
    """List, watch from there, until the predicate holds."""
    one, end = server(wait), time.monotonic() + wait.limit
    while True:
        try:
            if any(met(pod, wait) for pod in _states(one, wait, end)):
                return
        except urllib3.exceptions.TimeoutError as expired:
            raise TimedOut("the limit") from expired


def _states(one: Server, wait: Wait, end: float) -> Iterator[dict[str, Any]]:
    path = f"/api/v1/namespaces/{wait.namespace}/pods"
    chosen = {"fieldSelector": f"metadata.name={wait.name}"}
    listed = loaded(one.ask(path, chosen, _left(end)))
    yield from listed["items"]
    version = listed["metadata"]["resourceVersion"]
    query = {**chosen, "watch": "true", "resourceVersion": version}
    stream = one.ask(path, query, _left(end))
    rest = b""
    try:
        while piece := stream.read1(65536):
            *whole, rest = (rest + piece).split(b"\n")
            for event in map(json.loads, whole):
                if event["type"] == "ERROR":
                    return
                if event["type"] != "DELETED":
                    yield event["object"]
            _left(end)
    finally:
        stream.close()


def _left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimedOut("the limit")
    return left


if __name__ == "__main__":
    serve(answer, "urllib3")
