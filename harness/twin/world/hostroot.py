"""The host root of a Talos worker: /proc, /sys, /dev, /etc, /usr/local/bin and /run/cdi as read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from harness.twin.world import cdi_gen, nvidia, sockets
from harness.twin.world.filesystem import Device, Directory, Entry, File, Filesystem, Link, text
from harness.twin.world.guest_disk import GuestDisk
from harness.twin.world.images import Image
from harness.twin.world.kernel import Kernel, Module

Item = tuple[str, Entry]
TOOLKIT_PROGRAMS = (
    "nvidia-cdi-hook",
    "nvidia-container-cli",
    "nvidia-container-runtime",
    "nvidia-ctk",
    "nvidia-persistenced",
    "nvidia-smi",
)
# bdf, vendor, device, class: what KubeVirt's q35 machine always has
_PCI = (
    ("0000:00:00.0", "8086", "29c0", "060000"),
    ("0000:00:1f.0", "8086", "2918", "060100"),
    ("0000:00:1f.2", "8086", "2922", "010601"),
    ("0000:00:1f.3", "8086", "2930", "0c0500"),
    ("0000:01:00.0", "1af4", "1041", "020000"),
    ("0000:02:00.0", "1af4", "1048", "010000"),
    ("0000:03:00.0", "1af4", "1043", "078000"),
    ("0000:04:00.0", "1af4", "1042", "010000"),
)
_SECTOR = 512
_BLACKLIST = "".join(
    f"blacklist {name}\n" for name in ("nvidia", "nvidia_drm", "nvidia_modeset", "nvidia_uvm")
)


@dataclass(slots=True)
class HostRoot:
    """Builds the tree from what is running now.

    ``tmpfs`` holds files that processes wrote below /run and /var/run since this boot (device
    plugin, validator): path to bytes, gone at the next boot. ``lacking`` are paths that this
    build of the image does not have. ``disk`` is what is mounted at /var; ``size`` tells the bytes
    of /dev/vda, 0 where there is none; ``listening`` the TCP ports on which its services listen.
    """

    kernel: Kernel
    image: Image
    tmpfs: dict[str, bytes] = field(default_factory=dict)
    lacking: set[str] = field(default_factory=set)
    disk: GuestDisk = field(default_factory=GuestDisk)
    size: Callable[[], int] = lambda: 0
    listening: Callable[[], tuple[int, ...]] = tuple

    def tree(self) -> Filesystem:
        """The host's root file system at this moment."""
        entries: dict[str, Entry] = {}
        for part in (self._proc, self._modules, self._bus, self._driver, self._dev, self._root):
            entries.update(part())
        entries.update((path, File(_bytes(data), 0o644)) for path, data in self.tmpfs.items())
        entries.update((path, File(read, 0o644)) for path, read in self.disk.shown())
        for path in self.lacking:
            entries.pop(path, None)
        return Filesystem(entries)

    def _proc(self) -> Iterator[Item]:
        kernel = self.kernel
        yield "/proc/modules", _live(kernel.proc_modules)
        yield "/proc/uptime", _live(kernel.proc_uptime)
        yield "/proc/meminfo", _live(kernel.proc_meminfo)
        yield "/proc/1/net/tcp", _live(lambda: sockets.tcp(()))
        yield "/proc/1/net/tcp6", _live(lambda: sockets.tcp6(self.listening()))
        yield "/proc/version", text(f"{kernel.version()}\n")
        yield "/proc/cmdline", text(f"{kernel.command_line}\n")
        yield "/proc/sys/kernel/random/boot_id", text(f"{kernel.boot_id}\n")
        yield "/proc/sys/kernel/hostname", text(f"{kernel.hostname}\n")
        yield "/proc/sys/kernel/osrelease", text(f"{kernel.image.kernel}\n")
        yield "/proc/sys/kernel/tainted", text(f"{kernel.tainted()}\n")
        for name, value in kernel.settings.items():
            yield f"/proc/sys/kernel/{name}", text(f"{value}\n", 0o644)
        yield "/proc/sysrq-trigger", text("", 0o200)
        yield "/proc/sys/vm/drop_caches", text("0\n", 0o200)

    def _modules(self) -> Iterator[Item]:
        yield "/sys/module", Directory()
        for module in self.kernel.modules():
            yield from _sys_module(module)

    def _bus(self) -> Iterator[Item]:
        for bdf, vendor, device, kind in _PCI:
            yield from _pci_device(bdf, vendor, device, kind)
        driver = self.kernel.module("nvidia") is not None
        for card in self.kernel.cards:
            yield from _pci_device(card.bdf, nvidia.VENDOR, card.device, "030200")
            if driver:
                target = "../../../bus/pci/drivers/nvidia"
                yield f"/sys/devices/pci0000:00/{card.bdf}/driver", Link(target)
                yield (
                    f"/sys/bus/pci/drivers/nvidia/{card.bdf}",
                    Link(f"../../../../devices/pci0000:00/{card.bdf}"),
                )
        if driver:
            for name in ("bind", "new_id", "remove_id", "unbind"):
                yield f"/sys/bus/pci/drivers/nvidia/{name}", text("", 0o200)
            yield "/sys/bus/pci/drivers/nvidia/module", Link("../../../../module/nvidia")

    def _driver(self) -> Iterator[Item]:
        core = self.kernel.module("nvidia")
        if core is None:
            return
        yield "/proc/driver/nvidia/version", text(nvidia.version_text(core.file.flavour))
        yield "/proc/driver/nvidia/params", text(nvidia.params_text(core.parameters))
        yield "/proc/driver/nvidia/registry", text('Binary: ""\n')
        yield "/proc/driver/nvidia/gpus", Directory(0o555)
        for minor, card in enumerate(self.kernel.driven()):
            path = f"/proc/driver/nvidia/gpus/{card.bdf}/information"
            yield path, text(nvidia.information_text(card, minor))

    def _dev(self) -> Iterator[Item]:
        size = self.size()
        if size:
            yield "/dev/vda", Device(253, 0, 0o660, block=True)
            yield "/sys/block/vda/size", text(f"{size // _SECTOR}\n")
        yield "/dev/null", Device(1, 3)
        yield "/dev/zero", Device(1, 5)
        yield "/dev/kmsg", Device(1, 11, 0o644)
        yield "/dev/ttyS0", Device(4, 64, 0o600)
        yield "/dev/virtio-ports/org.qemu.guest_agent.0", Device(242, 1, 0o600)
        yield from self._nvidia_nodes()

    def _nvidia_nodes(self) -> Iterator[Item]:
        loaded = {module.file.name for module in self.kernel.modules()}
        if "nvidia" in loaded:
            yield "/dev/nvidiactl", Device(195, 255)
            # a card that the driver cannot bring up has its node all the same (S-DOC)
            for minor, _ in enumerate(self.kernel.cards):
                yield f"/dev/nvidia{minor}", Device(195, minor)
        if "nvidia_modeset" in loaded:
            yield "/dev/nvidia-modeset", Device(195, 254)
        if "nvidia_uvm" in loaded:
            yield "/dev/nvidia-uvm", Device(237, 0)
            yield "/dev/nvidia-uvm-tools", Device(237, 1)
        if "gdrdrv" in loaded:
            yield "/dev/gdrdrv", Device(236, 0)

    def _root(self) -> Iterator[Item]:
        for path in ("/boot", "/opt", "/run", "/run/cdi", "/system", "/tmp", "/var", "/usr/bin"):
            yield path, Directory()
        yield "/usr/local/bin", Directory()
        yield "/var/run", Link("/run")
        yield "/lib", Link("usr/lib")
        yield "/bin", Link("usr/bin")
        yield "/etc/os-release", text(_os_release(self.image.version))
        yield "/etc/hostname", text(f"{self.kernel.hostname}\n")
        yield "/etc/extensions.yaml", text(_extensions(self.image))
        modules = f"/usr/lib/modules/{self.image.kernel}"
        yield f"{modules}/modules.dep", text(modules_dep(self.image))
        if "nvidia" in self.image.modules:
            yield "/usr/lib/modprobe.d/nvidia.conf", text(_BLACKLIST)
        if self.image.has_toolkit:
            for name in TOOLKIT_PROGRAMS:
                yield f"/usr/local/bin/{name}", text("\x7fELF\x02\x01\x01", 0o755)
            for name in ("nvidia-smi", "nvidia-ctk"):
                yield f"/usr/bin/{name}", Link(f"../local/bin/{name}")
            for name in cdi_gen.LIBRARIES:
                yield f"{cdi_gen.LIBRARY_DIRECTORY}/{name}", text("\x7fELF\x02\x01\x01", 0o755)


def _live(render: Callable[[], str]) -> File:
    return File(lambda: render().encode())


def _bytes(data: bytes) -> Callable[[], bytes]:
    return lambda: data


def _sys_module(module: Module) -> Iterator[Item]:
    root = f"/sys/module/{module.file.name}"
    yield f"{root}/initstate", text("live\n")
    yield f"{root}/refcnt", text(f"{module.references}\n")
    yield f"{root}/coresize", text(f"{module.file.size}\n")
    yield f"{root}/taint", text(f"{module.file.taint}\n")
    yield f"{root}/holders", Directory()
    for user in module.users:
        yield f"{root}/holders/{user}", Link(f"../../{user}")
    known = nvidia.PARAMETERS.get(module.file.name, {})
    if known:
        yield f"{root}/parameters", Directory()
    for name, parameter in known.items():
        if parameter.mode:
            value = module.parameters[name]
            yield f"{root}/parameters/{name}", text(f"{value}\n", parameter.mode)


def _pci_device(bdf: str, vendor: str, device: str, kind: str) -> Iterator[Item]:
    root = f"/sys/devices/pci0000:00/{bdf}"
    yield f"/sys/bus/pci/devices/{bdf}", Link(f"../../../devices/pci0000:00/{bdf}")
    yield f"{root}/vendor", text(f"0x{vendor}\n")
    yield f"{root}/device", text(f"0x{device}\n")
    yield f"{root}/class", text(f"0x{kind}\n")


def _os_release(version: str) -> str:
    return (
        'NAME="Talos"\nID=talos\n'
        f'VERSION_ID={version}\nPRETTY_NAME="Talos ({version})"\n'
        'HOME_URL="https://www.talos.dev/"\n'
        'BUG_REPORT_URL="https://github.com/siderolabs/talos/issues"\n'
    )


def _extensions(image: Image) -> str:
    rows = []
    for index, extension in enumerate((*image.extensions, "schematic")):
        name = extension.rpartition("/")[2]
        version = image.schematic if name == "schematic" else image.version
        rows.append(
            f"    - image: {index:03}.{name}.sqsh\n      metadata:\n"
            f"        name: {name}\n        version: {version}\n"
        )
    return "layers:\n" + "".join(rows)


def modules_dep(image: Image) -> str:
    """modules.dep of an image: each file and everything it needs, all levels, as depmod writes."""
    lines = []
    for name in sorted(image.modules):
        needs = " ".join(_ko(image, need) for need in _closure(image, name))
        lines.append(f"{_ko(image, name)}:{' ' if needs else ''}{needs}\n")
    return "".join(lines)


def _closure(image: Image, name: str) -> list[str]:
    found: list[str] = []
    for need in image.modules[name].depends:
        for each in (need, *(_closure(image, need) if need in image.modules else ())):
            if each not in found and each in image.modules:
                found.append(each)
    return found


def _ko(image: Image, name: str) -> str:
    if image.modules[name].flavour == "in-tree":
        return f"kernel/{name}.ko"
    return f"extras/{name.replace('_', '-')}.ko"
