"""Chaos: which requests a server is to serve badly, and how; pure decisions, no I/O.

A rule strikes requests by verb and path, and how often it has struck is counted. What each kind
does on the wire is in ``misbehave``; what clients make of it is measured in
lab/waiting.md section 4.2 and lab/python_kube_stack.md sections 2.4 to 2.6.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

REFUSALS: Final = (
    "gone",
    "throttle",
    "leader-changed",
    "unavailable",
    "timeout",
    "unauthorized",
    "forbidden",
)
"""Kinds that are answered with a Status."""
WHOLE_SERVER: Final = ("restart", "skew", "expired-certificate")
"""Kinds that strike no single request but the server."""
KINDS: Final = ("cut", "drop", "silent", "half-open", "slow", "garbled", *REFUSALS, *WHOLE_SERVER)
"""Every kind of misbehaviour."""
VERBS: Final = (
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "exec",
    "connect",
)
"""The API's verbs, exec, and connect for the other streams: a console, a log that is followed.

Off the resource paths it is the HTTP method in lower case.
"""

STREAMS: Final = frozenset({"watch", "exec"})
"""The verbs whose streams are struck in their course; one that connects is so at its start."""

_METHODS: Final = ("head", "options", "post", "put")
# Kinds that make no sense of every request.
_ONLY: Final = {
    "cut": STREAMS,
    "silent": STREAMS,
    "gone": frozenset({"watch", "list"}),
    "garbled": frozenset({*VERBS, *_METHODS} - {"exec", "connect"}),
}
_LONGEST: Final = 10 * 365 * 86400.0  # seconds


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to misbehave, and whom it strikes.

    ``what`` is one of KINDS, ``verb`` one of VERBS or "*". ``path`` is a glob on the URL's path as
    it was sent, without the query; ``*`` stands for any text, slashes too. ``times`` is how many
    requests it strikes before it is spent (0: every one), ``skip`` how many matching requests go
    unharmed first, ``after`` how many events (not bookmarks; messages of an exec) a stream gets
    first. ``seconds`` are real ones: a delay, a Retry-After, a skew.

    Raises ValueError, one sentence, for a rule that could never strike.
    """

    what: str
    verb: str = "*"
    path: str = "*"
    times: int = 0
    skip: int = 0
    after: int = 0
    seconds: float = 0

    def __post_init__(self) -> None:
        if self.what not in KINDS:
            raise ValueError(f"no chaos {self.what!r}{meant(self.what, KINDS)}")
        if self.verb != "*" and self.verb not in (*VERBS, *_METHODS):
            raise ValueError(f"no verb {self.verb!r}{meant(self.verb, VERBS)}")
        for name in ("times", "skip", "after"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}: give 0 or more")
        if not abs(self.seconds) <= _LONGEST or (self.seconds < 0 and self.what != "skew"):
            raise ValueError(f"seconds is {self.seconds:g}: give 0 or more, at most ten years")
        if self.verb not in ("*", *_ONLY.get(self.what, (self.verb,))):
            known = sorted(_ONLY[self.what], reverse=True)
            hint = f", only {' and '.join(known)}" if len(known) == 2 else ""
            raise ValueError(f"{self.what} never strikes {self.verb}{hint}")
        if self.what in ("slow", "skew") and not self.seconds:
            raise ValueError(f"{self.what} needs seconds: say by how many")

    def matches(self, verb: str, path: str) -> bool:
        """Whether the rule is about a request."""
        return (
            self.what not in WHOLE_SERVER
            and self.verb in ("*", verb)
            and verb in _ONLY.get(self.what, (verb,))
            and (self.path == "*" or fnmatchcase(path, self.path))
        )

    @property
    def retry_after(self) -> int:
        """``seconds`` as a Retry-After header has them: whole ones."""
        return math.ceil(self.seconds)


@dataclass(slots=True)
class InForce:
    """A rule that was added. ``met`` counts the requests it was about, ``struck`` those it hit."""

    rule: Rule
    met: int = 0
    struck: int = 0

    @property
    def spent(self) -> bool:
        """Whether it has struck as often as it may."""
        return bool(self.rule.times) and self.struck >= self.rule.times

    def concerns(self, verb: str, path: str) -> bool:
        """Whether the rule has still to do with a request like this."""
        return not self.spent and self.rule.matches(verb, path)

    def meet(self) -> bool:
        """Counts a request that the rule is about; True if it strikes it."""
        self.met += 1
        strikes = self.met > self.rule.skip
        self.struck += strikes
        return strikes


def _nobody(_: Rule | None) -> None:
    """Nobody carries out what strikes a whole server."""


class Chaos:
    """The rules of one server, asked in the order they were added.

    One request is struck by one rule at most, and then no later rule counts it. ``armed`` is
    False as long as no rule can strike a request. ``whole`` is called with each rule that strikes
    the whole server when it is added, and with None when all are taken back. Use it where the
    server lives, in its event loop's own thread.
    """

    def __init__(self, whole: Callable[[Rule | None], None] = _nobody) -> None:
        self.armed = False
        self._whole = whole
        self._kept: list[InForce] = []

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules added and not cleared, spent ones too."""
        return tuple(kept.rule for kept in self._kept)

    @property
    def in_force(self) -> tuple[InForce, ...]:
        """The same with their counts."""
        return tuple(self._kept)

    def add(self, rule: Rule) -> None:
        """Put a rule behind the others. One that strikes the whole server does so at once."""
        kept = InForce(rule)
        self._kept.append(kept)
        if rule.what in WHOLE_SERVER:
            kept.met = kept.struck = 1
            self._whole(rule)
        else:
            self.armed = True

    def clear(self) -> None:
        """Take back every rule. What was struck stays so: a silent stream goes on being silent."""
        self._kept.clear()
        self.armed = False
        self._whole(None)

    def concerns(self, verb: str, path: str) -> bool:
        """Whether any rule has to do with a request; counts nothing."""
        return any(kept.concerns(verb, path) for kept in self._kept)

    def strike(self, verb: str, path: str) -> Rule | None:
        """The rule that strikes a request, or None; counts it."""
        for kept in self._kept:
            if kept.concerns(verb, path) and kept.meet():
                self.armed = any(self._may_strike(one) for one in self._kept)
                return kept.rule
        return None

    def _may_strike(self, kept: InForce) -> bool:
        return kept.rule.what not in WHOLE_SERVER and not kept.spent


def meant(word: str, known: Iterable[str]) -> str:
    """How a sentence about an unknown word ends: with the known word that is near, or all."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else f": choose one of {', '.join(known)}"
