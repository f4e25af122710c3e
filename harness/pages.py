"""How a catalogue is laid out on a terminal: its entries in a line or two each, or one in full."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Mapping

WIDTH = 98
"""Columns; a word that is longer stays whole."""
USER_MISTAKE = 2


def show(
    name: str,
    sentences: Mapping[str, str],
    described: Callable[[str], Mapping[str, str]],
    unknown: type[Exception],
) -> int:
    """Print a catalogue, or with a name that entry whole. ``described`` gives its fields, or raises
    ``unknown``, whose message is then told: 2, as for any mistake of the user's.
    """
    if not name:
        sys.stdout.write(index(sentences))
        return 0
    try:
        fields = described(name)
    except unknown as mistake:
        sys.stderr.write(f"hil: {mistake}\n")
        return USER_MISTAKE
    sys.stdout.write(entry(name, fields))
    return 0


def index(entries: Mapping[str, str]) -> str:
    """Each name with its sentence, the sentences in one column."""
    column = max(map(len, entries), default=0) + 2
    return "".join(_wrapped(f"{name:<{column}}", text) for name, text in entries.items())


def entry(name: str, fields: Mapping[str, str]) -> str:
    """The name, then each field with its label. A field without text is left out."""
    column = max(map(len, fields), default=0) + 4
    lines = [_wrapped(f"  {label}".ljust(column), text) for label, text in fields.items() if text]
    return f"{name}\n{''.join(lines)}"


def _wrapped(head: str, text: str) -> str:
    lines = textwrap.wrap(
        text,
        WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines or [head.rstrip()]) + "\n"
