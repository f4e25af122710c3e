"""Lines for people: on a terminal the last ones are drawn anew, anywhere else each is added."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TextIO

from harness.report.records import visible

_UP, _CLEAR = "\x1b[{}A\r", "\x1b[J"
_WIDTH = 100


class Screen:
    """Where progress is told. ``stream`` may be a terminal or a file; no line is wider than it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.redraws = stream.isatty() and os.environ.get("TERM", "dumb") not in ("", "dumb")
        self._drawn = 0

    def tell(self, lines: Sequence[str], below: Sequence[str] = ()) -> None:
        """Add ``lines``; on a terminal let ``below`` stand under them in place of the last ones."""
        told = [visible(line) for line in lines]
        if not self.redraws:
            self._write("".join(f"{line}\n" for line in told))
            return
        width = self._width()
        drawn = [str(visible(line))[: width - 1] for line in below]
        back = _UP.format(self._drawn) + _CLEAR if self._drawn else ""
        self._write(back + "".join(f"{line}\n" for line in [*told, *drawn]))
        self._drawn = len(drawn)

    def clear(self) -> None:
        """Take away what was drawn to be drawn anew."""
        if self._drawn:
            self.tell(())

    def _width(self) -> int:
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or _WIDTH
        except OSError:
            return _WIDTH

    def _write(self, text: str) -> None:
        if text:
            self._stream.write(text)
            self._stream.flush()
