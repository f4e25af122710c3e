"""The objects of one kind, in the order a list gives them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping

from harness.twin.apiserver.records import Key
from harness.twin.apiserver.resources import Obj


class Table:
    """Objects by (namespace, name). ``objects`` is for reading only."""

    def __init__(self) -> None:
        self.objects: dict[Key, Obj] = {}
        self._sorted: list[Key] = []

    def put(self, key: Key, obj: Obj) -> None:
        """Keep an object under a key, in place of any other."""
        if key not in self.objects:
            insort(self._sorted, key)
        self.objects[key] = obj

    def drop(self, key: Key) -> None:
        """Forget an object; it must be there."""
        del self.objects[key]
        del self._sorted[bisect_left(self._sorted, key)]

    def keys(self, namespace: str = "") -> list[Key]:
        """The keys of one namespace, or of all (""), in order."""
        return in_namespace(self._sorted, namespace)

    def values(self, namespace: str = "") -> list[Obj]:
        """The objects of one namespace, or of all (""), in order."""
        objects = self.objects
        return [objects[key] for key in self.keys(namespace)]


def in_namespace(keys: list[Key], namespace: str) -> list[Key]:
    """Of sorted keys, those in a namespace ("": all)."""
    if not namespace:
        return list(keys)
    first = bisect_left(keys, (namespace, ""))
    return keys[first : bisect_left(keys, (namespace + "\0", ""), lo=first)]


def as_it_was(objects: Mapping[Key, Obj], undo: Mapping[Key, Obj | None]) -> dict[Key, Obj]:
    """Objects with some put back to an earlier state (None: it was not there)."""
    past = {key: obj for key, obj in objects.items() if key not in undo}
    past.update({key: obj for key, obj in undo.items() if obj is not None})
    return past
