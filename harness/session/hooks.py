"""What the pytest hooks do, a function each; `harness.plugin` only wires them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from harness.bringup.errors import PoolNotReady, TakeDownIncomplete
from harness.bringup.headroom import NoHeadroom
from harness.bringup.preflight import NoGolden
from harness.claims.catalogue import Claim, UnknownClaim
from harness.claims.catalogue import get as claim_of
from harness.clock import ClockStuck
from harness.judge.goldens import golden_ready
from harness.judge.headroom import headroom
from harness.judge.verdict import Outcome, Verdict
from harness.reach.errors import LabError, LeaseLost, Unreachable
from harness.report.environment import NO_LAB
from harness.session.finish import PASSED
from harness.session.plan import Lacking, Planned
from harness.session.pools import Unavailable
from harness.session.recorder import NotAllHold, Recorder
from harness.session.state import USER_MISTAKE, RunState, end_with

NO_POOL = "-"
"""Stands for "no pool of this lab will do": the scenario is planned nowhere."""

LAST = "nothing-left"
"""The claim whose scenario is the last of its pool."""

SETTLING = frozenset({"no-roll", "os-image-rolls"})
"""Claims whose scenarios wait for minutes to see that nothing happens."""

_TOLD = "hil_told"
_SENTENCES = (NotAllHold, PoolNotReady, TakeDownIncomplete, *Unavailable)
"""What stops a scenario and is no bug: its message says all, and a traceback would hide it."""

_recorder_key = pytest.StashKey[Recorder]()
_failed_key = pytest.StashKey[str]()


def concerns(config: pytest.Config, root: Path) -> bool:
    """Whether this pytest was asked for scenarios."""
    if config.option.lab is not None or config.option.plan:
        return True
    scenarios = root / "scenarios"
    paths = [Path(str(arg).split("::")[0]).resolve() for arg in config.args]
    return any(path == scenarios or scenarios in path.parents for path in paths)


def refuse_broken_grouping(config: pytest.Config) -> None:
    """pytest 9.2 with xdist 3.8.0 ignores groups without a word: two scenarios, one card."""
    if getattr(config.option, "dist", "no") != "loadgroup":
        return
    ours = tuple(int(part) for part in version("pytest").split(".")[:2])
    theirs = tuple(int(part) for part in version("pytest-xdist").split(".")[:3])
    if ours >= (9, 2) and theirs <= (3, 8, 0):
        end_with(
            f"pytest {version('pytest')} with xdist {version('pytest-xdist')} does not keep a "
            "pool's scenarios on one worker; install pytest below 9.2, or run with --workers 0",
            USER_MISTAKE,
        )


def pools_for(state: RunState, metafunc: pytest.Metafunc) -> list[Any]:
    """The pools that have what a scenario's claims need; what no pool has is written down."""
    claims = _claims(metafunc.definition)
    asked = [claim for claim in claims if state.choice.asks(claim.id)]
    if not asked:
        return [NO_POOL]
    lacks = {pool: state.choice.missing(asked, pool) for pool in state.choice.pools}
    fit = [pool for pool, missing in lacks.items() if not missing]
    if not fit:
        state.plan.lacking.append(_lacking(metafunc.definition.originalname, asked, lacks))
    return fit or [NO_POOL]


def select(state: RunState, session: pytest.Session, items: list[pytest.Item]) -> None:
    """Keep what is planned somewhere, and put each pool's scenarios into one xdist group, pools
    that take turns into the same.

    A scenario on guests is a group of its own: each process that takes one has its own guests.
    """
    whole = state.choice.inventory.kind != "qemu"
    group = {pool: one.pools[0] for one in state.turns() for pool in one.pools}
    kept: list[pytest.Item] = []
    dropped: list[pytest.Item] = []
    for item in items:
        pool = _pool_of(item)
        (kept if pool and pool != NO_POOL else dropped).append(item)
    for item in kept:
        item.add_marker(pytest.mark.xdist_group(group[_pool_of(item)] if whole else item.name))
    session.config.hook.pytest_deselected(items=dropped)
    items[:] = kept


def note_deselected(state: RunState, wanted: list[pytest.Item], kept: list[pytest.Item]) -> None:
    """Scenarios that somebody else took out (``-k``, ``-m``, ``--deselect``): not in the plan."""
    left = {id(item) for item in kept}
    state.plan.deselected += [item.name for item in wanted if id(item) not in left]


def put_in_order(state: RunState, items: list[pytest.Item]) -> None:
    """Pool by pool, as the inventory lists them, and as they are written; this order is the plan.

    Whatever waits for a window to pass, or to see that nothing happens, comes late in its pool: all
    else runs meanwhile, and sees the pool before it has changed. Only what breaks machines comes
    after that, and what breaks the workers' own last. Pytest itself would put scenarios first that
    are asked of one pool alone, minutes before anybody looks at its workers.
    """
    _refuse_ungrouped(state.config, items)
    order = list(state.choice.pools)
    items.sort(key=lambda item: (order.index(_pool_of(item)), _lateness(item), _written_at(item)))
    for item in items:
        pool = _pool_of(item)
        declared = [claim.id for claim in _claims(item)]
        planned = _planned(state, item, pool, declared)
        state.plan.planned.append(planned)
        if not state.plan_only:
            item.stash[_recorder_key] = _recorder(state, planned, declared)


def _lateness(item: pytest.Item) -> int:
    claims = _claims(item)
    if any(claim.id == LAST for claim in claims):
        return 4  # it takes the pool down
    needs = {need for claim in claims for need in claim.needs}
    if "disruption" in needs:
        return 3 if "shell" in needs else 2
    return int("soak" in needs or any(claim.id in SETTLING for claim in claims))


def _written_at(item: pytest.Item) -> tuple[str, int]:
    path, line, _ = item.location
    return path, line or 0


def _refuse_ungrouped(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever the versions: an xdist worker whose items carry no group would share a card."""
    grouping = config.getoption("loadgroup", False)
    if grouping and any("@" not in item.nodeid for item in items):
        raise pytest.UsageError("xdist does not group scenarios by pool; run with --workers 0")


def is_last_of_pool(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Whether the scenario that comes next, if any, is on another pool."""
    return nextitem is None or _pool_of(nextitem) != _pool_of(item)


def keep_plan(state: RunState) -> None:
    """Write the plan down before anything runs."""
    if not state.plan_only and state.plan.any():
        state.keep_plan()


def recorder_of(item: pytest.Item) -> Recorder | None:
    """The recorder of a scenario; None for any other test."""
    return item.stash.get(_recorder_key, None)


@contextmanager
def stoppages_are_unknown(recorder: Recorder) -> Iterator[None]:
    """What stops a scenario leaves its claims unknown, with the reason; a bug stays a bug."""
    try:
        with _interrupts_go_on():
            yield
    except (PoolNotReady, LabError, ClockStuck) as stopped:
        # what was judged otherwise before the lab went stays the scenario's own failure
        lost = isinstance(stopped, (Unreachable, LeaseLost))
        recorder.lab_lost = lost and not recorder.failed()
        recorder.unknown(str(stopped))
    except pytest.xfail.Exception:
        raise  # a kind of failure to pytest; the scenario's end says what it is
    except (Exception, pytest.fail.Exception) as bug:
        recorder.unknown(f"the harness failed: {type(bug).__name__}: {bug}")
        raise


@contextmanager
def _interrupts_go_on() -> Iterator[None]:
    """What fails while an interrupted scenario undoes its own must not hide that the run is to end:
    the interrupt goes on, with what failed as its cause.
    """
    try:
        yield
    except Exception as failed:
        before = failed.__context__
        while before is not None and not isinstance(before, KeyboardInterrupt):
            before = before.__context__
        if before is None:
            raise
        raise KeyboardInterrupt(str(failed)) from failed


def renew_pool(item: pytest.Item) -> None:
    """See that a scenario finds its pool as it may expect it. Raises LabError."""
    item.funcargs["pool"].renew()  # type: ignore[attr-defined]  # a scenario is a function


def note_phase(
    item: pytest.Item, recorder: Recorder, report: pytest.TestReport, call: pytest.CallInfo[None]
) -> None:
    """Follow a scenario through its phases; the last one ends it."""
    if call.excinfo is not None and call.excinfo.errisinstance(KeyboardInterrupt):
        return
    if call.excinfo is not None and call.excinfo.errisinstance(_SENTENCES):
        report.longrepr = str(call.excinfo.value)
        setattr(report, _TOLD, not call.excinfo.errisinstance(TakeDownIncomplete))
    elif report.failed:
        recorder.traceback(report.longreprtext)
    if report.skipped:
        recorder.unknown(f"the scenario skipped itself: {_reason(report)}")
        item.stash.setdefault(_failed_key, "skipped")
    if report.failed:
        item.stash.setdefault(_failed_key, _failure(recorder, report, call))
    if report.when == "setup" and report.failed and call.excinfo is not None:
        _note_refusal(recorder, call.excinfo.value)
        recorder.unknown(f"its pool could not be had: {call.excinfo.value}")
    if report.when == "teardown":
        recorder.end(item.stash.get(_failed_key, PASSED))


def _note_refusal(recorder: Recorder, why: BaseException) -> None:
    """What was measured of a pool that was refused is the verdict of a claim."""
    subject = f"pool {recorder.planned.pool}"
    if isinstance(why, NoHeadroom):
        recorder.refused(headroom(why.measured, subject))
    if isinstance(why, NoGolden):
        recorder.refused(golden_ready(why.golden, why.wanted, subject))


def _failure(recorder: Recorder, report: pytest.TestReport, call: pytest.CallInfo[None]) -> str:
    if report.when == "call":
        return NO_LAB if recorder.lab_lost else "failed"
    lacked = call.excinfo is not None and call.excinfo.errisinstance(Unavailable)
    return NO_LAB if report.when == "setup" and lacked else f"error in {report.when}"


def _reason(report: pytest.TestReport) -> str:
    """Why a scenario was skipped or was expected to fail, in its own words."""
    if hasattr(report, "wasxfail"):
        return f"it expected to fail ({report.wasxfail or 'without a reason'})"
    told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return told.removeprefix("Skipped: ") or "without a reason"


def is_told(report: pytest.TestReport) -> bool:
    """Whether the table of claims says why this scenario failed. True of a worker's reports too."""
    return bool(getattr(report, _TOLD, False))


def let_go(state: RunState) -> None:
    """Take down what an interrupted run still holds; what stays is written down and told."""
    name, left = state.pools.held, list(state.not_undone)
    try:
        state.pools.release()
    except (TakeDownIncomplete, *Unavailable) as stays:
        left.append(f"pool {name} may still be there: {stays}")
    except KeyboardInterrupt:
        left.append(f"pool {name} is left standing, as was asked")
    state.left_behind = "; ".join(left)
    if state.left_behind:
        state.shard(name).note("take-down", state.left_behind, at=state.pools.now(name))
        state.say(state.pools.now(name), state.left_behind)


def note_not_undone(state: RunState, cut: BaseException) -> None:
    """Keep what an interrupted scenario could not undo: why it failed, and notes on the interrupt
    that broke it off.
    """
    if isinstance(cut, KeyboardInterrupt):
        told = [str(cut.__cause__)] if isinstance(cut.__cause__, Exception) else []
        state.not_undone += [*told, *getattr(cut, "__notes__", [])]


def closing_words(state: RunState) -> str:
    """The table of claims and where to look; with ``--plan``, the plan."""
    if state.plan_only:
        from harness.session.planned import describe

        return describe(state.choice, state.plan, state.turns(), state.at_once)
    return state.words


def _claims(definition: Any) -> list[Claim]:
    mark = definition.get_closest_marker("claims")
    if mark is None:
        raise pytest.UsageError(f"{definition.nodeid} has no mark `claims`")
    try:
        return [claim_of(name) for name in mark.args]
    except UnknownClaim as unknown:
        raise pytest.UsageError(f"{definition.nodeid}: {unknown}") from unknown


def _lacking(scenario: str, asked: list[Claim], lacks: dict[str, list[str]]) -> Lacking:
    reasons = "; ".join(dict.fromkeys(" and ".join(missing) for missing in lacks.values()))
    return Lacking(scenario, tuple(claim.id for claim in asked), f"no pool will do: {reasons}")


def _pool_of(item: pytest.Item) -> str:
    callspec = getattr(item, "callspec", None)
    return str(callspec.params.get("pool", "")) if callspec is not None else ""


def _planned(state: RunState, item: pytest.Item, pool: str, declared: list[str]) -> Planned:
    asked = tuple(claim for claim in declared if state.choice.asks(claim))
    function = getattr(item, "function", None)
    told = (getattr(function, "__doc__", None) or "").strip().partition("\n\n")[0]
    title = " ".join(told.split())
    name = getattr(item, "originalname", item.name)
    return Planned(name, pool, asked, title or name)


def _recorder(state: RunState, planned: Planned, declared: list[str]) -> Recorder:
    # the shard is opened by the worker that runs the scenario, not by each that collects it
    show = partial(_show, state, planned.pool)
    pool = planned.pool
    now = partial(state.pools.now, pool)
    failing = state.evidence.failing
    return Recorder(planned, lambda: state.shard(pool), now, show, declared, failing)


def _show(state: RunState, pool: str, verdict: Verdict) -> None:
    """Say to whoever watches what does not hold."""
    if verdict.outcome is not Outcome.HOLDS:
        text = f"{verdict.outcome}: {verdict.claim} on {verdict.subject}"
        state.say(state.pools.now(pool), text)
