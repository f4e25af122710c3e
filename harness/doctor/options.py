"""The command line of `hil doctor`; what does the work is imported when needed."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.commandline import TWIN_INVENTORY, Verbs, add_attach, add_verb


def add(verbs: Verbs) -> None:
    """Add `hil doctor`."""
    parser = add_verb(
        verbs,
        "doctor",
        "Say what this machine can do, and whether a lab can run a lane now: what is there, what "
        "is missing, what to do. Nothing is installed or changed. Ends with 3 where the lab would "
        "not work.",
        "hil doctor --lab inventory/lab-l40s.yaml --lane hardware",
    )
    parser.add_argument(
        "--lab",
        type=Path,
        default=TWIN_INVENTORY,
        metavar="FILE",
        help="inventory whose needs must be met (default: the embedded twin)",
    )
    parser.add_argument(
        "--try",
        dest="tried",
        action="store_true",
        help="also try what takes a moment or asks somebody else: KVM, the lab's API",
    )
    parser.add_argument(
        "--lane",
        default="",
        help="ask the lab's clusters too: can they run this lane now",
    )
    add_attach(parser, "look at the twin that `hil twin up` left running (default DIR: .hil)")
    parser.set_defaults(verb=_doctor)


def _doctor(chosen: argparse.Namespace) -> int:
    from harness.doctor.examination import doctor

    return doctor(chosen.lab, tried=chosen.tried, lane=chosen.lane, attach=chosen.attach)
