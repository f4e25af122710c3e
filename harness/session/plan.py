"""What a run means to do: which scenario on which pool for which claims, and what it cannot.

Every xdist worker computes the same plan from the same inventory; the controller reads it from
the run's directory, so that what was planned and never ran can be told.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Planned:
    """One scenario on one pool. ``scenario`` is the test's name without its parameters."""

    scenario: str
    pool: str
    claims: tuple[str, ...]
    title: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Identity within a run."""
        return self.scenario, self.pool


@dataclass(frozen=True, slots=True)
class Lacking:
    """A scenario that no pool of this lab can serve, and why."""

    scenario: str
    claims: tuple[str, ...]
    why: str


@dataclass(slots=True)
class Plan:
    """The plan of a run, in the order it runs."""

    planned: list[Planned] = field(default_factory=list)
    lacking: list[Lacking] = field(default_factory=list)
    deselected: list[str] = field(default_factory=list)
    """Scenarios ("test_it[plain]") that options of pytest itself took out of the run."""

    def pools(self) -> list[str]:
        """The pools used, in the order of first use."""
        return list(dict.fromkeys(item.pool for item in self.planned))

    def counts(self) -> str:
        """How much it is: "27 scenarios on 3 pools"."""
        return f"{_many(self.planned, 'scenario')} on {_many(self.pools(), 'pool')}"

    def any(self) -> bool:
        """Whether there is anything to say of it."""
        return bool(self.planned or self.lacking or self.deselected)

    def narrowed(self) -> str:
        """That options of pytest's own made this less than was asked, a sentence; else empty."""
        many = len(self.deselected)
        if not many:
            return ""
        were = "scenario was" if many == 1 else "scenarios were"
        are = "is" if many == 1 else "are"
        return f"{many} {were} deselected by pytest options and {are} not part of this run"

    def write(self, path: Path) -> None:
        """Write it whole or not at all; every worker writes the same text."""
        text = json.dumps(
            {
                "planned": [asdict(item) for item in self.planned],
                "lacking": [asdict(item) for item in self.lacking],
                "deselected": self.deselected,
            },
            indent=1,
        )
        part = path.with_name(f"{path.name}.{id(self):x}.part")
        part.write_text(text + "\n", encoding="utf-8")
        part.replace(path)

    @staticmethod
    def read(path: Path) -> Plan:
        """Read what `write` wrote. Raises OSError or ValueError."""
        told = json.loads(path.read_text(encoding="utf-8"))
        return Plan(
            [Planned(i["scenario"], i["pool"], tuple(i["claims"]), i["title"])
             for i in told["planned"]],
            [Lacking(i["scenario"], tuple(i["claims"]), i["why"]) for i in told["lacking"]],
            list(told["deselected"]),
        )  # fmt: skip


def _many(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}{'s' * (len(things) != 1)}"
