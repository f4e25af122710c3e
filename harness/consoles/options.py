"""The command line of `hil console`; what does the work is imported when needed."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.commandline import TWIN_INVENTORY, Verbs, add_attach, add_verb


def add(verbs: Verbs) -> None:
    """Add `hil console`."""
    parser = add_verb(
        verbs,
        "console",
        "Attach this terminal to the serial console of a worker's VMI, or of a guest of the "
        "mini-lab; Ctrl-] lets go. With --seconds or --until it only prints, and ends: with 0 as "
        "asked, 1 where the text did not come, 4 where the console was lost while the machine "
        "runs on, 3 where it cannot be had. A console has one reader, and a new one cuts the last "
        "off without a word: one that a run holds is refused unless --steal.",
        "hil console kubernetes-lab-plain-x7k2p-9fk2d --until startAllServices --seconds 600",
    )
    parser.add_argument("machine", metavar="VMI", help="name of the VMI, or of the guest (n1)")
    parser.add_argument(
        "--lab", type=Path, default=TWIN_INVENTORY, metavar="FILE", help="inventory of the lab"
    )
    add_attach(
        parser,
        "the twin that `hil twin up` left running (default DIR: .hil), or the guests of "
        "`hil qemu up` in DIR; the default where the inventory's lab is the embedded twin",
    )
    parser.add_argument(
        "--tail",
        type=int,
        metavar="N",
        help="print the last N lines that were kept of it, and end: there are some where the VMI "
        "has logSerialConsole, and of each guest",
    )
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="print for so many seconds of real time, and end"
    )
    parser.add_argument("--until", default="", metavar="TEXT", help="print until it comes, and end")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write all of it there as well")
    parser.add_argument(
        "--steal", action="store_true", help="attach although a run holds the VMI's pool"
    )
    parser.set_defaults(verb=_console)


def _console(chosen: argparse.Namespace) -> int:
    from harness.consoles.command import console

    return console(chosen)
