"""Ask a worker's operating system, and return facts. What stops the asking is raised as it is.

Files are read with ``cat`` of the shell's own pod, for Talos has none in its host root; a binary
of the host is run in the host's root directly (gpu_path 3). Facts are dated by the lab's time at
which the answer was complete. Every function raises reach's LabError where the machine cannot be
asked at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.facts import apid, cdi, driver, extensions, fabric, guest, nvidia, pci, validator
from harness.facts import modules as module_table
from harness.facts.apid import Listening
from harness.facts.cdi import CdiAbsent, CdiSpec
from harness.facts.driver import DriverAbsent, DriverVersion
from harness.facts.extensions import Extensions
from harness.facts.fabric import FabricStates
from harness.facts.fact import Unread
from harness.facts.guest import BootId, Uptime
from harness.facts.modules import ModuleTable
from harness.facts.nvidia import NvidiaParams, ParamsAbsent, SmiCards, SmiFailed
from harness.facts.pci import PciCards
from harness.facts.reply import Output
from harness.facts.validator import DriverReady, DriverReadyAbsent
from harness.reach.nodeshell import NodeShell, Reply

SMI = "/usr/local/bin/nvidia-smi"
"""Where the container toolkit's extension puts it."""


def output_of(reply: Reply) -> Output:
    """A reply as the parsers take it; bytes that are no UTF-8 stay visible as escapes."""
    return Output(
        reply.argv,
        reply.exit_code,
        reply.stdout.decode("utf-8", "backslashreplace"),
        reply.stderr.decode("utf-8", "backslashreplace"),
        reply.problem,
    )


def modules(shell: NodeShell) -> ModuleTable | Unread:
    """The loaded kernel modules, newest first."""
    output, at, source = _cat(shell, module_table.ASKED)
    return module_table.read_modules(output, at=at, source=source)


def nvidia_params(shell: NodeShell) -> NvidiaParams | ParamsAbsent | Unread:
    """The driver's parameters in effect."""
    output, at, source = _cat(shell, nvidia.PARAMS)
    return nvidia.read_params(output, at=at, source=source)


def smi_list(shell: NodeShell) -> SmiCards | SmiFailed | Unread:
    """The cards that the driver lists: ``nvidia-smi -L`` in the host's root, no shell between."""
    reply = shell.host([SMI, "-L"])
    source = f"{shell.where}:{nvidia.SMI}"
    return nvidia.read_smi_list(output_of(reply), at=reply.ended, source=source)


def driver_version(shell: NodeShell) -> DriverVersion | DriverAbsent | Unread:
    """The loaded driver's release and flavour."""
    output, at, source = _cat(shell, driver.VERSION)
    return driver.read_driver_version(output, at=at, source=source)


def fabric_states(shell: NodeShell) -> FabricStates | SmiFailed | Unread:
    """Each card's NVLink fabric: ``nvidia-smi -q`` in the host's root."""
    reply = shell.host([SMI, "-q"])
    source = f"{shell.where}:{fabric.QUERY}"
    return fabric.read_fabric(output_of(reply), at=reply.ended, source=source)


def driver_ready(shell: NodeShell) -> DriverReady | DriverReadyAbsent | Unread:
    """What the GPU operator's driver stage left on the node."""
    output, at, source = read_file(shell, validator.READY)
    return validator.read_driver_ready(output, at=at, source=source)


def cdi_spec(shell: NodeShell) -> CdiSpec | CdiAbsent | Unread:
    """The CDI file that the operating system's own service writes."""
    return _cdi(shell, cdi.SPEC)


def plugin_cdi_spec(shell: NodeShell) -> CdiSpec | CdiAbsent | Unread:
    """The CDI file that the device plugin writes."""
    return _cdi(shell, cdi.PLUGIN_SPEC)


def pci_cards(shell: NodeShell) -> PciCards | Unread:
    """NVIDIA's functions on the PCI bus: the list of functions, then their ids."""
    source = f"{shell.where}:{pci.DEVICES}"
    reply = shell.run(["ls", pci.DEVICES])
    found = pci.addresses(output_of(reply), at=reply.ended, source=source)
    if isinstance(found, Unread):
        return found
    reply = shell.run(["cat", *pci.id_files(found)])
    return pci.read_cards(found, output_of(reply), at=reply.ended, source=source)


def boot_id(shell: NodeShell) -> BootId | Unread:
    """The id of the boot that the machine is on."""
    output, at, source = _cat(shell, guest.BOOT_ID)
    return guest.read_boot_id(output, at=at, source=source)


def uptime(shell: NodeShell) -> Uptime | Unread:
    """Seconds since the machine booted."""
    output, at, source = _cat(shell, guest.UPTIME)
    return guest.read_uptime(output, at=at, source=source)


def running_extensions(shell: NodeShell, node: str) -> Extensions | Unread:
    """The schematic that a Talos machine runs, and its extensions."""
    output, at, source = read_file(shell, extensions.ASKED)
    return extensions.read_extensions(node, output, at=at, source=source)


def listening(shell: NodeShell, node: str) -> Listening | Unread:
    """The TCP ports on which somebody listens on a machine."""
    reply = shell.run(["cat", *apid.SOCKETS])
    source = f"{shell.where}:{apid.SOCKETS[0]} and tcp6"
    return apid.read_listening(node, output_of(reply), at=reply.ended, source=source)


def _cdi(shell: NodeShell, path: str) -> CdiSpec | CdiAbsent | Unread:
    output, at, source = read_file(shell, path)
    return cdi.read_spec(output, path, at=at, source=source)


def read_file(shell: NodeShell, path: str) -> tuple[Output, float, str]:
    """``cat`` over a file of the host's root, wherever the shell has that: the answer, which names
    the file as the host does, its time in epoch seconds, and its source."""
    reply = shell.run(["cat", f"{shell.root}{path}"])
    said = output_of(reply)
    stderr = said.stderr.replace(f"{shell.root}{path}", path)
    output = Output(said.argv, said.exit_code, said.stdout, stderr, said.problem)
    return output, reply.ended, f"{shell.where}:{path}"


def _cat(shell: NodeShell, path: str) -> tuple[Output, float, str]:
    argv: Sequence[str] = ["cat", path]
    reply = shell.run(argv)
    return output_of(reply), reply.ended, f"{shell.where}:{path}"
