"""`python -m bench.qemu`: the mini-lab's times, and what the harness costs beside its guests.

Run it with nothing else going on: guests under TCG take all of two cores. Times are wall-clock, CPU
is user and system time as the kernel counts it (/proc/PID/stat, thread clocks).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.figures import figure, own_cpu
from harness.clock import WallClock
from harness.qemulab.boot import log_in, wait_for_prompt
from harness.qemulab.cache import default_cache
from harness.qemulab.image import Recipe, build
from harness.qemulab.lab import MiniLab, Wants
from harness.reach.serial import SerialConsole

CLOCK = WallClock()
TICK = os.sysconf("SC_CLK_TCK")
BULK = 64 * 1024  # bytes printed on the console
KINDS = {"guest reboot -f": ["reboot", "-f"], "guest reboot": ["reboot"]}

Figures = dict[tuple[str, str, str], list[float]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--no-image", action="store_true", help="leave the image's build out")
    options = parser.parse_args()
    print(f"{os.cpu_count()} processors, Python {sys.version.split()[0]}", flush=True)
    figures: Figures = defaultdict(list)
    if not options.no_image:
        for _ in range(options.runs):
            _image(figures)
    for _ in range(options.runs):
        with tempfile.TemporaryDirectory() as scratch:
            _lab(Path(scratch), figures)
    for (name, unit, target), values in figures.items():
        print(figure(name, values, unit, target))


def _image(figures: Figures) -> None:
    """From packages that are at hand, and nothing else."""
    began = CLOCK.monotonic()
    build(Recipe(), default_cache(), lambda _: None, fresh=True)
    figures["image from packages", "s", "below 20"].append(CLOCK.monotonic() - began)


def _lab(directory: Path, figures: Figures) -> None:
    began, before = CLOCK.monotonic(), own_cpu()
    lab = MiniLab.start(directory, Wants())
    try:
        took = CLOCK.monotonic() - began
        told = lab.status()
        print(f"accelerator {told['about']['accelerator']}: {told['about']['why']}", flush=True)
        figures["boot, sync, snapshot", "s", "below 30"].append(took)
        times = told["notes"]["times"]
        last = max(seconds for key, seconds in times.items() if key.endswith("prompt"))
        figures["  of these, both at a login prompt", "s", ""].append(last - times["on"])
        figures["  of these, full sync of 64 MiB", "s", ""].append(
            times["synced"] - max(v for k, v in times.items() if k.endswith("drbd"))
        )
        figures["CPU of this process meanwhile", "s", ""].append(own_cpu() - before)
        figures["CPU of the keeper and its switch meanwhile", "s", ""].append(_cpu(told["keeper"]))
        figures["CPU of both QEMUs meanwhile", "s", ""].append(
            sum(_cpu(guest["pid"]) for guest in told["guests"])
        )
        _rollbacks(lab, figures)
        _console(lab, figures)
        _reboots(lab, figures)
        _power(lab, figures)
    finally:
        began = CLOCK.monotonic()
        lab.close()
        figures["end, until nothing is left", "s", ""].append(CLOCK.monotonic() - began)


def _rollbacks(lab: MiniLab, figures: Figures) -> None:
    for dead in (False, True):
        if dead:
            lab.power("n2").off()
        began = CLOCK.monotonic()
        lab.rollback()
        rolled = CLOCK.monotonic()
        with ThreadPoolExecutor(len(lab.names)) as pool:
            list(pool.map(lambda name: _log_in_and_out(lab, name), lab.names))
        which = "rollback, one guest being off" if dead else "rollback"
        figures[which, "s", ""].append(rolled - began)
        figures[f"{which}, to SSH on both", "s", "below 3"].append(CLOCK.monotonic() - began)


def _log_in_and_out(lab: MiniLab, name: str) -> None:
    shell = lab.shell(name, CLOCK)
    shell.run(["true"])
    shell.close()


def _console(lab: MiniLab, figures: Figures) -> None:
    """A guest that prints as fast as it can, and what draining costs."""
    lab.rollback()
    console, shell = lab.console("n1", CLOCK), lab.shell("n1", CLOCK)
    clock_id = time.pthread_getcpuclockid(console.thread)
    began, before = CLOCK.monotonic(), time.clock_gettime(clock_id)
    shell.run(["sh", "-c", f"head -c {BULK} /dev/zero | tr '\\0' x > /dev/ttyS0"], timeout=120)
    CLOCK.wait(lambda: console.capture.size >= BULK, CLOCK.deadline(60), "the end of it")
    took, cpu = CLOCK.monotonic() - began, time.clock_gettime(clock_id) - before
    figures["console, 64 KiB printed", "s", ""].append(took)
    figures["  CPU of the thread that drains it", "ms", ""].append(cpu * 1000)
    figures["  pieces taken in", "", ""].append(len(console.capture.pieces()))
    shell.close()
    console.close()


def _reboots(lab: MiniLab, figures: Figures) -> None:
    for kind in ("QMP system_reset", *KINDS):
        lab.rollback()
        if kind in KINDS:
            shell = lab.shell("n1", CLOCK)
            console = lab.console("n1", CLOCK)
            began = CLOCK.monotonic()
            shell.run(KINDS[kind], timeout=1.0)
            shell.close()
        else:
            console = lab.console("n1", CLOCK)
            began = CLOCK.monotonic()
            lab.power("n1").reset()
        _until_up(lab, console, figures, kind, began)


def _power(lab: MiniLab, figures: Figures) -> None:
    lab.rollback()
    lab.power("n1").off()
    began = CLOCK.monotonic()
    lab.power("n1").on()
    _until_up(lab, lab.console("n1", CLOCK), figures, "power on", began)


def _until_up(
    lab: MiniLab, console: SerialConsole, figures: Figures, kind: str, began: float
) -> None:
    try:
        wait_for_prompt(console, CLOCK)
        figures[f"{kind}, to the login prompt", "s", ""].append(CLOCK.monotonic() - began)
        log_in(lab.guest(console.name).machine, CLOCK, console).close()
        figures[f"{kind}, to SSH", "s", ""].append(CLOCK.monotonic() - began)
    finally:
        console.close()


def _cpu(pid: int) -> float:
    """Seconds of user and system time of a process so far."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICK


if __name__ == "__main__":
    main()
