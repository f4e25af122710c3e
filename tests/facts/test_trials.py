from __future__ import annotations

from typing import Any

import pytest

from harness.facts.fact import Unread
from harness.facts.machineconfig import DeclaredModule, RenderedModules
from harness.facts.trials import RenderTrial, as_json, render_trial

TEXT = 'pool x: invalid kernelModules name "bad name"'
FAILED = (
    "Helm install failed for release tenant-test/kubernetes-nodes-lab-x with chart k@1: "
    f"execution error at (kubernetes-nodes/templates/a.yaml:1:2): {TEXT}"
)
CONFIG = (
    'machine: {kernel: {modules: [{name: "nf", parameters: ["a=1;b=2"]}]}, nodeLabels: {gpu: "on"}}'
)


def release(values: Any = None, **ready: str) -> dict[str, Any]:
    return {
        "kind": "HelmRelease",
        "metadata": {"name": "kubernetes-nodes-lab-x", "namespace": "tenant-test"},
        "spec": {"values": values or {}},
        "status": {"conditions": [{"type": "Ready", **ready}]} if ready else {},
    }


def template(config: str = CONFIG) -> dict[str, Any]:
    return {
        "kind": "TalosConfigTemplate",
        "metadata": {"name": "kubernetes-lab-x-0a1b2c"},
        "spec": {"template": {"spec": {"data": config}}},
    }


def trial(obj: Any, written: str = "", **more: Any) -> RenderTrial:
    given = {"events": [], "template": None, "created": [], **more}
    return render_trial(obj, written, pool="x", at=1.0, cluster="management", **given)


def test_a_trial_that_was_refused() -> None:
    events = [
        {"type": "Normal", "message": "installing"},
        {"type": "Warning", "message": FAILED},
        {"type": "Warning", "message": "another"},
    ]
    found = trial(
        release({"kernelModules": [{"name": "bad name"}]}, status="False", reason="InstallFailed",
                message=FAILED),
        as_json([{"name": "bad name"}]),
        events=events,
    )  # fmt: skip
    assert (found.name, found.ready, found.reason) == ("x", "False", "InstallFailed")
    assert found.settled
    assert found.stored == found.written == '[{"name": "bad name"}]'
    assert found.events == (FAILED, "another")
    assert found.refusals == (TEXT, "another")
    assert (found.rendered, found.labels, found.created) == (None, None, ())
    assert found.origin.source == "management HelmRelease tenant-test/kubernetes-nodes-lab-x"


def test_a_trial_that_was_rendered() -> None:
    made = [{"kind": "MachineDeployment", "metadata": {"name": "kubernetes-lab-x"}}]
    values = {"gpus": [{"name": "nvidia.com/AD102GL_L40S"}], "kernelModules": []}
    found = trial(release(values, status="True"), "[]", template=template(), created=made)
    assert isinstance(found.rendered, RenderedModules)
    assert found.rendered.modules == (DeclaredModule("nf", ("a=1;b=2",)),)
    assert found.rendered.origin.source == "management TalosConfigTemplate kubernetes-lab-x-0a1b2c"
    assert found.labels == {"gpu": "on"}
    assert found.gpus == ("nvidia.com/AD102GL_L40S",)
    assert found.created == ("MachineDeployment kubernetes-lab-x",)


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        ({}, ""),
        ({"kernelModules": []}, "[]"),
        ({"kernelModules": None}, "null"),
        ({"kernelModules": [{"name": "a\u2028b"}]}, '[{"name": "a\\u2028b"}]'),
    ],
)
def test_an_absent_key_is_not_an_empty_list(values: Any, stored: str) -> None:
    assert trial(release(values)).stored == stored


@pytest.mark.parametrize(("status", "settled"), [("True", 1), ("False", 1), ("Unknown", 0)])
def test_when_a_release_came_to_an_end(status: str, settled: int) -> None:
    assert trial(release(status=status)).settled == bool(settled)
    assert not trial(release()).settled


def test_a_configuration_that_cannot_be_read_is_told() -> None:
    found = trial(release(status="True"), template=template("machine: ["))
    assert isinstance(found.rendered, Unread)
    assert found.labels is None


@pytest.mark.parametrize(
    ("message", "refusal"),
    [
        (FAILED, TEXT),
        ("no chart", "no chart"),
        ("execution error at (a:1): x: y", "x: y"),
        ("execution error at (a:1", "execution error at (a:1"),
        ("", ""),
    ],
)
def test_the_charts_own_text(message: str, refusal: str) -> None:
    found = trial(release(status="False", message=message))
    assert found.refusals == (refusal,)


def test_a_release_without_values() -> None:
    found = render_trial(
        {"spec": {}}, "", pool="x", events=[], template=None, created=[], at=1.0, cluster="m"
    )
    assert (found.stored, found.gpus, found.ready) == ("", (), "")
