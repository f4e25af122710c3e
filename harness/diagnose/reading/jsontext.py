"""JSON values that stand one after another in a text, up to where they were cut."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

BEGIN = re.compile(r"(?:\{\s*(?:\"|\}|$)|\[\s*(?:[\[{\]]|$))")
"""How a JSON text begins; a kernel's ``[    0.000000]`` does not."""

_SPACE = re.compile(r"[\s,]*")
_ITEMS = re.compile(
    r'\{\s*(?:"(?P<k1>apiVersion|kind)"\s*:\s*"(?P<v1>[^"\\]*)"\s*,\s*)?'
    r'(?:"(?P<k2>apiVersion|kind)"\s*:\s*"(?P<v2>[^"\\]*)"\s*,\s*)?'
    r'(?:"metadata"\s*:\s*\{[^{}]*\}\s*,\s*)?"items"\s*:\s*\[\s*'
)


@dataclass(frozen=True, slots=True)
class Value:
    """One value. ``listed`` marks a List of which every item was read. ``trouble`` says why there
    is none; ``text`` is what is no JSON at all, up to the end."""

    line: int
    value: Any = None
    listed: bool = False
    trouble: str = ""
    text: str = ""


def _no_number(said: str) -> NoReturn:
    raise ValueError(f"{said} is no number of JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


def values(text: str, line: int = 1) -> Iterator[Value]:
    """The values of a text; the items of a List come first, then the List without them."""
    at, end = _skip(text, 0), len(text)
    while at < end:
        number = line + text.count("\n", 0, at)
        if not BEGIN.match(text, at):
            yield Value(number, text=text[at:])
            return
        items = _ITEMS.match(text, at)
        if items:
            following = yield from _listed(text, at, items, line)
        else:
            following = yield from _one(text, at, number)
        if following is None:
            return
        at = _skip(text, following)


def is_list(obj: dict[str, Any]) -> bool:
    """Whether it is a List, or a PodList and the like."""
    return str(obj.get("kind", "")).endswith("List") and isinstance(obj.get("items"), list)


def looks_like_object(obj: dict[str, Any]) -> bool:
    """Whether it says what a Kubernetes object says of itself."""
    return isinstance(obj.get("kind"), str) and isinstance(obj.get("apiVersion"), str)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _decode(text: str, at: int) -> tuple[Any, int] | str:
    try:
        return _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        return getattr(error, "msg", "") or str(error)


def _one(text: str, at: int, line: int) -> Generator[Value, None, int | None]:
    read = _decode(text, at)
    if isinstance(read, str):
        yield Value(line, trouble=f"cut, or no JSON: {read[:120]}")
        return None
    value, end = read
    yield Value(line, value)
    return end


def _listed(
    text: str, start: int, opening: re.Match[str], line: int
) -> Generator[Value, None, int | None]:
    """The items of a List one by one, so that those before a cut are not lost."""
    said = {opening["k1"]: opening["v1"], opening["k2"]: opening["v2"]}
    at = opening.end()
    number, counted = line + text.count("\n", 0, start), start
    while not text.startswith("]", at):
        number += text.count("\n", counted, at)
        counted = at
        read = _decode(text, at)
        if isinstance(read, str):
            yield Value(number, trouble="cut inside this object: it is not used")
            return None
        value, at = read
        yield Value(number, _typed(value, said))
        at = _skip(text, at)
    envelope = _decode(text[start : opening.end()] + text[at:], 0)
    if isinstance(envelope, str):
        yield Value(number, trouble="the List is cut at its end")
        return None
    value, end = envelope
    whole = isinstance(value, dict) and not (value.get("metadata") or {}).get("continue")
    yield Value(number, value, listed=whole)
    return at + end - (opening.end() - start)


def _typed(value: Any, said: dict[str, str]) -> Any:
    """An item of a PodList, which does not say itself that it is a Pod."""
    kind = said.get("kind") or ""
    if isinstance(value, dict) and "kind" not in value and kind.endswith("List") and kind != "List":
        return {"apiVersion": said.get("apiVersion", ""), "kind": kind[:-4], **value}
    return value
