"""Reads an object as its kind: fields that it does not know go, values of another type are refused.

A built-in kind's fields are those of ``fieldtable``; of a custom kind only the metadata is known.
"""

from __future__ import annotations

import base64
import re
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from harness.twin.apiserver import fieldtable
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.fieldtable import Word
from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.serverside import untyped

_META: Final = "ObjectMeta"
_WANTED: Final = {
    **dict.fromkeys("stu", "string"),
    "y": "[]uint8",
    "b": "bool",
    "i": "int32",
    "n": "float64",
}
_BASE64: Final = frozenset(string.ascii_letters + string.digits + "+/\r\n")
_SECOND: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
_ZONE: Final = r"(?:Z|[+-]\d\d:\d\d)"
# (what a time must look like, how Go writes that)
_TIMES: Final = {
    "t": (re.compile(rf"{_SECOND}(?:\.\d+)?{_ZONE}"), "2006-01-02T15:04:05Z07:00"),
    "u": (re.compile(rf"{_SECOND}\.\d{{6}}{_ZONE}"), "2006-01-02T15:04:05.000000Z07:00"),
}
_SCALARS: Final[dict[str, tuple[type, ...]]] = {
    "s": (str,),
    "y": (str,),
    "t": (str,),
    "u": (str,),
    "b": (bool,),
    "i": (int,),
    "n": (int, float),
}


class _Mismatch(Exception):
    """A value of another type than its field's, worded as Go's decoder words it."""


Fits = Callable[[Any], bool]


@lru_cache(maxsize=512)
def _fields(type_name: str) -> dict[str, Fits]:
    """For each field of a type, whether a value is just as the field wants it."""
    known = fieldtable.fields_of(type_name)
    return {name: _fits(fieldtable.word(text)) for name, text in known.items() if name}


def _fits(found: Word) -> Fits:
    inner = _fits_one(found)
    if found.list:
        return lambda value: type(value) is list and all(map(inner, value))
    if found.map:
        return lambda value: type(value) is dict and all(map(inner, value.values()))
    return inner


def _fits_one(found: Word) -> Fits:
    name = found.type_name
    if name:
        return lambda value: type(value) is dict and _suits(name, value)
    if found.of == "y":
        return lambda value: (
            type(value) is str and len(value) % 4 == 0 and _BASE64.issuperset(value)
        )
    if found.of in _TIMES:
        pattern = _TIMES[found.of][0]
        return lambda value: type(value) is str and pattern.fullmatch(value) is not None
    types = _SCALARS.get(found.of)
    return (lambda value: type(value) in types) if types else (lambda value: value is not None)


def _suits(type_name: str, value: Obj) -> bool:
    """Whether an object is as its type wants it, so that nothing need be told or dropped."""
    known = _fields(type_name)
    for name, item in value.items():
        fits = known.get(name)
        if fits is None or not fits(item):
            return False
    return True


@dataclass(slots=True)
class _Reader:
    """Collects the paths of unknown fields while an object is read."""

    unknown: list[str] = field(default_factory=list)

    def struct(self, type_name: str, value: Any, path: str, names: str) -> Any:
        """A value of a type with fields. ``names`` is the path without list indexes."""
        if not isinstance(value, dict):
            raise _mismatch(value, type_name, names, f"v1.{type_name}")
        known = fieldtable.fields_of(type_name)
        out = {}
        for name, item in value.items():
            here = f"{path}.{name}" if path else name
            if name not in known or not name:
                self.unknown.append(here)
            elif item is not None:
                found = fieldtable.word(known[name])
                where = (type_name, here, f"{names}.{name}" if names else name)
                out[name] = self.value(found, item, where)
        return out

    def value(self, found: Word, value: Any, where: tuple[str, str, str]) -> Any:
        """A field's value; ``where``: the type it is a field of, its path, its names."""
        struct, path, names = where
        if found.list:
            if not isinstance(value, list):
                raise _mismatch(value, struct, names, f"[]{_go(found)}")
            one = replace(found, list="")
            return [
                self.value(one, v, (struct, f"{path}[{i}]", names)) for i, v in enumerate(value)
            ]
        if found.map:
            if not isinstance(value, dict):
                raise _mismatch(value, struct, names, f"map[string]{_go(found)}")
            one = replace(found, map="")
            return {k: self.value(one, v, (struct, f"{path}.{k}", names)) for k, v in value.items()}
        if found.type_name:
            if not isinstance(value, dict):
                raise _mismatch(value, struct, names, _go(found))
            return self.struct(found.type_name, value, path, names)
        return _scalar(found, value, struct, names)


def _scalar(found: Word, value: Any, struct: str, names: str) -> Any:
    types = _SCALARS.get(found.of)
    if found.of == "y" and isinstance(value, str):
        _check_base64(value)
    if found.of in _TIMES and isinstance(value, str):
        _check_time(value, *_TIMES[found.of])
    if types is None or (isinstance(value, types) and (found.of == "b") == isinstance(value, bool)):
        return value
    if value is None:
        return {"b": False, "i": 0, "n": 0}.get(found.of, "")
    raise _mismatch(value, struct, names, _WANTED[found.of])


def _check_base64(text: str) -> None:
    whole = text.rstrip("=")
    bad = next((i for i, mark in enumerate(whole) if mark not in _BASE64), None)
    if bad is None and len(text) % 4:
        bad = len(text) - len(text) % 4
    if bad is not None:
        raise _Mismatch(f"illegal base64 data at input byte {bad}")


def _check_time(text: str, pattern: re.Pattern[str], layout: str) -> None:
    if not pattern.fullmatch(text):
        raise _Mismatch(f'parsing time "{text}" as "{layout}": cannot parse "{text}"')


def _go(found: Word) -> str:
    return f"v1.{found.type_name}" if found.type_name else _WANTED.get(found.of, "interface {}")


def _mismatch(value: Any, struct: str, names: str, wanted: str) -> _Mismatch:
    words = {bool: "bool", str: "string", dict: "object", list: "array", type(None): "null"}
    found = words.get(type(value), "number")
    found = f"number {value}" if isinstance(value, float) else found
    return _Mismatch(
        f"json: cannot unmarshal {found} into Go struct field {struct}.{names} of type {wanted}"
    )


@dataclass(frozen=True, slots=True)
class Decoded:
    """An object as its kind knows it, and what was wrong with it.

    ``duplicates``, ``unknown``: paths of fields. ``mismatch``: why it is no object of its kind at
    all, or "".
    """

    obj: Any
    duplicates: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    mismatch: str = ""

    @property
    def strict(self) -> tuple[str, ...]:
        """What a strict reader refuses, worded as in the API."""
        told = [f'duplicate field "{path}"' for path in self.duplicates]
        return (*told, *(f'unknown field "{path}"' for path in self.unknown))


def decoded(resource: Resource, obj: Any, duplicates: Sequence[str] = ()) -> Decoded:
    """An object that a client sent or a patch made; ``duplicates`` are fields it says twice."""
    twice = tuple(duplicates)
    if not isinstance(obj, dict) or obj.get("kind", resource.kind) != resource.kind:
        return Decoded(obj, twice)
    reader = _Reader()
    try:
        known = _known(reader, resource, obj)
    except _Mismatch as problem:
        return Decoded(obj, mismatch=str(problem))
    return Decoded(known, twice, tuple(reader.unknown))


def _known(reader: _Reader, resource: Resource, obj: Obj) -> Obj:
    name = fieldtable.type_of(resource.api_version, resource.kind) if resource.builtin else ""
    if name:
        found: Obj = obj if _suits(name, obj) else reader.struct(name, obj, "", "")
        return _folded(found) if name == "Secret" else found
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or _suits(_META, metadata):
        return obj
    return {**obj, "metadata": reader.struct(_META, obj["metadata"], "metadata", "metadata")}


def _folded(secret: Obj) -> Obj:
    """A Secret as it is kept: what it says in plain text is data too, and it has a type."""
    out = {key: value for key, value in secret.items() if key != "stringData"}
    plain = secret.get("stringData") or {}
    coded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
    if coded:
        out["data"] = {**out.get("data", {}), **coded}
    return {**out, "type": out.get("type") or "Opaque"}


def sent(resource: Resource, found: Decoded, validation: str) -> tuple[Obj, tuple[str, ...]]:
    """(object, warnings) of what a client sent to create or replace; ``validation``: Strict, ...

    Raises 400 where it is no object of its kind, and for what a strict reader refuses.
    """
    why = found.mismatch
    if not why and found.strict and validation == "Strict":
        why = f"strict decoding error: {', '.join(found.strict)}"
    if why:
        raise ApiError(
            400,
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: {why}",
        )
    return found.obj, found.strict if validation == "Warn" else ()


def patched(text: str, found: Decoded, validation: str) -> tuple[Obj, tuple[str, ...]]:
    """(object, warnings) of what a patch made; ``text`` is its JSON. Raises 422 as ``sent`` 400."""
    why = found.mismatch
    if not why and found.strict and validation == "Strict":
        why = f"strict decoding error: {', '.join(found.strict)}"
    if why:
        message = f'Invalid value: "{_escaped(text)}": {why}'
        cause = {"reason": "FieldValueInvalid", "message": message, "field": "patch"}
        raise ApiError(422, f' "" is invalid: patch: {message}', details={"causes": [cause]})
    return found.obj, found.strict if validation == "Warn" else ()


def check_applied(resource: Resource, config: Any) -> None:
    """Refuse with 500, as the API does, to apply what does not fit the kind's fields."""
    if not isinstance(config, dict):
        return
    found = decoded(resource, config)
    if found.mismatch:
        raise untyped(config, found.mismatch)
    if found.unknown:
        raise untyped(
            config, "\n".join(f".{p}: field not declared in schema" for p in found.unknown)
        )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def header(warnings: Sequence[str]) -> dict[str, str]:
    """The HTTP header that carries warnings, none for none."""
    if not warnings:
        return {}
    return {"Warning": ", ".join(f'299 - "{_escaped(text)}"' for text in warnings)}
