"""What the NVIDIA driver says of itself: /proc/driver/nvidia/params and ``nvidia-smi -L``.

The NVREG_ parameters never appear under /sys/module; the driver's own file names them without the
prefix (gpu_path 2.1; NKM kernel-open/nvidia/nv-procfs.c).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.reply import Output, no_such_file, plain, quote, unfinished

PARAMS = "/proc/driver/nvidia/params"
SMI = "nvidia-smi -L"

_PARAM = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9_]*): ?(?P<value>.*)", re.ASCII)
_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_CARD = re.compile(
    rf"GPU (?P<index>\d{{1,4}}): (?P<model>\S.*?) \(UUID: (?P<uuid>GPU-{_UUID})\)", re.A
)
# releases before 470 name a MIG device after its card, MIG-GPU-<uuid>/<instance>/<slice>
_MIG = re.compile(
    r" +MIG (?P<profile>\S+) +Device +(?P<index>\d{1,4}): "
    rf"\(UUID: (?P<uuid>MIG-(?:{_UUID}|GPU-{_UUID}/\d{{1,3}}/\d{{1,3}}))\)",
    re.A,
)
_BEGINS = re.compile(r"GPU \d|\s+MIG |WARNING:")
_NONE = re.compile(r"No devices (?:were )?found\.?")
_FAILED = re.compile(
    r"NVIDIA-SMI has failed|NVIDIA-SMI couldn't find libnvidia-ml|Failed to initialize NVML"
    r"|Unable to determine the device handle|^\s*Insufficient Permissions"
)


@dataclass(frozen=True, slots=True)
class NvidiaParams(Fact):
    """The driver's parameters in effect, keys without ``NVreg_``, values as text.

    ``whole`` is False where the text ended inside a line, which is then left out.
    """

    parameters: dict[str, str] = field(hash=False)
    whole: bool = True


@dataclass(frozen=True, slots=True)
class ParamsAbsent(Fact):
    """The kernel says that there is no such file: the driver is not loaded."""

    said: str


@dataclass(frozen=True, slots=True)
class SmiMig:
    """One MIG device of a card."""

    profile: str
    index: int
    uuid: str


@dataclass(frozen=True, slots=True)
class SmiCard:
    """One card as the driver lists it."""

    index: int
    model: str
    uuid: str
    mig: tuple[SmiMig, ...] = ()


@dataclass(frozen=True, slots=True)
class SmiCards(Fact):
    """The cards that the driver lists, in its order; ``note`` is what else it said.

    No cards with the note "No devices found" is what proprietary modules give on a Blackwell
    card, with no error anywhere (S-DOC).
    """

    cards: tuple[SmiCard, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class SmiFailed(Fact):
    """nvidia-smi ran and got no answer from the driver; ``reason`` is its own sentence."""

    reason: str


def read_params(output: Output, *, at: float, source: str) -> NvidiaParams | ParamsAbsent | Unread:
    """Read the reply of ``cat /proc/driver/nvidia/params``."""
    origin = output.origin(at, source)
    if output.exit_code not in (0, None) and no_such_file(PARAMS, output.stderr):
        return ParamsAbsent(origin, output.stderr.strip())
    return unfinished(output, PARAMS, origin) or _params(output.stdout, origin)


def read_smi_list(output: Output, *, at: float, source: str) -> SmiCards | SmiFailed | Unread:
    """Read the reply of ``nvidia-smi -L``; its exit status alone says nothing (gpu_path 3).

    Lines that a terminal wrapped are joined; its colours, CRLF and a byte order mark are let pass.
    """
    origin = output.origin(at, source)
    refused = unfinished(output, SMI, origin)
    if refused is not None and output.exit_code is None:
        return refused
    text = plain(output.text)
    failed = failure(text)
    if failed:
        return SmiFailed(origin, failed)
    lines = [line.rstrip() for line in text.split("\n") if line.strip()]
    if len(lines) == 1 and _NONE.fullmatch(lines[0].strip()):
        return SmiCards(origin, (), lines[0].strip())
    return refused or _cards(list(_unwrapped(lines)), origin)


def failure(text: str) -> str:
    """nvidia-smi's own sentence on why the driver gives it no answer, "" where it says none."""
    lines = (line.rstrip() for line in text.split("\n"))
    return next((line for line in lines if _FAILED.search(line)), "")


def _params(text: str, origin: Origin) -> NvidiaParams | Unread:
    lines = plain(text).split("\n")
    tail = lines.pop()
    found: dict[str, str] = {}
    for line in lines:
        match = _PARAM.fullmatch(line.rstrip())
        if match is None:
            return Unread(origin, PARAMS, f"this line is no parameter: {quote(line)}")
        if match["key"] in found:
            return Unread(origin, PARAMS, f"{match['key']} is there twice: {quote(line)}")
        found[match["key"]] = match["value"].strip()
    if not found:
        return Unread(origin, PARAMS, f"no whole line: {quote(text)}")
    return NvidiaParams(origin, found, whole=not tail)


def _cards(lines: list[str], origin: Origin) -> SmiCards | Unread:
    cards: list[SmiCard] = []
    notes: list[str] = []
    for line in lines:
        if line.startswith("WARNING:"):
            notes.append(line)
        elif not _take(line, cards):
            return Unread(origin, SMI, f"this line is no card's: {quote(line)}")
    if not cards:
        return Unread(origin, SMI, f"neither a card nor a word of none: {quote(origin.raw)}")
    if [card.index for card in cards] != list(range(len(cards))):
        return Unread(origin, SMI, f"cards are missing from the list: {quote(origin.raw)}")
    if len({card.uuid for card in cards}) != len(cards):
        return Unread(origin, SMI, f"two cards share a UUID: {quote(origin.raw)}")
    return SmiCards(origin, tuple(cards), "\n".join(notes))


def _unwrapped(lines: list[str]) -> Iterator[str]:
    """Lines with those joined that a terminal broke: the first as wide as the widest, and the
    next one no beginning of its own."""
    width = max(map(len, lines), default=0)
    joined, last = "", 0
    for line in lines:
        if joined and last == width and not _BEGINS.match(line) and not _whole(joined):
            joined, last = joined + line, len(line)
            continue
        if joined:
            yield joined
        joined, last = line, len(line)
    if joined:
        yield joined


def _whole(line: str) -> bool:
    return bool(_CARD.fullmatch(line) or _MIG.fullmatch(line))


def _take(line: str, cards: list[SmiCard]) -> bool:
    """Add the card, or the last card's MIG device, that a line tells of; False if it is neither."""
    card = _CARD.fullmatch(line)
    if card is not None:
        cards.append(SmiCard(int(card["index"]), card["model"], card["uuid"]))
        return True
    mig = _MIG.fullmatch(line)
    if mig is None or not cards:
        return False
    last = cards.pop()
    device = SmiMig(mig["profile"], int(mig["index"]), mig["uuid"])
    cards.append(SmiCard(last.index, last.model, last.uuid, (*last.mig, device)))
    return True
