"""The pytest side of the harness: options, the plan, the `pool` and `record` fixtures, the end.

Inert unless scenarios are collected. `hil run` and plain `pytest scenarios --lab FILE` come
through here alike.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from harness.commandline import OUT, ROOT
from harness.session import durations, hooks
from harness.session.live import LIVE
from harness.session.recorder import Recorder
from harness.session.state import REFUSED, RUN_ID, RunState, stash_key
from harness.session.workers import Workers

if TYPE_CHECKING:
    from harness.bringup.guests import GuestPool
    from harness.bringup.pool import HeldPool

MARKS = (
    "claims(*ids): the claims of the catalogue that this scenario judges",
    "xdist_group(name): scenarios that stay on one worker (by the harness: mostly those of a pool)",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a run; `hil run` has the same."""
    group = parser.getgroup("hil", "hardware-in-the-loop runs")
    group.addoption("--lab", type=Path, help="inventory of the lab (default: the embedded twin)")
    group.addoption("--lane", default="", help="kind of run, one of the inventory's lanes")
    group.addoption("--pool", action="append", default=[], help="only this pool (repeatable)")
    group.addoption("--card", default="", help="only pools with this card")
    group.addoption("--soak", default="", help="window of uptime instead of the lane's own")
    group.addoption("--claim", action="append", default=[], help="only this claim (repeatable)")
    group.addoption("--fault", action="append", default=[], help="plant a fault in the twin")
    group.addoption("--seed", type=int, default=1, help="seed of the embedded twin")
    group.addoption("--attach", type=Path, help="directory of a lab that is already up")
    group.addoption("--out", type=Path, default=OUT, help="where runs are kept")
    group.addoption("--run-id", default="", help="name of this run")
    group.addoption("--progress", action="store_true", help="say what happens on standard error")
    group.addoption("--subject", default="", help="what is to be signed: product and release")
    group.addoption("--save-state", type=Path, help="record standing pools' states in this file")
    group.addoption("--against", type=Path, help="compare with the states that a run recorded")
    group.addoption("--wait", type=durations.seconds, default=0.0, help="wait for a live run")
    group.addoption("--known", type=Path, help="known issues (default: reports/known-issues.yaml)")
    group.addoption("--docs", default="", help="where the documentation is published")
    group.addoption("--evidence", type=float, default=90.0, help="seconds for a failure's evidence")
    group.addoption("--at-once", type=int, default=0, help="with --plan: pools driven at once")
    group.addoption("--plan", action="store_true", help="say what would run, and touch nothing")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Check what was asked; make the run's directory."""
    for mark in MARKS:
        config.addinivalue_line("markers", mark)
    if not hooks.concerns(config, ROOT):
        return
    hooks.refuse_broken_grouping(config)
    state = RunState.begin(config, ROOT)
    config.stash[stash_key] = state
    state.interrupts.install()
    state.interrupts.answers = state.controls
    if not state.plan_only:
        state.go_live()
    if state.controls:
        config.pluginmanager.register(Workers(state), "hil-workers")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run of a scenario for each pool that has what its claims need."""
    state = _state(metafunc.config)
    if state is not None and "pool" in metafunc.fixturenames:
        pools = hooks.pools_for(state, metafunc)
        metafunc.parametrize("pool", pools, indirect=True, scope="session")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> Generator[None]:
    """Keep what was asked and group it before xdist looks; put it in order after everybody."""
    state = _state(config)
    if state is None:
        return (yield)
    hooks.select(state, session, items)
    wanted = list(items)
    yield
    hooks.note_deselected(state, wanted, items)
    hooks.put_in_order(state, items)
    return None


# first: an xdist worker tells the controller right after, which then reads what is written here
@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Write the plan down before anything runs."""
    state = _state(session.config)
    if state is not None:
        hooks.keep_plan(state)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker which run it belongs to; a worker reads its own command line anew."""
    state = _state(node.config)
    if state is not None:
        node.workerinput[RUN_ID] = state.info.run_id
        node.workerinput[LIVE] = state.live.tells


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """The first worker that has collected tells the controller the plan."""
    del ids
    state = _state(node.config)
    if state is not None:
        state.adopt_plan()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker whose disk refused tells the controller as it ends."""
    state = _state(node.config)
    told = getattr(node, "workeroutput", {}).get(REFUSED, "")
    if state is not None and told:
        state.refusals.note(told)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """With ``--plan`` nothing runs."""
    state = _state(session.config)
    return True if state is not None and state.plan_only else None


@pytest.fixture(scope="session")
def pool(request: pytest.FixtureRequest) -> HeldPool | GuestPool:
    """A worker pool or a set of guests, brought up and held; taken down after its last scenario."""
    return request.config.stash[stash_key].pools.get(request.param)


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Recorder:
    """Call it with each verdict; it is in the ledger before the call returns."""
    recorder = hooks.recorder_of(request.node)
    assert recorder is not None, "a scenario needs the mark `claims` and the fixture `pool`"
    return recorder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Keep what a scenario that is cut short could not undo."""
    state = _state(item.config)
    try:
        with (
            state.live.at_hand(getattr(item, "originalname", item.name))
            if state is not None
            else nullcontext()
        ):
            return (yield)
    except BaseException as cut:
        if state is not None:
            hooks.note_not_undone(state, cut)
        raise


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Write down that a scenario starts, before its pool is had."""
    recorder = hooks.recorder_of(item)
    if recorder is not None:
        recorder.begin()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Turn what stopped a scenario into verdicts, then hold it to its claims."""
    recorder = hooks.recorder_of(item)
    if recorder is None:
        return (yield)
    result = None  # stays so where a stoppage ends the scenario: check() then says so
    with recorder.called(), hooks.stoppages_are_unknown(recorder):
        hooks.renew_pool(item)
        result = yield
    recorder.check()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Take a pool down with its last scenario: pytest itself would do it in the next one's."""
    result = yield
    state = _state(item.config)
    if state is not None and hooks.is_last_of_pool(item, nextitem):
        state.pools.release()
    if state is not None and state.refusals.sentence:
        item.session.shouldstop = state.refusals.sentence  # what cannot be kept need not be seen
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write down how a scenario ended; one whose pool failed has verdicts all the same."""
    report = yield
    recorder = hooks.recorder_of(item)
    if recorder is not None:
        hooks.note_phase(item, recorder, report, call)
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Join the ledger, write the reports, decide the exit status (once, in the controller)."""
    state = _state(session.config)
    if state is None or state.plan_only:
        return
    hooks.let_go(state)
    state.interrupts.ignore()
    if state.controls:
        session.exitstatus = state.end(int(exitstatus))
        state.live.stop()
        sys.stderr.write(state.parting_words())
    elif state.refusals.sentence:
        session.config.workeroutput[REFUSED] = state.refusals.sentence  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table of claims and where to look, or the plan."""
    state = _state(config)
    if state is not None and state.controls:
        terminalreporter.ensure_newline()
        terminalreporter.write(hooks.closing_words(state))


def _state(config: pytest.Config) -> RunState | None:
    return config.stash.get(stash_key, None)
