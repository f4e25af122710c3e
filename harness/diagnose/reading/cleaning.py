"""Text as if no terminal, no `script` and no crash had touched it."""

from __future__ import annotations

import re

from harness.facts.reply import plain

_ERASED = re.compile(r"[^\n]*\x08[^\n]*")
_DROPPED = dict.fromkeys([0, *range(7, 9), *range(14, 32), 0x7F, 0xFEFF])


def cleaned(data: bytes) -> str:
    """The text of some bytes: no NULs, colours, cursor moves or CRs; what was erased with
    backspaces is gone, and bytes that are no UTF-8 are escaped."""
    text = plain(data.decode("utf-8", "backslashreplace"))
    if "\b" in text:
        text = _ERASED.sub(_typed, text)
    return text.translate(_DROPPED)


def _typed(line: re.Match[str]) -> str:
    """A line as its backspaces leave it."""
    left: list[str] = []
    for one in line[0]:
        if one != "\b":
            left.append(one)
        elif left:
            left.pop()
    return "".join(left)
