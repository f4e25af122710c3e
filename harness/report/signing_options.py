"""The command line of `hil signoff`, `hil compare` and `hil trend`; the work is imported later."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.commandline import OUT, Verbs, add_json, add_out, add_verb


def add(verbs: Verbs) -> None:
    """Add `hil signoff`, `hil compare` and `hil trend`."""
    _add_signoff(verbs)
    _add_compare(verbs)
    _add_trend(verbs)


def _add_signoff(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "signoff",
        "Put runs together and say whether they let a release be signed by a policy. Ends with 0 "
        "where it can be, 1 where not.",
        "hil signoff NIGHTLY L40S GB202 --policy release --out signed",
    )
    parser.add_argument(
        "runs", nargs="+", metavar="RUN", help="folders of runs, or ids of kept ones"
    )
    parser.add_argument(
        "--policy",
        required=True,
        metavar="NAME|FILE",
        help="what the release needs: one of reports/policies by its name, or a file",
    )
    parser.add_argument(
        "--subject",
        default="",
        metavar="TEXT",
        help="the release to be signed (default: the one that all runs name)",
    )
    parser.add_argument(
        "--waive",
        action="append",
        default=[],
        metavar="CLAIM[@HARDWARE]=REASON",
        help="do without a claim that the policy lets be waived (repeatable)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"where to write release.html and release.json (default: {OUT}/release-POLICY)",
    )
    add_out(parser, "--kept")
    parser.add_argument("--pdf", action="store_true", help="write release.pdf too (extra: pdf)")
    add_json(parser)
    parser.set_defaults(verb=_signoff)


def _add_compare(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "compare",
        "Say what differs between two runs: claims, timings beyond noise, versions. Ends with 1 "
        "where something does.",
        "hil compare 20261129-020000-nightly-1a2b latest",
    )
    parser.add_argument("before", metavar="RUN", help="folder or id of the earlier run")
    parser.add_argument("after", metavar="RUN", help="folder or id of the later run")
    add_out(parser, "--kept")
    add_json(parser)
    parser.set_defaults(verb=_compare)


def _add_trend(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "trend",
        "Show how claims came out over the kept runs, the product's failures apart from the lab's.",
        "hil trend --lab nightly-qemu-drbd --last 14",
    )
    parser.add_argument("--lab", default="", metavar="NAME", help="only runs of this lab")
    parser.add_argument("--lane", default="", metavar="NAME", help="only runs of this lane")
    parser.add_argument(
        "--last", type=_number, default=20, metavar="N", help="that many runs (default 20)"
    )
    add_out(parser, "--kept")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write it as a page too")
    add_json(parser)
    parser.set_defaults(verb=_trend)


def _number(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def _signoff(chosen: argparse.Namespace) -> int:
    from harness.report.signing import Asked, sign

    return sign(
        Asked(
            tuple(chosen.runs),
            chosen.policy,
            tuple(chosen.waive),
            chosen.subject,
            chosen.kept,
            chosen.out,
            chosen.pdf,
            chosen.json,
        )
    )


def _compare(chosen: argparse.Namespace) -> int:
    from harness.report.comparing import compare_runs

    return compare_runs(chosen.before, chosen.after, out=chosen.kept, as_json=chosen.json)


def _trend(chosen: argparse.Namespace) -> int:
    from harness.report.trending import trend

    return trend(
        lab=chosen.lab,
        lane=chosen.lane,
        last=chosen.last,
        out=chosen.kept,
        html=chosen.html,
        as_json=chosen.json,
    )
