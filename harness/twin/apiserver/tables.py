"""Server-side printing: the Table that `kubectl get` shows, with ages in the cluster's time.

With a plain list kubectl would compute AGE from the wall clock of the machine it runs on, which
says nothing on a cluster with a clock of its own (lab/python_kube_stack.md 3.3).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Column, Obj, Resource

_NAME = Column("Name", "metadata.name")
_AGE = Column("Age", "metadata.creationTimestamp", type="date")
INCLUDES = ("None", "Metadata", "Object")


def columns_of(resource: Resource) -> tuple[Column, ...]:
    """The columns of a kind: its name, then what it declares; name and age if nothing is.

    A kind may put its name elsewhere: an Event's is the last of the wide columns.
    """
    declared = resource.columns or (_AGE,)
    named = any(column.name == "Name" for column in declared)
    return declared if named else (_NAME, *declared)


def table(
    resource: Resource,
    objects: Iterable[Obj],
    *,
    now: float,
    metadata: Obj,
    include: str = "",
    headed: bool = True,
) -> Obj:
    """A ``meta.k8s.io/v1 Table``. ``now`` is the cluster's time in seconds since the epoch.

    ``include`` (includeObject) is None, Metadata or Object, Metadata by default; ApiError 400
    for another. ``headed=False`` leaves the column definitions out (all but the first of a watch).
    """
    include = include or "Metadata"
    if include not in INCLUDES:
        text = f"""Invalid value: "{include}": must be 'Metadata', 'Object', 'None', or empty"""
        raise ApiError(400, f"Unable to convert to Table as requested: includeObject: {text}")
    columns = columns_of(resource)
    body: Obj = {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns] if headed else None,
        "rows": [_row(resource, obj, now, include) for obj in objects],
    }
    return body


def partial(obj: Obj) -> Obj:
    """The object's metadata alone, as ``PartialObjectMetadata``."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata", {}),
    }


def human_duration(seconds: float) -> str:
    """A length of time as kubectl writes it: 45s, 3m20s, 5h12m, 3d4h, 2y40d."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    if whole < 120:
        return f"{max(whole, 0)}s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 10:
        return _pair(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _pair(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _pair(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _pair(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def _definition(column: Column) -> Obj:
    # A date goes over the wire as the age that was computed here, so it is declared as text.
    return {
        "name": column.name,
        "type": "string" if column.type == "date" else column.type,
        "format": "name" if column.name == "Name" else "",
        "description": "",
        "priority": column.priority,
    }


def _row(resource: Resource, obj: Obj, now: float, include: str) -> Obj:
    # as in the API: what a custom object lacks is null, what a built-in one lacks empty
    lacking = "" if resource.builtin else None
    columns = columns_of(resource)
    row: Obj = {"cells": [_cell(column, obj, now, lacking) for column in columns]}
    if include != "None":
        row["object"] = obj if include == "Object" else partial(obj)
    return row


def _cell(column: Column, obj: Obj, now: float, lacking: str | None) -> Any:
    value = column.path(obj) if callable(column.path) else _at(obj, column.path)
    if column.type == "date":
        return _age(value, now)
    if value is None:
        return lacking if column.type == "string" else None
    return value if column.type in ("integer", "number", "boolean") else _text(value)


def _at(obj: Any, path: str) -> Any:
    for key in path.split("."):
        if not isinstance(obj, dict):
            return None
        obj = obj.get(key)
    return obj


def _age(value: Any, now: float) -> str:
    if not value:
        return "<unknown>"
    try:
        moment = datetime.datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        return "<invalid>"
    return human_duration(now - moment.timestamp())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
