"""How many requests a second a cluster is sent: a token bucket, and every wait is told.

kubectl allows itself 50 requests a second for discovery, in bursts of 300; client-go's plain
default is 5 in bursts of 10 (kubectl, pkg/cmd/cmd.go; client-go, rest/config.go). 50 in bursts of
100 is enough for a run with its watches, and no more than any person's kubectl may ask.
"""

from __future__ import annotations

import threading
from typing import Protocol

from harness.reach.proxies import is_loopback

REQUESTS_PER_SECOND = 50.0
"""For a cluster that is not on this machine, where the inventory names no other."""

BURSTS = 2.0
"""Seconds' worth of requests that may go at once after a quiet while."""


def courtesy_to(server: str, named: float | None, clock: Waiting, *, shares: int = 1) -> Courtesy:
    """The courtesy owed to the API server at this URL.

    ``named`` is what the inventory says, None for nothing: then there is no limit on this very
    machine, and `REQUESTS_PER_SECOND` elsewhere. ``shares`` are the processes that share it.
    """
    rate = named
    if rate is None:
        rate = 0.0 if is_loopback(server) else REQUESTS_PER_SECOND
    return Courtesy(rate / max(1, shares), clock)


class Waiting(Protocol):
    """What courtesy needs of a `harness.clock.Clock`: the runner's time, never the lab's."""

    def monotonic(self) -> float:
        """The runner's monotonic seconds."""

    def back_off(self, seconds: float, stop: threading.Event) -> bool:
        """Pause on real time."""


class Courtesy:
    """A token bucket, shared by every thread that asks one cluster.

    In any t seconds it lets at most ``burst + rate * t`` requests go. ``rate`` 0 is no limit.
    Requests go in the order in which they came; their delays are waited on real time, so that
    the lab's virtual time never moves for them.
    """

    def __init__(self, rate: float, clock: Waiting, *, burst: float = 0.0) -> None:
        if rate < 0:
            raise ValueError(f"a rate of {rate:g} requests a second")
        self.rate = rate
        self.burst = max(1.0, burst or rate * BURSTS)
        self._clock = clock
        self._lock = threading.Lock()
        self._never = threading.Event()
        self._tokens = self.burst  # below zero: so many requests wait already
        self._counted = clock.monotonic() if rate else 0.0

    def admit(self) -> float:
        """Wait for this request's turn; how many seconds it was held."""
        if not self.rate:
            return 0.0
        began = self._clock.monotonic()
        delay = self._reserve(began)
        if delay <= 0:
            return 0.0
        self._clock.back_off(delay, self._never)
        return self._clock.monotonic() - began

    def _reserve(self, now: float) -> float:
        """Take a token, of the future if need be; seconds until it is there."""
        with self._lock:
            # a thread may have read the time and come to the lock after one that read it later
            passed = max(0.0, now - self._counted)
            self._counted = max(self._counted, now)
            self._tokens = min(self.burst, self._tokens + passed * self.rate) - 1.0
            due = self._counted - self._tokens / self.rate
            return max(0.0, due - now)
