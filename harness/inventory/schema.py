"""The published JSON Schema of an inventory, and what it allows at a path."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from harness.inventory.models import Lab

Schema = dict[str, Any]


@cache
def published() -> str:
    """The schema as text (JSON Schema 2020-12): sorted keys, two spaces, the same every time."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_tidy(Lab.model_json_schema(by_alias=True, mode="validation")),
        "title": "Inventory of a lab",
    }
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=True) + "\n"


def write(path: Path) -> None:
    """Write the published schema to ``path``."""
    path.write_text(published(), encoding="utf-8")


def at(path: tuple[str | int, ...]) -> Schema:
    """The part of the schema that governs ``path``; empty where nothing is allowed."""
    root = _loaded()
    part = root
    for step in path:
        part = _step(_resolved(root, part), step)
    return {**_resolved(root, part), **{k: v for k, v in part.items() if k == "description"}}


@cache
def _loaded() -> Schema:
    loaded: Schema = json.loads(published())
    return loaded


def _resolved(root: Schema, part: Schema) -> Schema:
    if "anyOf" in part:
        part = part["anyOf"][0]
    if "$ref" in part:
        named: Schema = root["$defs"][part["$ref"].rpartition("/")[2]]
        return named
    return part


def _step(part: Schema, step: str | int) -> Schema:
    if isinstance(step, int):
        inside = part.get("items", {})
    else:
        inside = part.get("properties", {}).get(step, part.get("additionalProperties", {}))
    return inside if isinstance(inside, dict) else {}


def _tidy(part: Any) -> Any:
    """Without null (a field is left out by absence) and without generated titles."""
    if isinstance(part, list):
        return [_tidy(item) for item in part]
    if not isinstance(part, dict):
        return part
    kept = {
        key: {name: _tidy(item) for name, item in value.items()}
        if key in ("properties", "$defs")
        else _tidy(value)
        for key, value in part.items()
        if not (key == "title" or (key == "default" and value is None))
    }
    if "patternProperties" in kept:  # it would let any other key pass
        [(pattern, item)] = kept.pop("patternProperties").items()
        kept |= {"propertyNames": {"pattern": pattern}, "additionalProperties": item}
    choices = [item for item in kept.get("anyOf", []) if item != {"type": "null"}]
    if "anyOf" in kept and len(choices) == 1:
        del kept["anyOf"]
        return {**choices[0], **kept}
    return kept
