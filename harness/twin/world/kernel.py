"""The guest's Linux kernel: PCI bus, modules, ring buffer, and what /proc says of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from harness.twin.world import nvidia
from harness.twin.world.images import BOOT_MODULES, Image, ModuleFile
from harness.twin.world.meminfo import meminfo
from harness.twin.world.memory import Memory
from harness.twin.world.nvidia import Card

COMMAND_LINE = (
    "talos.platform=openstack console=tty1 console=ttyS0 net.ifnames=0 init_on_alloc=1 "
    "slab_nomerge pti=on consoleblank=0 nvme_core.io_timeout=4294967295 printk.devkmsg=on "
    "selinux=1 module.sig_enforce=1 proc_mem.force_override=never"
)
SETTINGS = {"panic": 10, "unknown_nmi_panic": 0}
"""Of /proc/sys/kernel, as each boot begins (``panic``: what kubelets ask for; inferred)."""
RING_BYTES = 256 * 1024  # the oldest lines go when it is full
_TAINT_BITS = {"P": 1, "O": 4096}
_CPUS = 8
_TICK = 0.000043  # seconds between two lines logged at one moment


class ModuleError(Exception):
    """A module that did not load. ``str()`` is what the loader says: ``no such device``."""


@dataclass(slots=True)
class Module:
    """One loaded module. ``users`` newest first; ``holds`` counts open handles beside them."""

    file: ModuleFile
    parameters: dict[str, str]
    loaded: float  # uptime in seconds
    users: list[str] = field(default_factory=list)
    holds: int = 0

    @property
    def references(self) -> int:
        """The count that /proc/modules and /sys/module/<m>/refcnt show."""
        return len(self.users) + self.holds

    def line(self) -> str:
        """The module's line of /proc/modules, address withheld as for an unprivileged reader."""
        used_by = "".join(f"{user}," for user in self.users) or "-"
        taint = f" ({self.file.taint})" if self.file.taint else ""
        head = f"{self.file.name} {self.file.size} {self.references} {used_by}"
        return f"{head} Live 0x0000000000000000{taint}\n"


class Kernel:
    """One machine's kernel over all its boots: ``boot`` starts it afresh.

    ``clock`` gives seconds on any scale that only grows; uptime counts from ``boot``. Lines for
    the serial console go to ``console`` as they are logged.
    """

    def __init__(
        self,
        image: Image,
        hostname: str,
        clock: Callable[[], float],
        console: Callable[[str], None] = lambda _line: None,
    ) -> None:
        self.image = image
        self.hostname = hostname
        self.command_line = COMMAND_LINE
        self.boot_id = ""
        self.cards: list[Card] = []  # on the PCI bus now
        self.memory = Memory()  # of this boot
        self.disk_bytes = 20 * 2**30  # /dev/vda, as the hypervisor offers it at power-on
        self.changed: list[Callable[[], None]] = []  # called after a module or a card appears
        self.settings: dict[str, int] = {}  # what may be written below /proc/sys/kernel
        self._clock = clock
        self._console = console
        self._started = clock()
        self._modules: dict[str, Module] = {}  # oldest first
        self._ring: deque[str] = deque()
        self._ring_bytes = 0
        self._tainted = ""
        self._stamp = -_TICK

    # -- life ----------------------------------------------------------------------------------

    def boot(self, boot_id: str, cards: Iterable[Card]) -> None:
        """Start afresh: nothing loaded but what a boot loads itself, an empty ring buffer."""
        self.boot_id = boot_id
        self.settings = dict(SETTINGS)
        self._started = self._clock()
        self._modules.clear()
        self._ring.clear()
        self._ring_bytes, self._tainted, self._stamp = 0, "", -_TICK
        self.cards = []
        self._banner()
        for card in cards:
            self.plug(card)
        for name in BOOT_MODULES:
            if name in self.image.modules:
                self.load(name)

    @property
    def uptime(self) -> float:
        """Seconds since this boot began."""
        return self._clock() - self._started

    def _banner(self) -> None:
        self.log(self.version())
        self.log(f"Command line: {self.command_line}")
        self.log("BIOS-provided physical RAM map:")
        self.log("BIOS-e820: [mem 0x0000000000000000-0x000000000009fbff] usable")
        self.log("BIOS-e820: [mem 0x0000000000100000-0x000000007ffdafff] usable")
        self.log("DMI: KubeVirt None/RHEL, BIOS 1.16.3-4.el9 04/01/2014")
        self.log("Hypervisor detected: KVM")
        sectors, size = self.disk_bytes // 512, self.disk_bytes
        told = f"{size / 10**9:.1f} GB/{size / 2**30:.1f} GiB"
        self.log(f"virtio_blk virtio1: [vda] {sectors} 512-byte logical blocks ({told})")

    # -- bus -----------------------------------------------------------------------------------

    def plug(self, card: Card) -> None:
        """A card appears on the PCI bus. A driver that is already loaded takes it."""
        self.cards.append(card)
        self.log(f"pci {card.bdf}: [{card.pci_id}] type 00 class 0x030200 PCIe Endpoint")
        if "nvidia" in self._modules:
            self.log(f"nvidia {card.bdf}: enabling device (0000 -> 0002)")
        self._tell()

    def driven(self) -> tuple[Card, ...]:
        """The cards that the loaded driver really brought up, by minor number."""
        core = self._modules.get("nvidia")
        if core is None:
            return ()
        return tuple(card for card in self.cards if nvidia.binds(card, core.file.flavour))

    # -- modules -------------------------------------------------------------------------------

    def modules(self) -> tuple[Module, ...]:
        """What is loaded, newest first, the order of /proc/modules."""
        return tuple(reversed(self._modules.values()))

    def module(self, name: str) -> Module | None:
        """A loaded module, or None."""
        return self._modules.get(name)

    def load(self, name: str, parameters: Sequence[str] = ()) -> bool:
        """Load a module after what it depends on; dependencies get no parameters.

        Returns False, dropping the parameters, when it is already there: that is success (TAL,
        gpu_path.md section 2). Raises ModuleError with the loader's words.
        """
        name = name.replace("-", "_")
        if name in self._modules:
            return False
        if name not in self.image.modules:
            raise ModuleError("module not found")
        for dependency in self.image.modules[name].depends:
            self.load(dependency)
        self._insert(self.image.modules[name], parameters)
        self._tell()
        return True

    def hold(self, name: str, count: int = 1) -> None:
        """Open handles on a module: they count as references and name no user."""
        module = self._modules.get(name)
        if module is not None:
            module.holds += count

    def _insert(self, file: ModuleFile, parameters: Sequence[str]) -> None:
        values = self._parameters(file.name, parameters)
        self._taint(file)
        lines, error = nvidia.start(file, self.cards)
        for line in lines:
            self.log(line)
        if error:
            raise ModuleError(f"load {file.name} failed: {error}")
        self._modules[file.name] = Module(file, values, self.uptime)
        for dependency in dict.fromkeys(file.depends):
            self._modules[dependency].users.insert(0, file.name)

    def _taint(self, file: ModuleFile) -> None:
        if file.flavour == "proprietary" and "P" not in self._tainted:
            self.log(f"{file.name}: module license 'NVIDIA' taints kernel.")
            self.log("Disabling lock debugging due to kernel taint")
            self._tainted += "P"
        if file.taint and "O" not in self._tainted:
            self.log(f"{file.name}: loading out-of-tree module taints kernel.")
            self._tainted += "O"

    def _parameters(self, name: str, given: Sequence[str]) -> dict[str, str]:
        known = nvidia.PARAMETERS.get(name, {})
        values = {key: parameter.default for key, parameter in known.items()}
        for item in " ".join(given).split():
            key, _, value = item.partition("=")
            if key not in known:
                self.log(f"{name}: unknown parameter '{key}' ignored")
            elif not known[key].accepts(value):
                self.log(f"{name}: `{value}' invalid for parameter `{key}'")
                raise ModuleError(f"load {name} failed: invalid argument")
            else:
                values[key] = known[key].stored(value)
        return values

    def _tell(self) -> None:
        for listener in tuple(self.changed):
            listener()

    # -- ring buffer ---------------------------------------------------------------------------

    def log(self, text: str, *, console: bool = True) -> None:
        """Write to the ring buffer, one stamped line for each line of ``text``."""
        for part in text.split("\n"):
            self._stamp = max(self.uptime, self._stamp + _TICK)
            line = f"[{self._stamp:12.6f}] {part}"
            self._ring.append(line)
            self._ring_bytes += len(line) + 1
            if console:
                self._console(line)
        while self._ring_bytes > RING_BYTES:
            self._ring_bytes -= len(self._ring.popleft()) + 1

    def dmesg(self) -> str:
        """The ring buffer as ``dmesg`` prints it."""
        return "".join(f"{line}\n" for line in self._ring)

    # -- /proc ---------------------------------------------------------------------------------

    def proc_modules(self) -> str:
        """/proc/modules, newest first."""
        return "".join(module.line() for module in self.modules())

    def proc_uptime(self) -> str:
        """/proc/uptime: uptime and idle time, seconds."""
        return f"{self.uptime:.2f} {self.uptime * _CPUS * 0.93:.2f}\n"

    def proc_meminfo(self) -> str:
        """/proc/meminfo."""
        return meminfo(self.memory.at(self.uptime))

    def version(self) -> str:
        """The kernel's version banner, as /proc/version and the first line of a boot have it."""
        return (
            f"Linux version {self.image.kernel} (@buildkitsandbox) (gcc (GCC) 15.2.0, GNU ld "
            "(GNU Binutils) 2.45) #1 SMP Thu Apr 16 09:12:44 UTC 2026"
        )

    def tainted(self) -> int:
        """/proc/sys/kernel/tainted."""
        return sum(_TAINT_BITS[letter] for letter in self._tainted)
