"""Objects kept as compressed JSON, parsed when somebody looks and kept parsed only for a while.

A parsed Node takes three to five times its JSON, and a heart-beat changes a hundred bytes of it:
a revision is stored as what differs from an earlier one of the same object (zlib with that one as
its dictionary), which makes a beat of an 11 KB Node about 120 bytes.
"""

from __future__ import annotations

import json
import threading
import zlib
from collections import OrderedDict
from typing import Any

Obj = dict[str, Any]

PARSED_BYTES = 4 * 1024 * 1024
"""JSON bytes of the objects that are kept parsed (about four times as much memory)."""

_LEVEL, _MEMORY, _WINDOW = 3, 7, -15  # raw deflate; memory 8 takes five times as long, measured
_ENCODE = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


class Shelf:
    """The objects that were looked at last, parsed. Shared by feeds and threads."""

    def __init__(self, limit: int = PARSED_BYTES) -> None:
        self._limit = limit
        self._held = 0
        self._objects: OrderedDict[Packed, Obj] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, packed: Packed) -> Obj | None:
        """An object, if it is still parsed."""
        with self._lock:
            found = self._objects.get(packed)
            if found is not None:
                self._objects.move_to_end(packed)
            return found

    def put(self, packed: Packed, obj: Obj) -> None:
        """Keep an object parsed until others push it out."""
        with self._lock:
            if packed in self._objects:
                return
            self._objects[packed] = obj
            self._held += packed.size
            while self._held > self._limit and len(self._objects) > 1:
                gone, _ = self._objects.popitem(last=False)
                self._held -= gone.size


class Packed:
    """One object as bytes. ``size`` is that of its JSON; ``data`` needs ``base`` to be read."""

    __slots__ = ("base", "data", "shelf", "size")

    def __init__(self, data: bytes, size: int, base: Packed | None, shelf: Shelf | None) -> None:
        self.data = data
        self.size = size
        self.base = base
        self.shelf = shelf

    @property
    def obj(self) -> Obj:
        """The object; what is not on the shelf is parsed. Not to be changed by who looks."""
        found = self.shelf.get(self) if self.shelf else None
        if found is None:
            found = json.loads(self.text())
            if self.shelf:
                self.shelf.put(self, found)
        return found

    def text(self) -> bytes:
        """The object's JSON."""
        if self.base is None:
            return zlib.decompress(self.data, _WINDOW)
        return zlib.decompressobj(_WINDOW, zdict=self.base.text()).decompress(self.data)


def pack(obj: Obj, like: Packed | None = None, shelf: Shelf | None = None) -> Packed:
    """An object as bytes; ``like`` is an earlier one of the same object.

    ``obj`` itself is put on the shelf.
    """
    text = _ENCODE(obj).encode()
    base = like and (like.base or like)  # one step deep, however long the history
    packed = None
    if base is not None:
        data = _deflated(text, base.text())
        if 2 * len(data) < len(base.data):
            packed = Packed(data, len(text), base, shelf)
    if packed is None:
        packed = Packed(_deflated(text), len(text), None, shelf)
    if shelf is not None:
        shelf.put(packed, obj)
    return packed


def _deflated(text: bytes, like: bytes = b"") -> bytes:
    made = (
        zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, like)
        if like
        else zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
    )
    return made.compress(text) + made.flush()
