"""Where two substrates disagree: of each claim that both were asked, the outcome and the evidence.

A claim may hold on each of two substrates for different reasons. So the facts behind it are
compared by their shape as well: kinds, sources, what values there are, the form of the texts that
they were read from. Where the twin writes what no real program writes, or leaves out what a real
one always writes, the twin is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from harness.report import expected as expectations
from harness.report import kept
from harness.report.expected import Expected
from harness.report.ledger import LedgerView, read
from harness.report.outcome import Row, Standing, Summary, summarise
from harness.report.records import LedgerError, Record
from harness.report.rundir import RunInfo, read_run
from harness.report.shapes import Evidence, Extra, Slip, extras, kinds_apart, slips
from harness.report.substrate import Substrate, substrate_of

OUTCOME = "outcome"
_ASKED = (Standing.BROKEN, Standing.UNKNOWN, Standing.NOT_RUN, Standing.HOLDS)


@dataclass(frozen=True, slots=True)
class Side:
    """One run. ``name`` is its substrate, with the run's id where another run has the same."""

    name: str
    substrate: Substrate
    folder: Path
    run: RunInfo
    view: LedgerView
    summary: Summary
    kept: Mapping[str, Record]
    """Its facts by key."""

    def asked(self, claim: str) -> Row | None:
        """The worst row of a claim that was put to some pool; None where to none."""
        rows = [one for one in self._rows(claim) if one.outcome in _ASKED]
        return min(rows, key=lambda row: _ASKED.index(row.outcome), default=None)

    def lacks(self, claim: str) -> str:
        """Why a claim was put to no pool."""
        whys = dict.fromkeys(row.because for row in self._rows(claim))
        return "; ".join(whys) or "this run did not ask it"

    def facts(self, claim: str) -> list[Record]:
        """The facts that the findings of a claim rest on, each once."""
        keys = [key for row in self._rows(claim) for item in row.findings for key in item.facts]
        return [self.kept[key] for key in dict.fromkeys(keys) if key in self.kept]

    def _rows(self, claim: str) -> list[Row]:
        return [row for row in self.summary.rows if row.claim == claim]


@dataclass(frozen=True, slots=True)
class Compared:
    """A claim that two sides or more were asked: its worst row on each, by the side's name."""

    claim: str
    rows: Mapping[str, Row]

    @property
    def agrees(self) -> bool:
        """Whether it came out alike."""
        return len({row.outcome for row in self.rows.values()}) == 1


@dataclass(frozen=True, slots=True)
class Alone:
    """A claim that is not compared: who was asked, and why each of the others was not."""

    claim: str
    asked: tuple[str, ...]
    whys: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which two sides differ.

    ``what`` is outcome, kinds, source, values, style or text; ``fact`` the kind of fact, "" for an
    outcome; ``where`` its source or the value's name. ``left`` and ``right`` are what each side
    says or writes. ``reason`` is why that is right, "" where nobody expects it.
    """

    what: str
    between: tuple[str, str]
    claims: tuple[str, ...]
    fact: str
    where: str
    left: str
    right: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class More:
    """Forms that ``side`` alone writes, beside ``other``, and not each time: no disagreement."""

    side: str
    other: str
    extra: Extra


@dataclass(frozen=True, slots=True)
class Equivalence:
    """What the comparison found. ``stale`` are expected differences that are none any more."""

    sides: tuple[Side, ...]
    compared: tuple[Compared, ...]
    alone: tuple[Alone, ...]
    differences: tuple[Difference, ...]
    more: tuple[More, ...]
    stale: tuple[Expected, ...]

    @property
    def disagreements(self) -> tuple[Difference, ...]:
        """The differences that nobody expects."""
        return tuple(one for one in self.differences if not one.reason)


def sides(folders: Sequence[Path]) -> tuple[Side, ...]:
    """Read runs; the least real comes first. Raises LedgerError where one cannot be read."""
    told = [(folder, read_run(folder / "run.json"), read(folder)) for folder in folders]
    substrates = [substrate_of(run.kind) for _, run, _ in told]
    found = []
    for on, (folder, run, view) in zip(substrates, told, strict=True):
        name = on.value if substrates.count(on) == 1 else f"{on.value} {run.run_id}"
        found.append(Side(name, on, folder, run, view, summarise(view), view.facts()))
    order = list(Substrate)
    return tuple(sorted(found, key=lambda side: order.index(side.substrate)))


def latest(out: Path) -> dict[Substrate, Path]:
    """The folder of each substrate's run that ended last, of those without a planted fault.
    Mistake where ``out`` is no place that can be looked at.
    """
    found: dict[Substrate, tuple[float, Path]] = {}
    for folder in kept.runs(out):
        run = _run_of(folder / "run.json")
        if run is None or run.ended is None or run.fault:
            continue
        on = substrate_of(run.kind)
        if on is not Substrate.UNRECORDED and run.ended > found.get(on, (0.0, folder))[0]:
            found[on] = run.ended, folder
    return {on: folder for on, (_, folder) in found.items()}


def _run_of(told: Path) -> RunInfo | None:
    try:
        return read_run(told)
    except LedgerError:
        return None  # what cannot be read is no run of any substrate


def compare(runs: Sequence[Side], table: Sequence[Expected] | None = None) -> Equivalence:
    """Compare each two of the runs; ``table`` is what is expected (default: the project's)."""
    entries = expectations.load() if table is None else tuple(table)
    compared, alone = _sorted_out(runs)
    pairs = [_Pair.of(left, right, compared) for left, right in combinations(runs, 2)]
    found, seen = [], set()
    for pair in pairs:
        for one in pair.differences():
            known = [entry for entry in entries if pair.expects(entry, one)]
            seen.update(known)
            found.append(replace(one, reason=known[0].reason) if known else one)
    stale = [one for one in entries if one not in seen and any(p.concerns(one) for p in pairs)]
    more = [one for pair in pairs for one in pair.more()]
    return Equivalence(tuple(runs), compared, alone, tuple(found), tuple(more), tuple(stale))


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two sides, the claims that both were asked, and all the facts behind them."""

    left: Side
    right: Side
    shared: tuple[Compared, ...]
    ours: Evidence
    theirs: Evidence

    @staticmethod
    def of(left: Side, right: Side, compared: Sequence[Compared]) -> _Pair:
        shared = tuple(one for one in compared if {left.name, right.name} <= one.rows.keys())
        evidence = [Evidence(side.substrate is Substrate.SIMULATED) for side in (left, right)]
        for side, taken in zip((left, right), evidence, strict=True):
            for one in shared:
                taken.take(side.facts(one.claim))
        return _Pair(left, right, shared, *evidence)

    @property
    def names(self) -> tuple[str, str]:
        return self.left.name, self.right.name

    @property
    def between(self) -> frozenset[Substrate]:
        return frozenset({self.left.substrate, self.right.substrate})

    def differences(self) -> Iterator[Difference]:
        """Outcomes first, then what claims rest on, then the shape of that."""
        for one in self.shared:
            a, b = (one.rows[name] for name in self.names)
            if a.outcome is not b.outcome:
                told = [f"{row.outcome}: {row.because}" for row in (a, b)]
                yield Difference(OUTCOME, self.names, (one.claim,), "", _pools(a, b), *told)
            else:
                facts = [side.facts(one.claim) for side in (self.left, self.right)]
                for slip in kinds_apart(*facts):
                    yield self._difference(slip, (one.claim,))
        for slip in slips(self.ours, self.theirs):
            yield self._difference(slip, self.claims_on(slip.fact))

    def more(self) -> Iterator[More]:
        """What one side alone writes now and then."""
        for is_left, extra in extras(self.ours, self.theirs):
            side, other = self.names if is_left else self.names[::-1]
            yield More(side, other, extra)

    def claims_on(self, kind: str) -> tuple[str, ...]:
        """The claims that rest on such a fact, or on one that holds it, at either side."""
        whole = kind.partition(".")[0]
        return tuple(
            one.claim
            for one in self.shared
            if any(
                fact.text("kind") == whole
                for side in (self.left, self.right)
                for fact in side.facts(one.claim)
            )
        )

    def expects(self, entry: Expected, one: Difference) -> bool:
        """Whether an entry of the table is about this difference."""
        told = (one.what, one.fact, one.claims, one.where)
        return entry.between == self.between and entry.matches(*told)

    def concerns(self, entry: Expected) -> bool:
        """Whether there was anything in which an entry's difference could have shown."""
        if entry.between != self.between:
            return False
        if OUTCOME in entry.what:
            return any(entry.matches(OUTCOME, "", (one.claim,)) for one in self.shared)
        kinds = self.ours.kinds.keys() & self.theirs.kinds.keys()
        return any(
            entry.names(kind, self.claims_on(kind)) and any(map(entry.lies_at, self._asked(kind)))
            for kind in kinds
        )

    def _asked(self, kind: str) -> set[str]:
        """What both sides were asked for facts of a kind; "" stands for the kind itself."""
        ours, theirs = self.ours.by_question(kind), self.theirs.by_question(kind)
        return {"", *(ours.keys() & theirs.keys())}

    def _difference(self, slip: Slip, claims: tuple[str, ...]) -> Difference:
        told = (slip.where, slip.left, slip.right)
        return Difference(slip.what, self.names, claims, slip.fact, *told)


def _pools(left: Row, right: Row) -> str:
    return f"pool {left.pool} and pool {right.pool}"


def _sorted_out(runs: Sequence[Side]) -> tuple[tuple[Compared, ...], tuple[Alone, ...]]:
    compared, alone = [], []
    for claim in dict.fromkeys(claim for side in runs for claim in side.summary.claims):
        rows = {side.name: row for side in runs if (row := side.asked(claim)) is not None}
        if len(rows) > 1 and any(row.outcome is not Standing.NOT_RUN for row in rows.values()):
            compared.append(Compared(claim, rows))
        else:
            whys = {side.name: side.lacks(claim) for side in runs if side.name not in rows}
            alone.append(Alone(claim, tuple(rows), whys))
    return tuple(compared), tuple(alone)
