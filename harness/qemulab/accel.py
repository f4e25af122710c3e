"""Which accelerator QEMU can use here: found out by a trial with a limit, not by a device's name.

In a nested guest ``/dev/kvm`` may open and the vCPU then stand still for ever (lab/qemu_drbd.md).
So the guests' own kernel is started under KVM, and only its first words on the console count.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.qemulab.argv import PROGRAM
from harness.qemulab.errors import Unfit
from harness.qemulab.guest import missing, tether
from harness.qemulab.rundir import write_whole

if TYPE_CHECKING:
    from harness.clock import Clock

DEVICE = Path("/dev/kvm")
BOOT = Path("/proc/sys/kernel/random/boot_id")
LIMIT = 3.0
"""Real seconds for the kernel's first words. Under a KVM that works they take a tenth of that."""

_PROOF = b"Linux version"
_KEPT = " (tried earlier in this boot of the host)"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """``name`` "kvm" or "tcg", ``why`` in a sentence, ``options`` for QEMU, ``append`` for the
    kernel's command line."""

    name: str
    why: str
    options: tuple[str, ...]
    append: str = ""


def kvm(why: str) -> Accelerator:
    """The host's own processor."""
    return Accelerator("kvm", why, ("-accel", "kvm", "-cpu", "host"))


def tcg(why: str) -> Accelerator:
    """Translation. ``-cpu max`` has the AES instructions, without which SSH is slow.

    QEMU does not let a translated TSC go back (``cpu_ticks_prev`` in its timers): after a rollback
    in place a guest that goes by it finds all that time passed at once, in /proc/uptime as well.
    The HPET is part of the snapshot and goes back with it.
    """
    options = ("-accel", "tcg,thread=multi", "-cpu", "max")
    return Accelerator("tcg", why, options, "clocksource=hpet tsc=unstable")


def choose(kernel: Path, clock: Clock, kept: Path) -> Accelerator:
    """The best accelerator here. Raises Unfit without QEMU.

    A trial's outcome is kept in the file ``kept`` for as long as this host is not booted anew and
    the kernel is the same: each lab would spend the limit on it otherwise.
    """
    if not DEVICE.exists():
        return tcg(f"there is no {DEVICE}")
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return tcg(f"{DEVICE} may not be opened by this user")
    asked = f"{BOOT.read_text(encoding='ascii').strip()} {kernel}"
    known = _recall(kept, asked)
    if known is None:
        known = tried(trial_command(kernel), clock)
        write_whole(kept, {"asked": asked, "name": known.name, "why": known.why})
    return known


def _recall(kept: Path, asked: str) -> Accelerator | None:
    try:
        told = json.loads(kept.read_text(encoding="utf-8"))
        if told["asked"] == asked:
            make = {"kvm": kvm, "tcg": tcg}[told["name"]]
            return make(f"{str(told['why']).removesuffix(_KEPT)}{_KEPT}")
    except (OSError, ValueError, KeyError, TypeError):
        return None  # none was kept, or nothing that can be read: another trial tells
    return None


def trial_command(kernel: Path) -> list[str]:
    """QEMU under KVM with nothing but a kernel and a serial port on its standard output."""
    return [
        PROGRAM,
        *kvm("").options,
        *("-machine", "q35", "-m", "128M", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-serial", "stdio", "-no-reboot"),
        *("-kernel", str(kernel), "-append", "console=ttyS0 panic=-1"),
    ]


def tried(command: list[str], clock: Clock, limit: float = LIMIT) -> Accelerator:
    """What a trial by this command shows within ``limit`` real seconds; it is ended in any case."""
    began = clock.monotonic()
    try:
        child = subprocess.Popen(
            [*tether(), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except OSError as error:
        raise missing(error) from error
    try:
        said = _listen(child, clock, began + limit)
    finally:
        child.kill()
        child.wait(10)
        if child.stdout is not None:
            child.stdout.close()
    took = clock.monotonic() - began
    if _PROOF in said:
        return kvm(f"a kernel spoke under KVM after {took:.1f} s")
    if took < limit:
        words = " ".join(said.decode("utf-8", "replace").split())[-200:]
        return tcg(f"a trial with KVM ended after {took:.1f} s: {words or 'without a word'}")
    return tcg(f"{DEVICE} opens, but no kernel spoke under KVM in {limit:g} s")


def _listen(child: subprocess.Popen[bytes], clock: Clock, until: float) -> bytes:
    assert child.stdout is not None
    said = b""
    while _PROOF not in said:
        left = max(0.0, until - clock.monotonic())
        ready, _, _ = select.select([child.stdout], [], [], left)
        piece = os.read(child.stdout.fileno(), 4096) if ready else b""
        if not piece:
            break
        said += piece
    return said


def check_installed() -> None:
    """Raise Unfit where QEMU is not installed, before anything else is done for it."""
    for program, package in ((PROGRAM, "qemu-system-x86"), ("qemu-img", "qemu-utils")):
        if shutil.which(program) is None:
            saw = f"no {program} on the PATH"
            raise Unfit("start a guest", saw, f"install Debian's {package}")
