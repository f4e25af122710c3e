"""What the command lines of `hil`'s verbs share: how a verb is added, options that several take.

Nothing heavy is imported here: `hil --help` has to come at once.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TypeAlias

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""What a verb's parser is added to."""

ROOT = Path(__file__).resolve().parent.parent
TWIN_INVENTORY = ROOT / "inventory" / "twin.yaml"
"""The embedded twin's: the lab that is used unless another is named."""
OUT = Path("reports/out")
"""Where runs are kept unless told otherwise."""
WHEREVER = Path()
"""Stands for ``--attach`` without a directory. Told by its identity: a user may name the same."""


def add_verb(verbs: Verbs, name: str, text: str, example: str) -> argparse.ArgumentParser:
    """A verb's parser, which shows its text and an example."""
    parser = verbs.add_parser(name, help=text, description=text, epilog=f"example: {example}")
    parser.set_defaults(own=parser)
    return parser


def add_parts(parser: argparse.ArgumentParser) -> Verbs:
    """The verbs within a verb, of which one has to be given."""
    return parser.add_subparsers(title="verbs", metavar="VERB", required=True)


def add_out(parser: argparse.ArgumentParser, option: str = "--out") -> None:
    """The folder with kept runs; ``--kept`` where --out is what a verb writes."""
    parser.add_argument(
        option,
        type=Path,
        default=OUT,
        metavar="DIR",
        help=f"where runs are kept (default: {OUT})",
    )


def add_attach(parser: argparse._ActionsContainer, text: str) -> None:
    """A lab that runs already, in a directory or wherever its own verb leaves it."""
    parser.add_argument("--attach", type=Path, nargs="?", const=WHEREVER, metavar="DIR", help=text)


def add_json(parser: argparse.ArgumentParser) -> None:
    """Data instead of words."""
    parser.add_argument("--json", action="store_true", help="print it as data, for machines")


def count(text: str) -> int:
    """A whole number of 0 or more. Raises ArgumentTypeError."""
    if not re.fullmatch(r"[0-9]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 0 or more")
    return int(text)
