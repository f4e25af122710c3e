"""Which boot a machine is on and for how long, from procfs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.facts.fact import Fact, Unread
from harness.facts.reply import Output, quote, unfinished

BOOT_ID = "/proc/sys/kernel/random/boot_id"
UPTIME = "/proc/uptime"

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
_SECONDS = re.compile(r"(?P<up>\d{1,12}\.\d{2}) \d{1,15}\.\d{2}", re.ASCII)


@dataclass(frozen=True, slots=True)
class BootId(Fact):
    """The kernel's id of this boot; another one is another boot."""

    boot_id: str


@dataclass(frozen=True, slots=True)
class Uptime(Fact):
    """Seconds since the machine booted."""

    seconds: float


def read_boot_id(output: Output, *, at: float, source: str) -> BootId | Unread:
    """Read the reply of ``cat /proc/sys/kernel/random/boot_id``."""
    origin = output.origin(at, source)
    refused = unfinished(output, BOOT_ID, origin)
    if refused is not None:
        return refused
    said = output.stdout.strip()
    if not _ID.fullmatch(said):
        return Unread(origin, BOOT_ID, f"this is no boot id: {quote(output.stdout)}")
    return BootId(origin, said)


def read_uptime(output: Output, *, at: float, source: str) -> Uptime | Unread:
    """Read the reply of ``cat /proc/uptime``: seconds up, then the processors' idle seconds."""
    origin = output.origin(at, source)
    refused = unfinished(output, UPTIME, origin)
    if refused is not None:
        return refused
    found = _SECONDS.fullmatch(output.stdout.strip())
    if found is None:
        return Unread(origin, UPTIME, f"this is no uptime: {quote(output.stdout)}")
    return Uptime(origin, float(found["up"]))
