"""Facts as pictures need them: read from a ledger, whatever shape they have.

A value that is not what it should be is left out: a picture shows what was read, and invents
nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from harness.report.ledger import LedgerView
from harness.report.records import Record
from harness.report.redact import redact

_SHARD = re.compile(r"pool-(?P<pool>.+?)(?:\.gw\d+)?")
_MOST = 1e11
"""Seconds: more than three thousand years are no time of a lab."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A fact: the pool it is of, what it was said of, when it was read (epoch seconds, None where
    that cannot be told), and ``because``, the sentence of the verdict that it is behind.
    """

    kind: str
    pool: str
    subject: str
    at: float | None
    values: Mapping[str, Any]
    because: str = ""


def of_ledger(view: LedgerView) -> tuple[Seen, ...]:
    """Every fact, once, in the order in which it was written."""
    said: dict[str, Record] = {}
    for verdict in view.of("verdict"):
        for name in verdict.texts("facts"):
            said.setdefault(f"{verdict.shard}/{name}", verdict)
    found = []
    for key, record in view.facts().items():
        verdict_of = said.get(key)
        shard = _SHARD.fullmatch(record.shard)
        of_shard = shard["pool"] if shard else ""
        found.append(
            Seen(
                record.text("kind"),
                verdict_of.text("pool") if verdict_of else of_shard,
                verdict_of.text("subject") if verdict_of else "",
                moment(record.data.get("at")),
                mapping(record.data.get("values")),
                verdict_of.text("because") if verdict_of else "",
            )
        )
    return tuple(found)


def mapping(value: object) -> Mapping[str, Any]:
    """A mapping; an empty one for anything else."""
    return value if isinstance(value, Mapping) else {}


def items(value: object) -> Iterator[Mapping[str, Any]]:
    """The mappings of a list; nothing for anything else."""
    if isinstance(value, (list, tuple)):
        yield from (one for one in value if isinstance(one, Mapping))


def words(value: object) -> str:
    """A text, without secrets, which a cut would leave the half of; empty for anything else."""
    return _clean(value) if isinstance(value, str) else ""


@lru_cache(maxsize=4096)
def _clean(text: str) -> str:
    return redact(text)


def number(value: object) -> float | None:
    """A finite number that can be a time or a length of time, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if abs(value) > _MOST or not math.isfinite(value):
        return None
    return float(value)


def moment(value: object) -> float | None:
    """RFC 3339 as epoch seconds, else None."""
    try:
        return datetime.fromisoformat(words(value)).timestamp() if value else None
    except (ValueError, OverflowError, OSError):
        return None


def slug(name: str) -> str:
    """A name fit for a file and for an id."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "pool"


def by_pool(seen: Iterable[Seen], kind: str) -> dict[str, list[Seen]]:
    """The facts of a kind by their pool, pools and facts in the order in which they were seen."""
    found: dict[str, list[Seen]] = {}
    for one in seen:
        if one.kind == kind:
            found.setdefault(one.pool, []).append(one)
    return found


def named(told: Sequence[tuple[bool, str]], most: int = 6) -> str:
    """Sentences about many things, the (True, ...) ones first, and how many more there are."""
    order = sorted(told, key=lambda one: not one[0])
    said = "; ".join(text for _, text in order[:most])
    more = len(order) - most
    return f"{said}; and {more} more" if more > 0 else said
