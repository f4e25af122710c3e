"""Paths of fields in the FieldsV1 form, and the differences between two objects as such paths.

A path is a tuple of FieldsV1 elements: ``f:name`` for a field, ``k:{"name":"a"}`` for an item of a
keyed list, ``v:"x"`` for a member of a set. Lists of a kind that names no key are atomic: they are
one field. An item of a keyed list is also a path of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.strategic import METADATA_KEYS

Path = tuple[str, ...]
ListKeys = Mapping[str, str]

# What the server keeps itself, or what names the object: nobody owns it.
SERVER_METADATA: Final = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "managedFields",
    }
)
_NOTHING: Final = object()


def list_keys(resource: Resource) -> ListKeys:
    """The keyed lists of a kind, those of metadata included."""
    return {**METADATA_KEYS, **resource.list_keys}


def fields(obj: Obj, keys: ListKeys) -> set[Path]:
    """The paths of all that an object sets, leaving out what nobody owns."""
    out: set[Path] = set()
    for name, value in ownable(obj).items():
        _walk(value, (f"f:{name}",), name, keys, out)
    return out


def ownable(obj: Obj) -> Obj:
    """The part of an object that managers own."""
    out = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata")}
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in SERVER_METADATA}
    if metadata:
        out["metadata"] = metadata
    return out


def _walk(value: Any, path: Path, dotted: str, keys: ListKeys, out: set[Path]) -> None:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            _walk(item, (*path, f"f:{name}"), f"{dotted}.{name}", keys, out)
        return
    items = by_element(value, dotted, keys)
    if not items:
        out.add(path)
        return
    for element, item in items.items():
        out.add((*path, element))
        if element[0] == "k":
            for name, part in item.items():
                _walk(part, (*path, element, f"f:{name}"), f"{dotted}.{name}", keys, out)


def by_element(value: Any, dotted: str, keys: ListKeys) -> dict[str, Any] | None:
    """A list's items by their path element; None for what is no list or an atomic one."""
    if not isinstance(value, list) or dotted not in keys:
        return None
    names = keys[dotted].split(",") if keys[dotted] else []
    if not names:
        return {f"v:{_compact(item)}": item for item in value}
    if not all(isinstance(item, dict) and names[0] in item for item in value):
        return None
    return {element_of(item, names): item for item in value}


def element_of(item: Obj, names: Iterable[str]) -> str:
    """The path element of an item of a keyed list."""
    return f"k:{_compact({name: item[name] for name in names if name in item})}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def difference(old: Obj, new: Obj, keys: ListKeys) -> tuple[set[Path], set[Path]]:
    """(paths set anew or to another value, paths no longer there) between two objects.

    Parts that are the same Python object are not looked into.
    """
    changed: set[Path] = set()
    removed: set[Path] = set()
    for name in old.keys() | new.keys():
        if name in ("apiVersion", "kind"):
            continue
        before, after = old.get(name, _NOTHING), new.get(name, _NOTHING)
        if before is after:
            continue
        if name == "metadata":
            before, after = _owned_metadata(before), _owned_metadata(after)
        _compare(before, after, (f"f:{name}",), name, keys, (changed, removed))
    return changed, removed


def _owned_metadata(metadata: Any) -> Any:
    if metadata is _NOTHING:
        return metadata
    return {k: v for k, v in metadata.items() if k not in SERVER_METADATA}


def _compare(
    old: Any,
    new: Any,
    path: Path,
    dotted: str,
    keys: ListKeys,
    found: tuple[set[Path], set[Path]],
) -> None:
    if old is new:
        return
    if isinstance(old, dict) and isinstance(new, dict) and (old or new):
        for name in old.keys() | new.keys():
            parts = old.get(name, _NOTHING), new.get(name, _NOTHING)
            _compare(*parts, (*path, f"f:{name}"), f"{dotted}.{name}", keys, found)
        return
    olds, news = by_element(old, dotted, keys), by_element(new, dotted, keys)
    if olds is not None and news is not None and (olds or news):
        _compare_items(olds, news, path, dotted, keys, found)
    elif type(old) is not type(new) or old != new:
        _replace(old, new, path, dotted, keys, found)


def _compare_items(
    olds: dict[str, Any],
    news: dict[str, Any],
    path: Path,
    dotted: str,
    keys: ListKeys,
    found: tuple[set[Path], set[Path]],
) -> None:
    for element in olds.keys() | news.keys():
        old, new = olds.get(element, _NOTHING), news.get(element, _NOTHING)
        here = (*path, element)
        if old is _NOTHING:
            found[0].add(here)
        if new is _NOTHING:
            found[1].add(here)
        if element[0] == "k":
            _compare(
                {} if old is _NOTHING else old,
                {} if new is _NOTHING else new,
                here,
                dotted,
                keys,
                found,
            )


def _replace(
    old: Any,
    new: Any,
    path: Path,
    dotted: str,
    keys: ListKeys,
    found: tuple[set[Path], set[Path]],
) -> None:
    gone: set[Path] = set()
    come: set[Path] = set()
    if old is not _NOTHING:
        _walk(old, path, dotted, keys, gone)
    if new is not _NOTHING:
        _walk(new, path, dotted, keys, come)
    found[0].update(come)
    found[1].update(gone - come)


def to_fields_v1(paths: Iterable[Path]) -> Obj:
    """Paths as the nested ``fieldsV1`` object, sorted."""
    root: Obj = {}
    ordered = sorted(paths)
    for path in ordered:
        node = root
        for element in path:
            node = node.setdefault(element, {})
    for path in ordered:
        node = root
        for element in path:
            node = node[element]
        if node:
            node["."] = {}
    return _sorted(root)


def _sorted(node: Obj) -> Obj:
    return {key: _sorted(node[key]) for key in sorted(node)}


def from_fields_v1(node: Obj, above: Path = ()) -> Iterator[Path]:
    """The paths of a ``fieldsV1`` object."""
    for element, below in node.items():
        if element == ".":
            yield above
        elif not below:
            yield (*above, element)
        else:
            yield from from_fields_v1(below, (*above, element))


def shown(path: Path) -> str:
    """A path as error messages give it: ``.spec.containers[name="a"].image``."""
    return "".join(_shown_element(element) for element in path)


def _shown_element(element: str) -> str:
    kind, text = element[:2], element[2:]
    if kind == "f:":
        return f".{text}"
    if kind == "v:":
        return f"[={text}]"
    pairs = ",".join(f"{k}={_compact(v)}" for k, v in json.loads(text).items())
    return f"[{pairs}]"


def is_key_field(path: Path) -> bool:
    """Whether a path names a field by which an item of a list is told from the others."""
    above = path[-2] if len(path) > 1 else ""
    return above.startswith("k:") and path[-1][2:] in json.loads(above[2:])


def without(tree: Any, path: Path) -> Any:
    """``tree`` without one field; maps and lists left empty by it go too. ``tree`` is not changed.

    Gives None where nothing is left.
    """
    if isinstance(tree, dict):
        return _without_key(tree, path) or None
    if isinstance(tree, list):
        return _without_item(tree, path) or None
    return tree


def _without_key(tree: Obj, path: Path) -> Obj:
    name = path[0][2:]
    if name not in tree:
        return tree
    rest = None if len(path) == 1 else without(tree[name], path[1:])
    out = {key: value for key, value in tree.items() if key != name}
    return out if rest is None else {**tree, name: rest}


def _without_item(tree: list[Any], path: Path) -> list[Any]:
    kind, wanted = path[0][:2], json.loads(path[0][2:])
    out = []
    for item in tree:
        mine = item == wanted if kind == "v:" else _has(item, wanted)
        if mine:
            item = None if len(path) == 1 else without(item, path[1:])
        if not mine or item is not None:
            out.append(item)
    return out


def _has(item: Any, wanted: Obj) -> bool:
    return isinstance(item, dict) and all(item.get(k) == v for k, v in wanted.items())
