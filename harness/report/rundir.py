"""Where a run keeps its files, and what is known of the run itself."""

from __future__ import annotations

import dataclasses
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from harness.report.atomic import write_json
from harness.report.ledger import LEDGER, SHARDS
from harness.report.records import LedgerError

RUN_SCHEMA = "hil.run/1"
_END_OF_TIME = 253402300800.0
"""Epoch seconds of the year 10000, which no date can be written of."""


def new_run_id(at: float, lab: str, *, suffix: str = "") -> str:
    """``YYYYMMDD-HHMMSS-<lab>-<4hex>`` for epoch seconds ``at`` in UTC; the suffix is random
    unless given, so that two runs begun in one second differ.
    """
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=int(at))
    place = re.sub(r"[^a-z0-9]+", "-", lab.lower()).strip("-") or "lab"
    return f"{moment:%Y%m%d-%H%M%S}-{place}-{suffix or secrets.token_hex(2)}"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """The folder of one run under ``root`` (``reports/out``) and the names in it."""

    root: Path
    run_id: str

    @property
    def path(self) -> Path:
        """The run's own folder."""
        return self.root / self.run_id

    @property
    def shards(self) -> Path:
        """Folder of the ledger's shards."""
        return self.path / SHARDS

    @property
    def ledger(self) -> Path:
        """The joined ledger, there once a run has ended in order."""
        return self.path / LEDGER

    @property
    def run_json(self) -> Path:
        """What is known of the run itself."""
        return self.path / "run.json"

    @property
    def allure_results(self) -> Path:
        """Folder of Allure's result files; fresh for each run, never cleaned."""
        return self.path / "allure-results"

    @property
    def evidence(self) -> Path:
        """Folder of what failing scenarios left."""
        return self.path / "evidence"

    @property
    def signoff_html(self) -> Path:
        """The sign-off for people."""
        return self.path / "signoff.html"

    @property
    def signoff_json(self) -> Path:
        """The sign-off for machines."""
        return self.path / "signoff.json"

    @property
    def table(self) -> Path:
        """The terminal table, kept."""
        return self.path / "summary.txt"

    def create(self) -> RunDirectory:
        """Make the folders. FileExistsError when the run's own folder is there already."""
        self.path.mkdir(parents=True)
        self.shards.mkdir()
        self.allure_results.mkdir()
        return self

    def point_latest(self) -> Path:
        """Let ``latest`` beside the run's folder lead to it, replacing the link at once."""
        link = self.root / "latest"
        draft = self.root / f".latest.{self.run_id}"
        draft.unlink(missing_ok=True)
        draft.symlink_to(self.run_id, target_is_directory=True)
        return draft.replace(link)


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What is known of a run and has no place in its ledger, which is the same for each run of
    one seed. Times are the runner's, in epoch seconds; None: not ended, or ended out of order.
    """

    run_id: str
    lab: str
    lane: str
    started: float
    ended: float | None = None
    kind: str = ""
    """The kind of lab, as its inventory says it ("twin", "cluster"); empty: not recorded."""
    subject: str = ""
    """What is to be signed ("Cozystack v1.0.0"); empty: whatever ``versions`` name."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """Component to version, in the order to be shown."""
    inventory_sha256: str = ""
    fault: str = ""
    """The fault injected into the twin; a run with one can never be signed."""
    exit: int | None = None
    docs: str = ""
    """Where this project's documentation is published, for links in reports; empty: in ``docs``."""
    executor: Mapping[str, object] = field(default_factory=dict)
    """Who ran it, in the form of Allure's ``executor.json``."""
    evidence: Mapping[str, object] = field(default_factory=dict)
    """How complete the evidence of its failures is (`harness.report.evidence.numbers`); empty
    where it did not get as far as a ledger."""

    def write(self, path: Path) -> Path:
        """Write ``run.json`` at once, redacted."""
        fields = dataclasses.asdict(self) | {"versions": dict(self.versions)}
        return write_json(path, {"schema": RUN_SCHEMA, **fields})


def read_run(path: Path) -> RunInfo:
    """Read ``run.json``. LedgerError when it is missing, cut, or of another schema."""
    try:
        data: Any = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise LedgerError(f"reading {path}: {error}; name the directory of a run") from error
    if not isinstance(data, dict) or data.get("schema") != RUN_SCHEMA:
        raise LedgerError(f"reading {path}: its schema is not {RUN_SCHEMA!r}")
    names = {item.name for item in dataclasses.fields(RunInfo)}
    wrong = [key for key, value in data.items() if key in names and not _fits(key, value)]
    if wrong:
        key = wrong[0]
        raise LedgerError(f"reading {path}: {key} is {data[key]!r}, which no run writes there")
    try:
        return RunInfo(**{key: value for key, value in data.items() if key in names})
    except TypeError as error:
        raise LedgerError(f"reading {path}: {error}") from error


def _fits(key: str, value: object) -> bool:
    """Whether a field of ``run.json`` has the form that a run gives it."""
    if key in ("started", "ended"):
        if value is None:
            return key == "ended"
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        return 0 <= value < _END_OF_TIME
    if key == "exit":
        return value is None or type(value) is int
    if key == "versions":
        return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
    return isinstance(value, dict if key in ("executor", "evidence") else str)
