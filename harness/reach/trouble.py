"""What stands between a watch and its cluster, and how long to leave the cluster alone for it."""

from __future__ import annotations

from dataclasses import dataclass

import urllib3

from harness.reach.errors import ApiRefused, BadCertificate, Garbled, LabError

BACK_OFF = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
"""Real seconds before each new attempt in a row; the last is repeated."""

LONGEST_BACK_OFF = 30.0
"""Real seconds above which a server's own Retry-After is not believed."""

PROMPT = 10
"""Streams in a row, none of which held, after which even those that brought news are paced."""

AHEAD = 3
"""Answers in a row that our version is still to come, after which it is of another past. A server
that lags behind its storage says the same, and has caught up within seconds."""

_PASSING = frozenset({408, 410, 429, 500, 502, 503, 504})
_TOO_LARGE = "Too large resource version"


@dataclass(slots=True)
class Trouble:
    """A feed's bad luck so far; whole while all is well.

    ``failures`` are attempts in a row that brought nothing new, ``silent`` streams in a row
    without a byte, ``garbled`` streams in a row that ended at an event that can't be read,
    ``ahead`` answers in a row that our version is still to come, ``unauthorized`` those of 401.
    ``hurried`` are streams in a row that did not hold, ``expired`` those among them that could not
    be resumed.
    ``asked`` is how many seconds the server asked to be left alone. ``blind`` says why there is
    no open stream, ``blind_since`` since when on the runner's monotonic clock.
    """

    failures: int = 0
    silent: int = 0
    garbled: int = 0
    ahead: int = 0
    unauthorized: int = 0
    hurried: int = 0
    expired: int = 0
    asked: float = 0.0
    blind: str = ""
    blind_since: float = 0.0

    def pace(self) -> float:
        """Real seconds to wait before the next attempt."""
        hurried = min(self.hurried // PROMPT, 2)
        own = max(_step(self.failures - 1), _step(self.expired - 1), BACK_OFF[hurried])
        return max(own, min(self.asked, LONGEST_BACK_OFF))

    def learn(self, error: LabError) -> None:
        """Take in why an attempt ended."""
        self.silent += isinstance(error.__cause__, urllib3.exceptions.ReadTimeoutError)
        self.garbled += isinstance(error, Garbled)
        self.ahead = self.ahead + 1 if _is_ahead(error) else 0
        self.unauthorized += _code(error) == 401
        self.expired += _code(error) == 410 or isinstance(error, Garbled)
        self.asked = _retry_after(error)

    def ended(self, held: float) -> None:
        """A stream is over that held for so many seconds."""
        if held >= BACK_OFF[-1]:
            self.failures = self.hurried = self.expired = 0
        else:
            self.hurried += 1

    def await_stream(self, at: float) -> None:
        """The first list was had, at a moment of the runner's monotonic clock; no stream yet."""
        self.blind, self.blind_since = "the first stream is not open yet", at

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
        self.silent = self.garbled = self.ahead = self.unauthorized = 0

    def is_over(self, error: LabError) -> bool:
        """Whether this error ends the watch; one 401 may be a token that was just renewed."""
        return is_final(error) and not (_code(error) == 401 and not self.unauthorized)


def is_final(error: LabError) -> bool:
    """Whether trying again cannot help: we are not let in, or the API will never say yes.

    Kept trying, and nothing else: no answer, an answer that is no Kubernetes API's, 408, 410, 429,
    500, 502, 503, 504 (lab/waiting.md section 6). A 404 is final: while its handlers are being
    installed the API server answers 503.
    """
    if isinstance(error, BadCertificate):
        return True
    return isinstance(error, ApiRefused) and error.code not in _PASSING


def _step(number: int) -> float:
    return BACK_OFF[min(max(number, 0), len(BACK_OFF) - 1)]


def _code(error: LabError) -> int:
    return error.code if isinstance(error, ApiRefused) else 0


def _is_ahead(error: LabError) -> bool:
    """Whether the server has not come to our version: it lags, or was restored from a backup."""
    return isinstance(error, ApiRefused) and error.code == 504 and _TOO_LARGE in error.message


def _retry_after(error: LabError) -> float:
    """Seconds that a Status asks to wait (``details.retryAfterSeconds``), 0 when it does not."""
    asked = error.details.get("retryAfterSeconds") if isinstance(error, ApiRefused) else None
    return float(asked) if isinstance(asked, int | float) else 0.0
