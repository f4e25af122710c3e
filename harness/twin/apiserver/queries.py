"""Query parameters as the API reads them: Go booleans, numbers, write options."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.store import Options

Query = Mapping[str, str]
_EMPTY: Query = MappingProxyType({})
_PROPAGATION = ("Background", "Foreground", "Orphan")
_VALIDATION = ("Strict", "Warn", "Ignore")


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
        raise ApiError(
            400, f'strconv.ParseInt: parsing "{text}": invalid syntax (parameter {name})'
        ) from None


def write_options(query: Query, user_agent: str) -> Options:
    """What a create, update or patch asks for besides its body.

    ApiError 422 for a value that the API does not know. The manager defaults to the first word
    of the user agent, as on a real server.
    """
    return Options(
        manager=query.get("fieldManager") or _default_manager(user_agent),
        dry_run=_dry_run([query["dryRun"]] if query.get("dryRun") else []),
        force=boolean(query, "force"),
        field_validation=_one_of(
            "fieldValidation", query.get("fieldValidation") or "Warn", _VALIDATION
        ),
    )


def delete_options(query: Query, body: Any, user_agent: str) -> Options:
    """What a delete asks for. What the body (``DeleteOptions``) says counts before the query."""
    said: dict[str, Any] = dict(body) if isinstance(body, dict) else {}
    preconditions = said.get("preconditions") or {}
    grace = said.get("gracePeriodSeconds", number(query, "gracePeriodSeconds"))
    if grace is not None and (not isinstance(grace, int) or grace < 0):
        raise _invalid("gracePeriodSeconds", grace, "must be a number that is not negative")
    dry_run = said.get("dryRun") or ([query["dryRun"]] if query.get("dryRun") else [])
    return Options(
        manager=query.get("fieldManager") or _default_manager(user_agent),
        dry_run=_dry_run(dry_run),
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
        raise _invalid("propagationPolicy", policy, "orphanDependents may not be set as well")
    if orphan is not None:
        return "Orphan" if orphan else "Background"
    return _one_of("propagationPolicy", policy or "Background", _PROPAGATION)


def _default_manager(user_agent: str) -> str:
    return user_agent.split("/", 1)[0][:128] or "unknown"


def _dry_run(values: Any) -> bool:
    for value in values:
        if value != "All":
            raise _invalid("dryRun", value, 'supported values: "All"')
    return bool(values)


def _one_of(name: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise _invalid(name, value, "supported values: " + ", ".join(f'"{k}"' for k in known))
    return value


def _invalid(name: str, value: object, why: str) -> ApiError:
    return ApiError(422, f'{name}: Invalid value: "{value}": {why}')
