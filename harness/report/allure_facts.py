"""What a fact is attached as: tables where it holds rows, the text it was read from, its values."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from harness.report.allure_model import CSV, HTML, JSON, TEXT, Attachment, attached
from harness.report.records import Record, strings_of, visible

_STYLE = (
    "<style>body{font:14px sans-serif;margin:1em}table{border-collapse:collapse}"
    "td,th{border:1px solid #bbb;padding:2px 8px;text-align:left}th{background:#eee}</style>"
)


def attachments(fact: Record) -> list[Attachment]:
    """What there is to see of a fact, the most readable first."""
    values, place = fact.values, place_of(fact.text("source"))
    shown = [_ladder(fact, place)] if fact.text("kind") == "ModuleTable" else []
    tables = {name: rows for name, rows in values.items() if _are_rows(rows)}
    shown += [_table(f"{name} of {place}", rows) for name, rows in tables.items()]
    raw = fact.text("raw")
    if raw:
        shown.append(_raw(raw, place))
    rest = {name: value for name, value in values.items() if name not in tables}
    if rest:
        shown.append(attached(f"values of {fact.text('kind')}", visible(json.dumps(rest)), JSON))
    return shown


def place_of(source: str) -> str:
    """Where a fact is from, as its files are named: the file or command, then the machine."""
    machine, found, file = source.partition(":")
    return f"{file.strip()} of {machine}" if found and file.strip() else source


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML page of one table that loads nothing."""
    cells = "".join(f"<th>{escape(visible(one))}</th>" for one in header)
    lines = "".join(
        "<tr>" + "".join(f"<td>{escape(visible(one))}</td>" for one in row) + "</tr>"
        for row in rows
    )
    head = f'<!doctype html><meta charset="utf-8"><title>{escape(visible(title))}</title>{_STYLE}'
    return f"{head}<table><tr>{cells}</tr>{lines}</table>"


def _raw(raw: str, place: str) -> Attachment:
    mime = JSON if raw.lstrip().startswith(("{", "[")) and _is_json(raw) else TEXT
    return attached(place, visible(raw), mime)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _are_rows(value: Any) -> bool:
    """Whether a value is a list of things with fields: an object's history, phases, boots."""
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _table(name: str, rows: Sequence[Mapping[str, Any]]) -> Attachment:
    header = list(dict.fromkeys(key for row in rows for key in row))
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow(visible(header))
    writer.writerows([visible(_cell(row.get(key))) for key in header] for row in rows)
    return attached(name, page.getvalue(), CSV)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _ladder(fact: Record, place: str) -> Attachment:
    """Loaded modules in the order in which they were loaded: the kernel lists the newest first
    (gpu_path section 2.1).
    """
    rows = [
        [
            str(rung),
            str(one.get("name", "")),
            str(one.get("state", "")),
            ", ".join(strings_of(one.get("used_by"))),
            str(one.get("taint", "")),
        ]
        for rung, one in enumerate(reversed(fact.rows("modules")), start=1)
    ]
    header = ["loaded", "module", "state", "needed by", "taint"]
    return attached(f"ladder of {place}", table(place, header, rows), HTML)
