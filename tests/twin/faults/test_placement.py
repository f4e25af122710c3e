"""What the faults of hosts do, as the management cluster and a host's own shell show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.facts.fact import Unread
from harness.facts.vmi import launcher_gpu, vmi_gpus
from harness.judge.passthrough import passthrough
from harness.judge.verdict import Outcome
from harness.twin.faults.catalogue import FAULTS
from harness.twin.world import conditions, hypervisors

L40S = "nvidia.com/AD102GL_L40S"
GB202 = "nvidia.com/GB202GL_RTX_PRO_6000_BLACKWELL_SERVER_EDITION"
Make = Callable[[str], Any]


def allocatable(lab: Any, host: str) -> dict[str, str]:
    found: dict[str, str] = lab.world.cluster.find("v1", "Node", "", host)["status"]["allocatable"]
    return found


def lspci(lab: Any, host: str) -> str:
    ran = hypervisors.every(lab.world)[host].run("lspci -nnk -d 10de:")
    return str(ran.stdout.decode())


def launcher(lab: Any) -> Any:
    pods = lab.world.cluster.all("v1", "Pod", "tenant-hil")
    found = [p for p in pods if p["metadata"]["name"].startswith("virt-launcher-")]
    return found[0] if found else None


def unscheduled(lab: Any) -> str:
    lab.until(lambda: launcher(lab) and conditions.find(launcher(lab), "PodScheduled"))
    return str(conditions.find(launcher(lab), "PodScheduled").get("message", ""))


@pytest.mark.parametrize(
    ("fault", "offered"),
    [("gpu-exhausted", "4"), ("gpu-resource-name-mismatch", None)],
)
def test_the_host_tells_cards_in_use_from_a_name_it_does_not_have(
    faulty: Make, fault: str, offered: str | None
) -> None:
    lab = faulty(fault)
    lab.pool(gpu=GB202)
    # the scheduler says the same of both
    assert f"3 Insufficient {GB202}" in unscheduled(lab)
    assert allocatable(lab, "hv-2").get(GB202) == offered


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("gpu-exhausted", "all that are offered are in use (hv-2 4)"),
        ("gpu-resource-name-mismatch", "hv-2 nvidia.com/GB202_RTX_PRO_6000 4"),
    ],
)
def test_both_break_the_same_claims_and_the_sentence_tells_them_apart(
    faulty: Make, fault: str, said: str
) -> None:
    lab = faulty(fault)
    lab.pool(gpu=GB202)
    unscheduled(lab)
    hosts = lab.world.cluster.all("v1", "Node")
    found = launcher_gpu(launcher(lab), {}, at=0.0, cluster="management", hosts=hosts)
    (instance,) = lab.world.cluster.all("kubevirt.io/v1", "VirtualMachineInstance", "tenant-hil")
    asked = vmi_gpus(instance, at=0.0, cluster="management")
    nobody = Unread(found.origin, "the guest", "nobody to ask")
    verdict = passthrough(asked, found, nobody, (GB202,), "10de:2bb5", "machine")
    assert verdict.outcome is Outcome.BROKEN
    assert said in verdict.because
    one, other = FAULTS["gpu-exhausted"], FAULTS["gpu-resource-name-mismatch"]
    assert (one.breaks, one.blinds) == (other.breaks, other.blinds)


def test_cards_in_use_come_free_with_the_machines_that_have_them(faulty: Make) -> None:
    lab = faulty("gpu-exhausted")
    lab.pool(gpu=GB202)
    unscheduled(lab)
    others = lab.world.cluster.all("v1", "Pod", "tenant-root")
    lab.world.cluster.delete(others[0], manager="kubectl")
    lab.until(lambda: conditions.holds(launcher(lab), "PodScheduled"))


def test_a_driver_of_the_hosts_own_takes_every_card_away(faulty: Make) -> None:
    lab = faulty("host-driver-claims-gpu")
    lab.pool()
    assert f"Insufficient {L40S}" in unscheduled(lab)
    assert lspci(lab, "hv-1").count("Kernel driver in use: nvidia\n") == 4
    assert L40S not in allocatable(lab, "hv-1")
    labels = lab.world.cluster.find("v1", "Node", "", "hv-1")["metadata"]["labels"]
    assert labels["nvidia.com/gpu.deploy.driver"] == "pre-installed"
    (manager,) = lab.world.cluster.all("v1", "Pod", "cozy-gpu-operator")
    (stage,) = manager["status"]["initContainerStatuses"]
    assert stage["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert manager["status"]["phase"] == "Pending"


def test_a_spare_card_of_the_hosts_own_is_given_to_nobody(faulty: Make) -> None:
    lab = faulty("host-driver-holds-spare-card")
    shown = lspci(lab, "hv-1")
    assert shown.count("Kernel driver in use: nvidia\n") == 1
    assert shown.count("Kernel driver in use: vfio-pci\n") == 3
    assert allocatable(lab, "hv-1")[L40S] == "3"
    for number in range(4):
        lab.pool(f"gpu{number}")
    lab.run(1200.0)
    assert [len(guest.cards) for guest in lab.world.guests.all()] == [1, 1, 1]
    held = {card.uuid for guest in lab.world.guests.all() for card in guest.cards}
    taken = {c.uuid for c in lab.world.hosts.cards if lab.world.hosts.driver_of(c) == "nvidia"}
    assert len(taken) == 1 and not held & taken
