from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

import pytest

from harness.qemulab.errors import Unfit
from harness.qemulab.kernel import (
    GUEST,
    Entry,
    Modules,
    dependencies,
    initrd,
    install,
    module_name,
    newc,
    read_kernel,
    read_module_list,
)
from harness.qemulab.tree import guest_file

RELEASE = "6.1.0-57-cloud-amd64"
NEEDS = {
    "kernel/drivers/virtio/virtio_ring": "",
    "kernel/drivers/virtio/virtio": "virtio_ring",
    "kernel/drivers/virtio/virtio_pci_modern_dev": "",
    "kernel/drivers/virtio/virtio_pci": "virtio_pci_modern_dev,virtio,virtio_ring",
    "kernel/drivers/block/virtio_blk": "virtio,virtio_ring",
    "kernel/drivers/net/virtio_net": "virtio,virtio_ring",
    "kernel/drivers/block/drbd/drbd": "lru_cache,libcrc32c",
    "kernel/lib/lru_cache": "",
    "kernel/lib/libcrc32c": "",
    "kernel/arch/x86/crypto/crc32c-intel": "",
    "kernel/fs/unwanted": "",
}


@pytest.fixture
def files() -> dict[str, bytes]:
    """The files of a kernel package, by their path in it."""
    folder = f"lib/modules/{RELEASE}"
    found = {
        f"{folder}/{path}.ko": f"\x7fELF\0license=GPL\0depends={needs}\0name=x\0".encode()
        for path, needs in NEEDS.items()
    }
    return found | {
        f"{folder}/modules.builtin": b"kernel/crypto/crc32c_generic.ko\nkernel/fs/ext4.ko\n",
        f"{folder}/modules.order": b"kernel/lib/libcrc32c.ko\n",
        f"boot/vmlinuz-{RELEASE}": b"kernel",
        f"boot/config-{RELEASE}": b"CONFIG_X=y",
    }


def module(name: str) -> str:
    """A module's path in the package, by its path without the folder."""
    return f"lib/modules/{RELEASE}/kernel/{name}.ko"


def package(files: dict[str, bytes]) -> io.BytesIO:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(f"./{name}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    out.seek(0)
    return out


def modules(files: dict[str, bytes]) -> Modules:
    return read_kernel(package(files), RELEASE)[1]


def unpacked(archive: bytes) -> dict[str, Entry]:
    """Read a newc archive as the kernel does."""
    found, at = {}, 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * k : at + 14 + 8 * k], 16) for k in range(13)]
        size, length = fields[6], fields[11]
        name = archive[at + 110 : at + 110 + length - 1].decode()
        at += (110 + length + 3) // 4 * 4
        if name == "TRAILER!!!":
            return found
        content = archive[at : at + size]
        found[name] = Entry(name, fields[1], content, (fields[9], fields[10]))
        at += (size + 3) // 4 * 4


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("kernel/arch/x86/crypto/crc32c-intel.ko", "crc32c_intel"),
        ("updates/nvidia-drm.ko.xz", "nvidia_drm"),
        ("drbd.ko", "drbd"),
    ],
)
def test_a_module_is_named_as_the_kernel_names_it(path: str, name: str) -> None:
    assert module_name(path) == name


def test_a_list_of_modules_is_read() -> None:
    text = "kernel/lib/lru_cache.ko\r\n\n  kernel/drivers/block/drbd/drbd.ko\nnothing here\n"
    assert read_module_list(text) == ["lru_cache", "drbd"]


def test_dependencies_are_read_from_a_modules_file() -> None:
    assert dependencies(b"\0depends=nvidia-modeset,drm\0") == ["nvidia_modeset", "drm"]
    assert dependencies(b"\0depends=\0") == []
    assert dependencies(b"") == []


@pytest.mark.parametrize("folder", ["lib/", "usr/lib/"])
def test_a_kernel_package_is_read(files: dict[str, bytes], folder: str) -> None:
    moved = {name.replace("lib/modules", f"{folder}modules"): c for name, c in files.items()}
    vmlinuz, found = read_kernel(package(moved), RELEASE)
    assert vmlinuz == b"kernel"
    assert len(found.files) == len(NEEDS)
    assert found.files["drbd"].path == "kernel/drivers/block/drbd/drbd.ko"


def test_a_package_without_that_kernel_is_refused(files: dict[str, bytes]) -> None:
    del files[f"boot/vmlinuz-{RELEASE}"]
    with pytest.raises(Unfit, match=f"no boot/vmlinuz-{RELEASE} in it"):
        modules(files)


def test_what_is_needed_comes_first_and_once(files: dict[str, bytes]) -> None:
    order = modules(files).closure(GUEST)
    assert sorted(order) == sorted(set(order))
    assert order.index("virtio_ring") < order.index("virtio") < order.index("virtio_pci")
    assert max(order.index("lru_cache"), order.index("libcrc32c")) < order.index("drbd")
    assert "unwanted" not in order


def test_what_is_built_in_needs_no_file(files: dict[str, bytes]) -> None:
    assert modules(files).closure(["ext4", "crc32c"]) == []


def test_a_kernel_without_drbd_is_refused(files: dict[str, bytes]) -> None:
    del files[module("drivers/block/drbd/drbd")]
    with pytest.raises(Unfit, match="no module drbd in it: install a kernel package that has it"):
        modules(files).closure(GUEST)


def test_a_dependency_that_is_missing_is_named_with_its_user(files: dict[str, bytes]) -> None:
    del files[module("lib/lru_cache")]
    with pytest.raises(Unfit, match="no module lru_cache in it, which drbd needs"):
        modules(files).closure(GUEST)


def test_modules_that_depend_on_each_other_end(files: dict[str, bytes]) -> None:
    files[module("lib/lru_cache")] = b"\0depends=drbd\0"
    assert set(modules(files).closure(["drbd"])) == {"drbd", "lru_cache", "libcrc32c"}


def test_only_the_named_modules_are_installed(files: dict[str, bytes], tmp_path: Path) -> None:
    install(modules(files), ["lru_cache", "crc32c_intel"], tmp_path)
    found = {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()}
    assert found == {
        "kernel/lib/lru_cache.ko",
        "kernel/arch/x86/crypto/crc32c-intel.ko",
        "modules.builtin",
        "modules.order",
    }
    assert (tmp_path / "modules.order").read_bytes() == b"kernel/lib/libcrc32c.ko\n"


def test_an_archive_reads_back() -> None:
    entries = [
        Entry("bin", 0o040755),
        Entry("dev/console", 0o020600, device=(5, 1)),
        *(Entry(f"f{size}", 0o100644, b"x" * size) for size in range(6)),
        Entry("a" * 97, 0o100755, b"\0" * 1000),
    ]
    assert unpacked(newc(entries)) == {entry.name: entry for entry in entries}


def test_an_archives_files_have_numbers_of_their_own() -> None:
    archive = newc([Entry("a", 0o100644), Entry("b", 0o100644)])
    heads = [archive.index(b"070701"), archive.index(b"070701", 6)]
    assert len({archive[at + 6 : at + 14] for at in heads}) == 2


def test_the_initrd_loads_its_modules_in_the_order_given() -> None:
    compressed = initrd(b"busybox", [("virtio_ring", b"ring"), ("virtio", b"v")])
    files = unpacked(gzip.decompress(compressed))
    assert files["modules"].content == b"virtio_ring\nvirtio\n"
    assert files["virtio_ring"].content == b"ring"
    assert (files["bin/busybox"].content, files["bin/busybox"].mode) == (b"busybox", 0o100755)
    assert (files["init"].content, files["init"].mode) == (guest_file("initrd-init"), 0o100755)
    assert files["dev/console"].device == (5, 1)


def test_the_same_initrd_is_the_same_bytes() -> None:
    assert initrd(b"b", [("m", b"1")]) == initrd(b"b", [("m", b"1")])
