"""The command line of `hil equivalence`; what does the work is imported when needed."""

from __future__ import annotations

import argparse

from harness.commandline import Verbs, add_json, add_out, add_verb


def add(verbs: Verbs) -> None:
    """Add `hil equivalence`."""
    parser = add_verb(
        verbs,
        "equivalence",
        "Compare what runs on different substrates saw: outcomes, and the shape of the evidence. "
        "Ends with 1 where they disagree.",
        "hil equivalence",
    )
    parser.add_argument(
        "runs",
        nargs="*",
        metavar="RUN",
        help="folders of runs, or ids of kept ones (default: the latest of each substrate)",
    )
    add_out(parser)
    add_json(parser)
    parser.set_defaults(verb=_equivalence)


def _equivalence(chosen: argparse.Namespace) -> int:
    from harness.report.command import equivalence

    return equivalence(chosen.runs, out=chosen.out, as_json=chosen.json)
