"""Which NVIDIA driver a machine runs and of which flavour, from /proc/driver/nvidia/version."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.reply import Output, no_such_file, plain, quote, unfinished

VERSION = "/proc/driver/nvidia/version"

Flavour = Literal["open", "proprietary"]

# what follows the release is a date or "Release Build ..."; without it the release may be cut
_BANNER = re.compile(
    r"NVRM version:\s+(?P<banner>NVIDIA UNIX\s+"
    r"(?:(?P<open>Open Kernel Module)(?:\s+for\s+\S+)?|\S+\s+Kernel Module)\s+"
    r"(?P<release>\d{2,4}(?:\.\d{1,3}){1,2}))(?=\s)"
)


@dataclass(frozen=True, slots=True)
class DriverVersion(Fact):
    """The loaded driver: its release ("580.95.05"), its flavour and its own words for both.

    The open modules call themselves "Open Kernel Module" (NKM kernel-open/nvidia/nv-procfs.c; the
    banner is that of nvidia's releases since 515).
    """

    release: str
    flavour: Flavour
    banner: str


@dataclass(frozen=True, slots=True)
class DriverAbsent(Fact):
    """The kernel says that there is no such file: the driver is not loaded."""

    said: str


def read_driver_version(
    output: Output, *, at: float, source: str
) -> DriverVersion | DriverAbsent | Unread:
    """Read the reply of ``cat /proc/driver/nvidia/version``.

    A wrapped banner is read too. One whose wording is of neither flavour, and one that may have
    been cut inside its release, are Unread.
    """
    origin = output.origin(at, source)
    if output.exit_code not in (0, None) and no_such_file(VERSION, output.stderr):
        return DriverAbsent(origin, output.stderr.strip())
    return unfinished(output, VERSION, origin) or _version(plain(output.stdout), origin)


def _version(text: str, origin: Origin) -> DriverVersion | Unread:
    found = list(_BANNER.finditer(text))
    if len(found) != 1:
        return Unread(origin, VERSION, f"{len(found)} banners of a driver in {quote(text)}")
    [banner] = found
    flavour: Flavour = "open" if banner["open"] else "proprietary"
    return DriverVersion(origin, banner["release"], flavour, " ".join(banner["banner"].split()))
