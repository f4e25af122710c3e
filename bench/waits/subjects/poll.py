"""A GET in a loop every so many seconds, first after one interval: ``poll.py SECONDS``.

At 0.05 s it does what chainsaw's assertions do. As in chainsaw, a 404 is waited through, and any
other error ends the wait.
"""

from __future__ import annotations

import sys
import threading
import time

import urllib3
from plain import loaded, met, server
from protocol import TimedOut, Wait, serve

_pause = threading.Event()


def answer(wait: Wait) -> None:
    """Ask until the predicate holds."""
    interval, one = float(sys.argv[1]), server(wait)
    path = f"/api/v1/namespaces/{wait.namespace}/pods/{wait.name}"
    end = time.monotonic() + wait.limit
    due = time.monotonic()
    while True:
        due += interval
        _pause.wait(max(0.0, min(due, end) - time.monotonic()))
        if time.monotonic() >= end:
            raise TimedOut("the limit")
        try:
            found = loaded(one.ask(path, {}, end - time.monotonic()))
        except RuntimeError as refused:
            if str(refused).startswith("404"):
                continue
            raise
        except urllib3.exceptions.TimeoutError as late:
            raise TimedOut("the limit") from late
        if met(found, wait):
            return


if __name__ == "__main__":
    serve(answer, "urllib3")
