"""What predicts, before any window has passed, that a boot will never end and is given up.

Talos gives up a boot whose services do not all come up after 70 minutes and reboots, for ever, with
the Node Ready all along (uptime_and_diagnosis sections 1 and 2). Which service will not come up is
known from what is declared: an NVIDIA image without a card (cause A), a control plane without the
port through which apid gets its certificate (B), an NVIDIA image whose driver nobody loads (C).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from harness.facts.apid import ControlPlanePorts, Listening
from harness.facts.extensions import Extensions
from harness.facts.fact import Unread
from harness.facts.machineconfig import RenderedModules
from harness.facts.pool import BootSource
from harness.judge.expectation import NVIDIA_MODULES
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import named, outcome, unread

PORTS = (6443, 8132, 50001)
"""Of the control plane's Service: the API, konnectivity, and trustd, which signs for apid."""
APID = 50000
AGAIN = 4206
"""Seconds of uptime at which such a boot ends: 70 minutes and the countdown."""
_WAITS = "nvidia-container-toolkit"
"""The extension that brings ext-nvidia-persistenced and ext-nvidia-cdi-gen (gpu_path 3)."""
_NVIDIA = "nvidia.com/"
_EACH = f"each worker, Ready all along, reboots at an uptime of about {AGAIN} s"


def image_fits(
    boot: BootSource | Unread,
    known: Mapping[str, Sequence[str]],
    running: Sequence[Extensions | Unread],
    rendered: RenderedModules | Unread,
    devices: Sequence[str],
    subject: str,
) -> Verdict:
    """image-fits: no service of the image that the pool boots waits for what the pool lacks.

    ``known`` are the extensions of schematics by their id, as the inventory lists them; what a
    machine runs counts as well. Broken where NVIDIA's services meet a pool without one of its cards
    or without its modules declared. Unknown where nothing tells what the image holds.
    """
    claim = "image-fits"
    facts = (boot, *running, rendered)
    if isinstance(boot, Unread):
        return unread(claim, subject, *facts)
    ran = [one for one in running if isinstance(one, Extensions)]
    held = _extensions(known.get(boot.schematic, ()), *(one.names for one in ran))
    image = f"schematic {boot.schematic} ({named(held)})"
    if boot.schematic not in known and not ran:
        because = f"{image} is not in the inventory's schematics, and no worker tells what it runs"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    if not any(_WAITS in name for name in held):
        because = f"{image} has no service that waits for a driver"
        return Verdict(claim, subject, Outcome.HOLDS, because, facts)
    if not any(one.startswith(_NVIDIA) for one in devices):
        because = f"{image} has NVIDIA's services, and the pool has no card: {_cycle('A')}"
        return Verdict(claim, subject, Outcome.BROKEN, because, facts)
    if isinstance(rendered, Unread):
        return unread(claim, subject, *facts)
    driver = NVIDIA_MODULES[0]
    loaded = driver in rendered.names
    because = f"{image} has NVIDIA's services; the machine config declares {named(rendered.names)}"
    because += "" if loaded else f", no {driver}: {_cycle('C')}"
    return Verdict(claim, subject, outcome(loaded), because, facts)


def _extensions(*lists: Sequence[str]) -> list[str]:
    """Extensions by their bare names, each once: "siderolabs/x" and "x" are one."""
    return list(dict.fromkeys(name.rpartition("/")[2] for names in lists for name in names))


def apid_serves(seen: ControlPlanePorts | Listening | Unread, subject: str) -> Verdict:
    """apid-serves: the control plane's Service has 6443, 8132 and 50001; on a worker somebody
    listens on apid's port, which apid does once it has its certificate.
    """
    claim = "apid-serves"
    if isinstance(seen, Unread):
        return unread(claim, subject, seen)
    if isinstance(seen, Listening):
        there = APID in seen.ports
        because = f"it listens on {named(map(str, seen.ports))}"
        because += "" if there else f", not on apid's {APID}: {_cycle('B')}"
        return Verdict(claim, subject, outcome(there), because, (seen,))
    lacks = [str(port) for port in PORTS if port not in seen.ports]
    because = f"it has ports {named(map(str, seen.ports))}"
    because += f", no {named(lacks)}" if lacks else ""
    because += "" if PORTS[-1] in seen.ports else f": {_cycle('B')}"
    return Verdict(claim, subject, outcome(not lacks), because, (seen,))


_WHY = {
    "A": "ext-nvidia-persistenced waits for a driver that never binds",
    "B": "apid never gets its certificate, and no boot ends without it",
    "C": "ext-nvidia-persistenced waits for a driver that nobody loads",
}


def _cycle(cause: str) -> str:
    return f"this predicts the 70-minute cycle by cause {cause}: {_WHY[cause]}, so {_EACH}"
