"""The command line of `hil clean`; what does the work is imported when needed."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.commandline import Verbs, add_attach, add_verb
from harness.qemulab.options import DIRECTORY


def add(verbs: Verbs) -> None:
    """Add `hil clean`."""
    clean = add_verb(
        verbs,
        "clean",
        "Remove what crashed runs of the mini-lab left on this machine: processes, sockets, disks, "
        "half-built images. With --lab, show what earlier runs left on that lab's clusters: pools, "
        "scratch pools, volumes, probes, expired leases; --remove takes it away. What a live run "
        "has is left alone, and so is what carries no mark of ours.",
        "hil clean --lab inventory/lab-l40s.yaml --remove",
    )
    clean.add_argument("--lab", type=Path, metavar="FILE", help="inventory of a lab to clean")
    add_attach(clean, "the twin that `hil twin up` left running (default DIR: .hil)")
    clean.add_argument(
        "--remove", action="store_true", help="on a lab: remove what is shown, not only show it"
    )
    clean.add_argument(
        "--run",
        default="",
        metavar="ID",
        help="on a lab: only what this run has, which you know to be dead, expired or not",
    )
    clean.add_argument("--dry-run", action="store_true", help="say what would go, touch nothing")
    clean.add_argument("--all", action="store_true", help="mini-labs that are in use, too")
    clean.add_argument(
        "--dir",
        type=Path,
        default=DIRECTORY,
        metavar="DIR",
        help=f"where the mini-lab keeps its files (default: {DIRECTORY})",
    )
    clean.set_defaults(verb=_clean)


def _clean(chosen: argparse.Namespace) -> int:
    if chosen.lab is None and not (chosen.remove or chosen.run or chosen.attach):
        from harness.qemulab.verbs import clean

        return clean(chosen.dir, dry_run=chosen.dry_run, everything=chosen.all)
    from harness.cleaning.command import clean_lab

    return clean_lab(chosen)
