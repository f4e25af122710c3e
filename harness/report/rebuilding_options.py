"""The command line of `hil report`; what does the work is imported when needed."""

from __future__ import annotations

import argparse

from harness.commandline import Verbs, add_out, add_verb


def add(verbs: Verbs) -> None:
    """Add `hil report`."""
    parser = add_verb(
        verbs,
        "report",
        "Rebuild the ledger, the sign-off, Allure's results and JUnit's file of a run from its "
        "folder: of one that was killed, or of one whose reports were lost.",
        "hil report reports/out/20261130-152311-twin-8823",
    )
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="folders of runs, or ids of kept ones"
    )
    add_out(parser)
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
