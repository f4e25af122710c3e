"""Label and field selectors: parsed once, then asked of objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.trees import dig

_NAME: Final = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_KEY: Final = rf"(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?/)?{_NAME}"
_PRESENT: Final = re.compile(rf"(!?)\s*({_KEY})")
_COMPARED: Final = re.compile(rf"({_KEY})\s*(==|=|!=|>|<)\s*({_NAME}|)")
_LISTED: Final = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_VALUE: Final = re.compile(rf"{_NAME}|")
_OUTER_COMMA: Final = re.compile(r",(?![^(]*\))")
_FIELD: Final = re.compile(r"((?:[^\\=!,]|\\.)+?)(==|!=|=)((?:[^\\,]|\\.)*)")
_FIELD_COMMA: Final = re.compile(r"(?<!\\),")

Matcher = Callable[[Obj], bool]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector.

    ``operator``: in, notin, exists, !exists, gt, lt. As in the API, ``notin`` also matches an
    object that lacks the label.
    """

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy this term."""
        value = labels.get(self.key)
        if self.operator == "in":
            return value in self.values
        if self.operator == "notin":
            return value not in self.values
        if self.operator in ("gt", "lt"):
            return self._compares(value)
        return (value is not None) == (self.operator == "exists")

    def _compares(self, value: str | None) -> bool:
        if value is None or not re.fullmatch(r"-?\d+", value):
            return False
        bound = int(next(iter(self.values)))
        return int(value) > bound if self.operator == "gt" else int(value) < bound


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector; a missing field reads as the empty string."""

    path: str
    equal: bool
    value: str

    def matches(self, obj: Obj) -> bool:
        """Whether an object satisfies this term."""
        return (_as_text(dig(obj, self.path.split("."))) == self.value) == self.equal


@lru_cache(maxsize=2048)
def parse_labels(text: str) -> tuple[Requirement, ...]:
    """The terms of a label selector. Raises 400 for text that is none."""
    if not text.strip():
        return ()
    return tuple(_requirement(part.strip(), text) for part in _OUTER_COMMA.split(text))


def _requirement(part: str, whole: str) -> Requirement:
    if found := _PRESENT.fullmatch(part):
        return Requirement(found[2], "!exists" if found[1] else "exists")
    if found := _COMPARED.fullmatch(part):
        return _compared(found[1], found[2], found[3], whole)
    if found := _LISTED.fullmatch(part):
        values = frozenset(value.strip() for value in found[3].split(","))
        if all(_VALUE.fullmatch(value) for value in values):
            return Requirement(found[1], found[2], values)
    raise ApiError(400, f"unable to parse requirement: {part!r} in label selector {whole!r}")


def _compared(key: str, operator: str, value: str, whole: str) -> Requirement:
    if operator in (">", "<"):
        if not re.fullmatch(r"-?\d+", value):
            raise ApiError(400, f"for 'Gt', 'Lt' operators, the value must be an integer: {whole}")
        return Requirement(key, "gt" if operator == ">" else "lt", frozenset({value}))
    return Requirement(key, "notin" if operator == "!=" else "in", frozenset({value}))


@lru_cache(maxsize=2048)
def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """The terms of a field selector. Raises 400 for text that is none."""
    if not text.strip():
        return ()
    return tuple(_field_term(part.strip(), text) for part in _FIELD_COMMA.split(text))


def _field_term(part: str, whole: str) -> FieldTerm:
    found = _FIELD.fullmatch(part)
    if found is None:
        raise ApiError(400, f"invalid selector: '{whole}'; can't understand '{part}'")
    value = re.sub(r"\\(.)", r"\1", found[3])
    return FieldTerm(found[1].strip(), found[2] != "!=", value)


def matcher(resource: Resource, labels: str = "", fields: str = "") -> Matcher | None:
    """A question for objects of a kind, or None where the selectors choose everything.

    Raises 400 for a selector that does not parse or a field that this kind cannot be chosen by.
    """
    requirements, terms = parse_labels(labels), parse_fields(fields)
    for term in terms:
        _check_supported(resource, term.path)
    if not requirements and not terms:
        return None

    def chosen(obj: Obj) -> bool:
        found = obj["metadata"].get("labels") or {}
        return all(r.matches(found) for r in requirements) and all(t.matches(obj) for t in terms)

    return chosen


def _check_supported(resource: Resource, path: str) -> None:
    if path == "metadata.name" or (path == "metadata.namespace" and resource.namespaced):
        return
    if resource.builtin and not resource.field_selectors:
        raise ApiError(
            400,
            f'"{path}" is not a known field selector: only "metadata.name", "metadata.namespace"',
        )
    if path not in resource.field_selectors:
        raise ApiError(400, f"field label not supported: {path}")


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a ``meta/v1 LabelSelector`` (matchLabels, matchExpressions) chooses labels.

    As in the API, no selector chooses nothing and an empty one everything.
    """
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_expression(e).matches(labels) for e in selector.get("matchExpressions") or ())


def _expression(expression: Mapping[str, Any]) -> Requirement:
    operators = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!exists"}
    operator = expression.get("operator", "")
    if operator not in operators:
        raise ApiError(400, f'"{operator}" is not a valid label selector operator')
    values = frozenset(expression.get("values") or ())
    return Requirement(expression["key"], operators[operator], values)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
