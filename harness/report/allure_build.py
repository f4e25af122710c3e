"""From a ledger to Allure's results: a result for each scenario begun, planned or out of reach.

The same records give the same bytes, in a run that goes on, at its end, and long after.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.claims.catalogue import Claim
from harness.claims.parts import part_of, story_of
from harness.report import allure_causes as causes
from harness.report.allure_evidence import attachments as taken
from harness.report.allure_facts import attachments
from harness.report.allure_model import (
    BROKEN,
    PASSED,
    SKIPPED,
    SVG,
    Attachment,
    Container,
    Parameter,
    Result,
    Step,
    attached,
    unique,
)
from harness.report.ledger import LedgerView
from harness.report.outcome import NO_VERDICT
from harness.report.pictures.catalogue import Picture, pictures
from harness.report.records import Record
from harness.report.rundir import RunInfo
from harness.report.substrate import substrate_of
from harness.report.traces import Around, Shard, Trace, moment, shards

_WEIGHTS = ("blocker", "critical", "normal")
_OF_OUTCOME = {"holds": PASSED, "broken": "failed"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A scenario of the plan."""

    scenario: str
    pool: str
    claims: Sequence[str]
    hardware: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """What all results of a run share: the run, its plan, the catalogue of claims."""

    info: RunInfo
    claims: Mapping[str, Claim]
    plan: Mapping[tuple[str, str], Entry] = field(default_factory=dict)
    known: Mapping[tuple[str, str], Record] = field(default_factory=dict)
    """Known issues that matched, by claim and pool."""
    run: Path | None = None
    """The run's folder, where evidence lies; without one none is attached."""
    pictures: Sequence[Picture] = ()

    def entry(self, scenario: str, pool: str) -> Entry:
        """What was planned of a scenario; one that was not has no claims of its own."""
        return self.plan.get((scenario, pool), Entry(scenario, pool, ()))


def plan_of(records: Sequence[Record]) -> dict[tuple[str, str], Entry]:
    """The plan as a ledger holds it, in its order."""
    found: dict[tuple[str, str], Entry] = {}
    for one in records:
        if one.kind == "planned":
            key = (one.text("scenario"), one.text("pool"))
            found[key] = Entry(*key, one.texts("claims"), one.text("hardware"), one.text("title"))
    return found


def results(
    view: LedgerView, info: RunInfo, claims: Mapping[str, Claim], run: Path | None = None
) -> list[Result]:
    """A result for each scenario that was begun, in the ledger's order; then for each that never
    was; then for each claim that no pool of the lab could be asked. ``run`` is the run's folder.
    """
    plan = plan_of(view.records)
    setting = Setting(info, claims, plan, _known(view), run, pictures(view))
    found, begun, last = [], set(), {"": info.started}
    for shard in shards(view).values():
        for trace in shard.traces:
            begun.add(trace.key)
            found.append(result_of(trace, shard, setting))
            last[trace.pool] = last[""] = shard.last or info.started
    never = [entry for key, entry in setting.plan.items() if key not in begun]
    why = _whys(view)
    for entry in never:
        key = (entry.scenario, entry.pool)
        at = last.get(entry.pool, last[""])
        found.append(never_begun(entry, why.get(key, NO_VERDICT), at, setting))
    return [*found, *_out_of_reach(view, setting, last[""])]


def containers(view: LedgerView, info: RunInfo) -> Iterator[Container]:
    """What was done with each pool before its scenarios and after them."""
    for name, shard in shards(view).items():
        for pool, around in shard.around.items():
            mine = (trace for trace in shard.traces if trace.pool == pool)
            yield Container(
                (info.run_id, name, pool),
                [unique(*result_key(info, trace)) for trace in mine],
                _fixtures(f"bring-up of pool {pool}", around.before),
                _fixtures(f"take-down of pool {pool}", around.after),
            )


def result_key(info: RunInfo, trace: Trace) -> tuple[object, ...]:
    """What tells an attempt's result from every other."""
    return (info.run_id, trace.scenario, trace.pool, trace.attempt)


def result_of(trace: Trace, shard: Shard, setting: Setting) -> Result:
    """The result of a scenario that was begun, as far as it went."""
    entry = setting.entry(trace.scenario, trace.pool)
    start, stop = _span(trace, shard, setting.info)
    steps = list(_steps(trace, shard, start))
    cause = causes.cause_of(trace, entry.claims, shard.facts, setting.known)
    again = f", attempt {trace.attempt}" if trace.attempt > 1 else ""
    tags = ["interrupted"] if trace.ended is None else []
    tags += ["retried"] if trace.attempt > 1 else []
    claims = tuple(dict.fromkeys((*entry.claims, *(v.text("claim") for v in trace.verdicts))))
    return Result(
        result_key(setting.info, trace),
        f"{entry.title or trace.scenario} [{trace.pool}]{again}",
        f"scenarios#{trace.scenario}",
        cause.status,
        cause.message,
        start,
        stop,
        _description(claims, setting),
        _labels(entry, claims, tags, setting),
        _links(claims, setting),
        _parameters(entry, setting.info),
        steps,
        [*_notes(trace), *_evidence(trace, setting), *_pictures(trace, claims, setting)],
        # an attempt that came after another is a test of its own: Allure would show the last only
        (trace.attempt,) if trace.attempt > 1 else (),
    )


def never_begun(entry: Entry, why: str, at: float, setting: Setting) -> Result:
    """The result of a scenario that was planned and never begun. Its status is ``broken``:
    Allure's gate lets ``unknown`` pass.
    """
    claims = ", ".join(entry.claims) or "none named"
    cause = causes.because("not-run", BROKEN, [f"{why} (claims: {claims})"])
    return Result(
        (setting.info.run_id, entry.scenario, entry.pool, 1),
        f"{entry.title or entry.scenario} [{entry.pool}]",
        f"scenarios#{entry.scenario}",
        cause.status,
        cause.message,
        at,
        at,
        _description(entry.claims, setting),
        _labels(entry, entry.claims, ["not-run"], setting),
        _links(entry.claims, setting),
        _parameters(entry, setting.info),
    )


def _out_of_reach(view: LedgerView, setting: Setting, at: float) -> Iterator[Result]:
    """A skipped result for each claim that the lab lacks the means for."""
    for record in view.of("not-established"):
        claim, pool = record.text("claim"), record.text("pool")
        entry = Entry(claim, pool, (claim,), record.text("hardware"))
        known = setting.claims.get(claim)
        cause = causes.because("not-established", SKIPPED, [record.text("why")])
        yield Result(
            (setting.info.run_id, "not-established", claim, pool),
            known.sentence if known else claim,
            f"claims#{claim}",
            cause.status,
            cause.message,
            at,
            at,
            _description((claim,), setting),
            _labels(entry, (claim,), ["not-established"], setting),
            _links((claim,), setting),
            _parameters(entry, setting.info),
        )


def _known(view: LedgerView) -> dict[tuple[str, str], Record]:
    return {
        (one.text("claim"), one.text("pool")): one
        for one in view.of("known-issue")
        if one.text("state") == "matched"
    }


def _whys(view: LedgerView) -> dict[tuple[str, str], str]:
    return {(one.text("scenario"), one.text("pool")): one.text("why") for one in view.of("not-run")}


def _span(trace: Trace, shard: Shard, info: RunInfo) -> tuple[float, float]:
    """Between which moments of the lab a scenario lay; before there was a lab, the run's own."""
    around = shard.around.get(trace.pool, Around())
    seen = [trace.began, *(_at(one) for one in (*around.before[:1], *trace.records))]
    known = [at for at in seen if at]
    start = trace.began or min(known, default=info.started)
    ended = moment(trace.ended.text("at")) if trace.ended is not None else 0.0
    # the last scenario of a pool ends once that is taken down
    taken = [moment(one.text("since") or one.text("at")) for one in around.after[:1]]
    return start, max([min([ended, *taken]), start, *known])


def _at(record: Record) -> float:
    return moment(record.text("until") or record.text("at"))


def _steps(trace: Trace, shard: Shard, start: float) -> Iterator[Step]:
    """A step for each wait, observation, verdict and note, one after the other in lab's time."""
    cursor, shown = start, set[str]()
    for record in _last_of_each_wait(trace.records):
        if record.kind == "wait":
            yield _waited(record)
        elif record.kind == "verdict":
            yield _judged(record, shard, cursor, shown)
        else:
            text = record.text("text") or record.text("diagnosis") or record.text("link")
            yield Step(f"{record.text('kind') or record.kind}: {text}", cursor, _at(record))
        cursor = max(cursor, _at(record))


def _last_of_each_wait(records: Sequence[Record]) -> list[Record]:
    """The records without those of a wait that it was written anew after."""
    last = {_wait_key(one): one for one in records if one.kind == "wait"}
    return [one for one in records if one.kind != "wait" or last[_wait_key(one)] is one]


def _wait_key(record: Record) -> tuple[str, str]:
    return record.text("what"), record.text("since")


def _waited(record: Record) -> Step:
    since, until = moment(record.text("since")), moment(record.text("until"))
    return Step(f"waited {_span_text(until - since)} for {record.text('what')}", since, until)


def _span_text(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def _judged(record: Record, shard: Shard, cursor: float, shown: set[str]) -> Step:
    at = max(cursor, _at(record))
    outcome = record.text("outcome")
    name = f"{record.text('claim')} {outcome}: {record.text('subject')}"
    seen = [_observed(one, shard, cursor, shown) for one in record.texts("facts")]
    reason = attached("because", record.text("because"))
    status = _OF_OUTCOME.get(outcome, BROKEN)
    told = "" if status == PASSED else record.text("because")
    return Step(name, cursor, at, status, told, seen, [reason])


def _observed(name: str, shard: Shard, cursor: float, shown: set[str]) -> Step:
    fact = shard.facts.get(name)
    if fact is None:
        return Step(f"{name} is not in the ledger", cursor, cursor, BROKEN)
    at = moment(fact.text("at"))
    title = f"{fact.text('kind')} from {fact.text('source')}"
    if name in shown:
        return Step(f"{title} (as above)", at, at)
    shown.add(name)
    status = BROKEN if fact.text("kind") == "Unread" else PASSED
    told = str(fact.values.get("reason", "")) if status == BROKEN else ""
    return Step(title, min(cursor, at), at, status, told, (), attachments(fact))


def _notes(trace: Trace) -> list[Attachment]:
    return [
        attached("traceback", record.text("text"))
        for record in trace.records
        if record.kind == "note" and record.text("kind") == "traceback"
    ]


def _evidence(trace: Trace, setting: Setting) -> list[Attachment]:
    run = setting.run
    folders = [one.text("folder") for one in trace.records if one.kind == "evidence"]
    return [one for folder in folders if run is not None for one in taken(run, folder)]


def _pictures(trace: Trace, claims: Sequence[str], setting: Setting) -> list[Attachment]:
    return [
        attached(one.title, one.svg, SVG)
        for one in setting.pictures
        if one.pool == trace.pool and not set(one.claims).isdisjoint(claims)
    ]


def _fixtures(name: str, records: Sequence[Record]) -> list[Step]:
    if not records:
        return []
    start = min(moment(one.text("since") or one.text("at")) for one in records)
    steps, cursor = [], start
    for record in _last_of_each_wait(records):
        at = _at(record)
        if record.kind == "wait":
            steps.append(_waited(record))
        else:
            steps.append(Step(record.text("text"), cursor, max(cursor, at)))
        cursor = max(cursor, at)
    return [Step(name, start, cursor, PASSED, "", steps)]


def _description(claims: Sequence[str], setting: Setting) -> str:
    known = [setting.claims[claim] for claim in claims if claim in setting.claims]
    return "\n\n".join(
        f"**{one.id}**: {one.sentence}\n\nProof: {one.proof}\n\nNot shown: {one.not_shown}"
        for one in known
    )


def _labels(
    entry: Entry, claims: Sequence[str], tags: Sequence[str], setting: Setting
) -> list[tuple[str, str]]:
    info = setting.info
    known = [setting.claims[claim].severity for claim in claims if claim in setting.claims]
    first = part_of(claims[0]) if claims else part_of("")
    own = {
        "epic": first.epic,
        "feature": first.feature,
        "story": story_of(entry.scenario, entry.title),
        "severity": min(known, key=_WEIGHTS.index, default="normal"),
        "parentSuite": info.lab,
        "suite": entry.pool or "no pool",
        "host": info.lab,
        "thread": entry.pool,
        "framework": "pytest",
        "language": "python",
        "substrate": substrate_of(info.kind).value,
    }
    return [
        *((name, text) for name, text in own.items() if text),
        *(("claim", claim) for claim in claims),
        *(("tag", tag) for tag in tags),
    ]


def _links(claims: Sequence[str], setting: Setting) -> list[tuple[str, str]]:
    known = [setting.claims[claim] for claim in claims if claim in setting.claims]
    return [(one.id, page_of(one.page, setting.info.docs)) for one in known]


def page_of(page: str, docs: str) -> str:
    """Where a page of the documentation is: below the address that the run was given, else in
    the project's folder ``docs``. ``{page}`` and ``{anchor}`` in it are filled in.
    """
    file, _, anchor = page.partition("#")
    if "{" in docs:
        name = file.removesuffix(".md")
        return docs.replace("{page}", name).replace("{anchor}", anchor)
    return f"{docs.rstrip('/')}/{page}" if docs else f"docs/{page}"


def _parameters(entry: Entry, info: RunInfo) -> list[Parameter]:
    """Lab, pool and card make the test; in which lane and under which fault it ran does not."""
    given = [
        Parameter("lab", info.lab),
        Parameter("pool", entry.pool),
        Parameter("card", entry.hardware),
        Parameter("lane", info.lane, excluded=True),
        Parameter("subject", info.subject, excluded=True),
        Parameter("fault", info.fault, excluded=True),
    ]
    return [one for one in given if one.value]
