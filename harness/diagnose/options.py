"""The command line of `hil diagnose`; what does the work is imported when needed."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.commandline import TWIN_INVENTORY, Verbs, add_attach, add_verb

BUDGET = 120.0


def add(verbs: Verbs) -> None:
    """Add `hil diagnose`."""
    parser = add_verb(
        verbs,
        "diagnose",
        "Say what is wrong with a lab, or with the one that captures are of, and why: ranked "
        "causes "
        "with what speaks for and against each, what would still decide, and the diagnosis "
        "that tempts. Nothing is changed. Ends with 0 where nothing is found wrong, 1 where a "
        "cause is "
        "named, 4 where the evidence does not decide, 3 where the lab cannot be asked.",
        "hil diagnose --attach",
    )
    parser.add_argument(
        "--lab",
        type=Path,
        default=TWIN_INVENTORY,
        metavar="FILE",
        help="inventory of the lab; with --attach and --from it says what its schematics hold",
    )
    where = parser.add_mutually_exclusive_group()
    add_attach(where, "look at the twin that `hil twin up` left running (default DIR: .hil)")
    where.add_argument(
        "--from",
        dest="folder",
        type=Path,
        metavar="FOLDER",
        help="reason over plain captures, as people attach them to a bug report, in any mix: "
        "kubectl YAML, JSON or tables, Events, consoles, dmesg, talosctl, drbdadm, LINSTOR",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=BUDGET,
        metavar="S",
        help=f"longest time to ask a lab (default {BUDGET:.0f}); what was not asked is listed",
    )
    parser.add_argument("--all", action="store_true", help="tell of excluded causes in full too")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    parser.set_defaults(verb=_diagnose)


def _diagnose(chosen: argparse.Namespace) -> int:
    from harness.diagnose.command import diagnose

    return diagnose(chosen)
