"""The guests' root file system as a tree of files: from packages, trimmed, with our own files.

Only what runs is unpacked: each package's programs by name, and of the libraries those that
something in the tree loads, read from the ELF files themselves. That check is why libraries are
not taken from package dependencies alone: a program that cannot start is found here, not in a boot.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import IO

from harness.qemulab.elf import is_elf, needed
from harness.qemulab.errors import Unfit
from harness.qemulab.hosttools import package_stream

LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = f"{LIBRARIES}/ld-linux-x86-64.so.2"
MERGED = ("bin", "sbin", "lib", "lib64")
"""Folders that are links into /usr: packages of before the merge still ship files in them."""

_KEPT: Mapping[str, tuple[str, ...]] = {
    "busybox-static": ("usr/bin/busybox",),
    "dash": ("usr/bin/dash", "usr/bin/sh"),
    "openssh-server": ("usr/sbin/sshd", "usr/lib/openssh/sshd-*"),
    "openssh-sftp-server": ("usr/lib/openssh/sftp-server",),
    "drbd-utils": (
        "etc/drbd.conf",
        "usr/sbin/drbdadm",
        "usr/sbin/drbdsetup",
        "usr/sbin/drbdmeta",
        "usr/lib/drbd/drbdadm-84",
        "usr/lib/drbd/drbdsetup-84",
    ),
    "kmod": ("usr/bin/kmod", "usr/bin/lsmod", "usr/sbin/*", "usr/lib/modprobe.d/*"),
    "podman": ("usr/bin/podman",),
    "crun": ("usr/bin/crun",),
    "conmon": ("usr/bin/conmon",),
}
_KEPT_OF_LIBRARIES = (f"{LIBRARIES}/*.so*", "usr/lib64/*.so*")

# busybox's applets that would stand in for kmod's programs: other messages, other exit codes
_NOT_APPLETS = frozenset({"modprobe", "insmod", "rmmod", "lsmod", "depmod", "modinfo", "sh", "ash"})


@dataclass(frozen=True, slots=True)
class GuestFile:
    """A file of our own: ``source`` in harness/qemulab/guestfiles, ``target`` in the guest."""

    source: str
    target: str
    mode: int = 0o644


GUEST_FILES = (
    GuestFile("hil-start", "usr/local/sbin/hil-start", 0o755),
    GuestFile("hil-console", "usr/local/sbin/hil-console", 0o755),
    GuestFile("inittab", "etc/inittab"),
    GuestFile("sshd_config", "etc/ssh/sshd_config"),
    GuestFile("global_common.conf", "etc/drbd.d/global_common.conf"),
    GuestFile("r0.res", "etc/drbd.d/r0.res"),
    GuestFile("hil-cdi-generate", "usr/local/bin/hil-cdi-generate", 0o755),
    GuestFile("hil-reboot-timer", "usr/local/bin/hil-reboot-timer", 0o755),
    GuestFile("hil-eat-memory", "usr/local/bin/hil-eat-memory", 0o755),
    GuestFile("nvidia-smi", "usr/local/bin/nvidia-smi", 0o755),
)
CONTAINER_FILES = (
    GuestFile("hil-probe-image", "usr/local/bin/hil-probe-image", 0o755),
    GuestFile("containers.conf", "etc/containers/containers.conf"),
    GuestFile("storage.conf", "etc/containers/storage.conf"),
    GuestFile("policy.json", "etc/containers/policy.json"),
)

_FOLDERS = {
    "dev": 0o755,
    "proc": 0o555,
    "sys": 0o555,
    "run": 0o755,
    "tmp": 0o1777,
    "mnt": 0o755,
    "root": 0o700,
    "root/.ssh": 0o700,
    "var/lib/drbd": 0o755,
    "var/log": 0o755,
    "var/tmp": 0o1777,
    "etc/modprobe.d": 0o755,
    "etc/hil": 0o755,
    "etc/cdi": 0o755,
}
_TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nsshd:x:101:65534::/run/sshd:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\ntty:x:5:\nnogroup:x:65534:\n",
    "etc/shadow": "root::20000:0:99999:7:::\nsshd:*:20000:0:99999:7:::\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
    "etc/hosts": "127.0.0.1 localhost\n10.77.0.1 n1\n10.77.0.2 n2\n10.77.0.3 n3\n",
    "etc/issue": "hil mini-lab \\n \\l\n",
    "etc/securetty": "ttyS0\nconsole\n",
    "etc/profile": "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n",
}


def prepare(root: Path) -> None:
    """Make the bare tree: the merged /usr, folders to mount on or write in, passwd and the like."""
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, text in _TEXTS.items():
        (root / name).write_text(text, encoding="utf-8")
        (root / name).chmod(0o600 if name == "etc/shadow" else 0o644)
    (root / "var/run").symlink_to("/run")
    (root / "var/lock").symlink_to("/run/lock")


def unpack(package: str, file: Path, root: Path) -> None:
    """Put what the guests need of one package's file into the tree; safe beside other packages.

    Raises `Unfit` where dpkg-deb cannot read it.
    """
    with package_stream(file) as stream:
        place(package, stream, root)


def place(package: str, stream: IO[bytes], root: Path) -> None:
    """Put what is kept of a package's tar stream into the tree, by the merged /usr's paths."""
    patterns = _KEPT.get(package, _KEPT_OF_LIBRARIES)
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for member in archive:
            path = merged(member.name)
            if any(_matches(path, pattern) for pattern in patterns):
                _place(archive, member, root / path)


def _matches(path: str, pattern: str) -> bool:
    return path.count("/") == pattern.count("/") and fnmatch.fnmatchcase(path, pattern)


def merged(name: str) -> str:
    """A package's path as it is once /bin, /sbin and /lib are links into /usr; "" for no path."""
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or parts[0] == "/":
        return ""
    return "/".join(("usr", *parts) if parts[0] in MERGED else parts)


def _place(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if member.issym():
        target.symlink_to(member.linkname)
    elif member.isfile():
        content = archive.extractfile(member)
        assert content is not None
        with target.open("wb") as out:
            shutil.copyfileobj(content, out, 1 << 20)
        target.chmod(member.mode)


def trim(root: Path) -> None:
    """Remove the libraries that nothing loads. Raises `Unfit` where a loaded one is missing."""
    wanted = _loaded(root)
    for file in sorted((root / LIBRARIES).iterdir()):
        if file.name not in wanted:
            file.unlink()


def _loaded(root: Path) -> set[str]:
    libraries = root / LIBRARIES
    wanted = {Path(LOADER).name}
    todo = list(_programs(root))
    while todo:
        file = todo.pop()
        for name in needed(file.read_bytes()):
            if name not in wanted:
                wanted |= _with_target(libraries, name, file)
                todo.append(libraries / name)
    return wanted


def _with_target(libraries: Path, name: str, user: Path) -> set[str]:
    file = libraries / name
    if not file.exists():
        raise Unfit(
            "put the guests' root together",
            f"{user.name} loads {name}, which none of the chosen packages brings",
            "name the package that does in harness/qemulab/packages.py",
        )
    return {name, file.resolve().name}


def _programs(root: Path) -> Iterator[Path]:
    for folder in ("usr/bin", "usr/sbin", "usr/lib/drbd", "usr/lib/openssh"):
        for file in sorted((root / folder).glob("*")):
            if file.is_file() and not file.is_symlink() and is_elf(file):
                yield file


def applets(root: Path, names: Iterable[str]) -> None:
    """Link busybox's applets (``names``: paths, as busybox lists them) where nothing is yet."""
    for name in names:
        path = PurePosixPath(merged(name.strip()))
        link = root / path
        if path.name and path.name not in _NOT_APPLETS and not os.path.lexists(link):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/usr/bin/busybox")
    for other in ("usr/sbin/init", "usr/local/lib/hil/hil-eat-memory"):  # links of other names
        link = root / other
        if not os.path.lexists(link):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to("/usr/bin/busybox")


def own_files(root: Path, files: Iterable[GuestFile]) -> None:
    """Put our own files into the tree."""
    for file in files:
        target = root / file.target
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(guest_file(file.source))
        target.chmod(file.mode)


def set_folder_modes(root: Path) -> None:
    """Give every folder its mode, whatever the umask was when it was made."""
    for folder in (root, *root.rglob("*")):
        if folder.is_dir() and not folder.is_symlink():
            folder.chmod(_FOLDERS.get(str(folder.relative_to(root)), 0o755))


def owned_by_root(root: Path) -> str:
    """What to tell debugfs so that everything in the image of this tree belongs to root."""
    paths = sorted(file.relative_to(root) for file in root.rglob("*"))
    return "".join(f'sif "/{path}" {field} 0\n' for path in paths for field in ("uid", "gid"))


def guest_file(name: str) -> bytes:
    """The content of one of our own files."""
    return resources.files("harness.qemulab").joinpath("guestfiles", name).read_bytes()
