"""`hil doctor`: what this machine can do, a line for each thing, with what to do where it cannot.

Nothing is installed or changed. What the lab at hand needs decides; the rest is told, so that a
person knows what would bring more.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commandline import ROOT
from harness.doctor.check import Check, State

if TYPE_CHECKING:
    from harness.inventory.models import Lab

KEPT = Path(".hil")
"""Where twins and mini-labs that stay up keep their files, from the folder of the call."""
USER_MISTAKE = 2
LAB_UNFIT = 3

_OLDEST = (3, 11)
_MIB = 1024 * 1024
_GUEST_OVERHEAD = 96 * _MIB
"""Memory that QEMU takes beside its guest's: 285 MB for one of 192 MB (lab/qemu_drbd.md)."""
_SPEAKING = 10.0
"""Seconds in which a program tells its version."""
_ADMIN = ":/usr/sbin:/sbin"
"""Where mke2fs is, and a user's PATH often is not."""
_MEMORY = Path("/proc/meminfo")
_INSTALL = "apt-get install --no-install-recommends"
_VERSION_OPTION = {"mke2fs": "-V", "debugfs": "-V", "ssh": "-V"}


@dataclass(slots=True)
class Report:
    """What was found, under headings, told as it comes."""

    checks: list[Check] = field(default_factory=list)

    def tell(self, heading: str, checks: Iterable[Check]) -> None:
        """Print a heading and a line for each check, the moment it is known."""
        sys.stdout.write(f"{heading}\n")
        for one in checks:
            self.checks.append(one)
            optional = "" if one.needed or one.state is State.OK else " (optional)"
            do = f"; {one.do}" if one.do and one.state is not State.OK else ""
            sys.stdout.write(f"  {one.state:<8} {one.subject}: {one.said}{optional}{do}\n")
            sys.stdout.flush()


def doctor(
    inventory: Path, *, tried: bool = False, lane: str = "", attach: Path | None = None
) -> int:
    """Look at everything and print it; 0 when the inventory's lab works here, 3 when it does not,
    2 when the inventory cannot be used. ``tried``: try KVM and the lab's API too; ``lane``: can the
    lab run this one now; ``attach``: the folder of a twin that is up.
    """
    from harness.session.attaching import directory
    from harness.session.choice import choose
    from harness.session.mistake import UserMistake

    try:
        choice = choose(inventory, lane, (), ())
    except UserMistake as wrong:
        sys.stderr.write(f"hil: {wrong}\n")
        return USER_MISTAKE
    lab, attach = choice.inventory, directory(attach, choice.inventory.kind)
    report = Report()
    report.tell("harness", _harness())
    if attach is None:
        report.tell("twin", _twin(needed=lab.hands_out_keys))
    report.tell("mini-lab", _mini_lab(lab if lab.kind == "qemu" else None, tried=tried))
    if lab.kind != "qemu" and (lane or attach is not None or lab.management is not None):
        from harness.doctor.clusters import examine

        asks = tried or bool(lane) or attach is not None
        report.tell(f"lab {lab.name}", examine(choice, attach, asks=asks))
    report.tell("other", _others())
    return _conclude(report.checks, lab.name, lane)


def _conclude(checks: Sequence[Check], lab: str, lane: str) -> int:
    of = f"lane {lane} of lab {lab}" if lane else f"lab {lab}"
    failing = [one.subject for one in checks if one.fails]
    if failing:
        sys.stdout.write(f"\n{of} does not work here yet: {', '.join(failing)}\n")
        return LAB_UNFIT
    unsure = [one.subject for one in checks if one.needed and one.state is State.UNKNOWN]
    told = f"; not known: {', '.join(unsure)}" if unsure else ""
    sys.stdout.write(f"\n{of} works here, as far as can be seen{told}\n")
    return 0


def _harness() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    new = sys.version_info[:2] >= _OLDEST
    state = State.OK if new else State.MISSING
    yield Check("Python", state, version, f"{_OLDEST[0]}.{_OLDEST[1]} or newer is needed")
    yield _packages(ROOT / "requirements" / "lock.txt")
    for folder in (Path("reports") / "out", KEPT):
        yield _writable(folder)


def _packages(lock: Path) -> Check:
    """The installed distributions against the lock."""
    try:
        text = lock.read_text(encoding="utf-8")
    except OSError as refused:
        said = f"{lock} cannot be read ({refused.strerror})"
        return Check("packages", State.UNKNOWN, said, "run from a checkout", needed=False)
    locked = dict(re.findall(r"^([\w.-]+)==([^\s\\;]+)", text, re.MULTILINE))
    found = {name: _installed(name) for name in locked}
    absent = [name for name, version in found.items() if version is None]
    needed = [name for name in absent if name in _required()]
    others = [f"{name} {found[name]}" for name in locked if found[name] not in (None, locked[name])]
    anew = "`make clean` and `make run` set the environment up anew"
    if needed:
        return Check("packages", State.MISSING, f"{', '.join(needed)} not installed", anew)
    if absent:
        return Check("packages", State.UNKNOWN, f"{', '.join(absent)} not installed", anew)
    if others:
        said = f"{', '.join(others)} are not those of the lock, with which it was tested"
        return Check("packages", State.UNKNOWN, said, anew)
    return Check("packages", State.OK, f"{len(locked)}, all as locked")


def _required() -> set[str]:
    """What the harness itself imports, without what only its development needs."""
    told = metadata.requires("hil") or []
    names = (re.match(r"[\w.-]+", one) for one in told if "extra ==" not in one)
    return {name[0].lower() for name in names if name}


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _writable(folder: Path, *, needed: bool = True) -> Check:
    """Whether a folder can be made or written, without doing so."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return Check(f"{folder}", State.OK, "can be written", needed=needed)
    said = f"{there} cannot be written" if there.is_dir() else f"{there} is no folder"
    return Check(f"{folder}", State.MISSING, said, "make it writable", needed=needed)


def _twin(*, needed: bool) -> Iterator[Check]:
    from harness.clock import WallClock
    from harness.twin.process import TwinFailed, TwinProcess

    clock = WallClock()
    began = clock.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="hil-doctor-") as folder:
            TwinProcess(Path(folder), seed=1).close()
    except (TwinFailed, OSError) as failed:
        yield Check("twin", State.MISSING, str(failed), needed=needed)
        return
    yield Check("twin", State.OK, f"starts, {clock.monotonic() - began:.1f} s", needed=needed)


def _mini_lab(lab: Lab | None, *, tried: bool) -> Iterator[Check]:
    """What QEMU guests need; ``lab`` is the one that needs it, None where it is optional."""
    from harness.qemulab.argv import PROGRAM
    from harness.qemulab.cache import default_cache
    from harness.qemulab.hosttools import COMPILERS, TOOLS

    needed = lab is not None
    user = "root" if os.geteuid() == 0 else f"user {os.geteuid()}, root is not needed"
    yield Check("user", State.OK, user, needed=needed)
    for name, package in {PROGRAM: "qemu-system-x86", **TOOLS, **COMPILERS}.items():
        yield _program(name, package, needed=needed)
    # without it QEMU outlives a run that is killed
    yield _program("setpriv", "util-linux", needed=needed)
    yield _program("ssh", "openssh-client", needed=False, why="`hil qemu ssh` uses it")
    yield _archive(needed=needed)
    cache = default_cache()
    yield _cache(cache, needed=needed)
    yield _disk(cache, needed=needed)
    yield _memory(lab, needed=needed)
    yield _kvm(cache, tried=tried)
    yield _leftovers(cache)


def _archive(*, needed: bool) -> Check:
    """Whether apt knows of the packages that the guests' system is built from."""
    from harness.qemulab.packages import CONTAINERS, KERNEL, PROGRAMS, read_candidates

    names = (KERNEL, *PROGRAMS, *CONTAINERS)
    told = _said("apt-cache", "policy", *names)
    if told is None:
        return Check("package lists", State.UNKNOWN, "apt-cache does not tell", "", needed)
    absent = sorted({*names} - read_candidates(told).keys())
    if absent:
        do = "apt-get update, with Debian's main archive among apt's sources"
        return Check("package lists", State.MISSING, f"no {', '.join(absent)}", do, needed)
    return Check("package lists", State.OK, f"know of {KERNEL} and the rest", needed=needed)


def _cache(cache: Path, *, needed: bool) -> Check:
    """Whether images can be kept there: a build takes no path that makefiles stumble over."""
    from harness.qemulab.cache import wrong_path

    wrong = wrong_path(cache)
    if wrong:
        do = "name another folder in XDG_CACHE_HOME"
        return Check(f"{cache}", State.MISSING, wrong, do, needed)
    return _writable(cache, needed=needed)


def _program(name: str, package: str, *, needed: bool, why: str = "") -> Check:
    """Whether a program is there, and what it says of its version."""
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}{_ADMIN}")
    if found is None:
        said = f"not there, {why}" if why else "not there"
        return Check(name, State.MISSING, said, f"{_INSTALL} {package}", needed)
    version = _version(found, _VERSION_OPTION.get(name, "--version"))
    if version is None:
        return Check(name, State.UNKNOWN, f"{found} does not tell its version", "", needed)
    return Check(name, State.OK, version, needed=needed)


def _version(program: str, *options: str) -> str | None:
    """The first thing like a version in what a program says; None where it says none."""
    told = _said(program, *options)
    said = re.search(r"\d+\.\d[\w.~+-]*", told or "")
    return said[0] if said else None


def _said(program: str, *options: str) -> str | None:
    """What a program says, on both its outputs; None where it cannot be run, or goes on."""
    try:
        ran = subprocess.run(
            [program, *options],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SPEAKING,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return f"{ran.stdout}\n{ran.stderr}"


def _disk(cache: Path, *, needed: bool) -> Check:
    from harness.qemulab.image import NEED

    there = cache
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    said = f"{_size(free)} free for {cache}, a first build takes {_size(NEED)} and its packages"
    state = State.OK if free > NEED else State.MISSING
    do = "free some (`hil clean`), or name another disk in XDG_CACHE_HOME"
    return Check("disk", state, said, do, needed)


def _memory(lab: Lab | None, *, needed: bool) -> Check:
    """Free memory against that of the largest set of guests; sets run one after the other."""
    sizes: Mapping[str, int] = {
        name: guests.replicas * (guests.memory.bytes + _GUEST_OVERHEAD)
        for name, guests in (lab.guests.items() if lab is not None else ())
    }
    need = max(sizes.values(), default=2 * (192 * _MIB + _GUEST_OVERHEAD))
    try:
        text = _MEMORY.read_text(encoding="ascii")
    except OSError as refused:
        said = f"{_MEMORY} cannot be read ({refused.strerror})"
        return Check("memory", State.UNKNOWN, said, "", needed)
    told = re.search(r"^MemAvailable:\s+(\d+) kB$", text, re.MULTILINE)
    if told is None:
        return Check("memory", State.UNKNOWN, f"{_MEMORY} has no MemAvailable", "", needed)
    free = int(told[1]) * 1024
    said = f"{_size(free)} available, the guests take {_size(need)}"
    state = State.OK if free > need else State.MISSING
    return Check("memory", state, said, "end something, or ask for smaller guests", needed)


def _size(number: int) -> str:
    return f"{number / 1e9:.1f} GB" if number >= 1e9 else f"{number / 1e6:.0f} MB"


def _kvm(cache: Path, *, tried: bool) -> Check:
    """Whether KVM works, which only a trial tells; without it guests are emulated."""
    from harness.clock import WallClock
    from harness.qemulab.accel import DEVICE, choose
    from harness.qemulab.errors import Unfit

    if DEVICE.exists() and not tried:
        said = f"{DEVICE} is there, which says little; not tried"
        return Check("KVM", State.UNKNOWN, said, "`hil doctor --try` tries it", needed=False)
    kernels = sorted(cache.glob("*/vmlinuz"))
    if DEVICE.exists() and not kernels:
        said = "not tried: that takes the guests' kernel, which is not built yet"
        return Check("KVM", State.UNKNOWN, said, "`hil qemu up` builds it", needed=False)
    try:
        kernel = kernels[-1] if kernels else Path()
        chosen = choose(kernel, WallClock(), cache / "accelerator.json")
    except Unfit as unfit:
        return Check("KVM", State.UNKNOWN, f"{unfit}", needed=False)
    if chosen.name == "kvm":
        return Check("KVM", State.OK, chosen.why, needed=False)
    return Check("KVM", State.MISSING, f"{chosen.why}; guests are emulated", needed=False)


def _leftovers(cache: Path) -> Check:
    from harness.qemulab.clean import find

    dead = [one.what for one in find(KEPT / "qemu", cache) if not one.alive]
    if not dead:
        return Check("leftovers", State.OK, "none of crashed runs", needed=False)
    said = f"{len(dead)} of crashed runs: {'; '.join(dead)}"
    return Check("leftovers", State.UNKNOWN, said, "`hil clean` removes them", needed=False)


def _others() -> Iterator[Check]:
    yield _kubectl()


def _kubectl() -> Check:
    found = shutil.which("kubectl")
    if found is None:
        said = "not there; only people use it"
        return Check("kubectl", State.MISSING, said, needed=False)
    version = _version(found, "version", "--client")
    if version is None:
        return Check("kubectl", State.UNKNOWN, f"{found} does not tell its version", needed=False)
    return Check("kubectl", State.OK, version, needed=False)
