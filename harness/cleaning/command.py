"""`hil clean --lab FILE`: shows what earlier runs left there, and removes it when told to."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.bringup.connect import ConnectedLab
from harness.bringup.skew import refuse_far_apart
from harness.cleaning.leftovers import Finding, Leftover, find
from harness.cleaning.removing import Done, remove
from harness.clock import ClockStuck, WallClock
from harness.inventory.loading import load
from harness.inventory.models import Lab
from harness.inventory.problems import InventoryError
from harness.reach.errors import LabError
from harness.report.records import visible
from harness.report.rundir import new_run_id
from harness.session.attaching import directory
from harness.session.labs import LabChoice
from harness.session.mistake import UserMistake
from harness.twin.process import TwinFailed

USER_MISTAKE = 2
LAB_UNFIT = 3


def clean_lab(chosen: argparse.Namespace) -> int:
    """Show or remove; 0 when nothing dead is left or only to be shown, 2 for a mistake, 3 when
    something cannot be removed, or the lab cannot be asked.
    """
    try:
        lab, attach = _asked(chosen)
    except (UserMistake, InventoryError) as mistake:
        sys.stderr.write(f"hil: {mistake}\n")
        return USER_MISTAKE
    if lab.kind == "qemu":
        from harness.qemulab.verbs import clean

        # what is on this machine is proved dead one by one; --lab shows first, as on a cluster
        return clean(chosen.dir, dry_run=not chosen.remove, everything=chosen.all)
    run_id = new_run_id(WallClock().now(), f"clean-{lab.name}")
    with tempfile.TemporaryDirectory(prefix="hil-clean-") as folder:
        picked = LabChoice(lab, run_id, Path(folder), attach=attach)
        try:
            with picked.open("clean") as connected:
                refuse_far_apart(connected)
                return _clean(connected, chosen.run, removes=chosen.remove)
        except (LabError, TwinFailed, ClockStuck) as unfit:
            sys.stderr.write(f"hil: {unfit}\n")
            return LAB_UNFIT


def _asked(chosen: argparse.Namespace) -> tuple[Lab, Path | None]:
    if chosen.lab is None:
        raise UserMistake("--remove, --run and --attach are about a lab: name it with --lab FILE")
    if chosen.remove and chosen.dry_run:
        raise UserMistake("--remove and --dry-run say the opposite of each other")
    lab = load(chosen.lab)
    attach = directory(chosen.attach, lab.kind)
    if lab.kind == "qemu" and chosen.run:
        raise UserMistake("--run is about the clusters of a lab, and a mini-lab has none")
    if attach is not None and lab.kind == "cluster":
        raise UserMistake(f"--attach is for a twin, and lab {lab.name} is a cluster: leave it out")
    if lab.hands_out_keys and attach is None:
        raise UserMistake(
            f"nothing of the embedded twin outlives its run; for one that is up: hil clean --lab "
            f"{chosen.lab} --attach"
        )
    return lab, attach


def _clean(lab: ConnectedLab, run: str, *, removes: bool) -> int:
    found = find(lab)
    shown = [one for one in found.leftovers if run in ("", one.run)]
    _tell(shown, found, lab)
    dead = [one for one in shown if one.ours and (bool(run) or not one.live)]
    if not removes:
        if dead:
            sys.stdout.write(f"\n{len(dead)} can be removed: add --remove\n")
        return LAB_UNFIT if found.unseen else 0
    refused = False
    for done in remove(lab, dead, run=run):
        refused = refused or not done.gone
        sys.stdout.write(f"{_said(done)}\n")
        sys.stdout.flush()
    return LAB_UNFIT if refused or found.unseen else 0


def _said(done: Done) -> str:
    if done.gone:
        return f"removed: {done.leftover.what}"
    return f"still there: {done.leftover.what}: {done.why}"


def _tell(shown: Sequence[Leftover], found: Finding, lab: ConnectedLab) -> None:
    for text in found.unseen:
        sys.stderr.write(f"hil: not looked at: {text}\n")
    if not shown:
        sys.stdout.write(f"nothing of earlier runs is on lab {lab.inventory.name}\n")
        return
    rows = [("WHAT", "OF RUN", "SINCE", "STATE", "WHY"), *map(_row, shown)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [f"{text:<{width}}" for text, width in zip(row, widths, strict=False)]
        sys.stdout.write(f"{'  '.join([*cells, row[4]])}\n")


def _row(one: Leftover) -> tuple[str, str, str, str, str]:
    state = "in use" if one.live else "dead" if one.ours else "not ours"
    told = (one.what, one.run or "not known", one.since or "-", state, one.why)
    cells: list[str] = visible(list(told))
    return (cells[0], cells[1], cells[2], cells[3], cells[4])
