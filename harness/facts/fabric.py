"""Whether each card's NVLink fabric is up, from the Fabric section of ``nvidia-smi -q``.

A single SXM card passed through without its NVSwitches stays "In Progress", and every CUDA call
then fails with error 802 (gpu_path 4; S-GPO). Older drivers have no such section (inferred).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.nvidia import SmiFailed, failure
from harness.facts.reply import Output, plain, quote, unfinished

QUERY = "nvidia-smi -q"

_CARD = re.compile(r"GPU (?P<bus>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_FIELD = re.compile(r"(?P<key>\S.*?)\s*:(?: (?P<value>.*))?")
_COUNT = "Attached GPUs"
_LAST = "Processes"
"""The section that stands below Fabric: where it is there, Fabric was not cut off."""


@dataclass(frozen=True, slots=True)
class CardFabric:
    """One card: its bus id and UUID as the driver writes them, and its fabric.

    ``state`` is "N/A", "Not Started", "In Progress" or "Completed", None where the driver has no
    Fabric section; ``status`` is the outcome beside it ("Success", "N/A"), "" where none is told.
    """

    bus: str
    uuid: str
    state: str | None
    status: str = ""


@dataclass(frozen=True, slots=True)
class FabricStates(Fact):
    """Every card that the driver has, and the driver's release ("" where it is not told)."""

    driver: str
    cards: tuple[CardFabric, ...]


def read_fabric(output: Output, *, at: float, source: str) -> FabricStates | SmiFailed | Unread:
    """Read the reply of ``nvidia-smi -q``.

    A text with fewer cards than it announces, or cut before a card's Fabric section could have
    come, is Unread.
    """
    origin = output.origin(at, source)
    refused = unfinished(output, QUERY, origin)
    if refused is not None and output.exit_code is None:
        return refused
    text = plain(output.text)
    failed = failure(text)
    if failed:
        return SmiFailed(origin, failed)
    return refused or _states(text, origin)


def _states(text: str, origin: Origin) -> FabricStates | Unread:
    head, *cards = _blocks(text)
    wanted = _value(head, _COUNT)
    if not wanted:
        return Unread(origin, QUERY, f"it does not say how many cards there are: {quote(text)}")
    if wanted != str(len(cards)):
        return Unread(origin, QUERY, f"{wanted} cards announced, {len(cards)} found: {quote(text)}")
    read = [_card(block) for block in cards]
    cut = [block[0] for block, card in zip(cards, read, strict=True) if card is None]
    if cut:
        return Unread(origin, QUERY, f"the text ends inside {cut[0]}: {quote(text[-160:])}")
    return FabricStates(origin, _value(head, "Driver Version"), tuple(filter(None, read)))


def _blocks(text: str) -> list[list[str]]:
    """The lines before the first card, then each card's, its own first line included."""
    blocks: list[list[str]] = [[]]
    for line in text.split("\n"):
        if _CARD.fullmatch(line.rstrip()):
            blocks.append([])
        blocks[-1].append(line.rstrip())
    return blocks


def _card(block: list[str]) -> CardFabric | None:
    """One card's fabric; None where the text ends before it could have been told."""
    bus = block[0].removeprefix("GPU ")
    section = list(_under(block, "Fabric"))
    state, status = _value(section, "State"), _value(section, "Status")
    # a state on the very last line may be cut itself: "N" of "N/A"
    if section and (not state or (section[-1] is block[-1] and _value(section[-1:], "State"))):
        return None
    if not section and not any(line.strip().startswith(_LAST) for line in block):
        return None
    return CardFabric(bus, _value(block, "GPU UUID"), state or None, status)


def _under(block: list[str], heading: str) -> Iterator[str]:
    """The lines indented below a heading that has no value of its own."""
    depth: int | None = None
    for line in block:
        indent = len(line) - len(line.lstrip())
        if depth is None:
            depth = indent if line.strip() == heading else None
        elif indent > depth and line.strip():
            yield line
        else:
            return


def _value(lines: list[str], key: str) -> str:
    """The first value of this key, "" where it has none."""
    for line in lines:
        found = _FIELD.fullmatch(line.strip())
        if found is not None and found["key"] == key:
            return (found["value"] or "").strip()
    return ""
