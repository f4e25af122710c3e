"""Scratch pools: what they ask for, when they have a verdict, and that they go."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.bringup.ownership import OWNER_LABELS
from harness.bringup.pool import HeldPool
from harness.bringup.scratch_pools import (
    RELEASE_OF,
    TRIAL_OF,
    ScratchPools,
    Variant,
    await_warning,
    merged,
    scratch_object,
)
from harness.facts.fact import Unread
from harness.facts.objects import name_of, text_at
from harness.facts.poolstate import PoolState
from harness.reach.errors import ApiRefused, LeaseLost
from harness.reach.history import Obj

LEFT = (
    ("apps.cozystack.io/v1alpha1", "KubernetesNodes"),
    ("helm.toolkit.fluxcd.io/v2", "HelmRelease"),
    ("bootstrap.cluster.x-k8s.io/v1alpha3", "TalosConfigTemplate"),
    ("infrastructure.cluster.x-k8s.io/v1alpha1", "KubevirtMachineTemplate"),
    ("cluster.x-k8s.io/v1beta1", "MachineDeployment"),
)


def left(pool: HeldPool) -> list[str]:
    kube, place = pool.lab.management, pool.lab.inventory.tenant.namespace
    return [name_of(o) for kind in LEFT for o in kube.list(*kind, place) if "-hil" in name_of(o)]


@pytest.fixture
def scratch(cloned_pool: HeldPool) -> Any:
    """The pool's scratch pools, none there before and none after."""
    assert left(cloned_pool) == []
    yield ScratchPools(cloned_pool)
    assert left(cloned_pool) == []


def test_taking_them_away_that_is_broken_off_says_what_may_be_left(
    scratch: ScratchPools, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: ScratchPools, names: list[str]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(ScratchPools, "remove", interrupted)
        with pytest.raises(KeyboardInterrupt) as cut, scratch.standing([Variant()]):
            pass
    assert "trials of pool cloned may be left (hil1-cloned)" in cut.value.__notes__[0]
    scratch.clear()


NODES = ("apps.cozystack.io/v1alpha1", "KubernetesNodes", "tenant-hil", "lab-hil1-cloned")


def test_somebody_elses_pool_of_that_name_stays(
    scratch: ScratchPools, cloned_pool: HeldPool
) -> None:
    theirs = scratch_object(cloned_pool, "hil1-cloned", Variant())
    del theirs["metadata"]["labels"]
    kube = cloned_pool.lab.management
    kube.create(theirs)
    with scratch.standing([Variant(), Variant()]) as (first, second):
        assert first.refused is not None and second.refused is None
        assert kube.get(*NODES[:3], "lab-hil2-cloned") is not None
    assert kube.get(*NODES) is not None
    assert kube.get(*NODES[:3], "lab-hil2-cloned") is None
    labels = {"labels": {TRIAL_OF: "cloned"}}
    kube.merge(*NODES, {"metadata": labels})
    scratch.clear()


def test_those_of_a_run_that_has_the_pool_by_now_are_left_alone(
    scratch: ScratchPools, cloned_pool: HeldPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(clock: Any) -> None:
        raise LeaseLost("renew it", "it held by another", "look")

    with monkeypatch.context() as patched, pytest.raises(LeaseLost):
        patched.setattr(cloned_pool.lease, "renew", lost)
        with scratch.standing([Variant()]):
            pass
    assert cloned_pool.lab.management.get(*NODES) is not None
    scratch.clear()


def test_a_variant_is_the_pools_own_but_for_what_it_says(cloned_pool: HeldPool) -> None:
    made = scratch_object(cloned_pool, "hil1-cloned", Variant({"diskSize": "4Gi"}, ("osImage",)))
    assert made["metadata"] == {
        "name": "lab-hil1-cloned",
        "namespace": "tenant-hil",
        "labels": {**OWNER_LABELS, TRIAL_OF: "cloned"},
    }
    spec = made["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (0, 0)
    assert spec["diskSize"] == "4Gi"
    assert "osImage" not in spec
    assert spec["talos"]["version"] == "v1.13.6"


def test_an_empty_mapping_is_a_value(cloned_pool: HeldPool) -> None:
    variant = Variant({"osImage": {"builtin": {}}}, drop=("osImage",))
    assert scratch_object(cloned_pool, "hil1-cloned", variant)["spec"]["osImage"] == {"builtin": {}}


VALUES: Any = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, VALUES)
def test_merging_is_what_rfc_7386_says(target: Any, patch: Any) -> None:
    found = merged(target, patch)
    if not isinstance(patch, dict):
        assert found == patch
        return
    before = target if isinstance(target, dict) else {}
    assert set(found) == (set(before) | set(patch)) - {k for k, v in patch.items() if v is None}
    assert all(found[key] == before[key] for key in found if key not in patch)
    assert merged(found, patch) == found


def test_a_pool_stands_and_goes_whatever_comes_in_between(scratch: ScratchPools) -> None:
    with pytest.raises(KeyboardInterrupt), scratch.standing([Variant()]) as (made,):
        assert scratch.await_rendered([made])
        assert scratch.decided(made) == "True"
        assert name_of(scratch.template(made)).startswith("kubernetes-lab-hil1-cloned-")
        assert isinstance(scratch.state(made), PoolState)
        raise KeyboardInterrupt


def test_a_verdict_outlives_the_next_try(cloned_pool: HeldPool, scratch: ScratchPools) -> None:
    bad = Variant({"talos": {"version": "v1.13"}}, drop=("osImage",))
    with scratch.standing([bad]) as (made,):
        assert scratch.await_verdicts([made])
        for _ in range(8):  # a refused release is tried again every 30 s
            cloned_pool.pause(7.0, "it to be tried again")
            assert scratch.decided(made) == "False"
        first = scratch.verdict(made)
        assert text_at(first, "metadata", "name") == "kubernetes-nodes-lab-hil1-cloned"


def test_an_edit_is_judged_by_a_verdict_of_its_own(scratch: ScratchPools) -> None:
    with scratch.standing([Variant(drop=("osImage",))]) as (made,):
        assert scratch.await_rendered([made])
        before = scratch.verdict(made)["metadata"]["generation"]
        assert scratch.edit(made, {"talos": {"version": "v1.13"}}) is None
        assert scratch.await_generation(made)
        assert scratch.verdict(made)["metadata"]["generation"] > before
        assert scratch.decided(made) == "False"


def test_an_edit_that_the_api_refuses_is_told(
    cloned_pool: HeldPool, scratch: ScratchPools, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Obj:
        raise ApiRefused(422, "Invalid", "spec.version: Unsupported value")

    with scratch.standing([Variant()]) as (made,), monkeypatch.context() as patched:
        patched.setattr(type(cloned_pool.lab.management), "merge", refuse)
        found = scratch.edit(made, {"version": "v1.0"})
        assert isinstance(found, Unread)
        assert "Unsupported value" in found.reason


def test_one_that_was_said_to_be_anothers_goes_too(
    cloned_pool: HeldPool, scratch: ScratchPools
) -> None:
    """As a run leaves it that was killed in the middle."""
    kube = cloned_pool.lab.management
    kube.create(scratch_object(cloned_pool, "hil1-cloned", Variant()))
    made = scratch.make(Variant(), "hil1-cloned")
    assert made.refused is not None, "it is there already"
    cloned_pool.pause(60.0, "it to be rendered")
    found = scratch.deployment(made)
    release = found["metadata"]["annotations"][RELEASE_OF]
    scratch.own(made, "somebody-elses")
    cloned_pool.pause(1.0, "that to be seen")
    assert scratch.deployment(made)["metadata"]["annotations"][RELEASE_OF] == "somebody-elses"
    scratch.own(made)
    cloned_pool.pause(1.0, "that to be seen")
    assert scratch.deployment(made)["metadata"]["annotations"][RELEASE_OF] == release
    scratch.own(made, "somebody-elses")
    scratch.clear()


def test_a_warning_that_never_comes_is_not_waited_for_long(cloned_pool: HeldPool) -> None:
    said = {"type": "Ready", "status": "False", "message": "nobody says so"}
    release = {"metadata": {"name": "r", "uid": "none"}, "status": {"conditions": [said]}}
    since = cloned_pool.lab.clock.now()
    assert not await_warning(cloned_pool, cloned_pool.watched.feeds["events"], release)
    assert 59 < cloned_pool.lab.clock.now() - since < 120
    said["status"] = "True"
    assert not await_warning(cloned_pool, cloned_pool.watched.feeds["events"], release)
