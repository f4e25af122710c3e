"""What a pytest process knows of the run it serves, as controller, worker or both."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import pytest

from harness.clock import ClockStuck, WallClock
from harness.reach.errors import LabError
from harness.report.ledger import Ledger
from harness.report.outcome import Summary, exit_status
from harness.report.rundir import RunDirectory, RunInfo, new_run_id
from harness.session import finish
from harness.session.choice import Choice, UserMistake, choose, refuse_misfit
from harness.session.interrupts import Interrupts
from harness.session.labs import LabChoice
from harness.session.plan import Plan
from harness.session.pools import Pools
from harness.twin.process import TwinFailed

DEFAULT_INVENTORY = Path("inventory") / "twin.yaml"
USER_MISTAKE = 2
LAB_UNFIT = 3
NOTHING_PLANNED = 5
OUR_BUG = 70
"""Exit status after an error inside the harness (EX_SOFTWARE): pytest's own 3 means a lab here."""
RUN_ID = "hil_run_id"
"""Under this key the controller tells its workers the run's id."""
INTERRUPTED = 130


@dataclass(slots=True)
class RunState:
    """One process's share of a run."""

    config: pytest.Config
    root: Path
    choice: Choice
    directory: RunDirectory
    info: RunInfo
    controls: bool
    plan_only: bool
    wall: WallClock = field(default_factory=WallClock)
    plan: Plan = field(default_factory=Plan)
    summary: Summary | None = None
    interrupts: Interrupts = field(default_factory=Interrupts)
    left_behind: str = ""
    """What could not be taken down at the end, a sentence."""
    _ledgers: dict[str, Ledger] = field(default_factory=dict)
    pools: Pools = field(init=False)

    def __post_init__(self) -> None:
        self.pools = Pools(self.choice_of_lab(), self.ledger, self.say)

    @property
    def interrupted(self) -> bool:
        """Whether somebody cut the run short; pytest "interrupts" itself for other reasons too."""
        return self.interrupts.arrived > 0

    @staticmethod
    def begin(config: pytest.Config, root: Path) -> RunState:
        """Check what was asked, see that the lab is there, and make the run's directory.

        A mistake ends pytest with 2, and a lab that does not answer with 3: a sentence each.
        """
        controls = not hasattr(config, "workerinput")
        options = config.option
        path = options.lab or root / DEFAULT_INVENTORY
        try:
            choice = choose(path, options.lane, options.pool, options.claim)
            refuse_misfit(choice, options.fault, options.attach, options.run_id)
        except UserMistake as mistake:
            end_with(str(mistake), USER_MISTAKE)
        wall = WallClock()
        started = wall.now()
        told = getattr(config, "workerinput", {}).get(RUN_ID, options.run_id)
        run_id = told or new_run_id(started, choice.inventory.name)
        directory = RunDirectory(options.out.resolve(), run_id)
        info = RunInfo(
            run_id=run_id,
            lab=choice.inventory.name,
            lane=choice.lane,
            started=started,
            kind=choice.inventory.kind,
            subject=options.subject,
            versions={"hil": version("hil")},
            inventory_sha256=choice.sha256,
            fault=", ".join(options.fault),
        )
        state = RunState(config, root, choice, directory, info, controls, options.plan, wall)
        if controls and not options.plan:
            state._see_lab()
            state._make_directory()
        if not options.plan:
            # a worker reads its own command line, which does not say it
            config.option.allure_report_dir = str(directory.allure_results)
        return state

    def choice_of_lab(self) -> LabChoice:
        """How this run reaches its lab."""
        options = self.config.option
        return LabChoice(
            self.choice.inventory,
            self.info.run_id,
            self.directory.path,
            options.seed,
            tuple(options.fault),
            options.attach,
        )

    def say(self, at: float, text: str) -> None:
        """Progress, for whoever watches: a line on standard error with the lab's time of day."""
        if not self.config.option.progress:
            return
        manager = self.config.pluginmanager.get_plugin("capturemanager")
        with manager.global_and_fixture_disabled() if manager else nullcontext():
            sys.stderr.write(f"{datetime.fromtimestamp(at, UTC):%H:%M:%SZ}  {text}\n")
            sys.stderr.flush()

    def ledger(self, pool: str) -> Ledger:
        """The shard that a pool's scenarios write."""
        if pool not in self._ledgers:
            self._ledgers[pool] = Ledger(self.directory.path, finish.shard_of(pool))
        return self._ledgers[pool]

    def adopt_plan(self) -> None:
        """Take the plan that a worker wrote, once, and put it into the ledger."""
        if not self.plan.planned and not self.plan.lacking:
            self.plan = Plan.read(self.plan_path)
            self._ledger_plan()

    def keep_plan(self) -> None:
        """Write this process's plan; in a run of one process also into the ledger."""
        self.plan.write(self.plan_path)
        if self.controls:
            self._ledger_plan()

    @property
    def plan_path(self) -> Path:
        """Where workers leave the plan for the controller."""
        return self.directory.path / "plan.json"

    def end(self, pytest_status: int) -> int:
        """Close the run: ledger, reports; returns its exit status."""
        for ledger in self._ledgers.values():
            ledger.close()
        if not self.directory.shards.is_dir() or not any(self.directory.shards.iterdir()):
            return self._status(pytest_status, NOTHING_PLANNED)  # it never got as far as a plan
        why = "the run was interrupted" if self.interrupted else ""
        self.summary = finish.finish(self.directory, self.plan, why)
        status = self._status(pytest_status, exit_status(self.summary))
        finish.write_reports(
            self.directory, self.info, self.summary, status, self.wall.now(), self.root
        )
        return status

    def _status(self, pytest_status: int, of_claims: int) -> int:
        if self.interrupted:
            return INTERRUPTED
        if pytest_status == pytest.ExitCode.INTERNAL_ERROR:
            return OUR_BUG
        if not self.plan.planned and pytest_status != pytest.ExitCode.NO_TESTS_COLLECTED:
            return USER_MISTAKE  # a scenario that cannot be read
        if not self.plan.planned:
            return of_claims or NOTHING_PLANNED
        # every claim may hold and a pool still not have gone
        return of_claims or int(pytest_status != pytest.ExitCode.OK)

    def _see_lab(self) -> None:
        try:
            self.choice_of_lab().see()
        except (LabError, TwinFailed, ClockStuck) as unfit:
            end_with(str(unfit), LAB_UNFIT)

    def _ledger_plan(self) -> None:
        if self.config.option.progress:
            what = f"{self.plan.counts()} of lab {self.info.lab}"
            sys.stderr.write(f"run {self.info.run_id}: {what}\n")
        hardware = {pool: self.choice.hardware(pool) for pool in self.choice.pools}
        finish.write_plan(self.directory, self.plan, hardware)

    def _make_directory(self) -> None:
        try:
            self.directory.create()
        except FileExistsError:
            # a file in the place of a folder above gives the same error
            if self.directory.path.exists():
                end_with(
                    f"there is a run {self.info.run_id} in {self.directory.root} already; "
                    "choose another --run-id",
                    USER_MISTAKE,
                )
            end_with(f"--out {self.directory.root}: that is no folder", USER_MISTAKE)
        except OSError as refused:
            end_with(
                f"--out {self.directory.root}: cannot write there ({refused.strerror}); "
                "choose another folder",
                USER_MISTAKE,
            )
        self.info.write(self.directory.run_json)


stash_key = pytest.StashKey[RunState]()


# pytest prints the name of the class before the sentence
_Ended = type("hil", (pytest.exit.Exception,), {})


def end_with(sentence: str, status: int) -> NoReturn:
    """End this pytest: ``hil: <sentence>`` on standard error, and this exit status."""
    raise _Ended(sentence, status)
