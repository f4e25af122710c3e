"""The last lines of a console, as a person can read them."""

from __future__ import annotations

import re
from pathlib import Path

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_=>])")
_UNPRINTED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LONGEST = 200  # characters of a line
_LAST = 64 * 1024  # bytes of a log that are looked at


def readable(data: bytes) -> list[str]:
    """The lines, without terminal sequences and blank lines; what is no UTF-8 is marked."""
    text = _ESCAPES.sub("", data.decode("utf-8", "replace").replace("\r", "\n"))
    lines = (_UNPRINTED.sub("", line).rstrip()[:_LONGEST] for line in text.split("\n"))
    return [line for line in lines if line.strip()]


def tail(log: Path, lines: int) -> list[str]:
    """The last lines of a console's log; none where there is no log."""
    if lines <= 0 or not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LAST))
        return readable(file.read())[-lines:]
