"""How a wait for objects ended, in one value that can be read without the run that made it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from harness.reach.history import Gap, Key, Obj, Revision

Ending = Literal["met", "terminal", "timed-out", "deleted", "replaced", "gap"]
Predicate = Callable[[Revision], bool]

LAST = 5
"""How many of the last revisions an outcome keeps."""

_SAID: dict[Ending, str] = {
    "met": "met",
    "terminal": "a state that cannot lead there",
    "timed-out": "not met in time, and nothing was missed",
    "deleted": "the object was deleted",
    "replaced": "another object took its name",
    "gap": "not met in time, but something may have been missed: cannot tell",
}


@dataclass(frozen=True, slots=True)
class Waited:
    """How a wait ended.

    ``kind``: "met"; "terminal" (the caller's own sign that it cannot be met any more); "deleted"
    and "replaced" (only of an object named by UID); "timed-out" (not met, and everything was
    seen); "gap" (not met, and something may have been missed: no claim either way).
    ``revision`` is the one that decided (of a "replaced": the replacement), None where time did.
    ``seconds`` are the lab's, 0 for what had happened before. ``healthy``: nothing can have been
    missed. ``last``: up to five revisions, of the object where a UID was given, else of the feed,
    newest last. ``cuts`` are those during the wait; ``gaps`` all those of the history; ``blind``
    says why nothing could be seen when the wait ended, "" when it could.
    """

    kind: Ending
    what: str
    where: str
    revision: Revision | None
    seconds: float
    healthy: bool
    last: tuple[Revision, ...] = ()
    cuts: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()
    blind: str = ""

    def __str__(self) -> str:
        told = [f"waited {self.seconds:g} s for {self.what} ({self.where}): {_SAID[self.kind]}"]
        seen = self.revision or (self.last[-1] if self.last else None)
        told.append(f"last state: {describe(seen)}" if seen else "nothing was ever seen")
        if self.cuts:
            told.append(f"{_count(self.cuts, 'cut')}, the last: {self.cuts[-1]}")
        for gap in self.gaps:
            lasted = f"{gap.until - gap.since:g} s"
            told.append(f"gap of {lasted} from revision {gap.after or '?'}: {gap.reason}")
        if self.blind:
            told.append(f"nothing could be seen at the end: {self.blind}")
        return "; ".join(told)


@dataclass(slots=True)
class Waiter:
    """One wait: offered each revision in order, it ends at the first that decides.

    A predicate's own error is kept, to be raised where the wait was made.
    """

    met: Predicate
    terminal: Predicate | None = None
    uid: str = ""
    kind: Ending | None = None
    answer: Revision | None = None
    failure: BaseException | None = None
    key: Key | None = None  # under which the UID was seen

    @property
    def over(self) -> bool:
        """Whether it is decided."""
        return self.kind is not None or self.failure is not None

    def offer(self, revision: Revision) -> None:
        """Look at one revision."""
        if self.over:
            return
        try:
            self.kind = self._judge(revision)
        except BaseException as bug:  # noqa: BLE001 - re-raised by the wait that it belongs to
            self.failure = bug
        if self.kind is not None:
            self.answer = revision

    def _judge(self, revision: Revision) -> Ending | None:
        if self.uid and revision.uid != self.uid:
            return "replaced" if revision.key == self.key else None
        self.key = revision.key if self.uid else None
        if self.met(revision):
            return "met"
        if self.terminal is not None and self.terminal(revision):
            return "terminal"
        return "deleted" if self.uid and revision.change == "DELETED" else None


def describe(revision: Revision) -> str:
    """One line on a revision: what it is, its phase and its conditions."""
    obj = revision.obj
    name = "/".join(part for part in revision.key if part)
    found = obj.get("status")
    status: Obj = found if isinstance(found, dict) else {}
    told = [f"{obj.get('kind', 'object')} {name} {revision.change} at revision {revision.version}"]
    if "phase" in status:
        told.append(f"phase {status['phase']}")
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else []:
        if isinstance(condition, dict):
            told.append(_condition(condition))
    return ", ".join(told)


def _condition(condition: Obj) -> str:
    why = f" ({condition['reason']})" if condition.get("reason") else ""
    return f"{condition.get('type')}={condition.get('status')}{why}"


def _count(things: tuple[str, ...], word: str) -> str:
    return f"{len(things)} {word}" + ("s" if len(things) > 1 else "")
