"""How each worker joined: from the pool's request to a Ready node, the slow step standing out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.report.lengths import duration
from harness.report.pictures.bars import Bar, Chart, Mark, Row, Style
from harness.report.pictures.reading import Seen, by_pool, items, named, number, slug, words

MOST_IN_FULL = 3
"""Workers up to which each step has a row; of more each worker has one."""
_READY = "ready"


@dataclass(frozen=True, slots=True)
class _Step:
    what: str
    start: float
    end: float
    open: bool = False

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class _Worker:
    """A worker's steps, in seconds from the request; ``undated`` are those without a time."""

    name: str
    steps: tuple[_Step, ...]
    undated: tuple[str, ...]
    seconds: float | None
    budget: float | None
    why: str

    @property
    def longest(self) -> _Step | None:
        return max(self.steps, key=lambda one: one.seconds, default=None)

    @property
    def end(self) -> float:
        return self.steps[-1].end if self.steps else 0.0


def charts(seen: Sequence[Seen]) -> Iterator[Chart]:
    """One chart for each pool whose workers' steps were dated."""
    for pool, tracks in by_pool(seen, "JoinTrack").items():
        found = {words(one.values.get("machine")): _worker(one) for one in tracks}
        workers = [worker for worker in found.values() if worker.steps]
        if workers:
            yield _chart(pool, workers)


def _worker(track: Seen) -> _Worker:
    values = track.values
    dated: list[tuple[float, str]] = []
    undated = []
    for one in items(values.get("steps")):
        what, at = words(one.get("what")), number(one.get("at"))
        if what and at is not None:
            dated.append((at, what))
        elif what:
            undated.append(what)
    ready = values.get("stage") == _READY
    stuck = f"{words(values.get('stuck_kind'))} {words(values.get('stuck_name'))}".strip()
    return _Worker(
        name=words(values.get("node")) or words(values.get("machine")) or "no machine",
        steps=tuple(_steps(sorted(dated, key=lambda one: one[0]), track, ready=ready)),
        undated=tuple(undated),
        seconds=number(values.get("seconds")),
        budget=number(values.get("budget")),
        why="" if ready else f"stuck on {stuck}: {words(values.get('why'))}",
    )


def _steps(dated: Sequence[tuple[float, str]], track: Seen, *, ready: bool) -> Iterator[_Step]:
    """Each from the one before it; what is waited for now, where it is not Ready."""
    if not dated:
        return
    start = before = dated[0][0]
    for at, what in dated[1:]:
        yield _Step(what, before - start, at - start)
        before = at
    waited = number(track.values.get("waited"))
    if not ready and waited is not None and waited > before - start:
        yield _Step(f"waiting after: {dated[-1][1]}", before - start, waited, open=True)


def _chart(pool: str, workers: Sequence[_Worker]) -> Chart:
    full = len(workers) <= MOST_IN_FULL
    length = max(worker.end for worker in workers)
    legend = ["a bar is a step, from the end of the one before it, a thin line one without length"]
    legend.append("dark: the longest step of its worker")
    if any(step.open for worker in workers for step in worker.steps):
        legend.append("hatched: what it was waiting for when it was last looked at")
    legend.append("Kubernetes' times are whole seconds")
    budgets = {worker.budget for worker in workers if worker.budget}
    if any(budget <= length for budget in budgets):
        legend.append("dashed line: the join budget")
    else:
        legend += [f"join budget {duration(one)}, beyond this axis" for one in sorted(budgets)]
    if full:
        legend += [f"{worker.name} is {worker.why}" for worker in workers if worker.why]
    told = named([(bool(one.why), f"{one.name} {_note(one)}, {_slow(one)}") for one in workers])
    return Chart(
        name=f"joins-{slug(pool)}",
        pool=pool,
        claims=("node-joins",),
        title=f"How the workers of pool {pool} joined",
        says=f"{len(workers)} worker{'s' * (len(workers) != 1)} of pool {pool}: {told}.",
        rows=[row for one in workers for row in (_in_full(one) if full else [_in_one(one)])],
        length=length,
        legend=legend,
        from_what="the pool's request",
    )


def _slow(worker: _Worker) -> str:
    slow = worker.longest
    return f"longest: {slow.what} ({duration(slow.seconds)})" if slow else "no step with a length"


def _note(worker: _Worker) -> str:
    if worker.why:
        return f"not Ready after {duration(worker.end)}"
    return f"Ready after {duration(worker.end)}"


def _style(worker: _Worker, step: _Step) -> Style:
    if step.open:
        return "open"
    return "dark" if step is worker.longest else "plain"


def _bar(worker: _Worker, step: _Step, text: str = "") -> Bar:
    says = f"{worker.name}: {step.what} after {duration(step.seconds)}"
    return Bar(step.start, step.end, says, _style(worker, step), text)


def _budget(worker: _Worker) -> tuple[Mark, ...]:
    if worker.budget is None or worker.budget > worker.end:
        return ()
    return (Mark(worker.budget, f"join budget: {duration(worker.budget)}", limit=True),)


def _in_full(worker: _Worker) -> Iterator[Row]:
    yield Row(worker.name, (), _budget(worker), _note(worker), strong=True)
    for step in worker.steps:
        note = duration(step.seconds) if step.seconds >= 1 else "<1 s"
        yield Row(step.what, (_bar(worker, step),), (), note, strong=step is worker.longest)
    for what in worker.undated:
        yield Row(what, note="time not known")


def _in_one(worker: _Worker) -> Row:
    bars = tuple(_bar(worker, step, step.what) for step in worker.steps)
    return Row(worker.name, bars, _budget(worker), _note(worker), strong=bool(worker.why))
