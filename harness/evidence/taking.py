"""Taking what was planned: in order, within a budget, each part on the disk before the next.

Several failures of one pool share what is the same: a part that was taken a moment ago, or whose
feed has told nothing since, is referred to and not taken again. A broken lab then costs seconds for
its first failure and next to nothing for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.clock import Clock, ClockStuck
from harness.diagnose.case import Case, Unused, merged
from harness.evidence.manifest import Item, Manifest, Status
from harness.reach.errors import LabError, Unreachable
from harness.report.atomic import write_bytes
from harness.report.records import cap
from harness.report.redact import redact

FILE_LIMIT = 1024 * 1024
"""Bytes of one file: half from its head, half from its tail."""
FRESH = 600.0
"""Seconds of the lab's time for which what was asked is still good for another failure."""
STRIKES = 2
"""Requests to one cluster without an answer after which it is not asked again."""
INTERRUPTED = "the run was interrupted"


@dataclass(frozen=True, slots=True)
class Budget:
    """What one failure's evidence may take: ``seconds`` of the runner's time, ``lab`` of the
    lab's; ``pool``: of the runner's, for all failures of one pool together."""

    seconds: float = 90.0
    lab: float = 120.0
    pool: float = 600.0


@dataclass(frozen=True, slots=True)
class Got:
    """What was had: ``text`` for the file, ``case`` what a diagnosis reads of it, ``why`` what is
    not in it, "" where all is. ``redacted``: nothing secret is left in the text."""

    text: str
    case: Case = field(default_factory=Case)
    why: str = ""
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One thing to take. ``file`` names it within a pool. ``place`` is the cluster (or whatever
    else) that is asked; ``version`` tells whether a feed has gone on, None for what is asked.

    ``take`` raises LabError or ClockStuck where it cannot be had.
    """

    name: str
    file: str
    place: str
    take: Callable[[], Got]
    version: Callable[[], object] | None = None


@dataclass(frozen=True, slots=True)
class Took:
    """What a taking came to: all that a diagnosis may use, and how many parts were asked for and
    not shared with an earlier failure."""

    case: Case
    asked: int


@dataclass(frozen=True, slots=True)
class _Had:
    item: Item
    case: Case
    folder: str
    version: object


@dataclass(slots=True)
class PoolEvidence:
    """The evidence of one pool's failures, below ``root``. One thread at a time takes."""

    root: Path
    clock: Clock
    budget: Budget
    spent: float = 0.0
    """Of the runner's seconds, for all failures so far."""
    _had: dict[str, _Had] = field(default_factory=dict)
    _strikes: dict[str, int] = field(default_factory=dict)

    def take(
        self, manifest: Manifest, folder: str, parts: Sequence[Part], *, anew: bool = False
    ) -> Took:
        """Take the parts into a folder below ``root``, and write its manifest.

        ``anew``: whatever was taken before may have changed since. A KeyboardInterrupt goes on,
        with all that was not taken yet told so. Raises OSError where the disk refuses.
        """
        began, lab_began = self.clock.monotonic(), self.clock.now()
        place = self.root / folder
        manifest.items = [Item(one.name, why="not got to yet") for one in parts]
        manifest.write(place)
        cases: list[Case] = []
        done = asked = 0
        try:
            for done, part in enumerate(parts):
                over = self._over(began, lab_began)
                had = self._share(part, folder, over=over, anew=anew)
                asked += had is None and part.version is None
                had = had or self._take(part, folder, over)
                manifest.items[done] = had.item
                cases.append(had.case)
                manifest.spent = self.clock.monotonic() - began
        except KeyboardInterrupt:
            for late, part in enumerate(parts[done:], done):
                manifest.items[late] = Item(part.name, why=INTERRUPTED)
            raise
        finally:
            self.spent += self.clock.monotonic() - began
            manifest.write(place)
        return Took(merged(cases), asked)

    def _over(self, began: float, lab_began: float) -> str:
        """Which budget is spent, "" while none is."""
        spent = self.clock.monotonic() - began
        if spent >= self.budget.seconds:
            return f"{self.budget.seconds:.0f} s were up"
        if self.clock.now() - lab_began >= self.budget.lab:
            return f"{self.budget.lab:.0f} s of the lab's time were up"
        if self.spent + spent >= self.budget.pool:
            return f"the {self.budget.pool:.0f} s for all failures of this pool were up"
        return ""

    def _share(self, part: Part, folder: str, *, over: str, anew: bool) -> _Had | None:
        """What an earlier failure of this pool has of it, where that is still good."""
        had = self._had.get(part.file)
        if had is None:
            return None
        if part.version is not None:
            same = part.version() == had.version
        else:
            at = had.item.at
            same = not anew and at is not None and self.clock.now() - at <= FRESH
        if not (same or over):
            return None
        item = had.item
        if item.file and had.folder != folder:
            why = "; ".join(one for one in (item.why, over) if one)
            item = replace(item, file=f"../{had.folder}/{item.file}", seconds=0.0, why=why)
        return replace(had, item=item)

    def _take(self, part: Part, folder: str, over: str) -> _Had:
        why = over
        if not why and self._strikes.get(part.place, 0) >= STRIKES:
            why = f"{part.place} did not answer {STRIKES} times"
        if why:
            case = Case(unused=(Unused(part.name, f"not asked: {why}"),))
            return _Had(Item(part.name, why=why), case, folder, None)
        version = part.version() if part.version is not None else None
        began, now = self.clock.monotonic(), self.clock.now()
        try:
            got = part.take()
            self._strikes.pop(part.place, None)
            had = _Had(self._written(part, folder, got, now), got.case, folder, version)
        except (LabError, ClockStuck) as failed:
            if isinstance(failed, Unreachable):
                self._strikes[part.place] = self._strikes.get(part.place, 0) + 1
            saw = failed.saw if isinstance(failed, LabError) else str(failed)
            case = Case(unused=(Unused(part.name, f"not answered ({saw})"),))
            item = Item(part.name, status=Status.FAILED, why=str(saw)[:400], at=now)
            had = _Had(item, case, folder, object())
        item = replace(had.item, seconds=self.clock.monotonic() - began)
        had = replace(had, item=item)
        self._had[part.file] = had
        return had

    def _written(self, part: Part, folder: str, got: Got, now: float) -> Item:
        if not got.text.strip():
            return Item(part.name, status=Status.EMPTY, why=got.why, at=now)
        text, note = cap(got.text if got.redacted else redact(got.text), FILE_LIMIT)
        data = text.encode("utf-8", "backslashreplace")
        write_bytes(self.root / folder / part.file, data)
        why = "; ".join(one for one in (got.why, note) if one)
        status = Status.TRUNCATED if why else Status.TAKEN
        return Item(part.name, part.file, status, len(data), why=why, at=now)


def unlike(parts: Iterable[Part]) -> list[Part]:
    """Parts without those whose file an earlier one has."""
    return list({one.file: one for one in reversed(list(parts))}.values())[::-1]
