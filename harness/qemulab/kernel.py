"""The guests' kernel: which modules, in which order, with depmod's tables, and the tiny initrd."""

from __future__ import annotations

import gzip
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from harness.qemulab.elf import module_info
from harness.qemulab.errors import Unfit
from harness.qemulab.hosttools import must
from harness.qemulab.tree import LIBRARIES, LOADER, guest_file

ROOT_DISK = ("virtio_pci", "virtio_blk")
"""What the initrd loads before the root is there; dependencies are found and come first."""
GUEST = (*ROOT_DISK, "virtio_net", "drbd", "crc32c")
CONTAINERS = ("overlay",)

_TABLES = ("modules.builtin", "modules.builtin.modinfo", "modules.order")


@dataclass(frozen=True, slots=True)
class Module:
    """One module's file: ``path`` under ``lib/modules/RELEASE``."""

    path: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Modules:
    """A kernel's modules: ``files`` by name, ``tables`` what depmod reads beside them, by name."""

    files: Mapping[str, Module]
    tables: Mapping[str, bytes]
    builtin: frozenset[str]

    def closure(self, wanted: Iterable[str]) -> list[str]:
        """The wanted modules and all they depend on, each after what it needs; built-in ones out.

        Raises `Unfit` for one that this kernel does not have.
        """
        ordered: dict[str, None] = {}
        for name in wanted:
            self._add(name, ordered, ())
        return list(ordered)

    def _add(self, name: str, ordered: dict[str, None], above: tuple[str, ...]) -> None:
        if name in ordered or name in above or self._is_builtin(name):
            return
        if name not in self.files:
            needs = f", which {above[-1]} needs" if above else ""
            raise Unfit(
                "take the guests' modules from the kernel package",
                f"no module {name} in it{needs}",
                "install a kernel package that has it: Debian's linux-image-cloud-amd64 does",
            )
        for needed in dependencies(self.files[name].content):
            self._add(needed, ordered, (*above, name))
        ordered[name] = None

    def _is_builtin(self, name: str) -> bool:
        return name in self.builtin or f"{name}_generic" in self.builtin


def module_name(path: str) -> str:
    """A module's name from its file: "kernel/lib/crc32c-intel.ko" is crc32c_intel."""
    return Path(path).name.partition(".ko")[0].replace("-", "_")


def read_module_list(text: str) -> list[str]:
    """The names in a list of module files (modules.builtin, modules.order), one a line."""
    return [module_name(line.strip()) for line in text.splitlines() if ".ko" in line]


def dependencies(module: bytes) -> list[str]:
    """The modules that a module's file says it depends on."""
    listed = ",".join(module_info(module, "depends"))
    return [name.strip().replace("-", "_") for name in listed.split(",") if name.strip()]


def read_kernel(stream: IO[bytes], release: str) -> tuple[bytes, Modules]:
    """Read a kernel package's tar stream: the kernel itself, and its modules.

    They are kept in memory (90 MB): a hundredth of them is wanted, and which ones is known only
    when all have been seen. Raises `Unfit` where the package holds no such kernel.
    """
    image = f"boot/vmlinuz-{release}"
    found = {image: b""}
    with tarfile.open(fileobj=stream, mode="r|", bufsize=1 << 20) as archive:
        for member in archive:
            name = member.name.removeprefix("./").removeprefix("usr/")
            if member.isfile() and (name == image or name.startswith(f"lib/modules/{release}/")):
                content = archive.extractfile(member)
                assert content is not None
                found[name.removeprefix(f"lib/modules/{release}/")] = content.read()
    if not found[image]:
        raise Unfit(
            "take the guests' kernel from its package",
            f"no {image} in it",
            "install a kernel package that has it: Debian's linux-image-cloud-amd64 does",
        )
    return found.pop(image), _modules(found)


def _modules(found: Mapping[str, bytes]) -> Modules:
    paths = (path for path in sorted(found) if path.endswith(".ko"))
    files = {module_name(path): Module(path, found[path]) for path in paths}
    tables = {name: found[name] for name in _TABLES if name in found}
    builtin = tables.get("modules.builtin", b"").decode("utf-8", "replace")
    return Modules(files, tables, frozenset(read_module_list(builtin)))


def install(modules: Modules, names: Iterable[str], target: Path) -> None:
    """Put the named modules into ``lib/modules/RELEASE`` of a tree, with what depmod reads."""
    files = {modules.files[name].path: modules.files[name].content for name in names}
    for path, content in (*files.items(), *modules.tables.items()):
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)


def depmod(root: Path, release: str) -> None:
    """Write the module tables with the guest's own kmod, run through the guest's own loader.

    So the host needs no kmod, and neither chroot nor root is needed.
    """
    argv = [
        str(root / LOADER),
        "--argv0",
        "depmod",
        "--library-path",
        str(root / LIBRARIES),
        str(root / "usr/bin/kmod"),
        "-b",
        str(root),
        release,
    ]
    must(
        argv,
        "write the guests' module tables with the guest's own depmod",
        "the image is for amd64: build it on an amd64 machine",
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of an initrd: ``mode`` with the file type's bits, as in stat."""

    name: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)


def newc(entries: Sequence[Entry]) -> bytes:
    """A cpio archive in the "newc" format, the one that the kernel unpacks.

    Each header is 110 bytes of hexadecimal text; names and contents are padded to four bytes
    (kernel's Documentation/driver-api/early-userspace/buffer-format.rst).
    """
    named = [*entries, Entry("TRAILER!!!", 0)]
    return b"".join(_newc(number, entry) for number, entry in enumerate(named, start=1))


def _newc(number: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if entry.mode & 0o170000 == 0o040000 else 1
    fields = [number, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0]
    fields += [*entry.device, len(name), 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return _padded(head) + _padded(entry.content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def initrd(busybox: bytes, modules: Sequence[tuple[str, bytes]]) -> bytes:
    """The compressed initrd: busybox, the modules in the order given, and what loads them."""
    folders = [Entry(name, 0o040755) for name in ("bin", "dev", "root")]
    names = "".join(f"{name}\n" for name, _ in modules)
    files = [
        Entry("dev/console", 0o020600, device=(5, 1)),
        Entry("init", 0o100755, guest_file("initrd-init")),
        Entry("bin/busybox", 0o100755, busybox),
        Entry("modules", 0o100644, names.encode()),
    ]
    files += [Entry(name, 0o100644, content) for name, content in modules]
    return gzip.compress(newc([*folders, *files]), 6, mtime=0)
