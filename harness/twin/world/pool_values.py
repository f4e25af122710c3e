"""The types of a worker pool's values, as the chart's values schema and Helm would check them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.twin.world.chart_behaviour import RenderRefused
from harness.twin.world.objects import Obj
from harness.twin.world.shapes import same_type, type_of

_LISTED = ("gpus", "kernelModules")  # lists of objects, each with a name
_SIZE = re.compile(r"\d+|\d+(\.\d+)?([KMGTPE]i|[kMGTPE])")
_IMAGES: dict[str, tuple[str, ...]] = {  # clone_path.md section 1
    "builtin": ("schematicID", "version"),
    "factory": ("imageFactoryURL", "schematicID", "version"),
}


class ValuesRefused(RenderRefused):
    """Values of the wrong types: Helm renders nothing. ``where`` is the chart's name."""

    @property
    def message(self) -> str:
        """As Helm words it."""
        head = "values don't meet the specifications of the schema(s) in the following chart(s):"
        return f"{head}\n{self.where}:\n{self.text}\n"


def check(values: Obj, defaults: Mapping[str, Any]) -> None:
    """Raises ValuesRefused for values, already laid over ``defaults``, of another type."""
    problems = [*_against(values, defaults, ""), *_nameless(values), *_image(values)]
    problems += [] if problems else sizes(values, "diskSize")
    if problems:
        raise ValuesRefused("kubernetes-nodes", listed(problems))


def listed(problems: list[tuple[str, str]]) -> str:
    """Problems (path, what is wrong there) as Helm lists them."""
    return "\n".join(f"- at '{where}': {what}" for where, what in problems)


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
        rows = values.get(key)
        for index, one in enumerate(rows if isinstance(rows, list) else ()):
            if not isinstance(one, dict):
                yield f"/{key}/{index}", f"got {type_of(one)}, want object"
            elif not isinstance(one.get("name"), str):
                yield f"/{key}/{index}", "missing property 'name'"


def sizes(values: Obj, *keys: str) -> list[tuple[str, str]]:
    """What is no quantity among values that must be one."""
    return [
        (f"/{key}", f"'{values[key]}' does not match pattern '{_SIZE.pattern}'")
        for key in keys
        if not _SIZE.fullmatch(str(values[key]))
    ]


def _image(values: Obj) -> Iterator[tuple[str, str]]:
    """What is wrong with osImage, which has no default; a form that is null is an empty one."""
    image = values.get("osImage")
    if image is not None and not isinstance(image, dict):
        yield "/osImage", f"got {type_of(image)}, want object"
        return
    for form, fields in _IMAGES.items():
        own = (image or {}).get(form)
        if own is not None and not isinstance(own, dict):
            yield f"/osImage/{form}", f"got {type_of(own)}, want object"
            continue
        for field in fields:
            if not isinstance((own or {}).get(field, ""), str):
                found = type_of((own or {})[field])
                yield f"/osImage/{form}/{field}", f"got {found}, want string"
