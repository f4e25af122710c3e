"""A simulated lab's time, asked for and moved over HTTP."""

from __future__ import annotations

import http.client
import json
import threading
from urllib.parse import urlsplit

from harness.clock import ClockStuck, Moment


class HttpTimeSource:
    """Time moved over HTTP: ``POST /clock/settle`` and ``POST /clock/advance?until=<epoch>``.

    ``seat`` is what it asks with where it shares the time with other processes, "" for nothing:
    time then moves when all of them ask (`harness.bringup.seat`).
    """

    def __init__(self, url: str, *, timeout: float = 120.0) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            raise ValueError(f"clock {url!r}: expected http://HOST:PORT")
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout)
        self._one_at_a_time = threading.Lock()
        self._seen = 0
        self.seat = ""

    def settle(self) -> Moment:
        """Bring every watch up to date without moving time."""
        return self._post(f"/clock/settle?seat={self.seat}" if self.seat else "/clock/settle")

    def advance(self, until: float) -> Moment:
        """Move to the next visible moment, at the latest to ``until``; from a seat perhaps nowhere,
        where another process computes or has written something.
        """
        shared = f"&seat={self.seat}&seen={self._seen}" if self.seat else ""
        return self._post(f"/clock/advance?until={until!r}{shared}")

    def close(self) -> None:
        """Let go of the connection; asking again makes a new one."""
        self._connection.close()

    def _post(self, path: str) -> Moment:
        with self._one_at_a_time:
            self._connection.request("POST", path)
            answer = self._connection.getresponse()
            body = answer.read()
        if answer.status != 200:
            raise ClockStuck(f"the lab's clock answered {answer.status} to {path}: {body[:200]!r}")
        told = json.loads(body)
        self._seen = int(told["revision"])
        return Moment(float(told["now"]), self._seen)
