"""Documents held against the JSON Schema that is published for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

SCHEMAS = Path(__file__).resolve().parents[2] / "reports" / "schema"


@cache
def schema(name: str) -> Draft202012Validator:
    loaded = json.loads((SCHEMAS / f"{name}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(loaded)
    return Draft202012Validator(loaded)


def assert_valid(document: Mapping[str, Any], name: str = "signoff") -> None:
    wrong = [f"{one.json_path}: {one.message}" for one in schema(name).iter_errors(document)]
    assert wrong == [], "\n".join(wrong)
