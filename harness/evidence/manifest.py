"""The manifest of one failure's evidence: what was planned, and what became of each part."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.report.atomic import write_json
from harness.report.records import rfc3339

SCHEMA = "hil.evidence/1"
FILE = "manifest.json"


class Status(StrEnum):
    """What became of a planned part."""

    TAKEN = "taken"
    TRUNCATED = "truncated"
    """Taken, and its file does not hold all of it; ``why`` says how much."""
    EMPTY = "empty"
    """Asked and answered: there was nothing."""
    FAILED = "failed"
    """Asked, and not answered."""
    SKIPPED = "skipped"
    """Not asked: the budget was spent, the run was interrupted, or its cluster is silent."""


@dataclass(frozen=True, slots=True)
class Item:
    """One planned part. ``file`` is below the manifest's folder, or leads into that of an earlier
    failure of the same pool (``../``) where it is the same; "" where there is none. ``at`` is the
    lab's time it is of, epoch seconds, None where nothing was had; ``seconds`` are the runner's."""

    name: str
    file: str = ""
    status: Status = Status.SKIPPED
    bytes: int = 0
    seconds: float = 0.0
    why: str = ""
    at: float | None = None

    def plain(self) -> dict[str, Any]:
        """As the manifest has it."""
        return {
            "name": self.name,
            "file": self.file,
            "planned": True,
            "status": self.status.value,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "why": self.why,
            "at": None if self.at is None else rfc3339(self.at),
        }


@dataclass(frozen=True, slots=True)
class Score:
    """How complete it is. ``share`` is of what was planned the part that was answered: taken,
    truncated or empty; 1 where nothing was planned is no score, hence 0."""

    planned: int
    taken: int
    truncated: int
    empty: int
    failed: int
    skipped: int

    @property
    def share(self) -> float:
        """From 0 to 1, to three digits."""
        answered = self.taken + self.truncated + self.empty
        return round(answered / self.planned, 3) if self.planned else 0.0

    def plain(self) -> dict[str, Any]:
        """As manifest and ledger have it."""
        return {**dataclasses.asdict(self), "share": self.share}


@dataclass(slots=True)
class Manifest:
    """One failure's. ``at`` is the lab's time of it; budget and ``spent`` are the runner's
    seconds; ``diagnosis`` is `harness.evidence.diagnosing.Brief.plain`, None where there is none.
    """

    scenario: str
    pool: str
    at: float
    reason: str
    budget: float
    spent: float = 0.0
    items: list[Item] = field(default_factory=list)
    diagnosis: Mapping[str, Any] | None = None

    @property
    def score(self) -> Score:
        """Its score as it stands."""
        return score_of(self.items)

    def write(self, folder: Path) -> Path:
        """Write it at once, redacted. Raises OSError."""
        return write_json(
            folder / FILE,
            {
                "schema": SCHEMA,
                "scenario": self.scenario,
                "pool": self.pool,
                "at": rfc3339(self.at),
                "reason": self.reason,
                "budget_s": self.budget,
                "spent_s": round(self.spent, 3),
                "items": [one.plain() for one in self.items],
                "score": self.score.plain(),
                "diagnosis": self.diagnosis,
            },
        )


def score_of(items: Sequence[Item]) -> Score:
    """The score of parts."""
    counts = {one: sum(item.status is one for item in items) for one in Status}
    return Score(
        planned=len(items),
        taken=counts[Status.TAKEN],
        truncated=counts[Status.TRUNCATED],
        empty=counts[Status.EMPTY],
        failed=counts[Status.FAILED],
        skipped=counts[Status.SKIPPED],
    )
