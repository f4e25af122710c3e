"""One cluster as the world's controllers see it: store, change feed, event recorder."""

from __future__ import annotations

from collections.abc import Callable

from harness.twin.apiserver.store import Change, Options, Store
from harness.twin.engine import Engine
from harness.twin.world.conditions import Condition, write
from harness.twin.world.events import Recorder
from harness.twin.world.objects import Obj
from harness.twin.world.reconcile import Dispatcher

_SECONDS_NOW = Options(manager="kubelet", grace=0)


class Cluster:
    """A store and what every controller does with it. Writes to what is gone do nothing."""

    def __init__(self, store: Store, engine: Engine) -> None:
        self.store = store
        self.engine = engine
        self.events = Recorder(store, engine)
        self._dispatcher = Dispatcher(store)
        self.on = self._dispatcher.on

    def find(self, api_version: str, kind: str, namespace: str, name: str) -> Obj | None:
        """The object as stored, or None, also for a kind that is not served. Never change it."""
        try:
            return self.store.find(api_version, kind, namespace, name)
        except KeyError:
            return None  # a reference that somebody wrote by hand

    def all(self, api_version: str, kind: str, namespace: str = "") -> list[Obj]:
        """Every object of a kind, of one namespace or of all."""
        return self.store.all(api_version, kind, namespace)

    def create(self, obj: Obj, *, manager: str) -> Obj:
        """Create an object, its status included. Raises ApiError."""
        resource = self.store.registry.by_kind(obj["apiVersion"], obj["kind"])
        namespace = obj["metadata"].get("namespace", "")
        made = self.store.create(
            resource, obj, namespace=namespace, options=Options(manager=manager)
        )
        if not obj.get("status") or not resource.status:
            return made

        def take_over(stored: Obj) -> None:
            stored["status"] = obj["status"]

        return self.store.edit(
            obj["apiVersion"],
            obj["kind"],
            namespace,
            made["metadata"]["name"],
            take_over,
            manager=manager,
            subresource="status",
        )

    def edit(self, obj: Obj, change: Callable[[Obj], None], *, manager: str) -> Obj | None:
        """Change everything but the status of the object that ``obj`` is a version of."""
        return self._edit(obj, change, manager, "")

    def status(self, obj: Obj, change: Callable[[Obj], None], *, manager: str) -> Obj | None:
        """Change the status of the object that ``obj`` is a version of."""
        return self._edit(obj, change, manager, "status")

    def _edit(
        self, obj: Obj, change: Callable[[Obj], None], manager: str, subresource: str
    ) -> Obj | None:
        metadata = obj["metadata"]
        found = self.current(obj)
        if found is None:
            return None
        return self.store.edit(
            obj["apiVersion"],
            obj["kind"],
            metadata.get("namespace", ""),
            metadata["name"],
            change,
            manager=manager,
            subresource=subresource,
        )

    def conditions(self, obj: Obj, *conditions: Condition, manager: str) -> Obj | None:
        """Set conditions in the status, in the dialect without observedGeneration."""
        return self.status(
            obj, lambda stored: write(stored, self.engine.now, *conditions), manager=manager
        )

    def current(self, obj: Obj) -> Obj | None:
        """The latest version of this very object (by UID), or None."""
        metadata = obj["metadata"]
        found = self.find(
            obj["apiVersion"], obj["kind"], metadata.get("namespace", ""), metadata["name"]
        )
        same = found is not None and found["metadata"]["uid"] == metadata["uid"]
        return found if same else None

    def delete(self, obj: Obj, *, manager: str, propagation: str = "Background") -> None:
        """Delete this very object if it is still there and not already going."""
        found = self.current(obj)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        self._delete(found, Options(manager=manager, propagation=propagation))

    def remove(self, obj: Obj) -> None:
        """Take away at once what has been stopped: a pod, with no grace left."""
        found = self.current(obj)
        if found is not None:
            self._delete(found, _SECONDS_NOW)

    def _delete(self, obj: Obj, options: Options) -> None:
        metadata = obj["metadata"]
        resource = self.store.registry.by_kind(obj["apiVersion"], obj["kind"])
        self.store.delete(
            resource, metadata.get("namespace", ""), metadata["name"], options=options
        )

    def add_finalizer(self, obj: Obj, finalizer: str, *, manager: str) -> None:
        """Hold an object; one that is going away is not held any more."""
        if obj["metadata"].get("deletionTimestamp"):
            return

        def add(stored: Obj) -> None:
            held = stored["metadata"].setdefault("finalizers", [])
            if finalizer not in held:
                held.append(finalizer)

        self.edit(obj, add, manager=manager)

    def drop_finalizer(self, obj: Obj, finalizer: str, *, manager: str) -> None:
        """Let an object go."""

        def drop(stored: Obj) -> None:
            held = stored["metadata"].get("finalizers") or []
            stored["metadata"]["finalizers"] = [name for name in held if name != finalizer]

        self.edit(obj, drop, manager=manager)


def added(change: Change) -> bool:
    """Whether a change is an object's first."""
    return change.type == "ADDED"


def gone(change: Change) -> bool:
    """Whether a change is an object's last."""
    return change.type == "DELETED"
