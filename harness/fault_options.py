"""The command line of `hil prove` and `hil faults`; what does the work is imported when needed."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from harness.commandline import OUT, TWIN_INVENTORY, Verbs, add_attach, add_verb, count
from harness.qemulab import options as qemu_options
from harness.session.attaching import directory


def add_prove(verbs: Verbs) -> None:
    """Add `hil prove`."""
    prove = add_verb(
        verbs,
        "prove",
        "Run the scenarios under every fault of the catalogue and print "
        "fault by claim: what breaks nothing, or what nothing breaks, fails.",
        "hil prove --fault gpu-not-permitted",
    )
    prove.add_argument(
        "--lab",
        type=Path,
        metavar="FILE",
        help="inventory of a mini-lab: its own faults, in real guests, one after the other "
        "(default: the embedded twin)",
    )
    add_attach(
        prove,
        "with --lab: the guests that `hil qemu up` left running "
        f"(default DIR: {qemu_options.DIRECTORY})",
    )
    prove.add_argument("--fault", action="append", default=[], help="only this fault (repeatable)")
    prove.add_argument(
        "--jobs",
        type=count,
        default=0,
        metavar="N",
        help="faults to try at once in the twin (default: one per processor)",
    )
    prove.add_argument(
        "--thorough",
        action="store_true",
        help="every fault on every pool, past 70 minutes of uptime (default: on one pool that it "
        "concerns and one that it does not)",
    )
    prove.add_argument("--out", type=Path, default=OUT / "prove", metavar="DIR")
    prove.set_defaults(verb=_prove)


def add_faults(verbs: Verbs) -> None:
    """Add `hil faults`."""
    faults = add_verb(
        verbs,
        "faults",
        "List the faults the twin can exhibit, or a mini-lab's guests, or explain one.",
        "hil faults no-modules-block",
    )
    faults.add_argument(
        "--lab",
        type=Path,
        metavar="FILE",
        help="inventory of a mini-lab, for its faults (default: the twin's)",
    )
    faults.add_argument("fault", nargs="?", default="")
    faults.set_defaults(verb=_faults)


def _prove(chosen: argparse.Namespace) -> int:
    if chosen.lab is not None and chosen.lab.resolve() != TWIN_INVENTORY:
        return _prove_in(chosen)
    if chosen.attach is not None:
        chosen.own.error("--attach is for a mini-lab: name its inventory with --lab")
    from harness.prove import prove

    jobs = chosen.jobs or os.cpu_count() or 1
    return prove(chosen.fault, jobs=jobs, out=chosen.out, thorough=chosen.thorough)


def _prove_in(chosen: argparse.Namespace) -> int:
    """The proof in the lab that was named, if it is one in which faults are planted."""
    if chosen.jobs > 1 or chosen.thorough:
        option = "--thorough" if chosen.thorough else "--jobs"
        chosen.own.error(f"{option} is for the twin: guests are tried one fault at a time")
    from harness.prove_guests import prove

    attach = directory(chosen.attach, "qemu")
    return prove(chosen.lab, chosen.fault, out=chosen.out, attach=attach)


def _faults(chosen: argparse.Namespace) -> int:
    from harness.faultlist import show

    return show(chosen.fault, chosen.lab)
