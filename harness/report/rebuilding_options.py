"""The command line of `hil report`; what does the work is imported when needed."""

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
        "report",
        "Rebuild the ledger, the sign-off, Allure's results and JUnit's file of a run from its "
        "folder: of one that was killed, or of one whose reports were lost.",
        "hil report reports/out/20261130-152311-twin-8823",
    )
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="folders of runs, or ids of kept ones"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=OUT,
        metavar="DIR",
        help=f"where runs are kept (default: {OUT})",
    )
    parser.add_argument(
        "--docs",
        default="",
        metavar="URL",
        help="where the documentation is published, for links (default: what the run was given)",
    )
    parser.add_argument("--quiet", action="store_true", help="do not print the table of claims")
    parser.set_defaults(verb=_report)


def _report(chosen: argparse.Namespace) -> int:
    from harness.report.rebuilding import report

    return report(chosen.runs, out=chosen.out, docs=chosen.docs, quiet=chosen.quiet)
