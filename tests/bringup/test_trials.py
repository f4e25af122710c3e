"""Scratch pools on which a request is only rendered: what is written, and that nothing stays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.bringup.errors import TakeDownIncomplete
from harness.bringup.keeper import OWNER_LABELS
from harness.bringup.pool import HeldPool
from harness.bringup.scratch_pools import ScratchPools
from harness.bringup.trials import (
    ABSENT,
    HOSTILE,
    OTHER_VENDOR,
    ROLLOUT_BUDGET,
    TRIAL_OF,
    VALID,
    Request,
    Trials,
    scratch_pool,
)
from harness.facts.fact import Unread
from harness.facts.machineconfig import RenderedModules
from harness.facts.objects import name_of
from harness.facts.poolstate import PoolState
from harness.facts.trials import RenderTrial
from harness.judge import kernel_modules_refused, kernel_modules_verbatim, rollout
from harness.observe.trials import BOOTSTRAP
from harness.reach.errors import ApiRefused
from harness.reach.history import Obj

NODES = ("apps.cozystack.io/v1alpha1", "KubernetesNodes", "tenant-hil")
LEFT = (
    NODES,
    ("helm.toolkit.fluxcd.io/v2", "HelmRelease", "tenant-hil"),
    (BOOTSTRAP, "TalosConfigTemplate", "tenant-hil"),
    ("cluster.x-k8s.io/v1beta1", "MachineDeployment", "tenant-hil"),
)


@pytest.fixture
def trials(gpu_pool: HeldPool) -> Iterator[Trials]:
    """Trials of the pool, none made yet and none left."""
    yield Trials(gpu_pool)
    assert left(gpu_pool) == []


def left(pool: HeldPool) -> list[str]:
    return [
        name_of(one)
        for kind in LEFT
        for one in pool.lab.management.list(*kind)
        if "-hil" in name_of(one)
    ]


def test_hostile_values_are_refused_and_nothing_was_made(trials: Trials) -> None:
    seen = trials.hostile()
    assert len(seen) == len(HOSTILE)
    assert kernel_modules_refused(seen, "pool").outcome == "holds"
    assert all(isinstance(one, RenderTrial) and one.created == () for one in seen)
    assert trials.hostile() is seen


def test_valid_values_are_rendered_word_for_word(trials: Trials) -> None:
    seen = trials.valid()
    assert kernel_modules_verbatim(seen, "pool").outcome == "holds"
    by_request = {one.written: one for one in seen if isinstance(one, RenderTrial)}
    assert by_request["[]"].stored == "[]"
    absent = [one for one in seen if isinstance(one, RenderTrial) and not one.written]
    assert [one.gpus for one in absent] == [("nvidia.com/AD102GL_L40S",), (OTHER_VENDOR,)]
    rendered = [one.rendered for one in absent]
    assert [isinstance(one, RenderedModules) and len(one.modules) for one in rendered] == [4, 0]


def test_a_changed_list_arrives_where_templates_are_named_by_content(trials: Trials) -> None:
    change = trials.rollout()
    verdict = rollout(change.before, change.after, change.rendered, change.wanted, "pool")
    assert verdict.outcome == "holds"
    assert isinstance(change.after, PoolState) and change.after.regime == "content"
    assert change.after.machines == {}


def test_no_machine_is_ever_made_for_a_trial(gpu_pool: HeldPool, trials: Trials) -> None:
    trials.valid()
    feeds = gpu_pool.watched.feeds
    for kind in ("machines", "machine_sets", "virtual_machines", "vmis", "data_volumes"):
        seen = {name_of(one.obj) for one in feeds[kind].history.revisions()}
        assert seen and not [name for name in seen if "-hil" in name and kind != "machine_sets"]


def test_an_interrupt_leaves_nothing(trials: Trials, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Trials, made: Any) -> None:
        assert left(self.pool)
        raise KeyboardInterrupt

    monkeypatch.setattr(Trials, "_await_rendered", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trials.valid()
    with pytest.raises(KeyboardInterrupt):
        trials.rollout()


def test_what_a_killed_run_left_is_found_by_the_next(gpu_pool: HeldPool, trials: Trials) -> None:
    gpu_pool.lab.management.create(scratch_pool(gpu_pool, "hil7-gpu-l40s", Request([])))
    gpu_pool.pause(60.0, "it to be rendered")
    assert len(left(gpu_pool)) >= 4
    trials.clear()


def test_another_pools_trials_are_not_ours(gpu_pool: HeldPool, trials: Trials) -> None:
    kube = gpu_pool.lab.management
    other = scratch_pool(gpu_pool, "hil1-gpu-gb202", Request([]))
    other["metadata"]["labels"][TRIAL_OF] = "gpu-gb202"
    kube.create(other)
    trials.clear()
    ScratchPools(gpu_pool).remove(["hil1-gpu-gb202"])
    assert kube.get(*NODES, "lab-hil1-gpu-gb202") is not None
    kube.merge(*NODES, "lab-hil1-gpu-gb202", {"metadata": {"labels": {TRIAL_OF: "gpu-l40s"}}})
    trials.clear()


def test_trials_that_stay_are_told(
    gpu_pool: HeldPool, trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube = gpu_pool.lab.management
    with monkeypatch.context() as patched:
        patched.setattr(type(kube), "delete", lambda self, *_: None)
        with pytest.raises(TakeDownIncomplete, match="still there: kubernetes-nodes-lab-hil1-gpu"):
            trials.valid()
    trials.clear()


def test_an_api_that_refuses_a_value_is_told(
    gpu_pool: HeldPool, trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Any, obj: Obj) -> Obj:
        raise ApiRefused(422, "Invalid", "spec.kernelModules: Invalid value")

    monkeypatch.setattr(type(gpu_pool.lab.management), "create", refuse)
    seen = trials.hostile()
    assert all(isinstance(one, Unread) and "Invalid value" in one.reason for one in seen)
    assert isinstance(trials.rollout().before, Unread)


@pytest.mark.parametrize("request_", [*HOSTILE, *VALID])
def test_a_scratch_pool_has_no_room_for_a_machine_and_says_whose_it_is(
    gpu_pool: HeldPool, request_: Request
) -> None:
    made = scratch_pool(gpu_pool, "hil1-gpu-l40s", request_)
    assert made["metadata"]["name"] == "lab-hil1-gpu-l40s"
    assert made["metadata"]["labels"] == {**OWNER_LABELS, TRIAL_OF: "gpu-l40s"}
    assert (made["spec"]["minReplicas"], made["spec"]["maxReplicas"]) == (0, 0)
    written = {"kernelModules": request_.modules} if request_.modules != ABSENT else {}
    found = {key: value for key, value in made["spec"].items() if key == "kernelModules"}
    assert found == written


def test_absent_is_absent_whatever_the_pool_itself_lists(
    gpu_pool: HeldPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = gpu_pool.lab.inventory
    own = inventory.pools["gpu-l40s"].model_copy(update={"kernel_modules": ()})
    other = inventory.model_copy(update={"pools": {**inventory.pools, "gpu-l40s": own}})
    monkeypatch.setattr(gpu_pool.lab, "inventory", other)
    assert "kernelModules" not in scratch_pool(gpu_pool, "hil1-gpu-l40s", Request(ABSENT))["spec"]


def test_no_hostile_value_does_harm_if_a_shell_expands_it() -> None:
    texts = [
        text
        for one in HOSTILE
        for module in one.modules
        if isinstance(module, dict)
        for text in (module["name"], *module.get("parameters", ()))
    ]
    assert len(texts) > len(HOSTILE)
    for text in texts:
        for opening, closing in (("$(", ")"), ("`", "`")):
            inside = text.partition(opening)[2].partition(closing)[0]
            assert inside in ("", "true")


def test_templates_that_no_release_counts_as_its_own_go_too(
    gpu_pool: HeldPool, trials: Trials
) -> None:
    kube = gpu_pool.lab.management
    kube.create(scratch_pool(gpu_pool, "hil1-gpu-l40s", Request([])))
    gpu_pool.pause(60.0, "it to be rendered")
    (made,) = [
        one
        for one in kube.list(BOOTSTRAP, "TalosConfigTemplate", "tenant-hil")
        if "-hil1-" in name_of(one)
    ]
    for name in ("kubernetes-lab-hil1-gpu-l40s", "kubernetes-lab-hil1-gpu-l40s-abcdef-other"):
        metadata = {"name": name, "namespace": "tenant-hil"}
        kube.create({**made, "metadata": metadata, "status": {}})
    trials.clear()
    assert left(gpu_pool) == ["kubernetes-lab-hil1-gpu-l40s-abcdef-other"]
    kube.delete(BOOTSTRAP, "TalosConfigTemplate", "tenant-hil", left(gpu_pool)[0])
    assert isinstance(gpu_pool.rendered_modules(), RenderedModules)


def test_a_change_that_does_not_arrive_is_waited_for_and_no_longer(
    gpu_pool: HeldPool, trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a template's spec is refused under its old name."""
    monkeypatch.setattr(Trials, "_change", lambda self, made, request: None)
    since = gpu_pool.lab.clock.now()
    change = trials.rollout()
    assert ROLLOUT_BUDGET < gpu_pool.lab.clock.now() - since < ROLLOUT_BUDGET + 120
    assert isinstance(change.before, PoolState) and isinstance(change.after, PoolState)
    assert change.before.bootstrap == change.after.bootstrap
