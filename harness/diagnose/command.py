"""What `hil diagnose` does: make a case of a lab or a folder, reason over it, tell the result."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.bringup import hosts
from harness.bringup.connect import ConnectedLab
from harness.bringup.linstor import linstor_of
from harness.clock import Clock, ClockStuck, WallClock
from harness.diagnose import live, scraped, words
from harness.diagnose.case import Case
from harness.diagnose.coverage import missing
from harness.diagnose.findings import Diagnosis, Standing
from harness.diagnose.ranking import diagnose as reason_over
from harness.inventory.loading import load
from harness.inventory.models import Host, Lab
from harness.inventory.problems import InventoryError
from harness.reach.errors import LabError
from harness.reach.nodeshell import NodeShell
from harness.session.attaching import directory
from harness.session.labs import LabChoice
from harness.session.mistake import UserMistake
from harness.twin.process import TwinFailed

NOTHING, NAMED, USER_MISTAKE, LAB_UNFIT, UNDECIDED = 0, 1, 2, 3, 4


def diagnose(chosen: argparse.Namespace) -> int:
    """Diagnose and print; returns the exit status."""
    try:
        inventory = load(chosen.lab)
        case, subject = _case(chosen, inventory)
    except (InventoryError, UserMistake) as mistake:
        sys.stderr.write(f"hil: {mistake}\n")
        return USER_MISTAKE
    except (LabError, TwinFailed, ClockStuck) as unfit:
        sys.stderr.write(f"hil: {unfit}\n")
        return LAB_UNFIT
    known = {one.id: tuple(one.extensions) for one in inventory.schematics.values()}
    found = reason_over(replace(case, schematics={**known, **case.schematics}))
    if chosen.json:
        sys.stdout.write(json.dumps(words.plain(found, subject), indent=1) + "\n")
    else:
        sys.stdout.write(words.told(found, subject, whole=chosen.all))
    return status(found)


def status(found: Diagnosis) -> int:
    """0 nothing is found wrong, 1 a cause is named, 3 nothing could be looked at, 4 undecided."""
    if found.named:
        return NAMED
    if not found.looked_at:
        return LAB_UNFIT
    unsure = found.of(Standing.POSSIBLE, Standing.CONTRADICTED)
    return UNDECIDED if unsure or found.noticed else NOTHING


def _case(chosen: argparse.Namespace, inventory: Lab) -> tuple[Case, str]:
    """The case, and what it is of in words."""
    if not (math.isfinite(chosen.seconds) and chosen.seconds > 0):
        raise UserMistake(f"--seconds {chosen.seconds:g}: give a number of seconds above 0")
    if chosen.folder is not None:
        return _read(chosen.folder), f"captures in {chosen.folder}"
    if inventory.kind == "qemu":
        raise UserMistake(
            f"lab {inventory.name} has guests and no cluster; save their dmesg and drbdadm status "
            "to a folder, and use --from"
        )
    attach = directory(chosen.attach, inventory.kind)
    choice = LabChoice(inventory, "diagnose", attach or live.NOWHERE, attach=attach)
    if choice.embedded:
        raise UserMistake(
            "the embedded twin lives only during a run: name a lab with --lab, a running twin with "
            "--attach, or a folder of captures with --from"
        )
    return _look(choice, chosen.seconds), f"lab {inventory.name}"


def _read(folder: Path) -> Case:
    """The captures of a folder. Raises UserMistake where none of it can be used."""
    from harness.diagnose.reading import NotReadable, read_folder

    try:
        case = read_folder(folder)
    except NotReadable as wrong:
        raise UserMistake(str(wrong)) from wrong
    if not (case.objects or case.known):
        raise UserMistake(f"{folder} holds nothing that can be used{_why(case)}")
    return replace(case, unused=(*missing(case), *case.unused))


def _look(choice: LabChoice, seconds: float) -> Case:
    """Ask the lab within its time. Raises LabError where its management cluster cannot be asked."""
    with choice.open("") as lab:
        return look(lab, seconds)


def look(lab: ConnectedLab, seconds: float) -> Case:
    """A lab that is connected as a case, asked for so many seconds of the runner's time. Raises
    LabError where its management cluster cannot be asked."""
    clock = WallClock()
    began = clock.monotonic()
    asked = live.Live(
        lab.inventory.tenant.namespace,
        lambda: lab.clock.now() or None,
        lambda: clock.monotonic() - began,
        seconds,
    )
    live.management(asked, lab.management)
    try:
        live.tenant(asked, lab.tenant)
    except LabError as failed:
        asked.skip("tenant cluster", str(failed))
    scraped.memory(asked, lab)
    try:
        with linstor_of(lab) as linstor:
            if linstor is None:
                asked.skip("LINSTOR's REST API", "the inventory names no controller")
            else:
                asked.linstor(linstor)
    except LabError as failed:
        asked.skip("LINSTOR's REST API", str(failed))
    asked.kernels(lab.management)
    with ExitStack() as opened:
        asked.hosts(logins(lab.inventory, lab.clock, opened))
    return asked.case()


def logins(inventory: Lab, clock: Clock, opened: ExitStack) -> dict[str, Callable[[], NodeShell]]:
    """How each hypervisor host is logged in to for which the inventory has a key, by its name;
    ``opened`` logs out again."""

    def log_in(host: Host) -> NodeShell:
        shell = hosts.log_in(host, clock)
        opened.callback(shell.close)
        return shell

    return {one.name: partial(log_in, one) for one in inventory.hosts if one.ssh is not None}


def _why(case: Case) -> str:
    if not case.unused:
        return ""
    first = case.unused[0]
    more = f", and {len(case.unused) - 1} more" if len(case.unused) > 1 else ""
    return f": {first.source}: {first.why}{more}"
