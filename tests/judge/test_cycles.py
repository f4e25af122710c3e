"""What predicts the 70-minute cycle before it came round once."""

from __future__ import annotations

from typing import Any

import pytest

from harness import claims
from harness.facts.apid import ControlPlanePorts, Listening
from harness.facts.extensions import Extensions
from harness.facts.fact import Origin, Unread
from harness.facts.machineconfig import DeclaredModule, RenderedModules
from harness.facts.pool import BootSource
from harness.judge.cycles import apid_serves, image_fits
from harness.judge.verdict import Outcome

AT = Origin(1.0, "management", "")
UNREAD = Unread(AT, "the template", "not there")
OPEN, PLAIN, OTHER = "aa" * 32, "bb" * 32, "cc" * 32
TOOLKIT = ("siderolabs/qemu-guest-agent", "siderolabs/nvidia-container-toolkit-production")
KNOWN = {OPEN: TOOLKIT, PLAIN: ("siderolabs/qemu-guest-agent",)}
L40S = ("nvidia.com/AD102GL_L40S",)
NOTHING = RenderedModules(AT, False, ())
DECLARED = RenderedModules(AT, True, (DeclaredModule("nvidia"), DeclaredModule("nvidia_uvm")))
HOLDS, BROKEN, UNKNOWN = Outcome.HOLDS, Outcome.BROKEN, Outcome.UNKNOWN


def boot(schematic: str) -> BootSource:
    return BootSource(AT, schematic, "v1.13.6", "http", "https://factory")


def ran(schematic: str, *names: str) -> Extensions:
    return Extensions(AT, "w1", schematic, names)


@pytest.mark.parametrize(
    ("source", "rendered", "devices", "outcome", "said"),
    [
        (PLAIN, NOTHING, (), HOLDS, "no service that waits for a driver"),
        (PLAIN, NOTHING, L40S, HOLDS, "no service that waits"),
        (OPEN, DECLARED, L40S, HOLDS, "declares nvidia, nvidia_uvm"),
        (OPEN, NOTHING, (), BROKEN, "cause A: ext-nvidia-persistenced"),
        (OPEN, DECLARED, (), BROKEN, "cause A"),
        (OPEN, NOTHING, ("amd.com/gpu",), BROKEN, "cause A"),
        (OPEN, NOTHING, L40S, BROKEN, "no nvidia: this predicts the 70-minute cycle by cause C"),
        (OPEN, UNREAD, L40S, UNKNOWN, "not there"),
        (OPEN, UNREAD, (), BROKEN, "cause A"),
        (OTHER, NOTHING, (), UNKNOWN, "not in the inventory's schematics, and no worker"),
    ],
)
def test_what_an_image_waits_for(
    source: str, rendered: Any, devices: Any, outcome: Outcome, said: str
) -> None:
    verdict = image_fits(boot(source), KNOWN, (), rendered, devices, "pool p")
    assert (verdict.claim, verdict.outcome) == ("image-fits", outcome)
    assert said in verdict.because
    assert ("4206 s" in verdict.because) is (outcome is BROKEN)


def test_what_runs_counts_where_the_inventory_does_not_know_it_or_is_wrong() -> None:
    toolkit = ran(OTHER, "nvidia-container-toolkit-production")
    for source in (OTHER, PLAIN):
        verdict = image_fits(boot(source), KNOWN, (toolkit,), NOTHING, (), "pool p")
        assert verdict.outcome is BROKEN, source
    verdict = image_fits(boot(OTHER), KNOWN, (ran(OTHER),), NOTHING, (), "pool p")
    assert verdict.outcome is HOLDS
    verdict = image_fits(boot(OTHER), KNOWN, (UNREAD,), NOTHING, (), "pool p")
    assert verdict.outcome is UNKNOWN
    assert image_fits(UNREAD, KNOWN, (toolkit,), NOTHING, (), "pool p").outcome is UNKNOWN


def test_an_extension_is_told_once_whoever_names_it() -> None:
    running = (ran(OPEN, "qemu-guest-agent", "nvidia-container-toolkit-production"),)
    verdict = image_fits(boot(OPEN), KNOWN, running, DECLARED, L40S, "pool p")
    assert verdict.because.count("qemu-guest-agent") == 1


@pytest.mark.parametrize(
    ("ports", "outcome", "said"),
    [
        ((6443, 8132, 50001), HOLDS, "6443, 8132, 50001"),
        ((50001, 443, 8132, 6443), HOLDS, "443"),
        ((6443, 8132), BROKEN, "no 50001: this predicts the 70-minute cycle by cause B"),
        ((6443, 50001), BROKEN, "no 8132"),
    ],
)
def test_ports_of_the_control_plane(ports: Any, outcome: Outcome, said: str) -> None:
    service = ControlPlanePorts(AT, "tenant-a", "kubernetes-lab", ports)
    verdict = apid_serves(service, "Service tenant-a/kubernetes-lab")
    assert (verdict.claim, verdict.outcome) == ("apid-serves", outcome)
    assert said in verdict.because
    assert ("cause B" in verdict.because) is (50001 not in ports)


def test_a_service_that_lacks_nothing_is_said_word_for_word() -> None:
    service = ControlPlanePorts(AT, "tenant-a", "kubernetes-lab", (6443, 8132, 50001))
    assert apid_serves(service, "x").because == "it has ports 6443, 8132, 50001"


@pytest.mark.parametrize(("ports", "outcome"), [((10250, 50000), HOLDS), ((10250,), BROKEN)])
def test_who_listens_on_a_worker(ports: Any, outcome: Outcome) -> None:
    verdict = apid_serves(Listening(AT, "w1", ports), "node w1")
    assert verdict.outcome is outcome
    assert ("cause B" in verdict.because) is (outcome is BROKEN)


def test_what_could_not_be_read_is_unknown() -> None:
    verdict = apid_serves(UNREAD, "node w1")
    assert verdict.outcome is UNKNOWN
    assert "not there" in verdict.because
    assert {"image-fits", "apid-serves"} <= set(claims.load())
