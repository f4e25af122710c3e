"""Events as controllers record them: one object for a series, with a count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world.objects import Obj, digest, parse_rfc3339, rfc3339

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Store
    from harness.twin.engine import Engine

RETENTION = 3600.0
"""Seconds an Event is kept after its last occurrence (the API server's --event-ttl default)."""
_FIELDS = ("apiVersion", "kind", "name", "namespace", "uid", "resourceVersion")


class Recorder:
    """Records Events into one cluster. Equal ones within the retention count up, as in client-go.

    The name of an Event is the object's name and 16 hex digits.
    """

    def __init__(self, store: Store, engine: Engine) -> None:
        self._store = store
        self._engine = engine

    def normal(self, obj: Obj, reason: str, message: str, component: str) -> None:
        """Something went as it should."""
        self._record(obj, "Normal", reason, message, component)

    def warning(self, obj: Obj, reason: str, message: str, component: str) -> None:
        """Something did not."""
        self._record(obj, "Warning", reason, message, component)

    def _record(self, obj: Obj, type_: str, reason: str, message: str, component: str) -> None:
        metadata = obj["metadata"]
        series = digest([metadata.get("uid"), type_, reason, message, component])[:16]
        name = f"{metadata['name']}.{series}"
        namespace = metadata.get("namespace") or "default"
        if self._is_closed(namespace):
            return
        if self._store.find("v1", "Event", namespace, name) is None:
            self._first(obj, name, namespace, (type_, reason, message, component))
        else:
            self._again(namespace, name)

    def _is_closed(self, namespace: str) -> bool:
        # a namespace that is going away takes no new objects
        found = self._store.find("v1", "Namespace", "", namespace)
        return found is None or bool(found["metadata"].get("deletionTimestamp"))

    def _first(self, obj: Obj, name: str, namespace: str, told: tuple[str, str, str, str]) -> None:
        type_, reason, message, component = told
        flat = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], **obj["metadata"]}
        now = rfc3339(self._engine.now)
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {key: flat[key] for key in _FIELDS if key in flat},
            "type": type_,
            "reason": reason,
            "message": message,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._store.create(self._store.registry.by_kind("v1", "Event"), event, namespace=namespace)
        self._expire(namespace, name)

    def _again(self, namespace: str, name: str) -> None:
        def count(event: Obj) -> None:
            event["count"] += 1
            event["lastTimestamp"] = rfc3339(self._engine.now)

        self._store.edit("v1", "Event", namespace, name, count, manager="events")

    def _expire(self, namespace: str, name: str) -> None:
        self._engine.after(RETENTION, lambda: self._look(namespace, name), f"event {name} expires")

    def _look(self, namespace: str, name: str) -> None:
        event = self._store.find("v1", "Event", namespace, name)
        if event is None:
            return
        last = parse_rfc3339(event["lastTimestamp"])
        if last + RETENTION <= self._engine.now:
            self._store.delete(self._store.registry.by_kind("v1", "Event"), namespace, name)
        else:
            # it was counted up since: it lives on from its last occurrence
            left = last + RETENTION - self._engine.now
            self._engine.after(left, lambda: self._look(namespace, name), f"event {name} expires")
