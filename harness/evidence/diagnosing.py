"""The diagnosis of a failure, over what its evidence holds; never more than `hil diagnose` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from harness.diagnose import words
from harness.diagnose.case import OWN, Case
from harness.diagnose.findings import Diagnosis, Ranked, Standing, Weight
from harness.diagnose.ranking import diagnose
from harness.report.atomic import write_bytes, write_json
from harness.report.redact import redact

TEXT, JSON = "diagnosis.txt", "diagnosis.json"
_TOLD = 3
"""Causes that one line names."""


class Status(StrEnum):
    """What a diagnosis came to."""

    NAMED = "named"
    UNDECIDED = "undecided"
    NOTHING = "nothing"
    """Nothing is found wrong in what was looked at: the failure is not explained."""
    NONE = "none"
    """There was nothing to look at, or no diagnosis was made."""


@dataclass(frozen=True, slots=True)
class Brief:
    """A diagnosis in short. ``causes`` are the ids of named roots, first first; ``line`` is a
    sentence: a probable cause and what decided it, or that none was decided."""

    status: Status
    causes: tuple[str, ...]
    line: str

    def plain(self) -> dict[str, Any]:
        """As the manifest has it."""
        return {"status": self.status.value, "causes": list(self.causes), "line": self.line}


NO_DIAGNOSIS = Brief(Status.NONE, (), "no diagnosis: nothing could be looked at")


def diagnosed(
    case: Case, schematics: Mapping[str, tuple[str, ...]], subject: str
) -> tuple[Diagnosis, Brief]:
    """Reason over a case; ``schematics`` are those that the inventory tells of, with their
    extensions."""
    found = diagnose(replace(case, schematics={**schematics, **case.schematics}))
    return found, brief(found, subject)


def brief(found: Diagnosis, subject: str) -> Brief:
    """A diagnosis in one line."""
    roots = [one for one in found.named if not one.root]
    if roots:
        told = "; ".join(_told(one) for one in roots[:_TOLD])
        more = f"; and {len(roots) - _TOLD} more" if len(roots) > _TOLD else ""
        causes = tuple(one.cause.id for one in roots)
        return Brief(Status.NAMED, causes, redact(f"probable cause: {told}{more}"))
    if not found.looked_at:
        return NO_DIAGNOSIS
    unsure = found.of(Standing.POSSIBLE, Standing.CONTRADICTED)
    if unsure or found.noticed:
        fits = ", ".join(one.cause.id for one in unsure[:_TOLD])
        fitting = f"; what is there fits {fits}" if fits else ""
        return Brief(Status.UNDECIDED, (), f"cause not decided{fitting}: see what would decide")
    line = f"nothing of what `hil diagnose` knows is found in {subject}: the cause is not known"
    return Brief(Status.NOTHING, (), line)


def write(folder: Path, found: Diagnosis, subject: str) -> None:
    """Write the diagnosis for people and for machines, without secrets. Raises OSError."""
    text = f"{OWN}diagnosis of {subject}\n\n{redact(words.told(found, subject))}"
    write_bytes(folder / TEXT, text.encode("utf-8", "backslashreplace"))
    write_json(folder / JSON, words.plain(found, subject))


def _told(one: Ranked) -> str:
    proofs = [seen for seen in one.for_ if seen.weight is Weight.PROVES]
    return f"{one.cause.title}{_of(one.subjects)} [{one.cause.id}]; decided by {proofs[0].text}"


def _of(subjects: Sequence[str]) -> str:
    return f" ({', '.join(subjects[:2])})" if subjects else ""
