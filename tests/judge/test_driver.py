from __future__ import annotations

import pytest

from harness import claims
from harness.facts.driver import DriverAbsent, DriverVersion, Flavour
from harness.facts.fabric import CardFabric, FabricStates
from harness.facts.fact import Origin, Unread
from harness.facts.nvidia import SmiCard, SmiCards, SmiFailed
from harness.judge.driver import driver_sees_gpu, fabric_state, module_flavour

AT = Origin(1.0, "guest w1:nvidia-smi -L", "")
CARD = SmiCard(0, "NVIDIA L40S", "GPU-a")
NONE = SmiCards(AT, (), "No devices found")


@pytest.mark.parametrize(
    ("smi", "cards", "outcome", "said"),
    [
        (SmiCards(AT, (CARD,)), 1, "holds", "lists 1 card (NVIDIA L40S GPU-a), expected 1"),
        (SmiCards(AT, (CARD, CARD)), 2, "holds", "lists 2 cards"),
        (SmiCards(AT, (CARD,)), 2, "broken", "lists 1 card (NVIDIA L40S GPU-a), expected 2"),
        (SmiCards(AT, (CARD, CARD)), 1, "broken", "lists 2 cards"),
        (NONE, 1, "broken", "lists 0 cards (No devices found), expected 1"),
        (SmiCards(AT, ()), 1, "broken", "lists 0 cards (none), expected 1"),
        (SmiFailed(AT, "Failed to initialize NVML"), 1, "broken", "answer: Failed to initialize"),
        (NONE, 0, "unknown", "asked for no card"),
        (SmiFailed(AT, "x"), 0, "unknown", "asked for no card"),
        (Unread(AT, "nvidia-smi -L", "ended with 127"), 1, "unknown", "ended with 127"),
    ],
)
def test_driver_sees_gpu(
    smi: SmiCards | SmiFailed | Unread, cards: int, outcome: str, said: str
) -> None:
    verdict = driver_sees_gpu(smi, cards, "node w1")
    assert (verdict.claim, verdict.subject) == ("driver-sees-gpu", "node w1")
    assert verdict.claim in claims.load()
    assert verdict.outcome == outcome
    assert said in verdict.because
    assert verdict.facts == (smi,)


L40S, GB202, OTHER = "10de:26b9", "10de:2bb5", "10de:2330"


def driver(flavour: Flavour) -> DriverVersion:
    return DriverVersion(AT, "580.95.05", flavour, "NVIDIA UNIX banner")


@pytest.mark.parametrize(
    ("version", "pci_id", "flavour", "outcome", "said"),
    [
        (driver("open"), L40S, "open", "holds", "580.95.05, open modules"),
        (driver("open"), GB202, "open", "holds", "takes open"),
        (driver("open"), GB202.upper(), "open", "holds", "takes open"),
        (driver("proprietary"), L40S, "proprietary", "holds", "takes open, proprietary"),
        (driver("proprietary"), GB202, "proprietary", "broken", "takes open"),
        (driver("proprietary"), L40S, "open", "broken", "the inventory names open"),
        (driver("open"), L40S, "proprietary", "broken", "the inventory names proprietary"),
        (driver("open"), L40S, "", "broken", "the inventory names none"),
        (driver("open"), OTHER, "open", "unknown", "what 10de:2330 takes is not known"),
        (driver("open"), "", "open", "unknown", "what the card takes is not known"),
        (driver("open"), OTHER, "proprietary", "broken", "names proprietary"),
        (DriverAbsent(AT, "no such file"), L40S, "open", "unknown", "not loaded"),
        (Unread(AT, "version", "cut"), L40S, "open", "unknown", "version could not be read: cut"),
    ],
)
def test_module_flavour(
    version: DriverVersion | DriverAbsent | Unread,
    pci_id: str,
    flavour: str,
    outcome: str,
    said: str,
) -> None:
    verdict = module_flavour(version, pci_id, flavour, "node w1")
    assert (verdict.claim, verdict.subject) == ("module-flavour", "node w1")
    assert verdict.outcome == outcome
    assert said in verdict.because
    assert verdict.facts == (version,)


def fabric(*states: tuple[str | None, str]) -> FabricStates:
    cards = (CardFabric(f"bus{n}", "u", *one) for n, one in enumerate(states))
    return FabricStates(AT, "580.95.05", tuple(cards))


@pytest.mark.parametrize(
    ("seen", "cards", "outcome", "said"),
    [
        (fabric(("N/A", "N/A")), 1, "holds", "bus0 N/A;"),
        (fabric(("N/A", "")), 1, "holds", "bus0 N/A;"),
        (fabric(("N/A", "Not Supported")), 1, "holds", "bus0 N/A (Not Supported);"),
        (fabric(("Completed", "Success")), 1, "holds", "bus0 Completed (Success);"),
        (fabric(("Completed", "")), 1, "holds", "bus0 Completed;"),
        (fabric(("Completed", "N/A")), 1, "holds", "bus0 Completed;"),
        (fabric(("N/A", "N/A"), ("Completed", "Success")), 2, "holds", "bus1 Completed"),
        (fabric(("In Progress", "N/A")), 1, "broken", "bus0 In Progress; expected"),
        (fabric(("Not Started", "N/A")), 1, "broken", "bus0 Not Started"),
        (fabric(("N/A", "N/A"), ("In Progress", "N/A")), 2, "broken", "bus1 In Progress"),
        (fabric(("Completed", "Insufficient Resources")), 1, "broken", "Insufficient Resources"),
        (fabric(("In Progress", "N/A")), 0, "broken", "In Progress"),
        (fabric((None, "")), 1, "unknown", "tells nothing of one"),
        (fabric(("N/A", "N/A"), (None, "")), 2, "unknown", "of 2 cards"),
        (fabric(("Asleep", "N/A")), 1, "unknown", "bus0 Asleep"),
        (fabric(("N/A", "N/A")), 2, "unknown", "of 2 cards"),
        (fabric(("N/A", "N/A"), ("N/A", "N/A")), 1, "unknown", "of 1 card"),
        (fabric(("N/A", "N/A"), ("Asleep", "")), 1, "unknown", "of 1 card"),
        (fabric(), 0, "unknown", "of 0 cards"),
        (SmiFailed(AT, "no driver"), 1, "unknown", "does not answer: no driver"),
        (Unread(AT, "nvidia-smi -q", "cut"), 1, "unknown", "could not be read: cut"),
    ],
)
def test_fabric_state(
    seen: FabricStates | SmiFailed | Unread, cards: int, outcome: str, said: str
) -> None:
    verdict = fabric_state(seen, cards, "node w1")
    assert (verdict.claim, verdict.subject) == ("fabric-state", "node w1")
    assert verdict.outcome == outcome
    assert said in verdict.because
    assert verdict.facts == (seen,)
