from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.facts.applied import AppliedPool
from harness.facts.fact import Unread
from harness.facts.refusals import RefusalTrial
from harness.observe import refusals
from harness.observe.pool import CAPI, DATA_VOLUMES, DEPLOYMENT_LABEL, HELM, INFRASTRUCTURE
from harness.observe.trials import BOOTSTRAP

Make = Callable[..., Any]
NS = "tenant-test"
PLACE = (NS, "lab", "hil1-x")
BASE = "kubernetes-lab-hil1-x"
RELEASE = "kubernetes-nodes-lab-hil1-x"


def now() -> float:
    return 1767225700.0


@pytest.fixture
def world(obj: Make) -> list[Any]:
    labels = {"labels": {DEPLOYMENT_LABEL: BASE}}
    infrastructure = {"apiVersion": INFRASTRUCTURE, "kind": "KubevirtMachineTemplate"}
    bootstrap = {"apiVersion": BOOTSTRAP, "kind": "TalosConfigTemplate"}
    references = {
        "infrastructureRef": {**infrastructure, "name": f"{BASE}-aaaaaa"},
        "bootstrap": {"configRef": {**bootstrap, "name": f"{BASE}-bbbbbb"}},
    }
    deployment = obj(CAPI, "MachineDeployment", BASE, NS)
    deployment["spec"] = {"template": {"spec": references}}
    event = obj(
        "v1", "Event", "e", NS, type="Warning", message="no",
        involvedObject={"kind": "HelmRelease", "name": RELEASE, "uid": f"uid-{RELEASE}"},
    )  # fmt: skip
    return [
        obj("apps.cozystack.io/v1alpha1", "KubernetesNodes", "lab-hil1-x", NS, spec={"a": 1}),
        obj(HELM, "HelmRelease", RELEASE, NS, spec={"values": {"a": 1}}),
        deployment,
        obj(INFRASTRUCTURE, "KubevirtMachineTemplate", f"{BASE}-aaaaaa", NS),
        obj(BOOTSTRAP, "TalosConfigTemplate", f"{BASE}-bbbbbb", NS),
        obj(CAPI, "Machine", f"{BASE}-zzzzz", NS, metadata=labels),
        obj(DATA_VOLUMES, "DataVolume", f"{BASE}-zzzzz-disk-system", NS),
        obj(DATA_VOLUMES, "DataVolume", "kubernetes-lab-hil1-xy-disk", NS),
        obj(INFRASTRUCTURE, "KubevirtMachineTemplate", "kubernetes-lab-hil1-xy-aaaaaa", NS),
        event,
    ]


def test_every_object_of_a_scratch_pool_and_nobody_elses(cluster: Make, world: list[Any]) -> None:
    found = refusals.pool_objects(cluster(*world), *PLACE)
    assert sorted(found) == [
        f"DataVolume {BASE}-zzzzz-disk-system",
        f"KubevirtMachineTemplate {BASE}-aaaaaa",
        f"Machine {BASE}-zzzzz",
        f"MachineDeployment {BASE}",
        f"TalosConfigTemplate {BASE}-bbbbbb",
    ]


def test_a_trial_is_read_with_its_events_and_objects(cluster: Make, world: list[Any]) -> None:
    kube = cluster(*world, name="management")
    release = kube.get(HELM, "HelmRelease", NS, RELEASE)
    found = refusals.refusal_trial(
        kube, *PLACE, row="R1", written={"a": 1}, wrong=("a",), release=release, before={}, now=now
    )
    assert isinstance(found, RefusalTrial)
    assert found.warnings == ("no",)
    assert f"MachineDeployment {BASE} was made" in found.changes
    assert (found.row, found.name, found.wrong) == ("R1", "hil1-x", ("a",))
    assert (found.asked, found.altered) == ('{"a": 1}', ())


def test_one_without_a_verdict_is_unread_by_its_row(cluster: Make) -> None:
    found = refusals.refusal_trial(
        cluster(), *PLACE, row="R1", written={}, wrong=(), release={}, before={}, now=now
    )
    assert isinstance(found, Unread)
    assert found.asked == "R1"
    assert RELEASE in found.reason


def test_a_pool_beside_its_templates(cluster: Make, world: list[Any]) -> None:
    found = refusals.applied_pool(cluster(*world), *PLACE, now=now)
    assert isinstance(found, AppliedPool)
    assert found.machine_template == f"{BASE}-aaaaaa"
    assert found.bootstrap_template == f"{BASE}-bbbbbb"
    assert found.unequal == ()


def test_the_release_that_was_seen_to_judge_is_taken(cluster: Make, world: list[Any]) -> None:
    seen = {"kind": "HelmRelease", "metadata": {"generation": 9}, "spec": {}}
    found = refusals.applied_pool(cluster(*world), *PLACE, release=seen, now=now)
    assert isinstance(found, AppliedPool)
    assert found.generation == 9


@pytest.mark.parametrize("missing", ["KubernetesNodes", "HelmRelease"])
def test_without_object_or_release_it_is_unread(
    cluster: Make, world: list[Any], missing: str
) -> None:
    found = refusals.applied_pool(
        cluster(*(one for one in world if one["kind"] != missing)), *PLACE, now=now
    )
    assert isinstance(found, Unread)
    assert missing in found.asked


def test_without_a_deployment_nothing_is_in_use(cluster: Make, world: list[Any]) -> None:
    rest = [one for one in world if one["kind"] != "MachineDeployment"]
    found = refusals.applied_pool(cluster(*rest), *PLACE, now=now)
    assert isinstance(found, AppliedPool)
    assert found.rendered is None
    assert found.machine_template == ""


def test_the_parents_release(cluster: Make, obj: Make) -> None:
    parent = obj(*refusals.CONTROL_PLANE, "kubernetes-lab", NS, spec={"version": "v1.35.0"})
    assert refusals.parent_version(cluster(parent), NS, "lab") == "v1.35.0"
    assert refusals.parent_version(cluster(), NS, "lab") == ""


def test_pools_around_one(cluster: Make, world: list[Any]) -> None:
    kube = cluster(*world, name="management")
    found = refusals.surroundings(kube, cluster(), NS, leaving_out="another", now=now)
    assert [one.name for one in found.pools] == [BASE]
    assert f"Machine {BASE}-zzzzz" in found.pools[0].parts
    assert refusals.surroundings(kube, cluster(), NS, leaving_out=BASE, now=now).pools == ()
