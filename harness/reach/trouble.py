"""What stands between a watch and its cluster, and how long to leave the cluster alone for it."""

from __future__ import annotations

from dataclasses import dataclass

import urllib3

from harness.reach.errors import ApiRefused, BadCertificate, Garbled, LabError

BACK_OFF = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
"""Real seconds before each new attempt in a row; the last is repeated."""

LONGEST_BACK_OFF = 30.0
"""Real seconds above which a server's own Retry-After is not believed."""

_PASSING = frozenset({408, 410, 429})  # refusals below 500 that may be gone at the next attempt


@dataclass(slots=True)
class Trouble:
    """A feed's bad luck so far; whole while all is well.

    ``failures`` are attempts in a row that brought nothing new, ``silent`` streams in a row
    without a byte, ``garbled`` streams in a row that ended at an event that can't be read.
    ``asked`` is how many seconds the server asked to be left alone. ``blind`` says why there is
    no open stream, ``blind_since`` since when on the runner's monotonic clock.
    """

    failures: int = 0
    silent: int = 0
    garbled: int = 0
    asked: float = 0.0
    blind: str = ""
    blind_since: float = 0.0

    def pace(self) -> float:
        """Real seconds to wait before the next attempt."""
        own = BACK_OFF[min(max(self.failures - 1, 0), len(BACK_OFF) - 1)]
        return max(own, min(self.asked, LONGEST_BACK_OFF))

    def learn(self, error: LabError) -> None:
        """Take in why an attempt ended."""
        self.silent += isinstance(error.__cause__, urllib3.exceptions.ReadTimeoutError)
        self.garbled += isinstance(error, Garbled)
        self.asked = _retry_after(error)

    def fail(self, why: str, at: float) -> None:
        """An attempt ended, at a moment of the runner's monotonic clock."""
        self.failures += 1
        if not self.blind:
            self.blind_since = at
        self.blind = why

    def opened(self) -> None:
        """A stream is open."""
        self.blind, self.asked = "", 0.0

    def heard(self) -> None:
        """An event was read."""
        self.silent = self.garbled = 0


def is_final(error: LabError) -> bool:
    """Whether trying again cannot help: we are not let in, or the API will never say yes.

    Kept trying: no answer, an answer that is no Kubernetes API's, 408, 410, 429 and 5xx
    (lab/waiting.md section 6). A 404 is final: while its handlers are being installed the API
    server answers 503.
    """
    if isinstance(error, BadCertificate):
        return True
    return isinstance(error, ApiRefused) and error.code < 500 and error.code not in _PASSING


def _retry_after(error: LabError) -> float:
    """Seconds that a Status asks to wait (``details.retryAfterSeconds``), 0 when it does not."""
    asked = error.details.get("retryAfterSeconds") if isinstance(error, ApiRefused) else None
    return float(asked) if isinstance(asked, int | float) else 0.0
