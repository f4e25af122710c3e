"""What a pytest process knows of the run it serves, as controller, worker or both."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

import pytest

from harness.claims.catalogue import load as load_claims
from harness.clock import ClockStuck, WallClock
from harness.reach.errors import LabError
from harness.report import closing
from harness.report.allure_build import Setting
from harness.report.allure_writer import executor
from harness.report.atomic import is_the_disks
from harness.report.checkpoint import Checkpoint
from harness.report.evidence import numbers
from harness.report.known import KnownIssue
from harness.report.outcome import Summary, summarise
from harness.report.rundir import RunDirectory, RunInfo, new_run_id
from harness.session import finish, states
from harness.session.apart import Turns, turns
from harness.session.choice import Choice, choose, refuse_misfit
from harness.session.evidence import Evidence
from harness.session.interrupts import Interrupts
from harness.session.labs import LabChoice
from harness.session.live import LIVE, Live
from harness.session.mistake import UserMistake
from harness.session.plan import Plan
from harness.session.pools import Pools
from harness.session.shard import Refusals, Shard
from harness.twin.process import TwinFailed

DEFAULT_INVENTORY = Path("inventory") / "twin.yaml"
USER_MISTAKE = 2
LAB_UNFIT = 3
NOTHING_PLANNED = 5
OUR_BUG = 70
"""Exit status after an error inside the harness (EX_SOFTWARE): pytest's own 3 means a lab here."""
RUN_ID = "hil_run_id"
"""Under this key the controller tells its workers the run's id."""
REFUSED = "hil_refused"
"""Under this key a worker tells the controller what could not be written."""
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
    words: str = ""
    """The table of claims and where to look, once the run has ended."""
    refusals: Refusals = field(default_factory=Refusals)
    interrupts: Interrupts = field(default_factory=Interrupts)
    live: Live = field(default_factory=Live)
    saved: str = ""
    """What became of the states that were to be recorded, a sentence."""
    left_behind: str = ""
    """What could not be taken down at the end, a sentence."""
    known: tuple[KnownIssue, ...] = ()
    """Failures that somebody owns."""
    not_undone: list[str] = field(default_factory=list)
    """What an interrupted scenario could not undo, a sentence each."""
    _shards: dict[str, Shard] = field(default_factory=dict)
    pools: Pools = field(init=False)
    evidence: Evidence = field(init=False)

    def __post_init__(self) -> None:
        self.evidence = Evidence(
            self.directory.evidence,
            self.choice.inventory,
            self.shard,
            self.say,
            self.refusals,
            self.config.option.evidence,
        )
        self.pools = Pools(self.choice_of_lab(), self.shard, self.say, self.evidence)

    @property
    def interrupted(self) -> bool:
        """Whether somebody cut the run short; pytest "interrupts" itself for other reasons too."""
        return self.interrupts.arrived > 0

    @property
    def hand(self) -> str:
        """Which of several processes this is that drive guests of one set side by side, each some
        of its own; "" where a pool is one process's.
        """
        worker: str = getattr(self.config, "workerinput", {}).get("workerid", "")
        return worker if self.choice.inventory.kind == "qemu" else ""

    @staticmethod
    def begin(config: pytest.Config, root: Path) -> RunState:
        """Check what was asked, see that the lab is there, and make the run's directory.

        A mistake ends pytest with 2, and a lab that does not answer with 3: a sentence each.
        """
        controls = not hasattr(config, "workerinput")
        options = config.option
        path = options.lab or root / DEFAULT_INVENTORY
        wall = WallClock()
        started = wall.now()
        try:
            choice = choose(
                path,
                options.lane,
                options.pool,
                options.claim,
                options.against,
                card=options.card,
                soak=options.soak,
            )
            refuse_misfit(choice, options.fault, options.attach, options.run_id, options.save_state)
            known = finish.known_issues(options.known, root, started) if controls else ()
        except UserMistake as mistake:
            end_with(str(mistake), USER_MISTAKE)
        told = getattr(config, "workerinput", {}).get(RUN_ID, options.run_id)
        run_id = told or new_run_id(started, choice.inventory.name)
        directory = RunDirectory(options.out.resolve(), run_id)
        info = RunInfo(
            run_id=run_id,
            lab=choice.inventory.name,
            lane=choice.lane,
            started=started,
            kind=choice.inventory.substrate,
            subject=options.subject,
            versions={"hil": version("hil")},
            inventory_sha256=choice.sha256,
            fault=", ".join(options.fault),
            docs=options.docs,
            executor=executor(os.environ),
        )
        state = RunState(config, root, choice, directory, info, controls, options.plan, wall)
        state.known = known
        if controls and not options.plan:
            state._see_lab()
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
            self.choice.soak,
            options.save_state is not None,
            self.choice.against or {},
            tuple(self.choice.pools),
            self.hand,
            self.choice.disruption,
            options.wait,
        )

    @property
    def at_once(self) -> int:
        """How many processes drive pools."""
        options = self.config.option
        return int(options.at_once or getattr(options, "numprocesses", None) or 1)

    def turns(self) -> tuple[Turns, ...]:
        """Which of the run's pools stand one after the other."""
        return turns(self.choice, attached=self.config.option.attach is not None)

    def go_live(self) -> None:
        """Let whoever wants to know where this process stands: see `harness.live`."""
        told = getattr(self.config, "workerinput", {})
        driven_by_others = self.controls and bool(getattr(self.config.option, "numprocesses", None))
        worker = told.get("workerid") or ("controller" if driven_by_others else "main")
        self.live.relays = bool(told.get(LIVE))
        self.live.start(self.directory.path, worker, self.pools, controls=self.controls)
        self.config.add_cleanup(self.live.stop)

    def say(self, at: float, text: str) -> None:
        """Progress, for whoever watches: a line on standard error with the lab's time of day."""
        if not self.config.option.progress:
            return
        if self.live.relays:
            self.live.say(at, text)
            return
        manager = self.config.pluginmanager.get_plugin("capturemanager")
        with manager.global_and_fixture_disabled() if manager else nullcontext():
            sys.stderr.write(f"{datetime.fromtimestamp(at, UTC):%H:%M:%SZ}  {text}\n")
            sys.stderr.flush()

    def shard(self, pool: str) -> Shard:
        """The part of the ledger that a pool's scenarios write."""
        if pool not in self._shards:
            name = closing.shard_of(pool, self.hand)
            told = Checkpoint(self.directory.allure_results, self._setting()).heard
            self._shards[pool] = Shard(self.directory.path, name, self.refusals, told)
        return self._shards[pool]

    def _setting(self) -> Setting:
        """What Allure's results share, once it is known what is planned."""
        entries = finish.entries(self.plan, self._hardware())
        plan = {(entry.scenario, entry.pool): entry for entry in entries}
        return Setting(self.info, load_claims(), plan, run=self.directory.path)

    def _hardware(self) -> dict[str, str]:
        return {pool: self.choice.hardware(pool) for pool in self.choice.pools}

    def parting_words(self) -> str:
        """What went wrong with the run itself and stands in no table: sentences, or nothing."""
        said = [self.refusals.sentence] if self.refusals.sentence else []
        if self.saved:
            said.append(self.saved)
        if self.interrupted and self.summary is None and not said:
            run = self.info.run_id
            said.append(f"interrupted before anything was planned; run {run} did nothing")
        return "".join(f"hil: {sentence}\n" for sentence in said)

    def adopt_plan(self) -> None:
        """Take the plan that a worker wrote, once, and put it into the ledger."""
        if not self.plan.any():
            with self.refusals.noted(self.plan_path):
                self.plan = Plan.read(self.plan_path)
                self._ledger_plan()

    def keep_plan(self) -> None:
        """Write this process's plan; in a run of one process also into the ledger."""
        with self.refusals.noted(self.plan_path):
            self.plan.write(self.plan_path)
            if self.controls:
                self._ledger_plan()

    @property
    def plan_path(self) -> Path:
        """Where workers leave the plan for the controller."""
        return self.directory.path / "plan.json"

    def end(self, pytest_status: int) -> int:
        """Close the run: ledger, reports; returns its exit status."""
        for shard in self._shards.values():
            shard.close()
        status = self._status(pytest_status, NOTHING_PLANNED)
        with self.refusals.noted(self.directory.path):
            if self.directory.shards.is_dir() and any(self.directory.shards.iterdir()):
                return self._close(pytest_status)
            # it never got as far as a plan
            self._ended(status).write(self.directory.run_json)
        return self._status(pytest_status, NOTHING_PLANNED)

    def _close(self, pytest_status: int) -> int:
        why = "the run was interrupted" if self.interrupted else self.refusals.sentence
        finish.note_known(self.directory, self.known, self.info.started)
        view = finish.finish(self.directory, self.plan, why)
        self.summary = summarise(view)
        of_claims = finish.status_of(view, self.summary)
        status = self._status(pytest_status, of_claims)
        if self.config.option.save_state is not None:
            published = self._publish_states()
            status = self._status(pytest_status, of_claims or (0 if published else LAB_UNFIT))
        self.words = closing.words_of(self.directory, view, self.summary, self.info.kind)
        ended = replace(self._ended(status), evidence=numbers(view, self.summary))
        finish.write_reports(self.directory, ended, view, self.summary, self.words, self.root)
        return status

    def _publish_states(self) -> bool:
        """Write the file that --save-state names, if there is anything for it; whether it was."""
        path = self.config.option.save_state
        pools: tuple[str, ...] = ()
        with self.refusals.noted(path):
            pools = states.publish(self.directory.path, path, self.info.lab, self.info.run_id)
            named = f"the state of {', '.join(pools)} is in {path}"
            self.saved = named if pools else f"no pool stood already: {path} is not written"
        return bool(pools)

    def _ended(self, status: int) -> RunInfo:
        return replace(self.info, ended=self.wall.now(), exit=status)

    def _status(self, pytest_status: int, of_claims: int) -> int:
        if self.interrupted:
            return INTERRUPTED
        if self.refusals.sentence:
            return LAB_UNFIT
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
            line = f"run {self.info.run_id}: {what}"
            if not self.live.announce(line):
                sys.stderr.write(f"{line}\n")
        hardware = self._hardware()
        finish.write_plan(self.directory, self.plan, hardware)
        planned = finish.entries(self.plan, hardware)
        closing.write_ahead(self.directory, self.info, planned)

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
            self._refuse_out(refused)
        try:
            self.info.write(self.directory.run_json)
        except OSError as refused:
            self._refuse_out(refused)

    def _refuse_out(self, refused: OSError) -> NoReturn:
        status = LAB_UNFIT if is_the_disks(refused) else USER_MISTAKE
        end_with(
            f"--out {self.directory.root}: cannot write there ({refused.strerror}); "
            "choose another folder",
            status,
        )


stash_key = pytest.StashKey[RunState]()


# pytest prints the name of the class before the sentence
_Ended = type("hil", (pytest.exit.Exception,), {})


def end_with(sentence: str, status: int) -> NoReturn:
    """End this pytest: ``hil: <sentence>`` on standard error, and this exit status."""
    raise _Ended(sentence, status)
