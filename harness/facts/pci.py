"""NVIDIA's functions on a guest's PCI bus, from sysfs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.reply import Output, quote, unfinished

DEVICES = "/sys/bus/pci/devices"
NVIDIA = "10de"

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_ID = re.compile(r"0x[0-9a-f]{4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PciCard:
    """One function: its address ("0000:08:00.0") and its ids, four lowercase hex digits each."""

    address: str
    vendor: str
    device: str

    @property
    def pci_id(self) -> str:
        """Vendor and device, "10de:26b9" for an L40S."""
        return f"{self.vendor}:{self.device}"


@dataclass(frozen=True, slots=True)
class PciCards(Fact):
    """The NVIDIA functions on the bus (vendor 10de), out of ``devices`` functions in all."""

    cards: tuple[PciCard, ...]
    devices: int


def addresses(listing: Output, *, at: float, source: str) -> tuple[str, ...] | Unread:
    """The addresses in the reply of ``ls /sys/bus/pci/devices``, in its order.

    A machine without any PCI function is not believed: Unread.
    """
    origin = listing.origin(at, source)
    refused = unfinished(listing, DEVICES, origin)
    if refused is not None:
        return refused
    names = listing.stdout.split()
    strange = next((name for name in names if not _ADDRESS.fullmatch(name)), None)
    if strange is not None:
        return Unread(origin, DEVICES, f"this is no PCI address: {quote(strange)}")
    if not names:
        return Unread(origin, DEVICES, "no PCI function at all is listed")
    return tuple(names)


def id_files(found: tuple[str, ...]) -> list[str]:
    """The files that hold the ids of these functions, as `read_cards` expects their text."""
    return [f"{DEVICES}/{one}/{name}" for one in found for name in ("vendor", "device")]


def read_cards(
    found: tuple[str, ...], values: Output, *, at: float, source: str
) -> PciCards | Unread:
    """Read the reply of ``cat`` over `id_files`: one id a line, in the files' order."""
    origin = values.origin(at, source)
    return unfinished(values, DEVICES, origin) or _cards(found, values.stdout, origin)


def _cards(found: tuple[str, ...], text: str, origin: Origin) -> PciCards | Unread:
    ids = text.split()
    strange = next((one for one in ids if not _ID.fullmatch(one)), None)
    if strange is not None:
        return Unread(origin, DEVICES, f"this is no PCI id: {quote(strange)}")
    if len(ids) != 2 * len(found) or not found:
        wanted = f"{2 * len(found)} ids of {len(found)} functions"
        return Unread(origin, DEVICES, f"{len(ids)} lines for {wanted}: {quote(text)}")
    pairs = zip(found, ids[::2], ids[1::2], strict=True)
    all_of_them = [PciCard(address, vendor[2:], device[2:]) for address, vendor, device in pairs]
    ours = tuple(one for one in all_of_them if one.vendor == NVIDIA)
    return PciCards(origin, ours, len(all_of_them))
