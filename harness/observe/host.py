"""Ask a hypervisor host, and return facts.

Raises reach's LabError where the host cannot be asked at all.
"""

from __future__ import annotations

from harness.facts import lspci
from harness.facts.fact import Unread
from harness.facts.lspci import PciDrivers
from harness.observe.guest import output_of
from harness.reach.nodeshell import NodeShell


def pci_drivers(shell: NodeShell) -> PciDrivers | Unread:
    """Which driver holds each NVIDIA function of the host, by ``lspci -nnk -d 10de:``."""
    reply = shell.run(list(lspci.ARGV))
    source = f"{shell.where}:{lspci.ASKED}"
    return lspci.read_lspci(output_of(reply), at=reply.ended, source=source)
