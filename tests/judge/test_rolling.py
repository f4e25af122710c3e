from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.facts.fact import Origin, Unread
from harness.facts.machineconfig import DeclaredModule, RenderedModules
from harness.facts.pool import ABSENT, RequestedModules
from harness.facts.poolstate import PoolState, ReleaseState, TemplateState
from harness.judge.rolling import no_roll, rollout, unchanged_since
from harness.judge.verdict import Verdict

AT = Origin(1.0, "management", "")
LOST = Unread(AT, "pool", "the reason")
RELEASE = ReleaseState("release", "True", "UpgradeSucceeded", "", 1, "r1", "r1", "v1")
BEFORE = PoolState(
    AT,
    "gpu",
    "lab",
    "content",
    TemplateState("TalosConfigTemplate", "tct-a", "u1", "d1"),
    TemplateState("KubevirtMachineTemplate", "kmt-a", "u2", "d2"),
    "job-a",
    {"m1": "um"},
    {"v1": "uv"},
    {"d1": "ud"},
    {"w1": "b1"},
    RELEASE,
)


def later(**more: Any) -> PoolState:
    """The pool after a reconcile; keys of the release are told by a leading ``release_``."""
    ours = {key[8:]: value for key, value in more.items() if key.startswith("release_")}
    rest = {key: value for key, value in more.items() if not key.startswith("release_")}
    release = dataclasses.replace(RELEASE, **{"handled": "r2", "forced": "r2", **ours})
    return dataclasses.replace(BEFORE, release=release, **rest)


def check(verdict: Verdict, claim: str, outcome: str, said: str) -> None:
    assert (verdict.claim, verdict.subject) == (claim, "pool gpu")
    assert verdict.outcome == outcome, verdict.because
    assert said in verdict.because


AFTER = later()
BOOTSTRAP = dataclasses.replace(BEFORE.bootstrap, name="tct-b", digest="d9")

SAME: list[tuple[PoolState, str, str]] = [
    (AFTER, "holds", "as before: tct-a, kmt-a, Job job-a, 1 machine, 1 VMI, 1 disk, 1 boot"),
    (later(job=""), "holds", "no Job to compare"),
    (later(release_revision=9), "holds", "as before"),
    (
        later(bootstrap=dataclasses.replace(BEFORE.bootstrap, uid="u9")),
        "holds",
        "as before",
    ),
    (later(bootstrap=BOOTSTRAP), "broken", "TalosConfigTemplate in use is tct-b, was tct-a"),
    (
        later(bootstrap=dataclasses.replace(BEFORE.bootstrap, digest="d9")),
        "broken",
        "TalosConfigTemplate tct-a has another content than before",
    ),
    (
        later(machine=dataclasses.replace(BEFORE.machine, name="kmt-b")),
        "broken",
        "KubevirtMachineTemplate in use is kmt-b, was kmt-a",
    ),
    (
        later(machine=dataclasses.replace(BEFORE.machine, digest="d9")),
        "broken",
        "KubevirtMachineTemplate kmt-a has another content",
    ),
    (later(regime="fixed"), "broken", "templates are named by fixed, before by content"),
    (later(job="job-b"), "broken", "the reconcile Job is job-b, was job-a"),
    (later(machines={"m1": "other"}), "broken", "Machine m1 is other, was um"),
    (later(machines={}), "broken", "Machine m1 is gone, was um"),
    (later(machines={"m1": "um", "m2": "u"}), "broken", "Machine m2 is u, was not there"),
    (later(vmis={"v1": "other"}), "broken", "VMI v1 is other, was uv"),
    (later(data_volumes={"d1": "other"}), "broken", "DataVolume d1 is other, was ud"),
    (later(boots={"w1": "b2"}), "broken", "boot of w1 is b2, was b1"),
    (
        later(release_ready="False", release_reason="UpgradeFailed", release_message="m"),
        "unknown",
        "release release has Ready=False (UpgradeFailed: m)",
    ),
    (later(release_ready="Unknown"), "unknown", "has Ready=Unknown"),
    (later(release_values="v2"), "unknown", "the pool's values are others than before"),
    (later(boots={"w1": ""}), "unknown", "the boot of a node is not known"),
    (later(bootstrap=BOOTSTRAP, release_values="v2"), "unknown", "would have a cause"),
]


@pytest.mark.parametrize(("after", "outcome", "said"), SAME)
def test_no_roll(after: PoolState, outcome: str, said: str) -> None:
    verdict = no_roll(BEFORE, after, "pool gpu")
    check(verdict, "no-roll", outcome, said)
    assert verdict.facts == (BEFORE, after)


@pytest.mark.parametrize(("after", "outcome", "said"), SAME)
def test_unchanged_since(after: PoolState, outcome: str, said: str) -> None:
    verdict = unchanged_since(BEFORE, after, "pool gpu")
    check(verdict, "unchanged-since", outcome, said)
    assert verdict.facts == (BEFORE, after)


@pytest.mark.parametrize("changed", [{"machines": {}}, {"boots": {}}, {"boots": {"w1": ""}}])
def test_a_pool_without_a_worker_shows_nothing(changed: dict[str, Any]) -> None:
    before = dataclasses.replace(BEFORE, **changed)
    assert no_roll(before, later(**changed), "pool gpu").outcome == "unknown"
    assert unchanged_since(before, later(**changed), "pool gpu").outcome == "unknown"


def test_a_boot_that_was_not_known_before_is_no_other_boot() -> None:
    before = dataclasses.replace(BEFORE, boots={"w1": ""})
    verdict = no_roll(before, AFTER, "pool gpu")
    check(verdict, "no-roll", "unknown", "the boot of a node is not known")


def test_a_release_that_says_no_reason_is_told_without_one() -> None:
    after = later(release_ready="Unknown", release_reason="", release_message="")
    check(no_roll(BEFORE, after, "pool gpu"), "no-roll", "unknown", "has Ready=Unknown")
    assert "(" not in no_roll(BEFORE, after, "pool gpu").because


def test_a_job_that_had_gone_before_is_not_compared() -> None:
    before = dataclasses.replace(BEFORE, job="")
    check(no_roll(before, later(job="job-b"), "pool gpu"), "no-roll", "holds", "no Job to compare")


@pytest.mark.parametrize("handled", ["r1", ""])
def test_without_a_reconcile_nothing_is_shown(handled: str) -> None:
    after = later(release_handled=handled, bootstrap=BOOTSTRAP)
    verdict = no_roll(BEFORE, after, "pool gpu")
    check(verdict, "no-roll", "unknown", "no reconcile of release was handled")
    assert verdict.facts == (BEFORE, after)


def test_an_earlier_run_needs_no_reconcile() -> None:
    assert unchanged_since(BEFORE, later(release_handled="r1"), "pool gpu").outcome == "holds"


@pytest.mark.parametrize("changed", [{"pool": "other"}, {"cluster": "other"}])
def test_a_state_of_something_else_shows_nothing(changed: dict[str, str]) -> None:
    recorded = dataclasses.replace(BEFORE, **changed)
    verdict = unchanged_since(recorded, AFTER, "pool gpu")
    check(verdict, "unchanged-since", "unknown", "this is gpu of lab")
    assert verdict.facts == (recorded, AFTER)


@pytest.mark.parametrize("judge", [no_roll, unchanged_since])
@pytest.mark.parametrize("facts", [(LOST, AFTER), (BEFORE, LOST), (LOST, LOST)])
def test_a_state_that_could_not_be_read(judge: Any, facts: Any) -> None:
    verdict = judge(*facts, "pool gpu")
    assert (verdict.outcome, verdict.facts) == ("unknown", facts)
    assert "the reason" in verdict.because


WANTED = RequestedModules((DeclaredModule("nf_tables", ("a=1",)),))
NEW = RenderedModules(AT, True, (DeclaredModule("nf_tables", ("a=1",)),))
OLD = RenderedModules(AT, True, (DeclaredModule("nvidia"),))
CHANGED = later(release_values="v2", bootstrap=BOOTSTRAP)
FIXED = dataclasses.replace(BEFORE, regime="fixed")


def fixed(**more: Any) -> PoolState:
    return later(regime="fixed", release_values="v2", **more)


@pytest.mark.parametrize(
    ("before", "after", "rendered", "wanted", "outcome", "said"),
    [
        (BEFORE, CHANGED, NEW, WANTED, "holds", "refers to tct-b, before tct-a, and it declares"),
        (FIXED, CHANGED, NEW, WANTED, "holds", "refers to tct-b"),
        (FIXED, fixed(), OLD, WANTED, "broken", "refused, release green, new workers also old"),
        (FIXED, fixed(), NEW, WANTED, "broken", "changed in place under its old name"),
        (
            BEFORE,
            later(release_values="v2"),
            OLD,
            WANTED,
            "broken",
            "the list did not arrive, release green: the MachineDeployment refers to tct-a",
        ),
        (BEFORE, CHANGED, OLD, WANTED, "broken", "which declares nvidia; written was [nf_tables"),
        (BEFORE, later(release_values="v2"), NEW, WANTED, "broken", "rolls no worker"),
        (
            FIXED,
            fixed(release_ready="False", release_reason="UpgradeFailed", release_message="m"),
            OLD,
            WANTED,
            "broken",
            "release release has Ready=False (UpgradeFailed: m): the MachineDeployment",
        ),
        (
            BEFORE,
            later(release_values="v2", bootstrap=BOOTSTRAP, release_ready="False"),
            NEW,
            WANTED,
            "unknown",
            "release release has Ready=False",
        ),
        (
            BEFORE,
            later(release_values="v2", release_ready="Unknown"),
            OLD,
            WANTED,
            "unknown",
            "release release has not come to an end",
        ),
        (BEFORE, later(release_values="v2", release_ready=""), OLD, WANTED, "unknown", "not come"),
        (BEFORE, later(bootstrap=BOOTSTRAP), NEW, WANTED, "unknown", "no list was written"),
        (BEFORE, CHANGED, NEW, ABSENT, "unknown", "no list was written"),
        (LOST, CHANGED, NEW, WANTED, "unknown", "the reason"),
        (BEFORE, LOST, NEW, WANTED, "unknown", "the reason"),
        (BEFORE, CHANGED, LOST, WANTED, "unknown", "the reason"),
    ],
)
def test_rollout(
    before: Any, after: Any, rendered: Any, wanted: RequestedModules, outcome: str, said: str
) -> None:
    verdict = rollout(before, after, rendered, wanted, "pool gpu")
    check(verdict, "rollout", outcome, said)
    assert verdict.facts == (before, after, rendered)
