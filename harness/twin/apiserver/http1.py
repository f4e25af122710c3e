"""Plain HTTP/1.1 in as few steps as it takes: heads that are read, heads that are written.

Reading is strict and narrow: a head with anything unusual about it is not read here, and whoever
asked has it read by a complete parser instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from multidict import CIMultiDict, CIMultiDictProxy

END = b"\r\n\r\n"
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_TARGET = re.compile(r"/[!-~]*")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
# What makes a request more than one answer to one body.
_UNUSUAL = frozenset(
    {"transfer-encoding", "content-encoding", "expect", "upgrade", "te", "trailer"}
)


class Head(NamedTuple):
    """A request's head. ``target`` is the path with its query; ``length`` that of the body."""

    method: str
    target: str
    headers: CIMultiDictProxy[str]
    length: int


@lru_cache(maxsize=4096)
def read_head(head: bytes) -> Head | None:
    """The head (without the empty line that ends it), or None for one that is out of the usual."""
    if not head.isascii():
        return None
    request, *lines = head.decode().split("\r\n")
    words = request.split(" ")
    if len(words) != 3 or words[2] != "HTTP/1.1" or words[0] not in _METHODS:
        return None
    if not _TARGET.fullmatch(words[1]) or "#" in words[1]:
        return None
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        found = _HEADER.fullmatch(line)
        if found is None or found[1].lower() in _UNUSUAL:
            return None
        headers.add(found[1], found[2])
    length = _length(headers)
    if length is None or headers.get("Connection", "keep-alive").lower() != "keep-alive":
        return None
    return Head(words[0], words[1], CIMultiDictProxy(headers), length)


def _length(headers: CIMultiDict[str]) -> int | None:
    values = headers.getall("Content-Length", [])
    if not values:
        return 0
    return int(values[0]) if len(values) == 1 and re.fullmatch(r"\d{1,12}", values[0]) else None


def write_head(status: int, length: int, headers: Mapping[str, str]) -> bytes:
    """The head of an answer, with the empty line that ends it."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    text = f"HTTP/1.1 {status} {_phrase(status)}\r\n{lines}Content-Length: {length}\r\n\r\n"
    return text.encode()


@lru_cache(maxsize=64)
def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase


@lru_cache(maxsize=16)
def http_date(seconds: int) -> str:
    """Epoch seconds as a Date header has them."""
    return formatdate(seconds, usegmt=True)
