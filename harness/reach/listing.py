"""A list of any length, page by page, with one object parsed at a time.

A page of 500 Nodes is six megabytes of JSON and thirty as dicts; ten thousand objects at once
would be the largest thing in the process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from harness.reach.errors import Garbled
from harness.reach.packed import Obj

PAGE = 500  # objects per request, as kubectl asks for
LOOK = "check what stands between here and the API server"
_QUOTED = 200
_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\r\n]*")

Request = Callable[[dict[str, str]], bytes]


def read_list(ask: Request, query: dict[str, str], each: Callable[[Obj], None], tried: str) -> str:
    """Ask for every page; ``each`` is given one object after the other. The list's version.

    Raises Garbled for what is no list, a list without a resourceVersion, or an object without a
    name; what ``ask`` raises, 410 for a list that expired between two pages among them.
    """
    version, asked = "", {**query, "limit": str(PAGE)}
    while True:
        rest = read_page(ask(asked), each, tried)
        metadata = rest.get("metadata")
        if not isinstance(metadata, dict):
            raise Garbled(tried, "no list in the answer", LOOK)
        version = version or str(metadata.get("resourceVersion") or "")
        if not version:
            raise Garbled(tried, "a list without a resourceVersion", LOOK)
        if not metadata.get("continue"):
            return version
        asked["continue"] = str(metadata["continue"])


def read_page(data: bytes, each: Callable[[Obj], None], tried: str) -> Obj:
    """Give each of a page's items to ``each``; what else the page says comes back.

    Raises Garbled as `read_list` does.
    """
    rest: Obj = {}
    listed = False
    try:
        text = data.decode()
        at = _past(text, 0, "{")
        while text[at] != "}":
            name, at = _DECODER.raw_decode(text, at)
            at = _past(text, at, ":")
            if name == "items" and text[at] == "[":
                listed, at = True, _items(text, at, each, tried)
            else:
                rest[name], at = _DECODER.raw_decode(text, at)
            at = _next(text, at)
    except (ValueError, IndexError, TypeError) as junk:
        quoted = data[:_QUOTED].decode("utf-8", "replace")
        raise Garbled(tried, f"{quoted!r}, no list", LOOK) from junk
    if not listed:
        raise Garbled(tried, "no list in the answer", LOOK)
    return rest


def _items(text: str, at: int, each: Callable[[Obj], None], tried: str) -> int:
    at = _past(text, at, "[")
    while text[at] != "]":
        item, at = _DECODER.raw_decode(text, at)
        each(_named(item, tried))
        at = _next(text, at)
    return at + 1


def is_named(obj: Any) -> bool:
    """Whether something is an object that can be told from the others."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict):
        return False
    name, namespace = metadata.get("name"), metadata.get("namespace")
    return isinstance(name, str) and bool(name) and isinstance(namespace, str | None)


def _named(item: Any, tried: str) -> Obj:
    if not is_named(item):
        raise Garbled(tried, f"an object without a name, {str(item)[:_QUOTED]}", LOOK)
    found: Obj = item
    return found


def _past(text: str, at: int, mark: str) -> int:
    """Where the next token begins after a mark that has to stand here."""
    at = _blank(text, at)
    if text[at] != mark:
        raise ValueError(f"no {mark!r} at character {at}")
    return _blank(text, at + 1)


def _next(text: str, at: int) -> int:
    """Where the next member begins, or the end mark."""
    at = _blank(text, at)
    if text[at] == ",":
        return _blank(text, at + 1)
    if text[at] not in "]}":
        raise ValueError(f"no ',' at character {at}")
    return at


def _blank(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
