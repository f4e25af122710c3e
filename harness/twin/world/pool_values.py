"""The types of a worker pool's values, as the chart's values schema and Helm would check them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.twin.world.chart_behaviour import RenderRefused
from harness.twin.world.objects import Obj
from harness.twin.world.shapes import same_type, type_of

_LISTED = ("gpus", "kernelModules")  # lists of objects, each with a name


class ValuesRefused(RenderRefused):
    """Values of the wrong types: Helm renders nothing."""

    @property
    def message(self) -> str:
        """As Helm words it."""
        head = "values don't meet the specifications of the schema(s) in the following chart(s):"
        return f"{head}\nkubernetes-nodes:\n{self.text}\n"


def check(values: Obj, defaults: Mapping[str, Any]) -> None:
    """Raises ValuesRefused for values, already laid over ``defaults``, of another type."""
    problems = [*_against(values, defaults, ""), *_nameless(values)]
    if problems:
        raise ValuesRefused("", "\n".join(f"- at '{where}': {what}" for where, what in problems))


def _against(values: Obj, defaults: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for key, default in defaults.items():
        here = f"{path}/{key}"
        if key not in values:
            yield path, f"missing property '{key}'"
        elif not same_type(values[key], default):
            yield here, f"got {type_of(values[key])}, want {type_of(default)}"
        elif isinstance(default, dict):
            yield from _against(values[key], default, here)


def _nameless(values: Obj) -> Iterator[tuple[str, str]]:
    for key in _LISTED:
        listed = values.get(key)
        for index, one in enumerate(listed if isinstance(listed, list) else ()):
            if not isinstance(one, dict):
                yield f"/{key}/{index}", f"got {type_of(one)}, want object"
            elif not isinstance(one.get("name"), str):
                yield f"/{key}/{index}", "missing property 'name'"
