"""The command line of `hil equivalence`; what does the work is imported when needed."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

OUT = Path("reports/out")

MakeVerb = Callable[..., argparse.ArgumentParser]


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser], verb: MakeVerb) -> None:
    """Add the verb; ``verb(parsers, name, text, example)`` makes its parser."""
    parser = verb(
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
    parser.add_argument(
        "--out",
        type=Path,
        default=OUT,
        metavar="DIR",
        help=f"where runs are kept (default: {OUT})",
    )
    parser.add_argument("--json", action="store_true", help="print it as data, for machines")
    parser.set_defaults(verb=_equivalence)


def _equivalence(chosen: argparse.Namespace) -> int:
    from harness.report.command import equivalence

    return equivalence(chosen.runs, out=chosen.out, as_json=chosen.json)
