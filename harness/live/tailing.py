"""Reading files that somebody else still writes: whole new lines, again and again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MOST = 4 * 1024 * 1024
"""Bytes of one file that are taken in at a time."""


@dataclass(slots=True)
class _Tail:
    offset: int = 0
    rest: bytes = b""


class Tails:
    """All the files of a folder with one ending, each read from where it was left."""

    def __init__(self, folder: Path, pattern: str = "*.jsonl") -> None:
        self._folder = folder
        self._pattern = pattern
        self._known: dict[Path, _Tail] = {}

    def new(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(the file's name without its ending, record), in each file's own order.

        A line that is cut is kept until it is whole; one that is no JSON object is passed over. A
        file that cannot be read now is tried again the next time: the folder may be far away.
        """
        for path in self._files():
            tail = self._known.setdefault(path, _Tail())
            for line in self._lines(path, tail):
                record = _record(line)
                if record is not None:
                    yield path.stem, record

    def _files(self) -> list[Path]:
        try:
            return sorted(self._folder.glob(self._pattern))
        except OSError:
            return sorted(self._known)

    def _lines(self, path: Path, tail: _Tail) -> list[bytes]:
        lines: list[bytes] = []
        try:
            with path.open("rb") as file:
                file.seek(tail.offset)
                while data := file.read(MOST):
                    tail.offset += len(data)
                    *whole, tail.rest = (tail.rest + data).split(b"\n")
                    lines += whole
        except OSError:
            return lines
        return lines


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
