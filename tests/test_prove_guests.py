"""The proof on real guests: what each trial asks, what counts as proved, how it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import cli, prove_guests
from harness.claims.catalogue import load as load_claims
from harness.prove import NOTHING, Cell, Extent, Trial
from harness.prove_guests import Proof
from harness.qemulab.faults.catalogue import FAULTS, LEFT_OUT, find
from harness.qemulab.faults.model import Fault
from harness.reach.errors import LabError
from harness.report.outcome import Standing
from harness.session.choice import choose

ROOT = Path(__file__).resolve().parents[1]
INVENTORY = ROOT / "inventory" / "qemu-mini.yaml"
HOLDS, BROKEN, UNKNOWN = Standing.HOLDS, Standing.BROKEN, Standing.UNKNOWN
PARAM, LIVE = ("nvlink-param", "mini"), ("modules-live", "mini")


def fault(name: str = "f", **declared: Any) -> Fault:
    whole = {
        "sentence": "s",
        "seen": "s",
        "wrong_diagnosis": "w",
        "edit": lambda _: None,
        "breaks": frozenset({"nvlink-param"}),
        "controls": frozenset({"modules-live"}),
    }
    return Fault(id=name, **{**whole, **declared})


def proof_of(*faults: Fault, out: Path = Path("out")) -> Proof:
    return Proof(INVENTORY, choose(INVENTORY, "", (), ()), out, faults)


def trials_of(
    proof: Proof, outcomes: Mapping[Cell, Standing], said: Mapping[Cell, tuple[str, ...]] = {}
) -> list[Trial]:
    free = dict.fromkeys(((claim, "mini") for claim in proof.extents[NOTHING].claims or ()), HOLDS)
    extent = proof.extents[proof.faults[0].id]
    return [Trial(NOTHING, free), Trial(proof.faults[0].id, outcomes, extent=extent, said=said)]


def objections(
    one: Fault, outcomes: Mapping[Cell, Standing], said: Mapping[Cell, tuple[str, ...]] = {}
) -> list[str]:
    proof = proof_of(one)
    return proof.objections(trials_of(proof, outcomes, said), whole=False)


def test_a_trial_asks_what_its_fault_changes_and_its_controls() -> None:
    extents = proof_of(find("driver-asked-late"), find("reboot-timer")).extents
    assert extents["driver-asked-late"] == Extent(
        ("mini",),
        soak=False,
        claims=frozenset({"nvlink-param", "modules-live", "kernel-module-order"}),
    )
    assert extents["reboot-timer"].soak
    everything = (extents["driver-asked-late"].claims or set()) | {"uptime", "modules-live"}
    assert extents[NOTHING] == Extent(("mini",), soak=True, claims=frozenset(everything))
    assert next(iter(extents)) == NOTHING


def test_each_trial_is_a_run_attached_to_the_guests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Sequence[str]] = []

    def run_each(commands: Mapping[str, Sequence[str]], jobs: int, out: Path) -> Any:
        assert (jobs, out) == (1, tmp_path)
        asked.extend(commands.values())
        return dict.fromkeys(commands, (3, "no lab"))

    monkeypatch.setattr(prove_guests, "run_each", run_each)
    trials = list(
        proof_of(find("module-missing"), find("memory-eaten"), out=tmp_path).trials(Path("/lab"))
    )
    assert [trial.fault for trial in trials] == [NOTHING, "module-missing", "memory-eaten"]
    free, missing, eaten = asked
    assert "--fault=module-missing" in missing and not any("--fault" in word for word in free)
    for argv in asked:
        assert argv[argv.index("--attach") + 1] == "/lab" and "--pool=mini" in argv
    assert {word for word in missing if word.startswith("--claim")} == {
        f"--claim={claim}" for claim in find("module-missing").asks
    }
    assert "--lane" not in missing and eaten[eaten.index("--lane") + 1] == "boots"
    lines = capsys.readouterr().out.splitlines()
    assert (
        "failed: the run ended with 3: no lab" in lines[1] and "  1/2  module-missing" in lines[1]
    )


def test_what_does_as_it_declares_is_proved() -> None:
    assert objections(fault(), {PARAM: BROKEN, LIVE: HOLDS}) == []


def test_a_control_that_does_not_hold() -> None:
    assert objections(fault(), {PARAM: BROKEN, LIVE: BROKEN}) == [
        "f should not break modules-live on mini and does"
    ]
    assert objections(fault(), {PARAM: BROKEN, LIVE: UNKNOWN}) == [
        "f should not blind modules-live on mini and does"
    ]


def test_a_control_that_is_not_reported() -> None:
    assert objections(fault(), {PARAM: BROKEN}) == [
        "under f modules-live on mini is not reported at all"
    ]


def test_a_verdict_has_to_say_what_it_is_told_by() -> None:
    named = fault(says={"nvlink-param": "NvLinkDisable: 0"})
    outcomes = {PARAM: BROKEN, LIVE: HOLDS}
    assert objections(named, outcomes, {PARAM: ("n1: fine", "n2: NvLinkDisable: 0, is")}) == []
    assert objections(named, outcomes, {PARAM: ("it is 2",)}) == [
        "under f nvlink-param does not say 'NvLinkDisable: 0': it is 2"
    ]


def test_the_whole_proof_wants_every_claim_broken_that_can_be() -> None:
    proof = proof_of(*FAULTS.values())
    extents = proof.extents
    trials = [
        Trial(
            name,
            dict.fromkeys(((claim, "mini") for claim in extent.claims or ()), HOLDS)
            | dict.fromkeys(((claim, "mini") for claim in _of(name).breaks), BROKEN)
            | dict.fromkeys(((claim, "mini") for claim in _of(name).blinds), UNKNOWN),
            extent=extent,
        )
        for name, extent in extents.items()
    ]
    assert proof.objections(trials, whole=True) == []
    without = [trial for trial in trials if trial.fault != "boot-id-frozen"]
    proof.faults = [one for one in proof.faults if one.id != "boot-id-frozen"]
    assert proof.objections(without, whole=True) == ["no fault breaks reboots-told"]
    assert proof.objections(without, whole=False) == []


def _of(name: str) -> Fault:
    return FAULTS.get(name) or fault(breaks=frozenset())


class Lab:
    """Guests that are up, and whether they still are."""

    def __init__(self) -> None:
        self.directory = Path("/lab")
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab()
    monkeypatch.setattr("harness.qemulab.lab.MiniLab.start", lambda *_, **__: made)
    monkeypatch.setattr("harness.qemulab.lab.MiniLab.attach", lambda _: made)
    return made


def test_the_matrix_the_reasons_and_the_exit_status(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    under = {PARAM: BROKEN, LIVE: HOLDS, ("kernel-module-order", "mini"): HOLDS}

    def trials(proof: Proof, directory: Path) -> list[Trial]:
        assert directory == lab.directory
        extent = proof.extents["driver-asked-late"]
        return [Trial(NOTHING, dict.fromkeys(under, HOLDS)),
                Trial("driver-asked-late", under, extent=extent,
                      said={PARAM: ("NvLinkDisable: 0",)})]  # fmt: skip

    monkeypatch.setattr(Proof, "trials", trials)
    argv = ["prove", "--lab", str(INVENTORY), "--fault", "driver-asked-late", "--out"]
    assert cli.main([*argv, str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "driver-asked-late   .  .  B" in said and "1 faults, 0 objections" in said
    assert all(f"left out: {claim}: {why}" in said for claim, why in LEFT_OUT.items())
    assert "node-joins" not in said
    assert lab.closed == 1
    under[LIVE] = BROKEN
    assert cli.main([*argv, str(tmp_path), "--attach", "/lab"]) == 1
    assert "NOT PROVED: driver-asked-late should not break modules-live" in capsys.readouterr().out
    assert lab.closed == 1


def test_guests_on_which_nothing_runs_are_not_tried_further(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def run_each(commands: Mapping[str, Sequence[str]], *_: object) -> Any:
        asked.extend(commands)
        return dict.fromkeys(commands, (3, "no lab"))

    monkeypatch.setattr(prove_guests, "run_each", run_each)
    assert cli.main(["prove", "--lab", str(INVENTORY), "--out", str(tmp_path)]) == 1
    assert asked == [NOTHING] and lab.closed == 1
    objected = [line for line in capsys.readouterr().out.splitlines() if "NOT PROVED" in line]
    assert objected == ["NOT PROVED: no fault: the run ended with 3: no lab"]


def test_an_interrupt_ends_the_guests(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prove_guests, "run_each", interrupted)
    argv = ["prove", "--lab", str(INVENTORY), "--fault", "module-missing", "--out", str(tmp_path)]
    assert cli.main(argv) == cli.INTERRUPTED
    assert lab.closed == 1


def test_guests_that_cannot_be_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(*_: object, **__: object) -> None:
        raise LabError("boot n1", "nothing", "look")

    monkeypatch.setattr("harness.qemulab.lab.MiniLab.start", none)
    assert cli.main(["prove", "--lab", str(INVENTORY), "--out", str(tmp_path)]) == cli.LAB_UNFIT
    assert "boot n1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--lab", str(INVENTORY), "--fault", "drbd-link-cutt"], "did you mean 'drbd-link-cut'?"),
        (["--lab", str(ROOT / "inventory" / "lab-l40s.yaml")], "is no mini-lab"),
        (["--lab", "/nowhere.yaml"], "/nowhere.yaml: found no readable file"),
        (["--lab", str(INVENTORY), "--out", "/proc/x"], "--out /proc/x: cannot write there"),
    ],
)
def test_a_mistake_is_told_before_anything_boots(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["prove", *argv]) == cli.USER_MISTAKE
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--attach"], "--attach is for a mini-lab: name its inventory with --lab"),
        (["--lab", str(INVENTORY), "--jobs", "2"], "guests are tried one fault at a time"),
        (["--lab", str(INVENTORY), "--thorough"], "--thorough is for the twin"),
    ],
)
def test_options_that_do_not_go_together(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["prove", *argv])
    assert ended.value.code == cli.USER_MISTAKE
    assert said in capsys.readouterr().err


def test_the_lane_is_the_one_that_watches_a_boot_for_longest() -> None:
    proof = proof_of()
    assert proof.lane == "boots"
    assert set(proof.askable) > set(LEFT_OUT)
    assert "node-joins" in load_claims() and "node-joins" not in proof.askable
