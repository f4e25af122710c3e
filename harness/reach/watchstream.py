"""What is watched, and how a watch's stream is read: bytes to lines to events.

The wire format is one JSON document a line, ``{"type": ..., "object": ...}``; chunks of the
transport have nothing to do with lines (Kubernetes API concepts, "Efficient detection of changes").
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import urllib3

from harness.reach.access import transport_error
from harness.reach.errors import ApiRefused, Garbled, refusal
from harness.reach.listing import LOOK, is_named
from harness.reach.packed import Obj

BOOKMARK = "BOOKMARK"
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED", BOOKMARK})
_LOST = frozenset({"Expired", "Gone"})  # reasons under which a version can't be resumed
_QUOTED = 200


class Cluster(Protocol):
    """What a watch needs of a cluster; `harness.reach.kube.Kube` has it."""

    name: str

    def path_of(self, api_version: str, kind: str, namespace: str) -> str:
        """The URL path of a collection."""

    def request(self, verb: str, method: str, path: str, query: dict[str, str]) -> bytes:
        """A GET; the body of a 2xx answer."""

    def stream(self, path: str, query: dict[str, str], *, read_timeout: float | None) -> Any:
        """A streaming GET."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is watched."""

    api_version: str
    kind: str
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def __str__(self) -> str:
        scope = self.namespace or "all namespaces"
        chosen = " ".join(part for part in (self.labels, self.fields) if part)
        return f"{self.kind} in {scope}" + (f" where {chosen}" if chosen else "")

    def chosen(self, name: str = "") -> dict[str, str]:
        """The query of a list; with a name, of the objects of that name."""
        fields = ",".join(each for each in (self.fields, name and f"metadata.name={name}") if each)
        chosen = {"labelSelector": self.labels, "fieldSelector": fields}
        return {key: value for key, value in chosen.items() if value}

    def query(self, version: str) -> dict[str, str]:
        """The query of a watch that goes on from a resourceVersion, with bookmarks."""
        asked = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        return asked | self.chosen()


@dataclass(frozen=True, slots=True)
class Event:
    """One event: ``change`` is ADDED, MODIFIED, DELETED or BOOKMARK.

    ``version`` is the resourceVersion from which the watch may be resumed after it.
    """

    change: str
    obj: Obj
    version: str


class OutOfOrder(Garbled):
    """An event from before the version that the stream was to go on from, and not one we know."""


def lines(response: Any, tried: str) -> Iterator[bytes]:
    """The complete lines of a streaming response, each as soon as it is there.

    What stands after the last line feed is dropped: a stream cut in the middle of an event has
    not told it. Raises Unreachable when the stream breaks, with urllib3's error as its cause.
    """
    rest = b""
    try:
        while piece := response.read1(65536):
            *whole, rest = (rest + piece).split(b"\n")
            yield from (line for line in whole if line.strip())
    except (urllib3.exceptions.HTTPError, OSError) as cut:
        raise transport_error(cut, tried) from cut


def event_of(line: bytes, tried: str) -> Event:
    """Read one line. Raises Garbled for no event, ApiRefused (or Refused) for an ERROR event."""
    try:
        told = json.loads(line)
        change, obj = str(told["type"]), told["object"]
        if change == "ERROR":
            raise _error(obj, tried)
        metadata = obj["metadata"]
        version = metadata["resourceVersion"]
        named = change == BOOKMARK or is_named(obj)
    except (ValueError, KeyError, TypeError, AttributeError) as junk:
        raise _garbled(line, tried) from junk
    if change not in _CHANGES or not named or not isinstance(version, str) or not version:
        raise _garbled(line, tried)
    return Event(change, obj, version)


def _error(status: Obj, tried: str) -> ApiRefused:
    """The Status object that an ERROR event carries, as an error."""
    code = 410 if status.get("reason") in _LOST else int(status.get("code") or 500)
    return refusal(code, json.dumps({"kind": "Status", **status}).encode(), tried)


def _garbled(line: bytes, tried: str) -> Garbled:
    return Garbled(tried, f"{line[:_QUOTED]!r}, no watch event", LOOK)
