"""What is wrong with an inventory, and where: the one error that loading raises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one file.

    ``line`` counts from 1, and is 0 when the file itself could not be read; ``path`` is the
    field's path (``pools.gpu-l40s.kernelModules[0].name``), empty for the whole file; ``found``
    is what stands there, with secrets withheld; ``allowed`` is what may stand there.
    """

    file: str
    line: int
    path: str
    found: str
    allowed: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        field = f"{self.path}: " if self.path else ""
        return f"{place}: {field}found {self.found}; allowed: {self.allowed}"


class InventoryError(Exception):
    """An inventory that cannot be used. ``problems`` holds every problem, in order of lines."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        head = f"the inventory has {count} problem{'' if count == 1 else 's'}:"
        super().__init__("\n".join([head, *(f"  {problem}" for problem in self.problems)]))
