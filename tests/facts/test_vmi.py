from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.reply import Output
from harness.facts.vmi import (
    VmiGpus,
    VmiRefusal,
    declared_env,
    launcher_gpu,
    read_env,
    variable_of,
    vmi_gpus,
)

L40S = "nvidia.com/AD102GL_L40S"


def vmi(*conditions: dict[str, str]) -> dict[str, Any]:
    gpus = [{"name": "gpu0", "deviceName": L40S}]
    return {
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "w1", "namespace": "ns"},
        "spec": {"domain": {"devices": {"gpus": gpus}}},
        "status": {"phase": "Running", "conditions": list(conditions)},
    }


def pod(phase: str = "Running", **status: Any) -> dict[str, Any]:
    compute = {
        "name": "compute",
        "resources": {"limits": {L40S: 1, "devices.kubevirt.io/kvm": "1"}},
        "env": [{"name": "POD_NAME", "value": "x"}, {"name": "FROM", "valueFrom": {}}],
    }
    return {
        "kind": "Pod",
        "metadata": {"name": "virt-launcher-w1-abcde", "namespace": "ns"},
        "spec": {"containers": [{"name": "guest-console-log"}, compute]},
        "status": {"phase": phase, **status},
    }


def test_the_variable_of_a_resource_keeps_its_dashes() -> None:
    assert variable_of(L40S) == "PCI_RESOURCE_NVIDIA_COM_AD102GL_L40S"
    assert variable_of("a.b/c-d") == "PCI_RESOURCE_A_B_C-D"


def test_the_cards_that_a_vmi_asks_for() -> None:
    found = vmi_gpus(vmi({"type": "Synchronized", "status": "True"}), at=1.0, cluster="m")
    assert isinstance(found, VmiGpus)
    assert (found.vmi, found.gpus, found.phase) == ("w1", (L40S,), "Running")


def test_a_refused_vmi() -> None:
    said = f"GPU {L40S} is not permitted in permittedHostDevices configuration"
    refused = {
        "type": "Synchronized",
        "status": "False",
        "reason": "FailedCreate",
        "message": said,
    }
    found = vmi_gpus(vmi(refused), at=1.0, cluster="m")
    assert isinstance(found, VmiRefusal)
    assert (found.reason, found.message) == ("FailedCreate", said)


def test_what_a_launcher_was_given() -> None:
    env = {"PCI_RESOURCE_NVIDIA_COM_AD102GL_L40S": "0000:41:00.0,0000:42:00.0,", "HOME": "/"}
    found = launcher_gpu(pod(), env, at=1.0, cluster="m")
    assert found.pci_env == {
        "PCI_RESOURCE_NVIDIA_COM_AD102GL_L40S": ("0000:41:00.0", "0000:42:00.0")
    }
    assert found.limits[L40S] == "1"
    assert found.unscheduled == ""


def test_what_the_hosts_offer_while_a_launcher_has_none() -> None:
    waiting = {"type": "PodScheduled", "status": "False", "message": "Insufficient cards"}
    amounts = {"cpu": "64", L40S: "4", "nvidia.com/B": 2, "example.org/x": "1"}
    host = {"metadata": {"name": "hv-1"}, "status": {"allocatable": amounts}}
    found = launcher_gpu(
        pod("Pending", conditions=[waiting]), {}, at=1.0, cluster="m", hosts=[host, {}]
    )
    assert ("hv-1", L40S, "4") in found.offered and ("hv-1", "nvidia.com/B", "2") in found.offered
    assert not [one for one in found.offered if one[1] in ("cpu", "example.org/x")]


def test_a_launcher_without_a_host_says_why() -> None:
    waiting = {"type": "PodScheduled", "status": "False", "message": "Insufficient cards"}
    found = launcher_gpu(pod("Pending", conditions=[waiting]), {}, at=1.0, cluster="m")
    assert found.unscheduled == "Insufficient cards" and found.offered == ()
    placed = {"type": "PodScheduled", "status": "True", "message": "old"}
    assert launcher_gpu(pod(conditions=[placed]), {}, at=1.0, cluster="m").unscheduled == ""


def test_variables_of_the_spec() -> None:
    assert declared_env(pod()) == {"POD_NAME": "x", "FROM": ""}


def env(text: str, exit_code: int | None = 0) -> object:
    return read_env(Output(("env",), exit_code, text), at=1.0, source="pod")


def test_variables_of_the_running_container() -> None:
    assert env("A=1\nB=x=y\nrest of a long one\n") == {"A": "1", "B": "x=y"}


@pytest.mark.parametrize("exit_code", [1, None])
def test_no_variables_without_an_answer(exit_code: int | None) -> None:
    assert isinstance(env("A=1\n", exit_code), Unread)


@given(st.text(), st.sampled_from([0, None]))
def test_any_text(text: str, exit_code: int | None) -> None:
    assert isinstance(env(text, exit_code), dict | Unread)
