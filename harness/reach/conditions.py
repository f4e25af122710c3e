"""What to wait for, of one object: conditions and phases that are of the object's current spec.

A status is written after the spec that it speaks of. ``observedGeneration``, of the status or of
one condition, says of which: below ``metadata.generation`` it speaks of an earlier spec and is
never met, as for kubectl wait. Objects without the two (Nodes, Pods before 1.33) are taken as they
are. An object that is deleted meets nothing but `deleted`.
"""

from __future__ import annotations

from typing import Any

from harness.reach.history import Obj, Revision
from harness.reach.waiters import Predicate

_STATUSES = ("True", "False", "Unknown")


def condition(kind: str, status: str = "True", *, reason: str = "") -> Predicate:
    """Whether a condition has a status (and a reason), for the spec as it stands.

    Raises ValueError at once for a status that no condition has.
    """
    _name(kind, "a condition's type")
    if status not in _STATUSES:
        raise ValueError(f"condition status {status!r}: one of {', '.join(_STATUSES)}")

    def met(revision: Revision) -> bool:
        if revision.change == "DELETED":
            return False
        found = condition_of(revision.obj, kind)
        if found is None or found.get("status") != status or not is_current(revision.obj, found):
            return False
        return not reason or found.get("reason") == reason

    return met


def phase(*names: str) -> Predicate:
    """Whether ``status.phase`` is one of these, for the spec as it stands."""
    if not names:
        raise ValueError("a phase to wait for has to be named")
    for name in names:
        _name(name, "a phase")

    def met(revision: Revision) -> bool:
        if revision.change == "DELETED" or not is_current(revision.obj):
            return False
        return _status(revision.obj).get("phase") in names

    return met


def deleted() -> Predicate:
    """Whether the object was seen to go."""
    return lambda revision: revision.change == "DELETED"


def observed() -> Predicate:
    """Whether the status says that it is of the spec as it stands; one that says nothing is not."""

    def met(revision: Revision) -> bool:
        said = "observedGeneration" in _status(revision.obj)
        return revision.change != "DELETED" and said and is_current(revision.obj)

    return met


def all_of(*wanted: Predicate) -> Predicate:
    """Whether all hold of the same revision; of none at all is the caller's mistake."""
    if not wanted:
        raise ValueError("all of nothing holds always: name what to wait for")
    return lambda revision: all(each(revision) for each in wanted)


def any_of(*wanted: Predicate) -> Predicate:
    """Whether one of them holds; of none at all is the caller's mistake."""
    if not wanted:
        raise ValueError("any of nothing never holds: name what to wait for")
    return lambda revision: any(each(revision) for each in wanted)


def condition_of(obj: Obj, kind: str) -> Obj | None:
    """A condition of an object's status, None where there is none of that type (or several)."""
    listed = _status(obj).get("conditions")
    found = [
        each
        for each in (listed if isinstance(listed, list) else [])
        if isinstance(each, dict) and each.get("type") == kind
    ]
    return found[0] if len(found) == 1 else None


def is_current(obj: Obj, condition: Obj | None = None) -> bool:
    """Whether the status, and a condition of it, speak of the spec as it stands.

    An observedGeneration that is no number is not current.
    """
    metadata = obj.get("metadata")
    generation = metadata.get("generation") if isinstance(metadata, dict) else None
    if generation is None:
        return True
    said = [part.get("observedGeneration") for part in (_status(obj), condition or {})]
    return all(one is None or _reached(one, generation) for one in said)


def _reached(observed: Any, generation: Any) -> bool:
    numbers = all(isinstance(n, int) and not isinstance(n, bool) for n in (observed, generation))
    return numbers and bool(observed >= generation)


def _status(obj: Obj) -> Obj:
    found = obj.get("status")
    return found if isinstance(found, dict) else {}


def _name(text: str, what: str) -> None:
    if not isinstance(text, str) or not text:
        raise ValueError(f"{text!r} is not {what}")
