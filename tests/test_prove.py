"""The proof: what counts as proved, on trials made up here."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import prove
from harness.claims.catalogue import load as load_claims
from harness.prove import LEFT_OUT, NOTHING, WHOLE, Cell, Extent, Trial, extent_of, objections_to
from harness.report.outcome import Standing
from harness.twin.faults.catalogue import FAULTS
from harness.twin.faults.model import ALL_POOLS, GPU_POOLS, Fault

HOLDS, BROKEN, UNKNOWN = Standing.HOLDS, Standing.BROKEN, Standing.UNKNOWN
JOINS, LIVE = ("node-joins", "plain"), ("modules-live", "gpu-l40s")
FREE: Mapping[Cell, Standing] = {JOINS: HOLDS, LIVE: HOLDS}
PLAIN = Extent(("plain",), soak=False, disruption=False, platform=False)


def fault(name: str, **declared: Any) -> Fault:
    whole = {
        "sentence": "s",
        "seen": "s",
        "wrong_diagnosis": "w",
        "breaks": frozenset({"node-joins"}),
        "where": ("plain", "gpu-l40s"),
        "edit": lambda _: None,
    }
    return Fault(id=name, **{**whole, **declared})


def objections(
    fault: Fault,
    outcomes: Mapping[Cell, Standing],
    free: Mapping[Cell, Standing] = FREE,
    extent: Extent = WHOLE,
) -> list[str]:
    tried = Trial(fault.id, outcomes, extent=extent)
    return objections_to([fault], {NOTHING: Trial(NOTHING, free), fault.id: tried}, whole=False)


def test_what_does_as_it_declares_is_proved() -> None:
    assert objections(fault("f"), {JOINS: BROKEN, LIVE: HOLDS}) == []


def test_a_declared_break_on_a_pool_where_it_is_not_asked_is_no_matter() -> None:
    declared = fault("f", breaks=frozenset({"node-joins", "passthrough"}))
    assert objections(declared, {JOINS: BROKEN, LIVE: HOLDS}) == []


def test_a_fault_that_breaks_nothing() -> None:
    assert objections(fault("f"), FREE) == [
        "f should break node-joins on plain and does not",
        "f breaks nothing",
    ]


def test_a_fault_that_declares_nothing_proves_nothing() -> None:
    assert objections(fault("f", breaks=frozenset()), FREE) == [
        "f changes nothing, and does not say that it is harmless"
    ]


def test_what_is_harmless_is_proved_by_changing_nothing() -> None:
    harmless = fault("f", breaks=frozenset(), harmless=True)
    assert objections(harmless, FREE) == []
    assert objections(harmless, {JOINS: BROKEN, LIVE: UNKNOWN}) == [
        "f should not break node-joins on plain and does",
        "f should not blind modules-live on gpu-l40s and does",
    ]


def test_what_spoils_the_evidence_breaks_nothing_and_is_proved_by_what_it_blinds() -> None:
    spoilt = fault("f", breaks=frozenset(), blinds=frozenset({"modules-live"}))
    assert objections(spoilt, {JOINS: HOLDS, LIVE: UNKNOWN}) == []
    assert objections(spoilt, FREE) == [
        "f should blind modules-live on gpu-l40s and does not",
        "f changes nothing, and does not say that it is harmless",
    ]


def test_a_trial_answers_for_what_it_asked() -> None:
    assert objections(fault("f"), {JOINS: BROKEN}, extent=PLAIN) == []
    assert objections(fault("f"), {}, extent=PLAIN) == [
        "f should break node-joins on plain and does not",
        "under f node-joins on plain is not reported at all",
        "f breaks nothing",
    ]


def test_a_soak_is_asked_of_trials_that_have_one() -> None:
    free = {**FREE, ("uptime", "plain"): HOLDS}
    assert objections(fault("f"), {JOINS: BROKEN}, free, PLAIN) == []
    assert objections(fault("f"), {JOINS: BROKEN}, free, Extent(("plain",))) == [
        "under f uptime on plain is not reported at all"
    ]


@pytest.mark.parametrize("one", FAULTS.values(), ids=lambda one: one.id)
def test_a_small_trial_has_a_pool_of_the_fault_and_one_beside_it(one: Fault) -> None:
    extent = extent_of(one)
    needs = {need for claim in one.breaks or one.blinds for need in load_claims()[claim].needs}
    if extent.disruption or extent.platform:
        rough = extent.disruption
        assert extent.pools == (("plain",) if rough else ("cloned",))
        assert set(extent.pools) <= set(one.where)
        assert ("disruption" if rough else "platform") in needs
        return
    assert len(extent.pools) == 2 and set(extent.pools) & set(one.where)
    others = set(ALL_POOLS) - set(one.where)
    assert bool(set(extent.pools) & others) is bool(others)
    assert extent.soak is ("uptime" in one.breaks)


@pytest.mark.parametrize(
    ("where", "control"),
    [(("gpu-l40s",), "gpu-gb202"), (("gpu-gb202",), "gpu-l40s"), (GPU_POOLS, "plain"),
     (("plain",), "cloned"), (("cloned",), "plain")],
)  # fmt: skip
def test_the_control_is_the_pool_most_like_those_concerned(
    where: tuple[str, ...], control: str
) -> None:
    assert control in extent_of(fault("f", where=where)).pools


def test_faults_alike_in_where_they_show_are_tried_on_each_of_their_pools() -> None:
    tried = {extent_of(one).pools[0] for one in FAULTS.values() if one.where == GPU_POOLS}
    assert tried == set(GPU_POOLS)


def test_a_break_that_is_not_declared() -> None:
    found = objections(fault("f"), {JOINS: BROKEN, LIVE: BROKEN})
    assert found == ["f should not break modules-live on gpu-l40s and does"]


def test_a_break_outside_of_where_it_shows() -> None:
    found = objections(fault("f", where=("gpu-l40s",)), {JOINS: BROKEN, LIVE: HOLDS})
    assert found == ["f should not break node-joins on plain and does"]


def test_unknown_is_declared_apart_from_broken() -> None:
    blind = fault("f", blinds=frozenset({"modules-live"}))
    assert objections(blind, {JOINS: BROKEN, LIVE: UNKNOWN}) == []
    assert objections(fault("f"), {JOINS: BROKEN, LIVE: UNKNOWN}) == [
        "f should not blind modules-live on gpu-l40s and does"
    ]
    assert objections(blind, {JOINS: BROKEN, LIVE: HOLDS}) == [
        "f should blind modules-live on gpu-l40s and does not"
    ]


def test_what_was_not_run_or_not_reported() -> None:
    assert objections(fault("f"), {JOINS: BROKEN, LIVE: Standing.NOT_RUN}) == [
        "under f modules-live on gpu-l40s was not run"
    ]
    assert objections(fault("f"), {JOINS: BROKEN}) == [
        "under f modules-live on gpu-l40s is not reported at all"
    ]


@pytest.mark.parametrize("standing", [BROKEN, UNKNOWN, Standing.NOT_RUN])
def test_a_world_without_faults_in_which_something_does_not_hold(standing: Standing) -> None:
    free = {**FREE, LIVE: standing}
    assert f"without any fault modules-live on gpu-l40s is {standing}" in objections(
        fault("f"), {JOINS: BROKEN, LIVE: HOLDS}, free
    )


def test_a_world_without_faults_in_which_nothing_was_asked() -> None:
    assert "without any fault nothing was asked" in objections(fault("f"), {JOINS: BROKEN}, {})


def test_a_claim_that_no_fault_breaks_counts_only_in_the_whole_proof() -> None:
    trials = {NOTHING: Trial(NOTHING, FREE), "f": Trial("f", {JOINS: BROKEN, LIVE: HOLDS})}
    assert objections_to([fault("f")], trials, whole=False) == []
    found = objections_to([fault("f")], trials, whole=True)
    asked = {"no fault breaks modules-live"}
    expected = {
        f"no fault breaks {claim}: no run of the embedded lab asks it"
        for claim in load_claims()
        if claim not in ("node-joins", "modules-live", *LEFT_OUT)
    }
    assert set(found) == expected | asked


def test_a_trial_that_failed_says_why_and_no_more() -> None:
    trials = {NOTHING: Trial(NOTHING, FREE), "f": Trial("f", {}, "the run ended with 3: no twin")}
    assert objections_to([fault("f")], trials, whole=False) == ["f: the run ended with 3: no twin"]


def test_without_a_run_that_has_no_fault_nothing_is_compared() -> None:
    free = Trial(NOTHING, FREE, "the run ended with 3: no twin")
    tried = Trial("f", {**FREE, JOINS: BROKEN, LIVE: BROKEN})
    assert objections_to([fault("f")], {NOTHING: free, "f": tried}, whole=False) == [
        "no fault: the run ended with 3: no twin"
    ]


TRIED = {
    "told": ["faults", "absent-annotation-misread"],
    "mistaken": ["run", "--lab", "/nowhere.yaml"],
    "misread": ["rnu"],
}


def test_trials_are_hil_in_processes_of_their_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ended = prove.run_each(TRIED, 2, tmp_path)
    assert {name: status for name, (status, _) in ended.items()} == {
        "told": 0,
        "mistaken": 2,
        "misread": 2,
    }
    assert "A webhook strips every annotation" in ended["told"][1]
    assert "/nowhere.yaml: found no readable file" in ended["mistaken"][1]
    assert (tmp_path / "misread.log").read_text().startswith("usage: hil")
    assert capfd.readouterr() == ("", "")


class Child:
    """A process that ends as soon as it has begun, and writes down when."""

    told: list[str] = []
    exitcode = 0

    def __init__(self, target: object, args: tuple[list[str], Path]) -> None:
        self.name = args[0][0]
        self.sentinel, self._end = os.pipe()

    def start(self) -> None:
        self.told.append(f"begin {self.name}")
        os.close(self._end)

    def join(self) -> None:
        self.told.append(f"end {self.name}")
        os.close(self.sentinel)


def test_as_many_run_at_once_as_there_are_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = SimpleNamespace(Process=Child, set_forkserver_preload=lambda _: None)
    monkeypatch.setattr("harness.prove.multiprocessing.get_context", lambda _: context)
    ended = prove.run_each({name: [name] for name in "abcde"}, 2, tmp_path)
    assert list(ended.values()) == [(0, "")] * 5 and set(ended) == set("abcde")
    assert Child.told[:2] == ["begin a", "begin b"]
    running = 0
    for word in (one.split()[0] for one in Child.told):
        running += 1 if word == "begin" else -1
        assert running <= 2


def test_an_interrupt_ends_the_trials_that_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(sentinels: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prove, "wait", interrupted)
    monkeypatch.setattr(prove, "_OWN_END", 0.0)
    endless = ["twin", "up", "--dir", str(tmp_path / "twin")]
    with pytest.raises(KeyboardInterrupt):
        prove.run_each({"one": endless, "other": endless}, 2, tmp_path)
    assert not multiprocessing.active_children()


def test_no_thread_runs_where_trials_are_forked_from() -> None:
    program = (
        f"import importlib, os\nfor name in {prove._SHARED!r}:\n    importlib.import_module(name)\n"
        "print(*os.listdir('/proc/self/task'))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert len(ran.stdout.split()) == 1


def test_a_trial_that_left_no_ledger_says_what_it_said(tmp_path: Path) -> None:
    ended = prove.trial_of("f", WHOLE, tmp_path, 1, "Traceback")
    assert "neither ledger.jsonl nor a shard" in ended.failure
    assert ended.failure.endswith("the run said: Traceback")
    assert prove.trial_of("f", WHOLE, tmp_path, -9, "").failure == "the run ended with -9: "


def test_a_place_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert prove.prove([], jobs=1, out=Path("/proc/prove")) == 2
    assert capsys.readouterr().err.startswith("hil: --out /proc/prove: cannot write there")


@pytest.mark.parametrize(
    ("under", "status", "last"),
    [({JOINS: BROKEN, LIVE: HOLDS}, 0, "0 objections"), (FREE, 1, "2 objections")],
)
def test_the_matrix_and_the_exit_status(
    under: Mapping[Cell, Standing],
    status: int,
    last: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Any,
) -> None:
    monkeypatch.setattr(prove, "find", lambda name: fault(name))
    trials = {NOTHING: Trial(NOTHING, FREE), "f": Trial("f", under)}
    monkeypatch.setattr(prove, "_trials", lambda wanted, jobs, out: [*map(trials.get, wanted)])
    monkeypatch.setattr(prove, "extent_of", lambda _: WHOLE)
    assert prove.prove(["f"], jobs=2, out=tmp_path) == status
    said = capsys.readouterr().out
    column = list(load_claims()).index("node-joins")
    marks = next(line for line in said.splitlines() if line.startswith("f ")).split()
    assert marks[1 + column] == ("B" if status == 0 else ".")
    assert ("NOT PROVED: f breaks nothing" in said) is bool(status)
    assert "left out: unchanged-since: it is asked only with the record" in said
    assert last in said
