"""What several runs establish of a release under a policy, and what stands in its way; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.report.identity import SAME_EVERYWHERE, TITLES
from harness.report.merged import Run, discounts, row_discounts, standing
from harness.report.outcome import Row, Standing
from harness.report.platform import contradicted
from harness.report.policy import Policy, Requirement

KNOWN_ISSUE = "known-issue"


class Answer(StrEnum):
    """How a requirement stands, worst first."""

    BROKEN = "broken"
    OPEN = "not-established"
    WAIVED = "waived"
    ESTABLISHED = "established"


class Result(StrEnum):
    """The verdict on a release."""

    SIGNABLE = "signable"
    NOT_SIGNABLE = "not-signable"
    PRACTICE = "practice"
    """The policy is met, and it is one by which nothing is signed."""


@dataclass(frozen=True, slots=True)
class Said:
    """What one run says of a claim on a kind of hardware: the worst of its pools'. ``discounts``
    are why it does not count; none: it does.
    """

    run: Run
    row: Row
    discounts: tuple[str, ...]

    @property
    def counts(self) -> bool:
        """Whether it is evidence for what was asked."""
        return not self.discounts


@dataclass(frozen=True, slots=True)
class Answered:
    """A requirement with its answer, why, and all that the runs said of it."""

    need: Requirement
    answer: Answer
    because: str
    said: tuple[Said, ...]

    @property
    def runs(self) -> tuple[str, ...]:
        """The runs whose word decided it."""
        wanted = {Answer.ESTABLISHED: Standing.HOLDS, Answer.BROKEN: Standing.BROKEN}
        outcome = wanted.get(self.answer)
        return tuple(one.run.id for one in self.said if one.counts and one.row.outcome is outcome)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A claim that holds in some runs and is broken in others, on the same hardware."""

    claim: str
    hardware: str
    holds: tuple[str, ...]
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Beyond:
    """What runs say of a claim that the policy does not ask for on that hardware."""

    claim: str
    hardware: str
    outcome: Standing
    because: str
    runs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The whole of it. ``obstacles`` are sentences; any of them stands in the way."""

    policy: Policy
    subject: str
    now: float
    runs: tuple[Run, ...]
    answered: tuple[Answered, ...]
    contradictions: tuple[Contradiction, ...]
    beyond: tuple[Beyond, ...]
    obstacles: tuple[str, ...]

    def of(self, answer: Answer) -> tuple[Answered, ...]:
        """The requirements that have this answer."""
        return tuple(one for one in self.answered if one.answer is answer)

    @property
    def result(self) -> Result:
        """Signable only where every requirement is met and nothing stands in the way."""
        if self.obstacles or self.of(Answer.BROKEN) or self.of(Answer.OPEN):
            return Result.NOT_SIGNABLE
        return Result.SIGNABLE if self.policy.release else Result.PRACTICE


def decide(
    policy: Policy,
    runs: Sequence[Run],
    *,
    now: float,
    subject: str = "",
    waived: Mapping[tuple[str, str], str] | None = None,
) -> Decision:
    """What ``runs`` establish of ``subject`` ("" takes the one that all runs name) at ``now``
    (epoch seconds). ``waived`` is claim and hardware to the reason given.
    """
    runs = sorted(runs, key=lambda run: (run.ended, run.id))
    signed = subject or _common(runs)
    usable = [run for run in runs if not run.info.fault and run.info.subject == signed]
    answered = tuple(
        _answered(need, runs, signed, now, (waived or {}).get(need.key, ""))
        for need in policy.requirements
    )
    needed = {need.key for need in policy.requirements}
    contradictions = tuple(_contradictions(usable))
    beyond = tuple(_beyond(usable, needed))
    return Decision(
        policy,
        signed,
        now,
        tuple(runs),
        answered,
        contradictions,
        beyond,
        (
            *_obstacles(policy, runs, signed, now),
            *_unrecorded(policy, answered, runs),
            *_against(contradictions, beyond),
        ),
    )


def _common(runs: Sequence[Run]) -> str:
    named = {run.info.subject for run in runs} - {""}
    return next(iter(named)) if len(named) == 1 else ""


def _answered(
    need: Requirement, runs: Sequence[Run], subject: str, now: float, reason: str
) -> Answered:
    said = tuple(one for run in runs for one in _said(run, need, subject, now))
    broken = [one for one in said if one.row.outcome is Standing.BROKEN and _speaks(one, subject)]
    if broken:
        because = "; ".join(f"{one.run.id}: {one.row.because}" for one in broken)
        return Answered(need, Answer.BROKEN, because, said)
    counted = [one for one in said if one.counts]
    holds = [one for one in counted if one.row.outcome is Standing.HOLDS]
    if holds:
        return Answered(need, Answer.ESTABLISHED, holds[-1].row.because, said)
    because = "; ".join(dict.fromkeys(_why_open(need, runs, said)))
    if reason:
        return Answered(need, Answer.WAIVED, f"{reason} (it is open: {because})", said)
    return Answered(need, Answer.OPEN, because, said)


def _speaks(one: Said, subject: str) -> bool:
    """Whether a claim that is broken there counts against the release: so it does however old
    the run, whatever its lab, its lane, its values.
    """
    return not one.run.info.fault and one.run.info.subject == subject


def _said(run: Run, need: Requirement, subject: str, now: float) -> Iterator[Said]:
    """At most one: pools whose evidence counts hide none whose does not, but where all hold it is
    enough that it counts on one of them.
    """
    rows = run.rows(need.claim, need.hardware)
    of_run = [*discounts(run, need, now), *_of_another(run, subject)]
    worst = standing(rows)
    if worst is None:
        return
    if worst.outcome is Standing.HOLDS:
        held = (row for row in rows if row.outcome is Standing.HOLDS)
        worst = next((row for row in held if not [*row_discounts(run, row, need)]), worst)
    yield Said(run, worst, (*of_run, *row_discounts(run, worst, need)))


def _of_another(run: Run, subject: str) -> Iterator[str]:
    if run.info.subject != subject or not subject:
        tested = repr(run.info.subject) if run.info.subject else "no release by name"
        yield f"it tested {tested}"
    if subject:
        yield from contradicted(subject, run.installed)


def _why_open(need: Requirement, runs: Sequence[Run], said: Sequence[Said]) -> Iterator[str]:
    if not runs:
        yield "there is no run"
    elif not said:
        where = f"on {need.hardware}" if need.hardware else "on a pool without a card"
        yield f"no run asked it {where}"
    for one in said:
        what = "holds" if one.row.outcome is Standing.HOLDS else _words(one.row)
        if one.discounts:
            yield f"{one.run.id}: {what}, which does not count: {'; '.join(one.discounts)}"
        elif one.row.outcome is not Standing.HOLDS:
            yield f"{one.run.id}: {what}"


def _words(row: Row) -> str:
    word = "the lab lacks" if row.outcome is Standing.NOT_ESTABLISHED else row.outcome.value
    return f"{word.replace('-', ' ')}: {row.because}"


def _contradictions(runs: Sequence[Run]) -> Iterator[Contradiction]:
    for claim, hardware in _keys(runs):
        found: dict[Standing, list[str]] = {}
        for run in runs:
            worst = standing(run.rows(claim, hardware))
            if worst is not None and worst.pool:
                found.setdefault(worst.outcome, []).append(run.id)
        holds, broken = found.get(Standing.HOLDS), found.get(Standing.BROKEN)
        if holds and broken:
            yield Contradiction(claim, hardware, tuple(holds), tuple(broken))


def _beyond(runs: Sequence[Run], needed: set[tuple[str, str]]) -> Iterator[Beyond]:
    """Worst first for each claim and hardware that no requirement has."""
    for claim, hardware in _keys(runs):
        if (claim, hardware) in needed:
            continue
        said = [(run, standing(run.rows(claim, hardware))) for run in runs]
        rows = [(run, row) for run, row in said if row is not None]
        worst = standing([row for _, row in rows])
        if worst is not None:
            which = tuple(run.id for run, row in rows if row.outcome is worst.outcome)
            yield Beyond(claim, hardware, worst.outcome, worst.because, which)


def _keys(runs: Sequence[Run]) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys(key for run in runs for key in run.keys))


def _obstacles(policy: Policy, runs: Sequence[Run], subject: str, now: float) -> Iterator[str]:
    """What is wrong with the runs themselves, whatever their claims say."""
    if not subject:
        named = sorted({run.info.subject for run in runs} - {""})
        yield (
            f"the runs name several releases: {', '.join(named)}"
            if named
            else "no run records which release it tested"
        )
    for name, number in Counter(run.id for run in runs).items():
        if number > 1:
            yield f"{name}: {number} different runs have this name, and what they say is mixed up"
    for run in runs:
        of_another = _of_another(run, subject) if subject else ()
        for why in (*run.flaws, *of_another, *_stale(policy, run, now)):
            yield f"{run.id}: {why}"
        yield from _known_issues(run)
    yield from _versions_apart(runs)


def _against(contradictions: Sequence[Contradiction], beyond: Sequence[Beyond]) -> Iterator[str]:
    """What claims say against the release beside the policy's own lines."""
    for one in contradictions:
        where = f" on {one.hardware}" if one.hardware else ""
        yield (
            f"contradiction: {one.claim}{where} holds in {', '.join(one.holds)} and is broken in "
            f"{', '.join(one.broken)}"
        )
    for other in beyond:
        if other.outcome is Standing.BROKEN:
            where = f" on {other.hardware}" if other.hardware else ""
            yield (
                f"{other.claim}{where}, which the policy does not ask for, is broken in "
                f"{', '.join(other.runs)}"
            )


def _stale(policy: Policy, run: Run, now: float) -> list[str]:
    """Once for a run, where it is too old for something that it says and that is needed."""
    found = dict.fromkeys(
        why
        for need in policy.requirements
        if run.substrate in need.substrates and run.rows_by_key.get(need.key)
        for why in discounts(run, need, now)
        if "stale" in why or "future" in why
    )
    return list(found)[:1]


def _known_issues(run: Run) -> Iterator[str]:
    """A match is no excuse: it names who looks after it, and stands in the way."""
    for record in run.view.of(KNOWN_ISSUE):
        where = f" on {record.text('pool')}" if record.text("pool") else ""
        until = f", until {record.text('expires')}" if record.text("expires") else ""
        yield (
            f"{run.id}: known issue with {record.text('claim')}{where} ({record.text('state')}): "
            f"{record.text('owner') or 'nobody'}, {record.text('link') or 'no link'}{until}"
        )


def _versions_apart(runs: Sequence[Run]) -> Iterator[str]:
    """What has to be one and the same and is not."""
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for run in runs:
        for seen in run.identity:
            said = (seen.item, seen.value) == ("subject", run.info.subject)
            if seen.item in SAME_EVERYWHERE and seen.known and not said:
                name, _, version = seen.value.rpartition(" ")
                by_version = found.setdefault((seen.item, name), {})
                by_version.setdefault(version, []).append(run.id)
    for (item, name), versions in sorted(found.items()):
        if len(versions) > 1:
            told = ", ".join(f"{one} in {' and '.join(ids)}" for one, ids in versions.items())
            yield f"the runs had different versions: {name or TITLES[item]} {told}"


def _unrecorded(policy: Policy, answered: Sequence[Answered], runs: Sequence[Run]) -> Iterator[str]:
    """What a policy wants to be recorded, and a run on which one of its claims rests does not."""
    items = {run.id: {seen.item for seen in run.identity} for run in runs}
    unread: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        for seen in run.unread:
            unread.setdefault((run.id, seen.item), []).append(seen.value)
    for name, item in policy.identity:
        resting = dict.fromkeys(
            run
            for one in answered
            if one.need.policy == name and one.answer is Answer.ESTABLISHED
            for run in one.runs
        )
        lacking = [run for run in resting if item not in items[run]]
        if lacking:
            yield f"{TITLES[item]}: not recorded by {', '.join(lacking)}; policy {name} wants it"
        for rested in resting:
            for value in unread.get((rested, item), ()):
                yield f"{TITLES[item]}: {value} ({rested}); policy {name} wants it"
