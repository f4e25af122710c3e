"""JSON trees that share what did not change: copied on write, never edited in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_ABSENT: Final = object()


def copied(value: Any) -> Any:
    """A deep copy of a JSON value. Raises TypeError for anything that JSON has no word for."""
    kind = type(value)
    if kind is dict:
        return {k: v if type(v) in _PLAIN else copied(v) for k, v in value.items()}
    if kind is list:
        return [v if type(v) in _PLAIN else copied(v) for v in value]
    return _copied_oddity(value)


def _copied_oddity(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return copied(dict(value))
    if isinstance(value, tuple):
        return copied(list(value))
    raise TypeError(f"an object of the API holds JSON only, not {type(value).__name__}: {value!r}")


def shared(new: Any, old: Any) -> Any:
    """A copy of ``new`` that reuses every part equal to its counterpart in ``old``.

    The result *is* ``old`` when the two are equal. ``1``, ``1.0`` and ``true`` differ.
    """
    if new is old:
        return old
    kind = type(new)
    if kind is not type(old):
        return copied(new)
    if kind is dict:
        return _shared_map(new, old)
    if kind is list:
        return _shared_list(new, old)
    return old if new == old else copied(new)


def _shared_map(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    same = len(new) == len(old)
    out = {}
    for key, value in new.items():
        before = old.get(key, _ABSENT)
        kept = before if value is before else shared(value, before)
        same = same and kept is before
        out[key] = kept
    return old if same else out


def _shared_list(new: list[Any], old: list[Any]) -> list[Any]:
    count = len(old)
    out = [shared(v, old[i]) if i < count else copied(v) for i, v in enumerate(new)]
    if len(out) == count and all(a is b for a, b in zip(out, old, strict=True)):
        return old
    return out


def dig(tree: Any, path: Sequence[str], default: Any = None) -> Any:
    """The value under nested keys, or ``default`` where a step is missing or no map."""
    for step in path:
        if not isinstance(tree, dict) or step not in tree:
            return default
        tree = tree[step]
    return tree
