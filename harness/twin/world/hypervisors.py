"""What one sees on a hypervisor's own shell: its PCI bus, who drives the cards, its kernel.

Output as lspci 3.10 and the kernel write it; that a card to be passed through is held by vfio-pci
and that a distribution's driver may have taken it instead: objects.md section 6, faults.md 4.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.twin.apiserver.execresult import ExecResult
from harness.twin.world import programs
from harness.twin.world.filesystem import Directory, Entry, Filesystem, text
from harness.twin.world.hosts import HostCard
from harness.twin.world.hostsystem import HostSystem
from harness.twin.world.objects import deep, labels_of, parse_rfc3339

if TYPE_CHECKING:
    from harness.twin.world.world import World

NVIDIA = "nvidia"
_SHELL = "bash"
# PCI id: the class's number and name, the device's name, subsystem, revision (the PCI-IDs list;
# subsystems of the last two are made up)
_NAMES: Mapping[str, tuple[str, str, str, str]] = {
    "10de:26b9": ("3D controller [0302]", "AD102GL [L40S]", "10de:1851", "a1"),
    "10de:2bb5": (
        "3D controller [0302]",
        "GB202GL [RTX PRO 6000 Blackwell Server Edition]",
        "10de:204e",
        "a1",
    ),
    "10de:2330": ("3D controller [0302]", "GH100 [H100 SXM5 80GB]", "10de:16c1", "a1"),
}
_MODULES = (
    ("vfio_iommu_type1", 49152, "-"),
    ("vfio_pci", 16384, "-"),
    ("vfio_pci_core", 94208, "vfio_pci,"),
    ("vfio", 73728, "vfio_pci_core,vfio_iommu_type1,vfio_pci,"),
    ("drbd_transport_tcp", 45056, "-"),
    ("drbd", 770048, "drbd_transport_tcp,"),
    ("vhost_net", 32768, "-"),
    ("vhost", 53248, "vhost_net,"),
)
_KVM = {"kvm_intel": 454656, "kvm_amd": 249856}
_TAKEN = (("nvidia_uvm", 2232320, "-"), ("nvidia", 14684160, "nvidia_uvm,"))


@dataclass(frozen=True, slots=True)
class Hypervisor:
    """One host's shell."""

    world: World
    name: str

    def run(self, line: str) -> ExecResult:
        """Run a command line as the host's login shell would: one plain command."""
        try:
            argv = shlex.split(line)
        except ValueError:
            return ExecResult(b"", f"{_SHELL}: -c: line 1: unexpected EOF\n".encode(), 2)
        if not argv:
            return ExecResult(b"", b"", 0)
        if posixpath.basename(argv[0]) in ("sudo", "env") and len(argv) > 1:
            argv = [one for one in argv[1:] if one != "-n"]
        files = Filesystem(self._files())
        real = programs.find(argv[0], files)
        if not real:
            what = f"{argv[0]}: command not found"
            if "/" in argv[0]:
                what = f"{argv[0]}: No such file or directory"
            return ExecResult(b"", f"{_SHELL}: line 1: {what}\n".encode(), 127)
        return programs.run(argv, self._machine(files), files)

    def _cards(self) -> list[HostCard]:
        return sorted(
            (card for card in self.world.hosts.cards if card.host == self.name),
            key=lambda card: card.bdf,
        )

    def _driver_loaded(self) -> bool:
        return any(self.world.hosts.driver_of(card) == NVIDIA for card in self._cards())

    def _files(self) -> dict[str, Entry]:
        found: dict[str, Entry] = {
            f"/usr/bin/{name}": text("\x7fELF", 0o755) for name in (*programs.NAMES, "lspci")
        }
        found["/proc/modules"] = text(self._modules())
        found["/proc/sys/kernel/osrelease"] = text(f"{self._release()}\n")
        found["/proc/sys/kernel/hostname"] = text(f"{self.name}\n")
        found["/sys/bus/pci/devices"] = Directory()
        now, started = self.world.engine.now, self.world.started
        return found | self._system().files(now, started, list(self._launchers(now)))

    def _system(self) -> HostSystem:
        return self.world.hosts.system_of(self.name)

    def _launchers(self, now: float) -> Iterator[tuple[str, str, float]]:
        """UID, class of service and seconds of each launcher pod that runs here."""
        for pod in self.world.hosts.pods_on(self.name):
            began = deep(pod, "status", "startTime")
            if labels_of(pod).get("kubevirt.io") == "virt-launcher" and began:
                qos = str(deep(pod, "status", "qosClass") or "Burstable").lower()
                yield pod["metadata"]["uid"], qos, now - parse_rfc3339(began)

    def _modules(self) -> str:
        more, kvm = _TAKEN if self._driver_loaded() else (), self._system().kvm
        own = ((kvm, _KVM[kvm], "-"), ("kvm", 1421312, f"{kvm},"))
        return "".join(
            f"{name} {size} {users.count(',')} {users} Live 0x0000000000000000\n"
            for name, size, users in (*more, *_MODULES, *own)
        )

    def _release(self) -> str:
        node = self.world.cluster.find("v1", "Node", "", self.name) or {}
        return str(deep(node, "status", "nodeInfo", "kernelVersion") or "")

    def _machine(self, files: Filesystem) -> programs.Machine:
        own: Mapping[str, Callable[[Sequence[str]], ExecResult]] = {"lspci": self._lspci}
        return programs.Machine(
            host=files,
            hostname=self.name,
            release=self._release(),
            dmesg=lambda: "",
            date="Jan  1 00:00",
            host_program=lambda path, _: ExecResult(b"", b"", 1, f"not modelled: {path}"),
            programs=own,
            coreutils=True,
        )

    def _lspci(self, arguments: Sequence[str]) -> ExecResult:
        options = [one for one in arguments if one.startswith("-") and one != "-d"]
        letters = set("".join(option[1:] for option in options))
        vendor = arguments[list(arguments).index("-d") + 1] if "-d" in arguments[:-1] else "10de:"
        if not letters <= set("nkvD") or "-d" not in arguments[:-1]:
            asked = shlex.join(arguments)
            return ExecResult(b"", b"", 1, f"not modelled on this machine: lspci {asked}")
        cards = [card for card in self._cards() if vendor.rstrip(":") in ("10de", card.pci_id)]
        return ExecResult("".join(self._function(card, letters) for card in cards).encode(), b"", 0)

    def _function(self, card: HostCard, letters: set[str]) -> str:
        kind, name, subsystem, revision = _NAMES[card.pci_id]
        address = card.bdf if "D" in letters else card.bdf.partition(":")[2]
        text = f"{address} {kind}: NVIDIA Corporation {name} [{card.pci_id}] (rev {revision})\n"
        if "k" in letters:
            text += f"\tSubsystem: NVIDIA Corporation Device [{subsystem}]\n"
            driver = self.world.hosts.driver_of(card)
            text += f"\tKernel driver in use: {driver}\n"
            text += "\tKernel modules: nvidia\n" if driver == NVIDIA else ""
        return text


def every(world: World) -> dict[str, Hypervisor]:
    """Each hypervisor's shell, by the name of its Node."""
    return {
        node["metadata"]["name"]: Hypervisor(world, node["metadata"]["name"])
        for node in world.cluster.all("v1", "Node")
    }
