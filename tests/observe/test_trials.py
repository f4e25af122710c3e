from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.facts.fact import Unread
from harness.facts.machineconfig import RenderedModules
from harness.facts.trials import RenderTrial
from harness.observe import trials
from harness.observe.pool import CAPI, DEPLOYMENT_LABEL, HELM, INFRASTRUCTURE, KUBEVIRT

Make = Callable[..., Any]
NS = "tenant-test"
TRIAL = (NS, "lab", "gpu-hil1")
BASE = "kubernetes-lab-gpu-hil1"
RELEASE = "kubernetes-nodes-lab-gpu-hil1"


def now() -> float:
    return 1767225700.0


@pytest.fixture
def world(obj: Make) -> list[Any]:
    reference = {
        "apiVersion": trials.BOOTSTRAP,
        "kind": "TalosConfigTemplate",
        "name": f"{BASE}-0a1b2c",
    }
    config = "machine: {kernel: {modules: [{name: nf}]}, nodeLabels: {gpu: 'on'}}"
    labelled = {"labels": {DEPLOYMENT_LABEL: BASE}}
    return [
        obj(
            HELM,
            "HelmRelease",
            RELEASE,
            NS,
            spec={"values": {"kernelModules": [{"name": "nf"}]}},
            status={"conditions": [{"type": "Ready", "status": "True"}]},
        ),
        obj(
            CAPI,
            "MachineDeployment",
            BASE,
            NS,
            spec={"template": {"spec": {"bootstrap": {"configRef": reference}}}},
        ),
        obj(
            trials.BOOTSTRAP,
            "TalosConfigTemplate",
            f"{BASE}-0a1b2c",
            NS,
            spec={"template": {"spec": {"data": config}}},
        ),
        obj(INFRASTRUCTURE, "KubevirtMachineTemplate", f"{BASE}-3d4e5f", NS),
        obj(CAPI, "MachineSet", "ms", NS, metadata=labelled),
        obj(CAPI, "Machine", "m", NS, metadata=labelled),
        obj(KUBEVIRT, "VirtualMachine", "vm", NS, metadata=labelled),
        obj("batch/v1", "Job", f"{RELEASE}-talos-reconcile-gpu-hil1"[:56] + "-00aa11", NS),
    ]


@pytest.fixture
def others(obj: Make) -> list[Any]:
    """What is of other pools, of names that begin alike."""
    return [
        obj(CAPI, "MachineDeployment", f"{BASE}-x", NS),
        obj(CAPI, "MachineDeployment", "kubernetes-lab-gpu", NS),
        obj(INFRASTRUCTURE, "KubevirtMachineTemplate", "kubernetes-lab-gpu-3d4e5f", NS),
        obj(
            CAPI, "Machine", "n", NS, metadata={"labels": {DEPLOYMENT_LABEL: "kubernetes-lab-gpu"}}
        ),
        obj("batch/v1", "Job", "kubernetes-nodes-lab-gpu-talos-reconcile-gpu-00aa11", NS),
        obj("batch/v1", "Job", "other", NS),
    ]


def test_what_became_of_a_trial(cluster: Make, world: list[Any], others: list[Any]) -> None:
    kube = cluster(*world, *others, name="management")
    found = trials.render_trial(kube, *TRIAL, '[{"name": "nf"}]', now=now)
    assert isinstance(found, RenderTrial)
    assert (found.name, found.written, found.stored, found.ready) == (
        "gpu-hil1",
        '[{"name": "nf"}]',
        '[{"name": "nf"}]',
        "True",
    )
    assert isinstance(found.rendered, RenderedModules)
    assert found.rendered.names == ("nf",)
    assert found.labels == {"gpu": "on"}
    assert found.created == (
        f"MachineDeployment {BASE}",
        f"KubevirtMachineTemplate {BASE}-3d4e5f",
        f"TalosConfigTemplate {BASE}-0a1b2c",
        "MachineSet ms",
        "Machine m",
        "VirtualMachine vm",
        f"Job {RELEASE}-talos-reconcile-gpu-hil1"[:60] + "-00aa11",
    )
    assert found.origin.at == now()


def test_a_trial_that_was_refused_has_made_nothing(
    cluster: Make, world: list[Any], others: list[Any], obj: Make
) -> None:
    def event(message: str, when: str, kind: str = "HelmRelease", name: str = RELEASE) -> Any:
        involved = {"involvedObject": {"kind": kind, "name": name}, "lastTimestamp": when}
        return obj("v1", "Event", f"{name}.{when}", NS, type="Warning", message=message, **involved)

    events = [
        event("second", "2026-11-30T12:00:01Z"),
        event("first", "2026-11-30T12:00:00Z"),
        event("of a Secret", "2026-11-30T12:00:02Z", kind="Secret"),
        event("of another", "2026-11-30T12:00:03Z", name="kubernetes-nodes-lab-gpu"),
    ]
    found = trials.render_trial(cluster(world[0], *others, *events), *TRIAL, "", now=now)
    assert isinstance(found, RenderTrial)
    assert (found.rendered, found.labels, found.created) == (None, None, ())
    assert found.events == ("first", "second")


def test_a_trial_without_a_release_is_unread(cluster: Make, world: list[Any]) -> None:
    found = trials.render_trial(cluster(*world[1:], name="management"), *TRIAL, "", now=now)
    assert isinstance(found, Unread)
    assert (found.asked, found.reason) == (f"HelmRelease {NS}/{RELEASE}", "it is not there")
