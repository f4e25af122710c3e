"""Events as controllers record them: one object for a series, with a count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world.objects import Obj, digest, rfc3339

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Store
    from harness.twin.engine import Engine

RETENTION = 3600.0
"""Seconds an Event is kept at least after its last occurrence (--event-ttl's default)."""
REUSE, SHARE = 60.0, 0.05
"""An API server gives what it writes within a minute, or this share of the time that it is kept,
one lease of etcd's (apiserver/pkg/storage/etcd3/lease_manager.go): it expires together."""
_Key = tuple[str, str]
_FIELDS = ("apiVersion", "kind", "name", "namespace", "uid", "resourceVersion")


class Recorder:
    """Records Events into one cluster. Equal ones within the retention count up, as in client-go.

    The name of an Event is the object's name and 16 hex digits.
    """

    def __init__(self, store: Store, engine: Engine) -> None:
        self._store = store
        self._engine = engine
        self.retention = RETENTION
        """Seconds that this cluster keeps an Event that is written from now on."""
        self._lease: set[_Key] = set()  # what the present lease keeps
        self._leased_at = float("-inf")
        self._kept: dict[_Key, set[_Key]] = {}

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
        self._keep(namespace, name)

    def _again(self, namespace: str, name: str) -> None:
        def count(event: Obj) -> None:
            event["count"] += 1
            event["lastTimestamp"] = rfc3339(self._engine.now)

        self._store.edit("v1", "Event", namespace, name, count, manager="events")
        self._keep(namespace, name)

    def _keep(self, namespace: str, name: str) -> None:
        """Put an Event that was just written under the present lease."""
        now, key = self._engine.now, (namespace, name)
        reuse = min(REUSE, self.retention * SHARE)
        if now - self._leased_at > reuse:
            self._leased_at, self._lease = now, set()
            lease = self._lease
            self._engine.after(
                self.retention + reuse, lambda: self._expire(lease), "a lease of events expires"
            )
        self._kept.get(key, set()).discard(key)
        self._kept[key] = self._lease
        self._lease.add(key)

    def _expire(self, lease: set[_Key]) -> None:
        resource = self._store.registry.by_kind("v1", "Event")
        for key in sorted(lease):
            del self._kept[key]
            if self._store.find("v1", "Event", *key) is not None:
                self._store.delete(resource, *key)
