from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import claims
from harness.facts.fact import Origin, Unread
from harness.facts.lspci import PciDrivers, PciFunction
from harness.facts.pci import PciCard, PciCards
from harness.facts.vmi import LauncherGpu, VmiGpus, VmiRefusal
from harness.judge.passthrough import passthrough, vfio_bound

AT = Origin(1.0, "management", "")
L40S = "nvidia.com/AD102GL_L40S"
VARIABLE = "PCI_RESOURCE_NVIDIA_COM_AD102GL_L40S"
UNREAD = Unread(AT, "the leg", "it is not there")
VMI = VmiGpus(AT, "vm1", (L40S,), "Running")
LAUNCHER = LauncherGpu(AT, "virt-launcher-vm1", {VARIABLE: ("0000:41:00.0",)}, {L40S: "1"})
CARD = PciCard("0000:08:00.0", "10de", "26b9")
GUEST = PciCards(AT, (CARD,), 9)
REFUSED = VmiRefusal(
    AT, "vm1", "FailedCreate", f"GPU {L40S} is not permitted in permittedHostDevices configuration"
)


def waiting(said: str) -> LauncherGpu:
    return LauncherGpu(AT, "virt-launcher-vm1", {}, {L40S: "1"}, said)


def launcher(env: dict[str, tuple[str, ...]], limit: str | None = "1") -> LauncherGpu:
    return LauncherGpu(AT, "virt-launcher-vm1", env, {L40S: limit} if limit else {})


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        ({}, "holds", "guest has 10de:26b9 at 0000:08:00.0"),
        ({"vmi": VmiGpus(AT, "vm1", (), "Running")}, "broken", f"asks for none, expected {L40S}"),
        ({"vmi": VmiGpus(AT, "vm1", (L40S, L40S), "Running")}, "broken", f"{L40S}, {L40S}"),
        ({"vmi": VmiGpus(AT, "vm1", ("a/b",), "Running")}, "broken", "asks for a/b"),
        ({"launcher": launcher({VARIABLE: ("0000:41:00.0",)}, None)}, "broken", f"{L40S}: absent"),
        ({"launcher": launcher({VARIABLE: ("0000:41:00.0",)}, "2")}, "broken", f"{L40S}: 2"),
        ({"launcher": launcher({})}, "broken", f"{VARIABLE}=none, expected 1"),
        ({"launcher": launcher({VARIABLE: ("a", "b")})}, "broken", f"{VARIABLE}=a, b, expected 1"),
        ({"launcher": launcher({"PCI_RESOURCE_X": ("a",)})}, "broken", f"{VARIABLE}=none"),
        ({"guest": PciCards(AT, (), 9)}, "broken", "NVIDIA functions: none; expected 1 function"),
        (
            {"guest": PciCards(AT, (PciCard("0000:08:00.0", "10de", "2bb5"),), 9)},
            "broken",
            "10de:2bb5 at 0000:08:00.0; expected 1 function of 10de:26b9",
        ),
        ({"guest": PciCards(AT, (CARD, CARD), 9)}, "broken", "expected 1 function"),
        ({"vmi": REFUSED}, "broken", "not permitted in permittedHostDevices"),
        ({"vmi": REFUSED, "launcher": UNREAD, "guest": UNREAD}, "broken", "FailedCreate"),
        (
            {"vmi": VmiRefusal(AT, "vm1", "FailedCreate", "exceeded quota"), "guest": UNREAD},
            "unknown",
            "is refused (FailedCreate): exceeded quota",
        ),
        (
            {"launcher": waiting(f"0/3 nodes: 3 Insufficient {L40S}."), "guest": UNREAD},
            "broken",
            "no host has",
        ),
        ({"launcher": waiting("Insufficient cpu"), "guest": UNREAD}, "unknown", "the leg"),
        ({"vmi": UNREAD}, "unknown", "the leg could not be read: it is not there"),
        ({"launcher": UNREAD}, "unknown", "it is not there"),
        ({"guest": UNREAD}, "unknown", "it is not there"),
        ({"devices": ()}, "unknown", "asked for no card"),
        ({"devices": (), "vmi": REFUSED}, "unknown", "asked for no card"),
    ],
)
def test_passthrough(changed: dict[str, Any], outcome: str, said: str) -> None:
    given: dict[str, Any] = {
        "vmi": VMI,
        "launcher": LAUNCHER,
        "guest": GUEST,
        "devices": (L40S,),
        "pci_id": "10de:26b9",
        "subject": "node w1",
        **changed,
    }
    verdict = passthrough(**given)
    assert (verdict.claim, verdict.subject) == ("passthrough", "node w1")
    assert verdict.claim in claims.load()
    assert verdict.outcome == outcome
    assert said in verdict.because, verdict.because
    assert verdict.facts == (given["vmi"], given["launcher"], given["guest"])


def test_two_cards_of_one_kind() -> None:
    both = LauncherGpu(AT, "l", {VARIABLE: ("a", "b")}, {L40S: "2"})
    second = PciCard("0000:09:00.0", "10de", "26b9")
    vmi = VmiGpus(AT, "vm1", (L40S, L40S), "Running")
    found = passthrough(vmi, both, PciCards(AT, (CARD, second), 9), (L40S, L40S), "10de:26b9", "n")
    assert found.outcome == "holds"
    found = passthrough(vmi, both, GUEST, (L40S, L40S), "10de:26b9", "n")
    assert found.outcome == "broken"
    assert "expected 2 functions of 10de:26b9" in found.because


def test_every_leg_that_disagrees_is_told() -> None:
    vmi, guest = VmiGpus(AT, "vm1", (), "Running"), PciCards(AT, (), 9)
    found = passthrough(vmi, launcher({}, None), guest, (L40S,), "10de:26b9", "n")
    assert found.because.count(";") == 4
    assert found.outcome == "broken"


def drivers(*held: tuple[str, str]) -> PciDrivers:
    functions = [
        PciFunction(f"0000:3b:00.{at}", "3D controller", pci_id, driver)
        for at, (pci_id, driver) in enumerate(held)
    ]
    return PciDrivers(AT, tuple(functions))


@pytest.mark.parametrize(
    ("found", "pci_id", "outcome", "said"),
    [
        (drivers(("10de:26b9", "vfio-pci")), "10de:26b9", "holds", "0000:3b:00.0 by vfio-pci"),
        (
            drivers(("10de:26b9", "vfio-pci"), ("10de:26b9", "vfio-pci")),
            "10de:26b9",
            "holds",
            "0000:3b:00.1 by vfio-pci",
        ),
        (
            drivers(("10de:26b9", "vfio-pci"), ("10de:2bb5", "nvidia")),
            "10de:26b9",
            "holds",
            "functions 10de:26b9 of the host",
        ),
        (
            drivers(("10de:26b9", "vfio-pci"), ("10de:26b9", "nvidia")),
            "10de:26b9",
            "broken",
            "0000:3b:00.1 by nvidia; expected vfio-pci",
        ),
        (drivers(("10de:26b9", "")), "10de:26b9", "broken", "by nothing"),
        (drivers(("10de:2bb5", "nvidia")), "10de:26b9", "unknown", "no function 10de:26b9"),
        (drivers(("10de:2bb5", "nvidia")), "10de:26b9", "unknown", "3b:00.0 [10de:2bb5]"),
        (drivers(("", "vfio-pci")), "", "unknown", "no function of the card"),
        (drivers(), "10de:26b9", "unknown", "of NVIDIA: none"),
        (UNREAD, "10de:26b9", "unknown", "the leg could not be read: it is not there"),
    ],
)
def test_vfio_bound(found: PciDrivers | Unread, pci_id: str, outcome: str, said: str) -> None:
    verdict = vfio_bound(found, pci_id, "node w1")
    assert (verdict.claim, verdict.subject) == ("vfio-bound", "node w1")
    assert verdict.outcome == outcome
    assert said in verdict.because
    assert verdict.facts == (found,)


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        ((("hv-1", L40S, "4"),), "all that are offered are in use (hv-1 4)"),
        (
            (("hv-1", "nvidia.com/L40S", "4"), ("hv-1", "devices.kubevirt.io/kvm", "1k")),
            "no host offers that name (offered: hv-1 nvidia.com/L40S 4)",
        ),
        ((), "no host offers that name (offered: none)"),
    ],
)
def test_cards_in_use_and_a_name_that_no_host_has(
    offered: tuple[tuple[str, str, str], ...], said: str
) -> None:
    short = replace(waiting(f"0/3 nodes are available: 3 Insufficient {L40S}."), offered=offered)
    verdict = passthrough(VMI, short, UNREAD, (L40S,), "10de:26b9", "machine m1")
    assert verdict.outcome == "broken"
    assert said in verdict.because and "3 Insufficient" in verdict.because


def test_one_kind_of_card_that_no_host_has_left_is_enough() -> None:
    short = waiting("0/3 nodes are available: 3 Insufficient nvidia.com/B.")
    verdict = passthrough(VMI, short, UNREAD, (L40S, "nvidia.com/B"), "10de:26b9", "machine m1")
    assert verdict.outcome == "broken"
    assert "no host has" in verdict.because
