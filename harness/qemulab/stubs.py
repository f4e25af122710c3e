"""Stub modules with the NVIDIA names, compiled for the guests' kernel from our own source."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path

from harness.qemulab.hosttools import must, unpack_package

NAMES = ("nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm")
"""The modules' files, without their ending. Their names have underscores instead."""
RELEASE = "000.00.00"
"""What they call their release: of the form of the driver's, and older than any of them."""

# other machines' headers, device trees' names, and a stamp for each setting of the kernel's
_UNUSED = (
    "./usr/share",
    "*/linux-headers-*/arch/[!x]*",
    "*/linux-headers-*/include/dt-bindings",
    "*/linux-headers-*/include/config/[A-Z0-9]*",
)
_TRIED = "compile the stub modules for the guests' kernel"
_DO = "see that gcc, make and libelf1 are this machine's own Debian release's"


def sources() -> dict[str, bytes]:
    """The C sources by file name."""
    folder = resources.files("harness.qemulab").joinpath("stubs")
    return {f"{name}.c": folder.joinpath(f"{name}.c").read_bytes() for name in NAMES}


def kbuild() -> str:
    """The makefile that kbuild reads beside the sources."""
    objects = " ".join(f"{name}.o" for name in NAMES)
    return f'obj-m := {objects}\nccflags-y := -DHIL_RELEASE=\\"{RELEASE}\\"\n'


def unpack_headers(files: Iterable[Path], target: Path) -> None:
    """Unpack the headers' packages but for `_UNUSED`, half of the files."""
    for file in files:
        unpack_package(file, target, without=_UNUSED)


def relocate(headers: Path, release: str) -> Path:
    """Make headers that `dpkg -x` unpacked under ``headers`` usable there; returns their folder.

    Their top makefile includes the common part by its absolute path, the one thing that ties them
    to being installed.
    """
    folder = headers / "usr/src" / f"linux-headers-{release}"
    makefile = folder / "Makefile"
    text = makefile.read_text(encoding="utf-8")
    makefile.write_text(
        re.sub(r"(?m)^(include\s+)/usr/src/", rf"\g<1>{headers}/usr/src/", text), encoding="utf-8"
    )
    return folder


def compile_stubs(headers: Path, release: str, work: Path) -> Mapping[str, Path]:
    """Compile the four against unpacked headers; their files by name, stripped of debugging data.

    Raises `harness.qemulab.errors.Unfit` with the compiler's first complaint.
    """
    folder = relocate(headers, release)
    work.mkdir(parents=True, exist_ok=True)
    for name, content in sources().items():
        (work / name).write_bytes(content)
    (work / "Kbuild").write_text(kbuild(), encoding="utf-8")
    jobs = f"-j{os.cpu_count() or 1}"
    must(["make", jobs, "-C", str(folder), f"M={work}", "CC=gcc", "modules"], _TRIED, _DO)
    made = {name: work / f"{name}.ko" for name in NAMES}
    must(["strip", "--strip-debug", *map(str, made.values())], _TRIED, _DO)
    return made
