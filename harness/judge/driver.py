"""Claims about the driver on a worker: its flavour, whether it sees the cards, their fabric."""

from __future__ import annotations

from harness.facts.driver import DriverAbsent, DriverVersion
from harness.facts.fabric import CardFabric, FabricStates
from harness.facts.fact import Unread
from harness.facts.nvidia import SmiCards, SmiFailed
from harness.judge.cards import card_kind
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, named, outcome, unread

_SETTLED = ("N/A", "Completed")
_UNSETTLED = ("Not Started", "In Progress")
_REGISTERED = ("", "N/A", "Success")


def driver_sees_gpu(smi: SmiCards | SmiFailed | Unread, cards: int, subject: str) -> Verdict:
    """driver-sees-gpu: nvidia-smi -L lists as many cards as the pool asked for.

    Each listed card has its model and UUID, else the reply would be Unread. Unknown where no card
    was asked for.
    """
    claim = "driver-sees-gpu"
    if isinstance(smi, Unread):
        return unread(claim, subject, smi)
    if cards < 1:
        because = "the pool asked for no card, so there is none to see"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (smi,))
    if isinstance(smi, SmiFailed):
        because = f"the driver does not answer: {smi.reason}; expected {counted(cards, 'card')}"
        return Verdict(claim, subject, Outcome.BROKEN, because, (smi,))
    seen = ", ".join(f"{card.model} {card.uuid}" for card in smi.cards) or smi.note or "none"
    because = f"nvidia-smi -L lists {counted(len(smi.cards), 'card')} ({seen}), expected {cards}"
    return Verdict(claim, subject, outcome(len(smi.cards) == cards), because, (smi,))


def module_flavour(
    version: DriverVersion | DriverAbsent | Unread, pci_id: str, flavour: str, subject: str
) -> Verdict:
    """module-flavour: the loaded modules are of a flavour that drives the card, and of the one
    that the inventory names.

    ``pci_id`` is vendor and device of the card, ``flavour`` "open" or "proprietary". Unknown where
    the driver is not loaded, and for a card of which it is not known what drives it.
    """
    claim = "module-flavour"
    if isinstance(version, Unread):
        return unread(claim, subject, version)
    if isinstance(version, DriverAbsent):
        because = f"the driver is not loaded, so it has no flavour: {version.said}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (version,))
    card = card_kind(pci_id)
    seen = f"the driver is {version.release}, {version.flavour} modules ({version.banner})"
    if version.flavour != flavour:
        because = f"{seen}; the inventory names {flavour or 'none'}"
        return Verdict(claim, subject, Outcome.BROKEN, because, (version,))
    if card is None:
        because = f"{seen}, as the inventory names; what {pci_id or 'the card'} takes is not known"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (version,))
    because = f"{seen}, as the inventory names; {card.name} takes {named(card.flavours)}"
    return Verdict(claim, subject, outcome(version.flavour in card.flavours), because, (version,))


def fabric_state(fabric: FabricStates | SmiFailed | Unread, cards: int, subject: str) -> Verdict:
    """fabric-state: of every card, the NVLink fabric is N/A or Completed.

    Unknown where no card was asked for or not as many are told of, where a driver tells nothing
    of a fabric, and for a word that is not known; one that is not up, or was completed with an
    error, is broken.
    """
    claim = "fabric-state"
    if isinstance(fabric, Unread):
        return unread(claim, subject, fabric)
    if isinstance(fabric, SmiFailed):
        because = f"the driver does not answer: {fabric.reason}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (fabric,))
    told = named(f"{one.bus} {_fabric_of(one)}" for one in fabric.cards)
    seen = f"nvidia-smi -q says of the fabric: {told}; expected N/A or Completed"
    if any(map(_not_up, fabric.cards)):
        return Verdict(claim, subject, Outcome.BROKEN, seen, (fabric,))
    settled = [one for one in fabric.cards if one.state in _SETTLED]
    if cards < 1 or len(settled) != cards or len(fabric.cards) != cards:
        because = f"{seen}, of {counted(cards, 'card')}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (fabric,))
    return Verdict(claim, subject, Outcome.HOLDS, seen, (fabric,))


def _fabric_of(card: CardFabric) -> str:
    state = card.state or "tells nothing of one"
    return state if card.status in ("", "N/A") else f"{state} ({card.status})"


def _not_up(card: CardFabric) -> bool:
    failed = card.state == "Completed" and card.status not in _REGISTERED
    return card.state in _UNSETTLED or failed
