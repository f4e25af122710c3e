"""The fields of the built-in kinds: their types, the keys of their lists, what is atomic.

`builtin_fields.json` is drawn from the OpenAPI documents of a kube-apiserver 1.33 by
tests/conformance/drawing.py; a case there tells when it is out of date. A type maps its fields to
words: ``s`` text, ``t`` a time, ``u`` one to the microsecond, ``y`` bytes in base64, ``b`` boolean,
``i`` whole number, ``n`` number, ``*`` anything, ``@Type``. Before it, ``[a,b]`` makes it a list
keyed by fields a and b, ``[=]`` a set, ``[]`` any other list, ``{}`` a map, ``{!}`` a map with one
owner; ``!`` behind it says that every object has the field. A type with an empty field of the word
``!`` has one owner.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Final

from harness.twin.apiserver.resources import ATOMIC

Fields = Mapping[str, str]
_WORD: Final = re.compile(r"(\[[^\]]*\]|\{!?\})?([stuybin*]|@\w+)(!?)")
# Lists that a strategic merge patch merges although server-side apply holds them for atomic.
_MERGED: Final = {"Pod": {"status.hostIPs": "ip"}, "Job": {"status.conditions": "type"}}


@dataclass(frozen=True, slots=True)
class Word:
    """One field's type. ``list`` is "[]", "[=]", "[key]" or "", ``map`` "{}", "{!}" or ""."""

    list: str
    map: str
    of: str
    present: bool

    @property
    def type_name(self) -> str:
        """The type of the field or of what it holds, "" where that is a scalar."""
        return self.of[1:] if self.of.startswith("@") else ""


@lru_cache(maxsize=1)
def _table() -> dict[str, Any]:
    text = files("harness.twin.apiserver").joinpath("builtin_fields.json").read_text()
    found: dict[str, Any] = json.loads(text)
    return found


@lru_cache(maxsize=4096)
def word(text: str) -> Word:
    """A field's type from the table's word for it. ValueError for what is none."""
    found = _WORD.fullmatch(text)
    if found is None:
        raise ValueError(f"no type of a field: {text!r}")
    around = found[1] or ""
    listed = around if around.startswith("[") else ""
    return Word(listed, around if not listed else "", found[2], bool(found[3]))


def type_of(api_version: str, kind: str) -> str:
    """The type of a built-in kind's objects, "" for a kind that the table does not know."""
    found: str = _table()["kinds"].get(f"{api_version}/{kind}", "")
    return found


def fields_of(type_name: str) -> Fields:
    """The fields of a type by name."""
    found: Fields = _table()["types"][type_name]
    return found


@dataclass(frozen=True, slots=True)
class Known:
    """What the table says of one kind, by dotted path, as ``Resource`` takes it."""

    list_keys: Mapping[str, str]
    present: frozenset[str]


@lru_cache(maxsize=256)
def known(api_version: str, kind: str) -> Known:
    """The keyed lists, atomic maps and fields always there of a kind; none if it is not known."""
    name = type_of(api_version, kind)
    keys: dict[str, str] = {}
    present: set[str] = set()
    for path, found in _walk(name, "", ()) if name else ():
        key = _key(found)
        if key is not None:
            keys[path] = key
        if found.present:
            present.add(path)
    return Known({**keys, **_MERGED.get(kind, {})}, frozenset(present))


def _key(found: Word) -> str | None:
    if found.list:
        inner = found.list[1:-1]
        return None if not inner else "" if inner == "=" else inner
    if found.map == "{!}" or (found.type_name and not found.map and _is_atomic(found.type_name)):
        return ATOMIC
    return None


def _is_atomic(type_name: str) -> bool:
    return fields_of(type_name).get("") == ATOMIC


def _walk(type_name: str, above: str, seen: tuple[str, ...]) -> Iterator[tuple[str, Word]]:
    """Every field below a type by dotted path; a type inside itself is not gone into again."""
    for name, text in fields_of(type_name).items():
        if not name:
            continue
        found = word(text)
        path = f"{above}.{name}" if above else name
        yield path, found
        below = found.type_name
        if below and not found.map and below not in seen:
            yield from _walk(below, path, (*seen, type_name))
