"""What `hil run` shows of a run in place of pytest's own report.

Progress goes to standard error as it happens (`harness.live`); here is the end: what went wrong in
the harness itself, then the table of claims, or the plan.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any, TextIO

import pytest

from harness.session import hooks
from harness.session.state import INTERRUPTED, stash_key

PYTEST_INTERRUPTED = int(pytest.ExitCode.INTERRUPTED)


class Console:
    """A pytest plugin that takes the place of the terminal reporter, for one run."""

    def __init__(self, progress: TextIO | None = None) -> None:
        """``progress`` is where the run's progress is told: nobody captures it."""
        self._progress = progress
        self._interrupted = False
        self._faults: list[str] = []

    def status(self, pytest_status: int) -> int:
        """The status to exit with: pytest's own, unless the run was interrupted early."""
        early = self._interrupted and pytest_status == PYTEST_INTERRUPTED
        return INTERRUPTED if early else pytest_status

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Without a reporter pytest and xdist keep quiet: no dots, no nodes brought up."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            config.pluginmanager.unregister(reporter)
        state = config.stash.get(stash_key, None)
        if state is not None and self._progress is not None and config.option.progress:
            state.live.tell_on(self._progress, state.directory.path)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """A scenario that cannot be read."""
        if report.failed:
            self._faults.append(f"cannot read {report.nodeid}\n{report.longreprtext}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A scenario that failed for a reason of the harness's own; the table has the others."""
        if report.failed and not hooks.is_told(report):
            self._faults.append(f"{report.nodeid}: {report.when} failed\n{report.longreprtext}")

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """A worker process that died."""
        if error and not self._interrupted:
            self._faults.append(
                f"worker process {node.gateway.id} died ({error}); what it had still to run, and "
                "pools that nobody had begun, were not run"
            )

    def pytest_keyboard_interrupt(self, excinfo: pytest.ExceptionInfo[BaseException]) -> None:
        """Whether the run was cut short, rather than refused."""
        itself = (pytest.exit.Exception, pytest.Session.Interrupted)
        self._interrupted = not isinstance(excinfo.value, itself)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Print the end, after everybody has had their say."""
        yield
        for fault in self._faults:
            sys.stderr.write(f"hil: {fault}\n")
        state = session.config.stash.get(stash_key, None)
        if state is not None:
            sys.stdout.write(hooks.closing_words(state))
