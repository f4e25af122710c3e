"""How a wait for objects ended, in one value that can be read without the run that made it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.reach.history import Compacted, Gap, Key, Obj, Revision
from harness.reach.waiters import Ending

LAST = 5
"""How many of the last revisions an outcome keeps."""

ROWS = 20
"""How many of the last revisions an outcome's table tells."""

_SAID: dict[Ending, str] = {
    "met": "met",
    "terminal": "a state that cannot lead there",
    "timed-out": "not met in time, and nothing was missed",
    "deleted": "the object was deleted",
    "replaced": "another object took its name",
    "gap": "not met in time, but something may have been missed: cannot tell",
    "refused": "the cluster no longer lets us look",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of an outcome's table.

    ``offset`` is in the lab's seconds from the beginning of the wait, below zero for what came
    before; ``told`` the phase and the conditions that changed with this revision.
    """

    offset: float
    change: str
    version: str
    name: str
    told: str

    def __str__(self) -> str:
        return (
            f"{self.offset:+10.1f} s  {self.change:<8} {self.version:<10} {self.name}  {self.told}"
        )


@dataclass(frozen=True, slots=True)
class Waited:
    """How a wait ended.

    ``kind``: "met"; "terminal" (the caller's own sign that it cannot be met any more); "deleted"
    and "replaced" (only of an object named by UID); "timed-out" (not met, and everything was
    seen); "gap" (not met, and something may have been missed: no claim either way); "refused"
    (401, 403 or another no that will not change; ``error`` is the whole of it).
    ``revision`` is the one that decided (of a "replaced": the replacement), None where time did.
    ``began`` is the lab's time, ``seconds`` are the lab's, 0 for what had happened before.
    ``healthy``: nothing can have been missed. ``last``: up to five revisions, of the object where
    one was named, else of the feed, newest last; ``seen`` are up to twenty, ``earlier`` how many
    came before those and ``before`` the last of them of each object.
    ``cuts`` are those during the wait; ``gaps`` those that can matter to it; ``compacted`` what
    of the history was forgotten before the wait began; ``blind`` says why nothing could be seen
    when the wait ended, "" when it could; ``unheard`` is how many of the runner's seconds the
    server had then said nothing. ``stands`` is how a count stood. ``events`` are the object's
    own, oldest first, where the wait was told how to get them; ``events_unread`` why not.
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
    error: str = ""
    compacted: Compacted | None = None
    unheard: float = 0.0
    stands: str = ""
    began: float = 0.0
    seen: tuple[Revision, ...] = ()
    before: tuple[Revision, ...] = ()
    earlier: int = 0
    events: tuple[str, ...] = ()
    events_unread: str = ""

    @property
    def story(self) -> tuple[Row, ...]:
        """``seen`` as a table; each row says what it changed of the one before it."""
        known = {one.key: one for one in self.before}
        rows = []
        for revision in self.seen:
            told = _changes(known.get(revision.key), revision)
            known[revision.key] = revision
            name = "/".join(part for part in revision.key if part)
            offset = revision.arrived - self.began
            rows.append(Row(offset, revision.change, revision.version, name, told))
        return tuple(rows)

    def __str__(self) -> str:
        told = [f"waited {self.seconds:g} s for {self.what} ({self.where}): {_SAID[self.kind]}"]
        if self.error:
            told.append(self.error)
        if self.stands:
            told.append(self.stands)
        seen = self.revision or (self.last[-1] if self.last else None)
        told.append(f"last state: {describe(seen)}" if seen else "nothing was ever seen")
        if self.cuts:
            told.append(f"{_count(len(self.cuts), 'cut')}, the last: {self.cuts[-1]}")
        for gap in self.gaps:
            lasted = f"{gap.until - gap.since:g} s"
            told.append(f"gap of {lasted} from revision {gap.after or '?'}: {gap.reason}")
        if self.compacted:
            told.append(str(self.compacted))
        if self.blind:
            told.append(f"nothing could be seen at the end: {self.blind}")
        return "; ".join(told)

    def report(self) -> str:
        """All of it, over several lines: the sentence, the table, the object's Events."""
        told = [str(self)]
        if self.seen:
            before = f", after {_count(self.earlier, 'earlier revision')}" if self.earlier else ""
            told.append(f"history{before}:")
            told += [f"  {row}" for row in self.story]
        if self.events_unread:
            told.append(f"its Events could not be read: {self.events_unread}")
        elif self.events:
            told.append("its Events:")
            told += [f"  {line}" for line in self.events]
        return "\n".join(told)


def newest(rest: Sequence[Revision], shown: Iterable[Revision]) -> tuple[Revision, ...]:
    """The last of the earlier revisions of each object that is shown."""
    wanted = {one.key for one in shown}
    found: dict[Key, Revision] = {}
    for one in reversed(rest):
        if one.key in wanted:
            found.setdefault(one.key, one)
            if len(found) == len(wanted):
                break
    return tuple(found.values())


def describe(revision: Revision) -> str:
    """One line on a revision: what it is, its phase and its conditions."""
    obj = revision.obj
    name = "/".join(part for part in revision.key if part)
    told = [f"{obj.get('kind', 'object')} {name} {revision.change} at revision {revision.version}"]
    phase = _status(obj).get("phase")
    if phase is not None:
        told.append(f"phase {phase}")
    told += [_condition(one) for one in _conditions(obj)]
    return ", ".join(told)


def _changes(before: Revision | None, now: Revision) -> str:
    """The phase and the conditions that are not as they were."""
    was = before.obj if before is not None and before.uid == now.uid else {}
    told = []
    old, new = (_status(obj).get("phase") for obj in (was, now.obj))
    if old != new:
        told.append(f"phase {new}" if old is None else f"phase {old}→{new}")
    known = {str(one.get("type")): one.get("status") for one in _conditions(was)}
    for one in _conditions(now.obj):
        old = known.get(str(one.get("type")))
        if old != one.get("status"):
            told.append(_condition(one, f"{old}→" if old is not None else ""))
    if _is_going(now.obj) and not _is_going(was):
        told.append("being deleted")
    return ", ".join(told) or "no phase or condition changed"


def _is_going(obj: Obj) -> bool:
    return bool(obj.get("metadata", {}).get("deletionTimestamp"))


def _status(obj: Obj) -> Obj:
    found = obj.get("status")
    return found if isinstance(found, dict) else {}


def _conditions(obj: Obj) -> Iterable[Obj]:
    found = _status(obj).get("conditions")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _condition(condition: Obj, before: str = "") -> str:
    why = f" ({condition['reason']})" if condition.get("reason") else ""
    return f"{condition.get('type')}={before}{condition.get('status')}{why}"


def _count(number: int, word: str) -> str:
    return f"{number} {word}" + ("s" if number > 1 else "")
