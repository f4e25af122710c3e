"""The command line of `hil watch`; what does the work is imported when needed."""

from __future__ import annotations

import argparse

from harness.commandline import Verbs, add_out, add_verb


def add(verbs: Verbs) -> None:
    """Add `hil watch`."""
    parser = add_verb(
        verbs,
        "watch",
        "Follow a run from another terminal: what is at hand on each pool, what is waited for and "
        "how long still, verdicts as they come. Ends with the run, with its exit status; with 1 "
        "where it died.",
        "hil watch",
    )
    parser.add_argument(
        "run",
        nargs="?",
        default="",
        metavar="RUN",
        help="folder of a run, or id of a kept one (default: the newest that goes on)",
    )
    add_out(parser)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each event")
    parser.add_argument(
        "--every",
        type=_seconds,
        default=1.0,
        metavar="S",
        help="seconds between two looks (default 1); a slow folder is looked at less often",
    )
    parser.set_defaults(verb=_watch)


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.1 <= seconds <= 3600:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds from 0.1 to 3600")
    return seconds


def _watch(chosen: argparse.Namespace) -> int:
    from harness.live.watch import watch

    return watch(chosen.run, out=chosen.out, as_json=chosen.json, every=chosen.every)
