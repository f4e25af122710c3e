"""The lines of a ledger: their kinds, the fields each must carry, their plain form, their times."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import PurePath
from typing import Any

from harness.facts.fact import Fact
from harness.report.redact import redact

SCHEMA = "hil.ledger/1"
DESELECTED = "deselected"
"""Kind of the note that options of pytest's own made a run less than was asked."""
KILLED = "killed"
"""Kind of the note that a run did not join its own ledger, and was made whole afterwards."""
RAW_LIMIT = 64 * 1024
"""Bytes of one raw text that a ledger keeps: half from its head, half from its tail."""

FIELDS: Mapping[str, Mapping[str, type]] = {
    "header": {"schema": str, "shard": str},
    "begin": {"scenario": str, "pool": str, "at": str},
    "wait": {"scenario": str, "pool": str, "what": str, "since": str, "until": str},
    "planned": {"scenario": str, "pool": str, "claims": list},
    "fact": {"id": str, "kind": str, "at": str, "source": str, "values": dict, "raw": str},
    "verdict": {
        "claim": str,
        "subject": str,
        "outcome": str,
        "because": str,
        "facts": list,
        "scenario": str,
        "pool": str,
        "at": str,
    },
    "note": {"kind": str, "text": str, "at": str},
    "evidence": {
        "scenario": str,
        "pool": str,
        "at": str,
        "folder": str,
        "score": dict,
        "status": str,
        "causes": list,
        "diagnosis": str,
    },
    "not-run": {"scenario": str, "pool": str, "claims": list, "why": str},
    "not-established": {"claim": str, "pool": str, "why": str},
    "known-issue": {
        "claim": str,
        "pool": str,
        "owner": str,
        "link": str,
        "expires": str,
        "signature": str,
        "state": str,
    },
    "end": {"scenario": str, "outcome": str},
    "merged": {"shards": list, "absent": list},
}
"""What ``record`` may say, with the fields each needs and their JSON types."""


class LedgerError(Exception):
    """A ledger that cannot be used: what was tried, what was seen, what to do."""


@dataclass(frozen=True, slots=True)
class Record:
    """One line of a ledger: ``data`` as read, with the shard and the line (from 1) it stood on."""

    kind: str
    shard: str
    line: int
    data: Mapping[str, Any]

    def text(self, field: str) -> str:
        """A text field; empty where the record has none of that name."""
        return str(self.data.get(field, ""))

    def texts(self, field: str) -> tuple[str, ...]:
        """A list field as texts."""
        found = self.data.get(field)
        return tuple(str(item) for item in found) if isinstance(found, list | tuple) else ()

    @property
    def values(self) -> Mapping[str, Any]:
        """A fact's values; none where the record has none."""
        found = self.data.get("values")
        return found if isinstance(found, Mapping) else {}

    def rows(self, value: str) -> tuple[Mapping[str, Any], ...]:
        """One of a fact's values as the rows of a table; whatever is no row is left out."""
        return rows_of(self.values.get(value))


def rows_of(value: Any) -> tuple[Mapping[str, Any], ...]:
    """A value as the rows of a table. What a ledger holds may be of any type: it is a file."""
    found = value if isinstance(value, list | tuple) else ()
    return tuple(one for one in found if isinstance(one, Mapping))


def strings_of(value: Any) -> tuple[str, ...]:
    """A value as a list of texts; whatever else it is or holds is left out."""
    found = value if isinstance(value, list | tuple) else ()
    return tuple(one for one in found if isinstance(one, str))


def rfc3339(at: float) -> str:
    """Epoch seconds as RFC 3339 in UTC: whole microseconds, trailing zeros trimmed."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=round(at * 1_000_000))
    whole = moment.strftime("%Y-%m-%dT%H:%M:%S")
    fraction = f".{moment.microsecond:06d}".rstrip("0").rstrip(".")
    return f"{whole}{fraction}Z"


def plain(value: Any) -> Any:
    """``value`` as JSON can carry it, texts capped; TypeError where it has no plain form."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, Enum):
        return plain(value.value)
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    raise TypeError(
        f"a fact holds a {type(value).__name__}, which a ledger cannot carry: {value!r}"
    )


def cap(text: str, limit: int = RAW_LIMIT) -> tuple[str, str]:
    """``text`` within ``limit`` bytes, and a note of what was left out (empty: nothing was)."""
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= limit:
        return text, ""
    half = limit // 2
    left_out = len(data) - 2 * half
    head = data[:half].decode("utf-8", "ignore")
    tail = data[-half:].decode("utf-8", "ignore")
    note = f"{left_out} of {len(data)} bytes left out between head and tail"
    return f"{head}\n[... {left_out} bytes left out ...]\n{tail}", note


def fact_fields(fact: Fact) -> dict[str, Any]:
    """A fact as a ledger carries it, without its id.

    ``raw_sha256`` is that of the whole text after redaction: a digest of the text before it
    would let a short password be guessed from what surrounds it.
    """
    whole = redact(fact.origin.raw)
    raw, note = cap(whole)
    fields: dict[str, Any] = {
        "kind": fact.kind,
        "at": rfc3339(fact.origin.at),
        "source": fact.origin.source,
        "values": _capped(plain(fact.values())),
        "raw": raw,
        "raw_sha256": hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest(),
    }
    return {**fields, "raw_note": note} if note else fields


def fault(data: Any) -> str:
    """Why a decoded line is no record of this schema; empty when it is one."""
    if not isinstance(data, dict):
        return f"an object was expected, not a {type(data).__name__}"
    kind = data.get("record")
    if not isinstance(kind, str) or kind not in FIELDS:
        return f"unknown kind of record: {kind!r}"
    for field, form in FIELDS[kind].items():
        if not isinstance(data.get(field), form):
            return f"{kind} without a usable {field!r}"
    return ""


def _capped(value: Any) -> Any:
    if isinstance(value, str):
        return cap(redact(value))[0]
    if isinstance(value, dict):
        return {key: _capped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_capped(item) for item in value]
    return value


def visible(value: Any) -> Any:
    """Texts in plain data with what cannot be printed shown as an escape: a terminal's control
    codes and marks that turn the direction of writing have no business in a report.
    """
    if isinstance(value, str):
        if value.replace("\n", "").replace("\t", "").isprintable():
            return value  # nearly every text
        return "".join(
            letter
            if letter.isprintable() or letter in "\n\t"
            else letter.encode("unicode_escape").decode("ascii")
            for letter in value
        )
    if isinstance(value, Mapping):
        return {visible(key): visible(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [visible(item) for item in value]
    return value
