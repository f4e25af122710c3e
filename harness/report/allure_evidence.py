"""What a failing scenario left, as the files beside its result in Allure.

The manifest first, as a table; then the diagnosis; then what was taken, named as the manifest names
it. Files that an earlier failure of the pool took are found where it left them.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.report.allure_model import CSV, HTML, JSON, TEXT, Attachment, attached, cut
from harness.report.records import rows_of, visible

MOST_FILES = 150
"""Files of one failure that are attached; the others are in the run's folder."""
_SCHEMA = "hil.evidence/1"
_COLUMNS = ("name", "status", "bytes", "at", "why")
_TYPES = {".json": JSON, ".csv": CSV}


def attachments(run: Path, folder: str) -> tuple[Attachment, ...]:
    """The files of one failure; ``folder`` is that of its ledger record, below the run's.

    What cannot be read is told in the first of them, and nothing is raised.
    """
    place = run / folder
    try:
        manifest = json.loads((place / "manifest.json").read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        return (attached("evidence", f"{folder}: its manifest cannot be read: {error}\n"),)
    if not isinstance(manifest, dict) or manifest.get("schema") != _SCHEMA:
        return (attached("evidence", f"{folder}: its manifest is not of schema {_SCHEMA}\n"),)
    return tuple(_attached(run, place, manifest))


def _attached(run: Path, place: Path, manifest: dict[str, Any]) -> Iterator[Attachment]:
    items = rows_of(manifest.get("items"))
    yield attached("evidence: what was planned and what was had", _table(manifest, items), HTML)
    diagnosis = manifest.get("diagnosis")
    if isinstance(diagnosis, dict):
        told = _file(run, place, "diagnosis", str(diagnosis.get("file", "")))
        yield told or attached("diagnosis", f"{diagnosis.get('line', '')}\n")
    files = [one for one in items if one.get("file")]
    for one in files[:MOST_FILES]:
        found = _file(run, place, str(one.get("name", "")), str(one["file"]))
        if found is not None:
            yield found
    if len(files) > MOST_FILES:
        yield attached("evidence: more files", f"{len(files) - MOST_FILES} more are in {place}\n")


def _file(run: Path, place: Path, name: str, file: str) -> Attachment | None:
    """A file of the run's own folder; a manifest leads nowhere else."""
    try:
        path = (place / file).resolve()
        if not file or not path.is_relative_to(run.resolve()) or not path.is_file():
            return None
        body = path.read_bytes()
    except (OSError, ValueError):  # no name of a file, for one
        return None  # the table says that it was taken
    return Attachment(name, cut(body), _TYPES.get(path.suffix, TEXT))


def _table(manifest: dict[str, Any], items: Sequence[Mapping[str, Any]]) -> str:
    head = "".join(f"<th>{one}</th>" for one in _COLUMNS)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(one.get(key))}</td>" for key in _COLUMNS) + "</tr>\n"
        for one in items
    )
    told = manifest.get("score")
    score = told if isinstance(told, dict) else {}
    counts = ", ".join(f"{_cell(key)} {_cell(value)}" for key, value in score.items())
    return (
        '<!doctype html><meta charset="utf-8"><style>body{font:14px sans-serif}'
        "td,th{text-align:left;padding:1px 8px;vertical-align:top}</style>\n"
        f"<p>{_cell(manifest.get('reason'))}</p>\n<p>{counts}; {_cell(manifest.get('spent_s'))} of "
        f"{_cell(manifest.get('budget_s'))} s</p>\n<table><tr>{head}</tr>\n{rows}</table>\n"
    )


def _cell(value: object) -> str:
    return html.escape(str(visible("" if value is None else str(value))))
