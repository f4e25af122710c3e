"""An object as it is kept: what no rule reads is dropped, what is no object is refused."""

from __future__ import annotations

import sys
from typing import Any

Obj = dict[str, Any]
Shown = frozenset[tuple[str, ...]] | None

DEEPEST = 100
LARGEST = 200_000
"""Values in one object; its levels. Written so that few bytes become many, it is refused."""

_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_LEFT_OUT = "(left out)"


class Unfit(Exception):
    """A value that is no Kubernetes object; the message says why."""


def copied(value: Any) -> Any:
    """Plain data as a tree of its own. Raises Unfit where it is too large for one object, too deep
    (or holds itself), or holds what JSON cannot."""
    return _Copy().of(value, 0)


def slim(value: Any) -> Obj:
    """An object without managedFields, the applied configuration and what a Secret holds.

    Raises Unfit where it is none: no apiVersion, kind or name, an error of the API, or too large.
    """
    if not isinstance(value, dict):
        raise Unfit("it is no object")
    obj = copied(value)
    assert isinstance(obj, dict)
    kind, version, metadata = obj.get("kind"), obj.get("apiVersion"), obj.get("metadata")
    if kind == "Status" and "message" in obj:
        raise Unfit(f"an error of the API: {str(obj['message'])[:160]}")
    if not isinstance(kind, str) or not isinstance(version, str) or not kind or not version:
        raise Unfit("no Kubernetes object: it says no apiVersion and kind")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise Unfit(f"a {kind[:60]} without a name")
    metadata.pop("managedFields", None)
    if isinstance(metadata.get("annotations"), dict):
        metadata["annotations"].pop(_APPLIED, None)
    if kind == "Secret":
        _hide(obj)
    return obj


def _hide(secret: Obj) -> None:
    for part in ("data", "stringData"):
        if isinstance(secret.get(part), dict):
            secret[part] = dict.fromkeys(secret[part], _LEFT_OUT)


def shown_of(obj: Obj, shown: Shown) -> Shown:
    """What is known to be whole of an object, given what is known of its text.

    One without a UID, a resourceVersion and a status is what somebody wrote, not what a cluster
    holds: what it lacks may be there all the same.
    """
    metadata = obj["metadata"]
    seen = {"uid", "resourceVersion", "creationTimestamp"}.intersection(metadata)
    return shown if seen or "status" in obj else frozenset()


class _Copy:
    """A copy of plain data, with texts that can be printed and keys kept once."""

    def __init__(self) -> None:
        self._count = 0

    def of(self, value: Any, depth: int) -> Any:
        self._count += 1
        if depth > DEEPEST or self._count > LARGEST:
            raise Unfit("too large or too deep for one object")
        if isinstance(value, str):
            return _sayable(value)
        if isinstance(value, dict):
            return {
                sys.intern(_sayable(str(key))): self.of(item, depth + 1)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.of(item, depth + 1) for item in value]
        if value is None or isinstance(value, (bool, int, float)):
            return value
        raise Unfit(f"it holds what JSON cannot: {type(value).__name__}")


def _sayable(text: str) -> str:
    """A text that every encoding can say: JSON may hold halves of characters."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
