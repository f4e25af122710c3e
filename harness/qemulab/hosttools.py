"""The programs of this machine that a build runs, and what it means when one fails."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from harness.qemulab.errors import Unfit

TOOLS: Mapping[str, str] = {
    "apt-cache": "apt",
    "apt-get": "apt",
    "debugfs": "e2fsprogs",
    "dpkg-deb": "dpkg",
    "mke2fs": "e2fsprogs",
    "qemu-img": "qemu-utils",
    "tar": "tar",
}
"""What every build runs, and the Debian package that brings it."""
COMPILERS: Mapping[str, str] = {"gcc": "gcc", "make": "make", "strip": "binutils"}
"""What compiling the stub modules runs as well."""

_ADMIN_PATH = "/usr/sbin:/sbin"  # where mke2fs and debugfs are, and a user's PATH often is not
_FULL = "No space left on device"


def find_tool(name: str) -> str:
    """Where a program is. Raises `Unfit` that names its Debian package where it is missing."""
    found = shutil.which(name, path=_path())
    if found is None:
        brings = TOOLS.get(name) or COMPILERS.get(name, name)
        raise Unfit(
            "build the guests' image",
            f"no `{name}` on this machine",
            f"`apt-get install {brings}` brings it",
        )
    return found


def check_tools(*, compilers: bool) -> None:
    """Raise `Unfit` for the first program that a build would miss, before anything is begun."""
    for name in (*TOOLS, *(COMPILERS if compilers else ())):
        find_tool(name)


def run_tool(argv: Sequence[str], cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run a program, its output kept, in the C locale.

    Raises `Unfit` where it is missing, or made for another kind of machine.
    """
    with _foreign(argv[0]):
        return subprocess.run(
            [find_tool(argv[0]), *argv[1:]],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=_environment(),
        )


@contextmanager
def _foreign(program: str) -> Iterator[None]:
    try:
        yield
    except OSError as refused:
        if refused.errno != errno.ENOEXEC:
            raise
        raise Unfit(
            "build the guests' image",
            f"this machine cannot run {program}, which is for amd64",
            "build it on an amd64 machine",
        ) from refused


@contextmanager
def package_stream(file: Path) -> Iterator[IO[bytes]]:
    """A package's files as a tar stream. Raises `Unfit` for what is no package, or a cut one."""
    with subprocess.Popen(
        [find_tool("dpkg-deb"), "--fsys-tarfile", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=_environment(),
    ) as reading:
        assert reading.stdout is not None
        broken = ""
        try:
            yield reading.stdout
        except tarfile.TarError as cut:
            broken = str(cut)
        _, complained = reading.communicate()
    if reading.returncode or broken:
        said = complaint(complained.decode("utf-8", "replace")) or broken
        raise Unfit(f"unpack {file.name}", said or "dpkg-deb failed", REMOVE)


def unpack_package(file: Path, target: Path, *, without: Sequence[str] = ()) -> None:
    """Unpack a package's files under ``target``, but for what tar's patterns in ``without`` match.

    Raises `Unfit` where that fails.
    """
    target.mkdir(parents=True, exist_ok=True)
    left_out = [f"--exclude={pattern}" for pattern in without]
    with package_stream(file) as stream:
        done = subprocess.run(
            [find_tool("tar"), "-xf", "-", "-C", str(target), *left_out],
            stdin=stream,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            env=_environment(),
        )
    if done.returncode:
        raise failed("tar", done, f"unpack {file.name}", REMOVE)


REMOVE = "remove the file and try again: it is downloaded anew"


def must(argv: Sequence[str], tried: str, do: str) -> subprocess.CompletedProcess[str]:
    """Run a program that has to succeed. Raises `Unfit` with what it complained of otherwise."""
    done = run_tool(argv)
    if done.returncode:
        raise failed(argv[0], done, tried, do)
    return done


def failed(name: str, done: subprocess.CompletedProcess[str], tried: str, do: str) -> Unfit:
    """The error for a program that ended badly; a full disk is said to be one."""
    text = f"{done.stderr}\n{done.stdout}"
    if _FULL in text:
        return Unfit(tried, f"no room left on the disk ({name})", "free some (`hil clean`)")
    return Unfit(tried, complaint(text) or f"{name} ended with {done.returncode}", do)


def complaint(text: str) -> str:
    """The line of a program's output that says most: its first error, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    apts = [line.removeprefix("E: ") for line in lines if line.startswith("E: ")]
    errors = apts or [line for line in lines if "rror" in line] or lines[-1:]
    return errors[0] if errors else ""


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C", "PATH": _path()}


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{_ADMIN_PATH}"
