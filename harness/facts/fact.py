"""The base of every fact: what was seen, when, where from, and the text it was read from."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a fact comes from.

    ``at`` is the cluster's time in seconds since the epoch; ``source`` names machine and file or
    object (``guest hil-gpu-x7k2p:/proc/modules``, ``management TalosConfigTemplate ns/name``);
    ``raw`` is the text, untouched.
    """

    at: float
    source: str
    raw: str


@dataclass(frozen=True, slots=True)
class Fact:
    """Something seen. Subclasses add what was read; they never add what it means."""

    origin: Origin

    @property
    def kind(self) -> str:
        """The name this fact carries in a ledger."""
        return type(self).__name__

    def values(self) -> dict[str, Any]:
        """What was read, as plain data, without the origin."""
        return {
            field.name: _plain(getattr(self, field.name))
            for field in dataclasses.fields(self)
            if field.name != "origin"
        }


@dataclass(frozen=True, slots=True)
class Unread(Fact):
    """The question was asked and the answer could not be read: never an absence.

    ``asked`` is what was wanted ("/proc/modules"); ``reason`` is why it is not known, with the
    offending text quoted.
    """

    asked: str
    reason: str


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        items = [_plain(item) for item in value]
        return sorted(items, key=str) if isinstance(value, (set, frozenset)) else items
    return value
