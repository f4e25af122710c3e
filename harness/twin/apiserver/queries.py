"""Query parameters as the API reads them: Go booleans, numbers, write options."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl

from harness.twin.apiserver.errors import ApiError, invalid_options
from harness.twin.apiserver.store import Options

Query = Mapping[str, str]
_EMPTY: Query = MappingProxyType({})
_PROPAGATION = ("Foreground", "Background", "Orphan")
_VALIDATION = ("", "Ignore", "Strict", "Warn")
_LONGEST_MANAGER = 128
_UNSUPPORTED = "FieldValueNotSupported"


def parse(query: str) -> Query:
    """The parameters of a query string; of a repeated one the first counts, as in the API."""
    return _parsed(query) if query else _EMPTY


def repeated(query: str, name: str) -> list[str]:
    """Every value of one parameter, in order (``command=`` of an exec)."""
    return [value for key, value in parse_qsl(query, keep_blank_values=True) if key == name]


@lru_cache(maxsize=1024)
def _parsed(query: str) -> Query:
    pairs = parse_qsl(query, keep_blank_values=True)
    return MappingProxyType(dict(reversed(pairs)))


def boolean(query: Query, name: str) -> bool:
    """A flag, read as apimachinery's conversion reads it.

    Absent, ``0`` and ``false`` in any case are false; everything else, the empty string included,
    is true (``True`` is what clients in Python send).
    """
    return name in query and query[name].lower() not in ("0", "false")


def number(query: Query, name: str) -> int | None:
    """A whole number, or None where the parameter is absent. ApiError 400 for anything else."""
    text = query.get(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise ApiError(400, f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def write_options(query: Query, user_agent: str, kind: str = "PatchOptions") -> Options:
    """What a create, update or patch asks for besides its body.

    ``kind`` is that of its options (``PatchOptions``), for the messages. ApiError 422 for a value
    that the API does not know. The manager defaults to the first word of the user agent, as on a
    real server.
    """
    return Options(
        manager=_manager(query, user_agent, kind),
        dry_run=_dry_run([query["dryRun"]] if query.get("dryRun") else [], kind),
        force=boolean(query, "force"),
        field_validation=_one_of(
            kind, "fieldValidation", query.get("fieldValidation", ""), _VALIDATION
        )
        or "Warn",
    )


def delete_options(query: Query, body: Any, user_agent: str) -> Options:
    """What a delete asks for. What the body (``DeleteOptions``) says counts before the query."""
    said: dict[str, Any] = dict(body) if isinstance(body, dict) else {}
    preconditions = said.get("preconditions") or {}
    grace = said.get("gracePeriodSeconds", number(query, "gracePeriodSeconds"))
    if grace is not None and type(grace) is not int:
        raise ApiError(400, f"gracePeriodSeconds: a whole number was expected, not {grace!r:.80}")
    dry_run = said.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
    return Options(
        manager=_manager(query, user_agent, "DeleteOptions"),
        dry_run=_dry_run(dry_run, "DeleteOptions"),
        propagation=_propagation(said, query),
        precondition_uid=preconditions.get("uid", ""),
        precondition_version=preconditions.get("resourceVersion", ""),
        grace=grace,
    )


def _propagation(said: Mapping[str, Any], query: Query) -> str:
    orphan: object = said.get("orphanDependents")
    if orphan is None and "orphanDependents" in query:
        orphan = boolean(query, "orphanDependents")
    policy = said.get("propagationPolicy") or query.get("propagationPolicy")
    if orphan is not None and policy:
        raise invalid_options(
            "DeleteOptions",
            "propagationPolicy",
            f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both '
            "set",
            "FieldValueInvalid",
        )
    if orphan is not None:
        return "Orphan" if orphan else "Background"
    return _one_of("DeleteOptions", "propagationPolicy", policy or "Background", _PROPAGATION)


def _manager(query: Query, user_agent: str, kind: str) -> str:
    said = query.get("fieldManager")
    if not said:
        return user_agent.split("/", 1)[0][:_LONGEST_MANAGER] or "unknown"
    if len(said.encode()) > _LONGEST_MANAGER:
        text = f"Too long: may not be more than {_LONGEST_MANAGER} bytes"
        raise invalid_options(kind, "fieldManager", text, "FieldValueTooLong")
    for i, mark in enumerate(said):
        if not mark.isprintable():
            text = f"Invalid value: {json.dumps(said)}: invalid character U+{ord(mark):04X} "
            text += f"(at position {i})"
            raise invalid_options(kind, "fieldManager", text, "FieldValueInvalid")
    return said


def _dry_run(values: Any, kind: str) -> bool:
    if any(value != "All" for value in values):
        said = ", ".join(f'"{value}"' for value in values)
        text = f'Unsupported value: []string{{{said}}}: supported values: "All"'
        raise invalid_options(kind, "dryRun", text, _UNSUPPORTED)
    return bool(values)


def _one_of(kind: str, name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        supported = ", ".join(f'"{k}"' for k in known)
        text = f'Unsupported value: "{value}": supported values: {supported}'
        raise invalid_options(kind, name, text, _UNSUPPORTED)
    return value
