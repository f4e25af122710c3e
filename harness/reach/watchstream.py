"""What is watched, and how a watch's stream is read: bytes to lines to events.

The wire format is one JSON document a line, ``{"type": ..., "object": ...}``; chunks of the
transport have nothing to do with lines (Kubernetes API concepts, "Efficient detection of changes").
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import urllib3

from harness.reach.access import transport_error
from harness.reach.errors import ApiRefused, Garbled, refusal
from harness.reach.history import Obj

BOOKMARK = "BOOKMARK"
_CHANGES = frozenset({"ADDED", "MODIFIED", "DELETED", BOOKMARK})
_LOST = frozenset({"Expired", "Gone"})  # reasons under which a version can't be resumed
_QUOTED = 200
_LOOK = "check what stands between here and the API server"


class Cluster(Protocol):
    """What a watch needs of a cluster; `harness.reach.kube.Kube` has it."""

    name: str

    def path_of(self, api_version: str, kind: str, namespace: str) -> str:
        """The URL path of a collection."""

    def list_raw(
        self,
        api_version: str,
        kind: str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> tuple[list[Obj], str]:
        """All objects and the list's resourceVersion."""

    def stream(self, path: str, query: dict[str, str], *, read_timeout: float | None) -> Any:
        """A streaming GET."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is watched."""

    api_version: str
    kind: str
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def __str__(self) -> str:
        scope = self.namespace or "all namespaces"
        chosen = " ".join(part for part in (self.labels, self.fields) if part)
        return f"{self.kind} in {scope}" + (f" where {chosen}" if chosen else "")

    def query(self, version: str) -> dict[str, str]:
        """The query of a watch that goes on from a resourceVersion, with bookmarks."""
        chosen = {"labelSelector": self.labels, "fieldSelector": self.fields}
        asked = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true"}
        return asked | {name: value for name, value in chosen.items() if value}


@dataclass(frozen=True, slots=True)
class Event:
    """One event: ``change`` is ADDED, MODIFIED, DELETED or BOOKMARK.

    ``version`` is the resourceVersion from which the watch may be resumed after it.
    """

    change: str
    obj: Obj
    version: str


def lines(response: Any, tried: str) -> Iterator[bytes]:
    """The complete lines of a streaming response, each as soon as it is there.

    What stands after the last line feed is dropped: a stream cut in the middle of an event has
    not told it. Raises Unreachable when the stream breaks, with urllib3's error as its cause.
    """
    rest = b""
    try:
        while piece := response.read1(65536):
            *whole, rest = (rest + piece).split(b"\n")
            yield from (line for line in whole if line.strip())
    except (urllib3.exceptions.HTTPError, OSError) as cut:
        raise transport_error(cut, tried) from cut


def event_of(line: bytes, tried: str) -> Event:
    """Read one line. Raises Garbled for no event, ApiRefused (or Refused) for an ERROR event."""
    try:
        told = json.loads(line)
        change, obj = str(told["type"]), told["object"]
        if change == "ERROR":
            raise _error(obj, tried)
        metadata = obj["metadata"]
        version = metadata["resourceVersion"]
        named = change == BOOKMARK or bool(metadata["name"])
    except (ValueError, KeyError, TypeError, AttributeError) as junk:
        raise _garbled(line, tried) from junk
    if change not in _CHANGES or not named or not isinstance(version, str) or not version:
        raise _garbled(line, tried)
    return Event(change, obj, version)


def named(items: list[Obj], version: str, tried: str) -> list[Obj]:
    """A list's objects, once it is certain that each can be told from the others.

    Raises Garbled for one without a name, and for a list without a version to go on from.
    """
    if not version:
        raise Garbled(tried, "a list without a resourceVersion", _LOOK)
    for item in items:
        metadata = item.get("metadata") if isinstance(item, dict) else None
        if not isinstance(metadata, dict) or not metadata.get("name"):
            raise Garbled(tried, f"an object without a name, {str(item)[:_QUOTED]}", _LOOK)
    return items


def _error(status: Obj, tried: str) -> ApiRefused:
    """The Status object that an ERROR event carries, as an error."""
    code = 410 if status.get("reason") in _LOST else int(status.get("code") or 500)
    return refusal(code, json.dumps({"kind": "Status", **status}).encode(), tried)


def _garbled(line: bytes, tried: str) -> Garbled:
    return Garbled(tried, f"{line[:_QUOTED]!r}, no watch event", _LOOK)
