"""What `hil console` does: find the machine, see whose it is, attach, show it, say how it ended."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import BinaryIO

from harness.clock import Clock, ClockStuck, WallClock
from harness.consoles.machines import Opened, cluster_console, guest_console
from harness.inventory.loading import load
from harness.inventory.problems import InventoryError
from harness.qemulab.errors import Misnamed
from harness.qemulab.options import DIRECTORY as OF_GUESTS
from harness.qemulab.rundir import STATE
from harness.reach.capture import Ending
from harness.reach.errors import LabError
from harness.reach.terminal import Left, Looking, NotRecorded, look
from harness.session.attaching import OF_TWIN, directory
from harness.session.labs import LabChoice
from harness.session.mistake import UserMistake
from harness.twin.process import TOLD, TwinFailed

DONE, NOT_SEEN, USER_MISTAKE, LAB_UNFIT, LOST = 0, 1, 2, 3, 4


def console(chosen: argparse.Namespace) -> int:
    """Show a console; returns the exit status (see `status`)."""
    try:
        _check(chosen)
        return _console(chosen)
    except (InventoryError, UserMistake, Misnamed) as mistake:
        sys.stderr.write(f"hil: {mistake}\n")
        return USER_MISTAKE
    except (LabError, TwinFailed, ClockStuck) as unfit:
        sys.stderr.write(f"hil: {unfit}\n")
        return LAB_UNFIT


def status(left: Left, ending: Ending | None, *, waited: bool) -> int:
    """0 as asked; 1 what was ``waited`` for did not come, or the machine went; 4 the console was
    lost while the machine runs on, so that nobody knows what it has printed since."""
    if left is Left.ENDED and ending is not None:
        return LOST if ending.early else NOT_SEEN
    return NOT_SEEN if left is Left.OVER and waited else DONE


def _check(chosen: argparse.Namespace) -> None:
    seconds, tail = chosen.seconds, chosen.tail
    if seconds is not None and not (math.isfinite(seconds) and seconds > 0):
        raise UserMistake(f"--seconds {seconds:g}: give a number of seconds above 0")
    if tail is not None and tail < 1:
        raise UserMistake(f"--tail {tail}: give a number of lines of 1 or more")
    if tail is not None and (seconds is not None or chosen.until):
        raise UserMistake("--tail prints what was kept and ends: leave --seconds and --until out")
    if not _listens(chosen) and not sys.stdin.isatty():
        raise UserMistake(
            "no terminal to type on: to listen only, say how long (--seconds 60) or until when "
            "(--until TEXT); --tail 20 prints what was kept"
        )


def _listens(chosen: argparse.Namespace) -> bool:
    """Whether it only prints."""
    return chosen.tail is not None or chosen.seconds is not None or bool(chosen.until)


def _console(chosen: argparse.Namespace) -> int:
    inventory = load(chosen.lab)
    attach = directory(chosen.attach, inventory.kind)
    if attach is None and inventory.kind == "twin" and inventory.management is None:
        attach = _the_one_that_runs()
    clock = WallClock()
    if inventory.kind == "qemu" or (attach is not None and (attach / STATE).exists()):
        return _show(chosen, guest_console(attach or OF_GUESTS, chosen.machine, clock), clock)
    choice = LabChoice(inventory, "console", attach or Path(), attach=attach)
    with choice.open("") as lab:
        return _show(chosen, cluster_console(lab, chosen.machine), clock, steal=chosen.steal)


def _the_one_that_runs() -> Path:
    """Where a twin or guests were left running. Raises UserMistake unless that is one place."""
    found = [one for one, told in ((OF_TWIN, TOLD), (OF_GUESTS, STATE)) if (one / told).exists()]
    if not found:
        raise UserMistake(
            "no lab runs here: start one with `hil twin up` or `hil qemu up`, name a running one "
            "with --attach DIR, or a real lab with --lab FILE"
        )
    if len(found) > 1:
        both = " and ".join(map(str, found))
        raise UserMistake(f"two labs run here, in {both}: say which with --attach DIR")
    return found[0]


def _show(chosen: argparse.Namespace, opened: Opened, clock: Clock, *, steal: bool = False) -> int:
    if chosen.tail is not None:
        sys.stdout.write("".join(f"{line}\n" for line in opened.kept(chosen.tail)))
        return DONE
    if not steal:
        opened.refuse_another()
    keys = None if _listens(chosen) else sys.stdin.fileno()
    sys.stdout.flush()
    with _record(chosen.record) as record, closing(opened.attach()) as attached:
        hint = "; Ctrl-] lets go" if keys is not None else ""
        _tell(f"attached to the console of {opened.name}{hint}")
        until = chosen.until.encode()
        way = Looking(sys.stdout.fileno(), keys, until, chosen.seconds, record)
        left = look(attached, clock, way)
        ending = attached.ending
    _tell(_told(left, ending, chosen))
    return status(left, ending, waited=bool(chosen.until))


def _told(left: Left, ending: Ending | None, chosen: argparse.Namespace) -> str:
    if left is Left.ENDED and ending is not None:
        lost = "; what it prints from now on is not known" if ending.early else ""
        return f"the console ended: {ending.told}{lost}"
    if left is Left.OVER and chosen.until:
        return f"{chosen.until!r} did not come in {chosen.seconds:g} s"
    return "let go"


def _tell(text: str) -> None:
    # raw mode may be on: a line end alone would leave the cursor where it is
    os.write(sys.stderr.fileno(), f"\r[{text}]\r\n".encode())


@contextmanager
def _record(path: Path | None) -> Iterator[BinaryIO | None]:
    """The file that gets every byte. Raises UserMistake where it cannot be written."""
    if path is None:
        yield None
        return
    try:
        # unbuffered: what could not be written is no one's to write again when it is closed
        file = path.open("wb", buffering=0)
    except OSError as refused:
        raise UserMistake(f"--record {path}: {refused.strerror}") from refused
    with file:
        try:
            yield file
        except NotRecorded as refused:
            raise UserMistake(f"--record {path}: {refused}") from refused
