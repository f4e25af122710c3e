"""Conditions of objects, in the dialects the projects write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.twin.world.objects import Obj, rfc3339


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition to set. ``status`` is ``True``, ``False`` or ``Unknown``.

    ``severity`` is Cluster API's v1beta1 word and only written there.
    """

    type: str
    status: str = "True"
    reason: str = ""
    message: str = ""
    severity: str = ""


def true(kind: str, reason: str = "", message: str = "") -> Condition:
    """A condition that holds."""
    return Condition(kind, "True", reason, message)


def false(kind: str, reason: str, message: str = "", severity: str = "") -> Condition:
    """A condition that does not hold."""
    return Condition(kind, "False", reason, message, severity)


def unknown(kind: str, reason: str, message: str = "") -> Condition:
    """A condition nobody knows about yet."""
    return Condition(kind, "Unknown", reason, message)


def find(obj: Obj, kind: str) -> Obj:
    """The condition of a type as stored, or an empty one."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("type") == kind:
            return dict(condition)
    return {}


def holds(obj: Obj, kind: str) -> bool:
    """Whether the condition of a type is there and True."""
    return bool(find(obj, kind).get("status") == "True")


def write(obj: Obj, now: float, *conditions: Condition, metav1: bool = False) -> None:
    """Set conditions in ``obj.status``; the transition time moves only with the status.

    ``metav1`` writes reason and message always (metav1.Condition requires both) and the
    object's generation as ``observedGeneration``; otherwise empty ones are left out.
    """
    stored = obj.setdefault("status", {}).setdefault("conditions", [])
    for condition in conditions:
        _write_one(stored, obj, now, condition, metav1=metav1)


def _write_one(
    stored: list[Any], obj: Obj, now: float, condition: Condition, *, metav1: bool
) -> None:
    before = next((item for item in stored if item.get("type") == condition.type), None)
    changed = before is None or before.get("status") != condition.status
    kept = "" if changed or before is None else before.get("lastTransitionTime")
    moment = kept or rfc3339(now)
    after = _form(condition, moment, metav1=metav1)
    if metav1:
        after["observedGeneration"] = obj["metadata"].get("generation", 1)
    if before is None:
        stored.append(after)
    else:
        stored[stored.index(before)] = after


def _form(condition: Condition, moment: str, *, metav1: bool) -> Obj:
    form = {"type": condition.type, "status": condition.status, "lastTransitionTime": moment}
    if condition.reason or metav1:
        form["reason"] = condition.reason
    if condition.message or metav1:
        form["message"] = condition.message
    if condition.severity:
        form["severity"] = condition.severity
    return form


def drop(obj: Obj, kind: str) -> None:
    """Take a condition away."""
    stored = (obj.get("status") or {}).get("conditions")
    if stored:
        obj["status"]["conditions"] = [item for item in stored if item.get("type") != kind]
