"""The guests' image: built from Debian packages, kept by content, shared by every guest."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from paramiko import PKey

from harness.qemulab import cache as store
from harness.qemulab import kernel, probe, stubs, tree
from harness.qemulab.errors import Unfit
from harness.qemulab.hosttools import check_tools, must, package_stream, run_tool
from harness.qemulab.packages import Archive, Chosen, Package

Say = Callable[[str], None]

ROOT_SIZE = "512M"
"""Of the guests' root disk, which is sparse."""
NEED = 400_000_000
"""Bytes that a build takes beside the packages: headers, kernel and root unpacked, two disks."""

_TOLD = "image.json"
_DISKS = ("base.qcow2", "vmlinuz", "initrd")
_TRIED = "build the guests' image"
_CODE = ("image.py", "kernel.py", "probe.py", "stubs.py", "tree.py")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What an image is made of: ``containers`` brings podman, ``stubs`` the four nvidia modules."""

    containers: bool = True
    stubs: bool = True


@dataclass(frozen=True, slots=True)
class Image:
    """A complete image.

    ``base`` is a compressed qcow2 that nobody writes to: guests run on overlays of it. ``release``
    is the kernel's, ``packages`` versions by name, ``host_key`` the fingerprint ("SHA256:…") of the
    ed25519 host key that was made with the image and that every guest shows.
    """

    base: Path
    kernel: Path
    initrd: Path
    release: str
    packages: Mapping[str, str]
    host_key: str


def build(recipe: Recipe, cache: Path, say: Say, *, fresh: bool = False) -> Image:
    """The image for a recipe, from the cache where it is there already, unless ``fresh``.

    Raises `Unfit` where this machine cannot make it, and then leaves nothing half made.
    """
    check_tools(compilers=recipe.stubs)
    store.make_cache(cache)
    archive = Archive(cache / store.PACKAGES)
    with store.roomy(cache), store.locked(cache, say):
        chosen = archive.choose(containers=recipe.containers, stubs=recipe.stubs)
        name = store.content_hash(asdict(recipe), chosen.versions, own_sources())
        if fresh or not all((cache / name / file).is_file() for file in (*_DISKS, _TOLD)):
            _build(recipe, chosen, archive, cache / name, say)
    return load(cache / name)


def _build(recipe: Recipe, chosen: Chosen, archive: Archive, place: Path, say: Say) -> None:
    store.check_room(place.parent, NEED + archive.missing(chosen.all))
    files = archive.fetch(chosen.all, say)
    count = len(chosen.all)
    say(f"building the guests' image: kernel {chosen.release}, {count} packages")
    with store.building(place) as work:
        _Build(recipe, chosen, files, work).run()


def load(folder: Path) -> Image:
    """Read a complete image's folder. Raises `Unfit` where it is none."""
    try:
        told = json.loads((folder / _TOLD).read_text(encoding="utf-8"))
        release, packages, key = str(told["release"]), dict(told["packages"]), str(told["host_key"])
    except (OSError, ValueError, KeyError, TypeError) as wrong:
        raise Unfit(
            f"use the guests' image in {folder}",
            f"{_TOLD} cannot be read: {wrong}",
            "remove the folder: the image is built anew",
        ) from wrong
    base, vmlinuz, initrd = (folder / name for name in _DISKS)
    return Image(base, vmlinuz, initrd, release, packages, key)


def own_sources() -> dict[str, bytes]:
    """All of ours that goes into an image, by name: guest files, stubs, and the building code."""
    package = resources.files("harness.qemulab")
    files = (*tree.GUEST_FILES, *tree.CONTAINER_FILES)
    named = {f"guestfiles/{file.source}": tree.guest_file(file.source) for file in files}
    named["guestfiles/initrd-init"] = tree.guest_file("initrd-init")
    named |= {f"stubs/{name}": content for name, content in stubs.sources().items()}
    return named | {name: package.joinpath(name).read_bytes() for name in _CODE}


class _Build:
    """One build in its folder: unpack and compile side by side, then put together."""

    def __init__(
        self, recipe: Recipe, chosen: Chosen, files: Mapping[str, Path], work: Path
    ) -> None:
        self._recipe = recipe
        self._chosen = chosen
        self._files = files
        self._work = work
        self._root = work / "root"
        self._image = work / store.IMAGE

    def run(self) -> None:
        """Make everything. Raises `Unfit`."""
        made, vmlinuz, modules = self._unpack()
        tree.trim(self._root)
        applets = self._applets()
        tree.applets(self._root, applets)
        self._own_files(applets)
        host_key = self._host_key()
        self._kernel(made, vmlinuz, modules)
        tree.set_folder_modes(self._root)
        self._disk()
        told = {
            "release": self._chosen.release,
            "packages": dict(self._chosen.versions),
            "host_key": host_key,
        }
        (self._image / _TOLD).write_text(f"{json.dumps(told, indent=2)}\n", encoding="utf-8")

    def _unpack(self) -> tuple[Mapping[str, Path], bytes, kernel.Modules]:
        """Unpack all packages and compile the stubs: the stubs' files by name, kernel, modules."""
        tree.prepare(self._root)
        with ThreadPoolExecutor(max(2, os.cpu_count() or 1)) as pool:
            try:
                compiled = pool.submit(self._stubs)  # first, for it takes longest
                kernel_read = pool.submit(self._read_kernel)
                largest = sorted(self._chosen.userland, key=_size, reverse=True)
                for one in [pool.submit(self._unpack_userland, package) for package in largest]:
                    one.result()
                return compiled.result(), *kernel_read.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _stubs(self) -> Mapping[str, Path]:
        if not self._recipe.stubs:
            return {}
        headers = self._work / "headers"
        stubs.unpack_headers([self._files[one.name] for one in self._chosen.headers], headers)
        return stubs.compile_stubs(headers, self._chosen.release, self._work / "stubs")

    def _read_kernel(self) -> tuple[bytes, kernel.Modules]:
        with package_stream(self._files[self._chosen.kernel.name]) as stream:
            return kernel.read_kernel(stream, self._chosen.release)

    def _unpack_userland(self, package: Package) -> None:
        tree.unpack(package.name, self._files[package.name], self._root)

    def _applets(self) -> list[str]:
        return run_tool([str(self._busybox), "--list-full"]).stdout.split()

    @property
    def _busybox(self) -> Path:
        return self._root / "usr/bin/busybox"

    def _own_files(self, applets: Sequence[str]) -> None:
        tree.own_files(self._root, tree.GUEST_FILES)
        if self._recipe.containers:
            tree.own_files(self._root, tree.CONTAINER_FILES)
            place = self._root / probe.PLACE
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(probe.probe_image(self._busybox.read_bytes(), applets))

    def _host_key(self) -> str:
        """Make the guests' host key; its fingerprint."""
        file = self._root / "etc/ssh/ssh_host_ed25519_key"
        key = Ed25519PrivateKey.generate()
        file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        file.chmod(0o600)
        return str(PKey.from_path(file).fingerprint)

    def _kernel(self, made: Mapping[str, Path], vmlinuz: bytes, modules: kernel.Modules) -> None:
        target = self._root / "usr/lib/modules" / self._chosen.release
        wanted = (*kernel.GUEST, *(kernel.CONTAINERS if self._recipe.containers else ()))
        kernel.install(modules, modules.closure(wanted), target)
        (target / "updates").mkdir()
        for name, file in made.items():
            shutil.copyfile(file, target / "updates" / f"{name}.ko")
        kernel.depmod(self._root, self._chosen.release)
        early = [(name, modules.files[name].content) for name in modules.closure(kernel.ROOT_DISK)]
        initrd = kernel.initrd(self._busybox.read_bytes(), early)
        (self._image / "initrd").write_bytes(initrd)
        (self._image / "vmlinuz").write_bytes(vmlinuz)

    def _disk(self) -> None:
        raw = self._work / "root.raw"
        extended = "root_owner=0:0,lazy_itable_init=0,lazy_journal_init=0"
        made = ["mke2fs", "-q", "-t", "ext4", "-m", "0", "-E", extended, "-d", str(self._root)]
        must([*made, str(raw), ROOT_SIZE], _TRIED, "see what mke2fs says")
        if os.getuid() != 0:
            self._give_to_root(raw)
        compressed = ["-c", "-o", "compression_type=zstd", "-m", "8", "-W"]
        base = self._image / "base.qcow2"
        convert = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", *compressed]
        must([*convert, str(raw), str(base)], _TRIED, "see what qemu-img says")

    def _give_to_root(self, raw: Path) -> None:
        """Make every file root's own: mke2fs took over whose the tree is on this machine."""
        orders = self._work / "owners"
        orders.write_text(tree.owned_by_root(self._root), encoding="utf-8")
        must(["debugfs", "-w", "-f", str(orders), str(raw)], _TRIED, "see what debugfs says")


def _size(package: Package) -> int:
    return package.size
