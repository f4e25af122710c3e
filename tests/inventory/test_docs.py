"""The reference page keeps up with the models."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness.inventory import check, schema
from harness.inventory.capability import TERMS

PAGE = Path(__file__).resolve().parents[2] / "docs/inventory.md"


def test_the_example_loads(put: Callable[[Any], Path]) -> None:
    [example] = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    assert check(put(example)) == []


def test_every_field_and_need_is_on_the_page() -> None:
    page = PAGE.read_text(encoding="utf-8")
    published = json.loads(schema.published())
    parts = [published, *published["$defs"].values()]
    names = {name for part in parts for name in part.get("properties", {})}
    assert len(names) > 30
    assert not [
        name for name in names | set(TERMS) if not re.search(rf"\b{re.escape(name)}\b", page)
    ]
