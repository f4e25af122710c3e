"""What a pytest process knows of the run it serves, as controller, worker or both."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.clock import WallClock
from harness.report.ledger import Ledger
from harness.report.outcome import Summary, exit_status
from harness.report.rundir import RunDirectory, RunInfo, new_run_id
from harness.session import finish
from harness.session.choice import Choice, UserMistake, choose
from harness.session.labs import LabChoice
from harness.session.plan import Plan
from harness.session.pools import Pools

DEFAULT_INVENTORY = Path("inventory") / "twin.yaml"
USER_MISTAKE = 2
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
    _ledgers: dict[str, Ledger] = field(default_factory=dict)
    pools: Pools = field(init=False)

    def __post_init__(self) -> None:
        self.pools = Pools(self.choice_of_lab(), self.ledger)

    @staticmethod
    def begin(config: pytest.Config, root: Path) -> RunState:
        """Check what was asked and make the run's directory; a mistake ends pytest with 2."""
        controls = not hasattr(config, "workerinput")
        options = config.option
        path = options.lab or root / DEFAULT_INVENTORY
        try:
            choice = choose(path, options.lane, options.pool, options.claim)
            check_faults(options.fault)
        except UserMistake as mistake:
            pytest.exit(str(mistake), returncode=USER_MISTAKE)
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
            inventory_sha256=choice.sha256,
            fault=", ".join(options.fault),
        )
        state = RunState(config, root, choice, directory, info, controls, options.plan, wall)
        if controls and not options.plan:
            state._make_directory()
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
        if pytest_status in (pytest.ExitCode.INTERNAL_ERROR, pytest.ExitCode.USAGE_ERROR):
            return pytest_status
        interrupted = pytest_status == pytest.ExitCode.INTERRUPTED
        why = "the run was interrupted" if interrupted else ""
        self.summary = finish.finish(self.directory, self.plan, why)
        status = INTERRUPTED if interrupted else exit_status(self.summary)
        # every claim may hold and a pool still not have gone
        status = status or int(pytest_status == pytest.ExitCode.TESTS_FAILED)
        finish.write_reports(
            self.directory, self.info, self.summary, status, self.wall.now(), self.root
        )
        return status

    def _ledger_plan(self) -> None:
        hardware = {pool: self.choice.hardware(pool) for pool in self.choice.pools}
        finish.write_plan(self.directory, self.plan, hardware)

    def _make_directory(self) -> None:
        try:
            self.directory.create()
        except FileExistsError:
            pytest.exit(
                f"there is a run {self.info.run_id} in {self.directory.root} already; "
                "choose another --run-id",
                returncode=USER_MISTAKE,
            )
        self.info.write(self.directory.run_json)
        self.config.option.allure_report_dir = str(self.directory.allure_results)


stash_key = pytest.StashKey[RunState]()


def check_faults(names: list[str]) -> None:
    """Raise UserMistake for a fault that the catalogue does not have."""
    if not names:
        return
    from harness.twin.faults.catalogue import UnknownFault, find

    for name in names:
        try:
            find(name)
        except UnknownFault as unknown:
            raise UserMistake(str(unknown)) from unknown
