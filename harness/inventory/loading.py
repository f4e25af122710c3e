"""An inventory file to a ``Lab``, or to every problem that it has, each with its line."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from harness.inventory import document as documents
from harness.inventory import schema
from harness.inventory.document import Document
from harness.inventory.models import Lab
from harness.inventory.problems import InventoryError, Problem
from harness.inventory.references import slips
from harness.inventory.secrets import HOW
from harness.inventory.suggest import choice

_TYPES = {
    "string": "text (in quotes if it looks like a number)",
    "integer": "a whole number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
}


def load(path: Path | str, *, claims: Collection[str] | None = None) -> Lab:
    """The lab that the file at ``path`` describes; InventoryError with every problem otherwise.

    ``claims``: the known claim ids; given them, the lanes' claims are looked up too.
    """
    lab, problems = _read(Path(path), claims)
    if lab is None:
        raise InventoryError(problems)
    return lab


def check(path: Path | str, *, claims: Collection[str] | None = None) -> list[Problem]:
    """Every problem of the file at ``path``, in order of lines; empty if it loads."""
    return _read(Path(path), claims)[1]


def _read(path: Path, claims: Collection[str] | None) -> tuple[Lab | None, list[Problem]]:
    try:
        raw = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a path that no file system has
        reason = getattr(error, "strerror", None) or str(error)
        return None, [Problem(str(path), 0, "", f"no readable file ({reason})", "an inventory")]
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = min(raw.count(b"\n", 0, error.start) + 1, max(1, len(raw.splitlines())))
        return None, [Problem(str(path), line, "", "bytes that are not UTF-8", "UTF-8 text")]
    document = documents.parse(str(path), text)
    if document.data is None:
        return None, document.problems
    return _validated(document, claims)


def _validated(
    document: Document, claims: Collection[str] | None
) -> tuple[Lab | None, list[Problem]]:
    told = set(document.settled)
    lab: Lab | None = None
    try:
        lab = Lab.model_validate(document.data, by_alias=True, by_name=False)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            _report(document, detail, told)
    if isinstance(document.data, dict):
        for slip in slips(document.data, claims):
            if slip.path not in told:
                document.problem(slip.path, slip.found, slip.allowed)
    problems = sorted(document.problems, key=lambda problem: (problem.line, problem.path))
    return (None if problems else lab), problems


def _report(document: Document, detail: ErrorDetails, told: set[documents.Path]) -> None:
    path = tuple(part for part in detail["loc"] if part != "[key]")
    if detail["type"] == "parts_misfit" or path in told:  # both are reported elsewhere
        return
    told.add(path)
    document.problem(path, _found(detail, path), _allowed(detail, path))


def _found(detail: ErrorDetails, path: documents.Path) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "missing":
        return "nothing"
    if kind == "extra_forbidden":
        return f'the unknown key "{path[-1]}"'
    if kind == "literal_secret":
        return "a literal value (withheld)" if isinstance(value, str) else _described(value)
    return _described(value)


def _described(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value[:60]}..."' if len(value) > 60 else f'"{value}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    empty = "a" if value else "an empty"
    return f"{empty} list" if isinstance(value, list) else f"{empty} mapping"


def _allowed(detail: ErrorDetails, path: documents.Path) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return choice(str(path[-1]), schema.at(path[:-1]).get("properties", {}))
    if kind == "literal_secret":
        return f"an absolute path, {HOW}" if path[-1] == "kubeconfig" else HOW
    if kind == "value_error":
        return str(detail.get("ctx", {}).get("error", detail["msg"]))
    part = schema.at(path)
    words = _enumerated(part) if kind == "literal_error" else []
    if detail["loc"][-1:] == ("[key]",):
        words = schema.at(path[:-1]).get("propertyNames", {}).get("enum", [])
    if words:
        return choice(str(value), words)
    return _explained(detail, part)


def _enumerated(part: Mapping[str, Any]) -> list[str]:
    return [part["const"]] if "const" in part else list(part.get("enum", []))


def _explained(detail: ErrorDetails, part: Mapping[str, Any]) -> str:
    kind = detail["type"]
    about = str(part.get("description", ""))
    typed = _TYPES.get(str(part.get("type")), "")
    if kind == "missing":
        return about or typed or "a value"
    if kind == "too_short":
        return f"at least one entry: {about}"
    if kind.endswith("_type") or kind == "int_from_float":
        return ": ".join(text for text in (typed, about) if text) or detail["msg"]
    said = detail["msg"].replace("Input should", "it should")
    return f"{said} ({about})" if about else said
