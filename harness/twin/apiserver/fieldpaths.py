"""Paths of fields in the FieldsV1 form, and the differences between two objects as such paths.

A path is a tuple of FieldsV1 elements: ``f:name`` for a field, ``k:{"name":"a"}`` for an item of a
keyed list, ``v:"x"`` for a member of a set. Lists of a kind that names no key are atomic: they are
one field. An item of a keyed list is also a path of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.twin.apiserver.resources import ATOMIC, Obj, Resource
from harness.twin.apiserver.strategic import METADATA_KEYS

Path = tuple[str, ...]

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
# By what an item is told from others where it leaves it out.
_KEY_DEFAULTS: Final = {"protocol": "TCP"}


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known of a kind's fields, by dotted path (list indexes left out).

    ``keys``: the keyed lists and atomic maps, as ``Resource.list_keys``. ``present``: maps and
    lists that every object has, so that nobody owns them apart from what is in them.
    """

    keys: Mapping[str, str]
    present: frozenset[str] = frozenset({"metadata"})


def shape_of(resource: Resource) -> Shape:
    """The shape of a kind, its metadata included."""
    keys = {**METADATA_KEYS, **resource.list_keys}
    return Shape(keys, frozenset({"metadata", *resource.present}))


def fields(obj: Obj, shape: Shape, *, nodes: bool = False) -> set[Path]:
    """The paths of all that an object sets, leaving out what nobody owns.

    With ``nodes`` also those of the maps and lists that hold it: an API server gives these to
    plain writers, and not to who applies.
    """
    out: set[Path] = set()
    for name, value in ownable(obj).items():
        _walk(value, (f"f:{name}",), name, shape, out, nodes=nodes)
    return out


def twice(value: Any, shape: Shape, dotted: str = "") -> str:
    """Where a keyed list or a set names an item twice: ``.path: ... [key]``, or ""."""
    if isinstance(value, dict):
        below = ((item, f"{dotted}.{name}" if dotted else name) for name, item in value.items())
    elif isinstance(value, list):
        element = _repeated(value, dotted, shape)
        if element:
            return f".{dotted}: duplicate entries for key {shown((element,))}"
        below = ((item, dotted) for item in value)
    else:
        return ""
    return next((found for item, path in below if (found := twice(item, shape, path))), "")


def _repeated(value: list[Any], dotted: str, shape: Shape) -> str:
    names = _names(dotted, shape)
    if names is None or (names and not all(isinstance(item, dict) for item in value)):
        return ""
    elements = [element_of(item, names) if names else f"v:{_compact(item)}" for item in value]
    return next((e for i, e in enumerate(elements) if e in elements[:i]), "")


def ownable(obj: Obj) -> Obj:
    """The part of an object that managers own."""
    out = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata")}
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in SERVER_METADATA}
    if metadata:
        out["metadata"] = metadata
    return out


def _walk(
    value: Any, path: Path, dotted: str, shape: Shape, out: set[Path], *, nodes: bool
) -> None:
    if isinstance(value, dict) and value and shape.keys.get(dotted) != ATOMIC:
        if nodes and dotted not in shape.present:
            out.add(path)
        for name, item in value.items():
            _walk(item, (*path, f"f:{name}"), f"{dotted}.{name}", shape, out, nodes=nodes)
        return
    items = by_element(value, dotted, shape)
    if not items:
        out.add(path)
        return
    if nodes and dotted not in shape.present:
        out.add(path)
    for element, item in items.items():
        out.add((*path, element))
        if element[0] == "k":
            for name, part in item.items():
                here = (*path, element, f"f:{name}")
                _walk(part, here, f"{dotted}.{name}", shape, out, nodes=nodes)


def by_element(value: Any, dotted: str, shape: Shape) -> dict[str, Any] | None:
    """A list's items by their path element; None for what is no list or an atomic one."""
    names = _names(dotted, shape) if isinstance(value, list) else None
    if names is None:
        return None
    if not names:
        return {f"v:{_compact(item)}": item for item in value}
    if not all(isinstance(item, dict) and names[0] in item for item in value):
        return None
    return {element_of(item, names): item for item in value}


def _names(dotted: str, shape: Shape) -> list[str] | None:
    """What a list's items are told apart by, [] for a set; None for an atomic list."""
    key = shape.keys.get(dotted, ATOMIC)
    return None if key == ATOMIC else [name for name in key.split(",") if name]


def element_of(item: Obj, names: Iterable[str]) -> str:
    """The path element of an item of a keyed list."""
    marks = {name: item.get(name, _KEY_DEFAULTS.get(name)) for name in names}
    return f"k:{_compact({k: v for k, v in marks.items() if v is not None})}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def difference(old: Obj, new: Obj, shape: Shape) -> tuple[set[Path], set[Path]]:
    """(paths set anew or to another value, paths no longer there) between two objects.

    Maps and lists that came or went are paths too. Parts that are the same Python object are not
    looked into.
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
        _compare(before, after, (f"f:{name}",), name, shape, (changed, removed))
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
    shape: Shape,
    found: tuple[set[Path], set[Path]],
) -> None:
    if old is new:
        return
    maps = isinstance(old, dict) and isinstance(new, dict) and (old or new)
    if maps and shape.keys.get(dotted) != ATOMIC:
        for name in old.keys() | new.keys():
            parts = old.get(name, _NOTHING), new.get(name, _NOTHING)
            _compare(*parts, (*path, f"f:{name}"), f"{dotted}.{name}", shape, found)
        return
    olds, news = by_element(old, dotted, shape), by_element(new, dotted, shape)
    if olds is not None and news is not None and (olds or news):
        _compare_items(olds, news, path, dotted, shape, found)
    elif type(old) is not type(new) or old != new:
        _replace(old, new, path, dotted, shape, found)


def _compare_items(
    olds: dict[str, Any],
    news: dict[str, Any],
    path: Path,
    dotted: str,
    shape: Shape,
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
                shape,
                found,
            )


def _replace(
    old: Any,
    new: Any,
    path: Path,
    dotted: str,
    shape: Shape,
    found: tuple[set[Path], set[Path]],
) -> None:
    gone: set[Path] = set()
    come: set[Path] = set()
    if old is not _NOTHING:
        _walk(old, path, dotted, shape, gone, nodes=True)
    if new is not _NOTHING:
        _walk(new, path, dotted, shape, come, nodes=True)
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
    return isinstance(item, dict) and all(
        item.get(k, _KEY_DEFAULTS.get(k)) == v for k, v in wanted.items()
    )
