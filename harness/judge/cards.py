"""What is known of each card before anybody looks: which kernel modules drive it, and NVLink.

Figures of gpu_path 4 and objects 6 (NKM README; S-DOC): Blackwell takes only the open modules,
and with the proprietary ones lists no card and says no error anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.facts.driver import Flavour

_BOTH: tuple[Flavour, ...] = ("open", "proprietary")
_OPEN: tuple[Flavour, ...] = ("open",)


@dataclass(frozen=True, slots=True)
class CardKind:
    """One kind of card. ``flavours`` of kernel modules drive it; ``nvlink``: it has NVLink."""

    pci_id: str
    name: str
    generation: str
    flavours: tuple[Flavour, ...]
    nvlink: bool = False


_KINDS = (
    CardKind("10de:26b9", "L40S", "Ada", _BOTH),
    CardKind("10de:2bb5", "RTX PRO 6000 Blackwell Server Edition", "Blackwell", _OPEN),
    CardKind("10de:2bb1", "RTX PRO 6000 Blackwell Workstation Edition", "Blackwell", _OPEN),
    CardKind("10de:2bb4", "RTX PRO 6000 Blackwell Max-Q", "Blackwell", _OPEN),
    CardKind("10de:2bb3", "RTX PRO 5000 Blackwell", "Blackwell", _OPEN),
    CardKind("10de:2bb9", "RTX 6000D", "Blackwell", _OPEN),
    CardKind("10de:2b85", "GeForce RTX 5090", "Blackwell", _OPEN),
    CardKind("10de:2b87", "GeForce RTX 5090 D", "Blackwell", _OPEN),
    CardKind("10de:2b8c", "GeForce RTX 5090 D", "Blackwell", _OPEN),
)


def card_kind(pci_id: str) -> CardKind | None:
    """The card of this vendor and device ("10de:26b9"), None for one that the table lacks."""
    return next((one for one in _KINDS if one.pci_id == pci_id.lower()), None)
