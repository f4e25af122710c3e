"""The Events of one object: what controllers and kubelets said of it, for a wait that failed.

Read from ``v1`` Events, which every component writes or is mirrored to. A kubelet names its Node
by name where a UID should stand (kubernetes pkg/kubelet, ``nodeRef``), so that a Node's Events are
chosen by name and either of the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from harness.reach.history import Obj, Revision

KEPT = 20
"""How many of an object's last Events are told."""

_QUOTED = 200  # characters of an Event's message


class EventSource(Protocol):
    """Where an object's Events are had from."""

    def of(self, kind: str, namespace: str, name: str) -> list[Obj]:
        """The Events that name the object, in any order. Raises LabError."""


class Lister(Protocol):
    """What a one-time list needs; `harness.reach.kube.Kube` has it."""

    def list(
        self, api_version: str, kind: str, namespace: str = "", *, labels: str = "", fields: str
    ) -> list[Obj]:
        """Every matching object."""


class Showing(Protocol):
    """A feed of Events."""

    def objects(self) -> list[Obj]:
        """Those that are there."""


class ListedEvents:
    """One list for each outcome; nothing is watched."""

    def __init__(self, cluster: Lister) -> None:
        self._cluster = cluster

    def of(self, kind: str, namespace: str, name: str) -> list[Obj]:
        """The Events that name the object. Those of objects without a namespace are in default."""
        fields = f"involvedObject.kind={kind},involvedObject.name={name}"
        return self._cluster.list("v1", "Event", namespace or "default", fields=fields)


class FedEvents:
    """The Events that a feed shows; no request is made."""

    def __init__(self, feed: Showing) -> None:
        self._feed = feed

    def of(self, kind: str, namespace: str, name: str) -> list[Obj]:
        """The Events that name the object."""
        wanted = {"kind": kind, "name": name, "namespace": namespace}
        found = []
        for event in self._feed.objects():
            about = _about(event)
            if {key: about.get(key) or "" for key in wanted} == wanted:
                found.append(event)
        return found


def told_of(revision: Revision, events: Iterable[Obj]) -> tuple[str, ...]:
    """One line for each Event of this very object, oldest first, the last twenty.

    An Event of an earlier object under the same name is not its.
    """
    own = {"", revision.uid, revision.key[1]}
    told = sorted(
        (_when(event), _line(event)) for event in events if _about(event).get("uid", "") in own
    )
    return tuple(line for _, line in told[-KEPT:])


def _about(event: Obj) -> Obj:
    found = event.get("involvedObject")
    return found if isinstance(found, dict) else {}


def _when(event: Obj) -> str:
    series: Any = event.get("series")
    last = series.get("lastObservedTime") if isinstance(series, dict) else None
    when = last or event.get("lastTimestamp") or event.get("eventTime")
    return str(when or event["metadata"].get("creationTimestamp") or "")


def _line(event: Obj) -> str:
    times = event.get("count")
    often = f" ({times} times)" if isinstance(times, int) and times > 1 else ""
    message = " ".join(str(event.get("message", "")).split())[:_QUOTED]
    return f"{_when(event)} {event.get('type', '')} {event.get('reason', '')}{often}: {message}"
