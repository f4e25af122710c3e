"""Strategic merge patch: lists of named things merge by name, with the ``$patch`` directives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from harness.twin.apiserver.errors import UNKNOWN, ApiError
from harness.twin.apiserver.resources import Obj

# Lists of metadata that every kind has.
METADATA_KEYS: Final = {"metadata.ownerReferences": "uid", "metadata.finalizers": ""}

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_DELETE: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"

ListKeys = Mapping[str, str]


def merge(target: Obj, patch: Obj, list_keys: ListKeys) -> Obj:
    """``target`` after a strategic merge patch; untouched parts are shared with it.

    ``list_keys`` maps a list's dotted path to its merge key ("" for a set of scalars); any other
    list is replaced whole. Raises 500, as the API does, for a directive that is unknown and
    for an item without its key, 400 for a directive that is malformed.
    """
    return _merge_map(target, patch, {**METADATA_KEYS, **list_keys}, "")


def _merge_map(target: Obj, patch: Obj, keys: ListKeys, path: str) -> Obj:
    directive = patch.get(_DIRECTIVE, "merge")
    if directive == "replace":
        return _plain_map({key: value for key, value in patch.items() if key != _DIRECTIVE})
    if directive == "delete":
        return {}
    if directive != "merge":
        raise ApiError(500, f"unknown patch type: {directive} in map", reason=UNKNOWN)
    out = _retained(target, patch)
    for key, value in patch.items():
        if not key.startswith("$"):
            _merge_field(out, key, value, keys, f"{path}.{key}" if path else key)
    _apply_list_directives(out, target, patch, keys, path)
    return out


def _retained(target: Obj, patch: Obj) -> Obj:
    if _RETAIN not in patch:
        return dict(target)
    kept = set(_list_of(patch[_RETAIN], _RETAIN))
    return {key: value for key, value in target.items() if key in kept}


def _merge_field(out: Obj, key: str, value: Any, keys: ListKeys, path: str) -> None:
    before = out.get(key)
    if value is None or (isinstance(value, dict) and value.get(_DIRECTIVE) == "delete"):
        out.pop(key, None)
    elif isinstance(value, dict):
        out[key] = _merge_map(before if isinstance(before, dict) else {}, value, keys, path)
    elif isinstance(value, list) and path in keys:
        out[key] = _merge_list(before if isinstance(before, list) else [], value, keys, path)
    else:
        out[key] = _plain(value)


def _merge_list(target: list[Any], patch: list[Any], keys: ListKeys, path: str) -> list[Any]:
    if any(isinstance(item, dict) and _is_replace(item) for item in patch):
        return [_plain(item) for item in patch if not _is_replace(item)]
    name = keys[path].partition(",")[0]
    if not name:
        return _ordered(_united(target, patch), patch, target, name)
    out = list(target)
    for item in patch:
        _merge_item(out, item, name, keys, path)
    return _ordered(out, patch, target, name)


def _united(target: list[Any], patch: list[Any]) -> list[Any]:
    out = list(target)
    out.extend(item for i, item in enumerate(patch) if item not in target + patch[:i])
    return out


def _is_replace(item: Any) -> bool:
    return isinstance(item, dict) and item.get(_DIRECTIVE) == "replace"


def _merge_item(out: list[Any], item: Any, name: str, keys: ListKeys, path: str) -> None:
    if not isinstance(item, dict) or name not in item:
        text = f"map: {item} does not contain declared merge key: {name}"
        raise ApiError(500, text, reason=UNKNOWN)
    spots = [i for i, old in enumerate(out) if isinstance(old, dict) and _same(old, item, name)]
    if item.get(_DIRECTIVE) == "delete":
        for i in reversed(spots):
            del out[i]
    elif spots:
        out[spots[0]] = _merge_map(out[spots[0]], item, keys, path)
    else:
        out.append(_merge_map({}, item, keys, path))


def _same(a: Obj, b: Obj, name: str) -> bool:
    return name in a and bool(a[name] == b[name])


def _apply_list_directives(out: Obj, target: Obj, patch: Obj, keys: ListKeys, path: str) -> None:
    for key, value in patch.items():
        if key.startswith(_DELETE):
            field = key.removeprefix(_DELETE)
            gone = _list_of(value, key)
            if isinstance(out.get(field), list):
                out[field] = [item for item in out[field] if item not in gone]
        elif key.startswith(_ORDER):
            field = key.removeprefix(_ORDER)
            name = keys.get(f"{path}.{field}" if path else field, "").partition(",")[0]
            if isinstance(out.get(field), list):
                order, before = _list_of(value, key), target.get(field)
                out[field] = _ordered(out[field], order, before or [], name)
        elif key.startswith("$") and key not in (_DIRECTIVE, _RETAIN):
            raise ApiError(400, f"unknown strategic merge patch directive: {key}")


def _ordered(items: list[Any], order: list[Any], before: list[Any], name: str) -> list[Any]:
    """A merged list in the order asked for; ``before`` is the list as it was.

    As in the API, what the order names and what it does not are each sorted for themselves, and
    then woven: an item that is not named comes first where it stood before the next named one.
    """

    def mark(item: Any) -> Any:
        return item.get(name) if name and isinstance(item, dict) else item

    ranks, places = [mark(item) for item in order], [mark(item) for item in before]
    named = sorted((i for i in items if mark(i) in ranks), key=lambda i: ranks.index(mark(i)))
    others = [item for item in items if mark(item) not in ranks]
    out: list[Any] = []
    while named and others:
        marks = mark(others[0]), mark(named[0])
        known = all(m in places for m in marks)
        first = known and places.index(marks[0]) < places.index(marks[1])
        out.append((others if first else named).pop(0))
    return [*out, *named, *others]


def _list_of(value: Any, directive: str) -> list[Any]:
    if not isinstance(value, list):
        raise ApiError(400, f"{directive} takes a list, not {value!r:.80}")
    return value


def _plain(value: Any) -> Any:
    """A value of a patch without directives and nulls, as it is stored."""
    if isinstance(value, dict):
        return _plain_map(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _plain_map(value: Obj) -> Obj:
    return {k: _plain(v) for k, v in value.items() if v is not None and not k.startswith("$")}
