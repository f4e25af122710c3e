"""Reading Kubernetes objects, which are plain dicts: paths, conditions, owners, timestamps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from harness.facts.fact import Origin

Obj = dict[str, Any]


def at_path(obj: Any, *path: str | int) -> Any:
    """The value at a path of keys and list positions, None where any step is not there."""
    for step in path:
        if isinstance(step, int):
            obj = obj[step] if isinstance(obj, list) and step < len(obj) else None
        else:
            obj = obj.get(step) if isinstance(obj, Mapping) else None
    return obj


def text_at(obj: Any, *path: str | int) -> str:
    """The text at a path, "" where there is none or something else."""
    found = at_path(obj, *path)
    return found if isinstance(found, str) else ""


def listed(obj: Any, *path: str | int) -> list[Any]:
    """The list at a path, empty where there is none or something else."""
    found = at_path(obj, *path)
    return found if isinstance(found, list) else []


def mapped(obj: Any, *path: str | int) -> dict[str, Any]:
    """The mapping at a path, empty where there is none or something else."""
    found = at_path(obj, *path)
    return found if isinstance(found, dict) else {}


def name_of(obj: Any) -> str:
    """metadata.name."""
    return text_at(obj, "metadata", "name")


def uid_of(obj: Any) -> str:
    """metadata.uid."""
    return text_at(obj, "metadata", "uid")


def condition(obj: Any, kind: str) -> Obj:
    """The condition of this type, empty where the object has none such."""
    for one in listed(obj, "status", "conditions"):
        if text_at(one, "type") == kind:
            return dict(one)
    return {}


def owned_by(obj: Any, kind: str, uid: str) -> bool:
    """Whether the object names this owner, by kind and UID."""
    return bool(uid) and any(
        text_at(owner, "kind") == kind and text_at(owner, "uid") == uid
        for owner in listed(obj, "metadata", "ownerReferences")
    )


def epoch(timestamp: str) -> float | None:
    """Epoch seconds of an RFC 3339 timestamp; None where it is none or names no zone."""
    try:
        moment = datetime.fromisoformat(timestamp)
        return moment.timestamp() if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def origin_of(obj: Any, at: float, cluster: str) -> Origin:
    """An origin that names the object and holds its JSON."""
    where = "/".join(part for part in (text_at(obj, "metadata", "namespace"), name_of(obj)) if part)
    raw = json.dumps(obj, indent=1, sort_keys=True, default=str)
    return Origin(at, f"{cluster} {text_at(obj, 'kind') or 'object'} {where}".strip(), raw)
