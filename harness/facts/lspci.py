"""Which driver holds each NVIDIA function of a host, from ``lspci -nnk -d 10de:``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.reply import Output, plain, quote, unfinished

ARGV = ("lspci", "-nnk", "-d", "10de:")
ASKED = " ".join(ARGV)

_SLOT = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_FUNCTION = re.compile(
    rf"(?P<address>{_SLOT}) (?P<name>\S.*?)\[(?P<id>[0-9a-f]{{4}}:[0-9a-f]{{4}})\]"
    r"(?: \(rev [0-9a-f]{2}\))?(?: \(prog-if [^)]*\))?",
    re.ASCII,
)
_BEGINS = re.compile(rf"{_SLOT} ", re.ASCII)
_DETAIL = re.compile(r"\s+(?P<key>[A-Z][A-Za-z ]*?): ?(?P<value>.*)")
_NOISE = ("lspci: ", "pcilib: ")
_DRIVER, _MODULES = "Kernel driver in use", "Kernel modules"


@dataclass(frozen=True, slots=True)
class PciFunction:
    """One function: its address as printed ("0000:3b:00.0" or "3b:00.0"), class and name, and ids
    ("10de:26b9").

    ``driver`` is what holds it, "" for nothing; ``modules`` those of the host that could.
    """

    address: str
    name: str
    pci_id: str
    driver: str = ""
    modules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PciDrivers(Fact):
    """The NVIDIA functions of a host, in lspci's order."""

    functions: tuple[PciFunction, ...]


def read_lspci(output: Output, *, at: float, source: str) -> PciDrivers | Unread:
    """Read the reply of ``lspci -nnk -d 10de:``; nothing said and exit status 0: no function.

    Lines that a terminal wrapped are joined, details that are not asked for let pass, and so are
    complaints of lspci itself. A line that is neither a function nor a detail of one, and one
    address twice, make it Unread.
    """
    origin = output.origin(at, source)
    return unfinished(output, ASKED, origin) or _functions(plain(output.stdout), origin)


def _functions(text: str, origin: Origin) -> PciDrivers | Unread:
    found: list[PciFunction] = []
    for line in _unwrapped(text):
        function, detail = _FUNCTION.fullmatch(line), _DETAIL.fullmatch(line)
        if function is not None:
            name = function["name"].strip()
            found.append(PciFunction(function["address"], name, function["id"]))
        elif detail is not None and found:
            found[-1] = _with(found[-1], detail["key"], detail["value"].strip())
        else:
            return Unread(origin, ASKED, f"this line is no function's: {quote(line)}")
    if len({one.address for one in found}) != len(found):
        return Unread(origin, ASKED, f"one address stands twice: {quote(text)}")
    return PciDrivers(origin, tuple(found))


def _unwrapped(text: str) -> list[str]:
    """Lines with what a terminal broke off put back.

    Only a line as long as the longest was broken, and what follows it is neither a function nor a
    detail of its own.
    """
    physical = [line for line in text.split("\n") if line.strip() and not line.startswith(_NOISE)]
    width = max(map(len, physical), default=0)
    lines: list[str] = []
    last = 0
    for line in physical:
        whole = _BEGINS.match(line) or _DETAIL.fullmatch(line)
        if lines and last == width and not whole:
            lines[-1] += line
        else:
            lines.append(line)
        last = len(line)
    return [line.rstrip() for line in lines]


def _with(function: PciFunction, key: str, value: str) -> PciFunction:
    if key == _DRIVER:
        return replace(function, driver=value)
    if key == _MODULES:
        return replace(function, modules=tuple(part for part in value.split(", ") if part))
    return function
