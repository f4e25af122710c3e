"""The reference page keeps up with the models."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from harness.inventory import check, schema
from harness.inventory.capability import TERMS

PAGE = Path(__file__).resolve().parents[2] / "docs/inventory.md"


def test_the_example_loads_and_so_do_the_parts(
    put: Callable[[Any], Path], small: dict[str, Any]
) -> None:
    found = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    example, *parts = found
    assert check(put(example)) == []
    assert len(parts) == 2
    for part in parts:
        assert check(put({**small, **yaml.safe_load(part)})) == []


def test_every_field_and_need_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    published = json.loads(schema.published())
    parts = [published, *published["$defs"].values()]
    names = {name for part in parts for name in part.get("properties", {})}
    assert len(names) > 30
    assert not [
        name for name in names | set(TERMS) if not re.search(rf"\b{re.escape(name)}\b", page)
    ]
