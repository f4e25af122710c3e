"""What is committed: the tables of every kind, the log of changes, and who follows them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.garbage import Owners
from harness.twin.apiserver.journal import Journal
from harness.twin.apiserver.records import Change, Key, Kind, Ref, key_of, kind_of
from harness.twin.apiserver.resources import Obj, Projection, Registry, Resource
from harness.twin.apiserver.serverside import Ownership
from harness.twin.apiserver.shelf import Table
from harness.twin.apiserver.trees import shared

# What an object shown by a projection has from the stored one.
_IDENTITY = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


@dataclass(slots=True)
class View:
    """The objects a projection shows, kept beside the stored ones."""

    resource: Resource
    projection: Projection
    table: Table = field(default_factory=Table)
    shown_keys: dict[Key, Key] = field(default_factory=dict)  # stored key to shown key

    def show(self, stored: Obj) -> Obj | None:
        """A stored object in this kind's form with the stored identity, or None."""
        shown = self.projection.show(stored)
        if shown is None:
            return None
        identity = {k: stored["metadata"][k] for k in _IDENTITY if k in stored["metadata"]}
        metadata = {**shown["metadata"], **identity}
        metadata.setdefault("generation", stored["metadata"].get("generation", 1))
        resource = self.resource
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return {**head, **shown, **head, "metadata": metadata}

    def stored_key(self, key: Key) -> Key:
        """Where the stored object behind a shown one is."""
        return key[0], self.projection.stored_name(key[1])


class Committed:
    """Tables, log, owners and followers. Every commit goes through ``commit``."""

    def __init__(self, registry: Registry, history: int) -> None:
        self.registry = registry
        self.journal = Journal(history)
        self.owners = Owners()
        self.ownership: dict[Ref, Ownership] = {}  # of fields; forgotten with the object
        self.population: Counter[str] = Counter()  # stored objects of each namespace
        self._tables: dict[Kind, Table] = {}
        self._views: dict[Kind, View] = {}
        self._views_of: dict[Kind, list[View]] = {}
        self._listeners: list[Callable[[Change], None]] = []
        self._undelivered: deque[Change] = deque()
        self._delivering = False
        for resource in registry:
            if resource.projection is not None:
                self.view(resource)

    def served(self, resource: Resource) -> Resource:
        """The registry's own record of a kind. Raises 404 for one that is not served."""
        try:
            return self.registry.by_kind(resource.api_version, resource.kind)
        except KeyError:
            raise ApiError(
                404, "the server could not find the requested resource", details={}
            ) from None

    def table(self, resource: Resource) -> Table:
        """The objects of a kind, stored or shown as of now."""
        if resource.projection is not None:
            view = self.view(resource)
            for key in tuple(view.shown_keys):
                self._refresh(view, key)
            return view.table
        return self._stored((resource.api_version, resource.kind))

    def one(self, resource: Resource, key: Key) -> Obj | None:
        """An object of a kind, stored or shown as of now, or None."""
        if resource.projection is None:
            return self._stored(kind_of(resource)).objects.get(key)
        view = self.view(resource)
        stored_key = view.stored_key(key)
        if stored_key in view.shown_keys:
            self._refresh(view, stored_key)
        return view.table.objects.get(key)

    def _refresh(self, view: View, key: Key) -> None:
        """Show a stored object anew: what a projection shows may rest on more than that object.

        As in an aggregated API, a read shows it as it is; a watch hears when the object changes.
        """
        shown_key = view.shown_keys[key]
        fresh = view.show(self._stored(view.projection.source).objects[key])
        if fresh is not None and key_of(fresh) == shown_key:
            view.table.put(shown_key, shared(fresh, view.table.objects[shown_key]))

    def _stored(self, kind: Kind) -> Table:
        table = self._tables.get(kind)
        if table is None:
            table = self._tables[kind] = Table()
        return table

    def view(self, resource: Resource) -> View:
        """The view behind a projection; built when first asked for."""
        kind = kind_of(resource)
        view = self._views.get(kind)
        if view is None:
            assert resource.projection is not None
            view = self._views[kind] = View(resource, resource.projection)
            source = resource.projection.source
            self._views_of.setdefault(source, []).append(view)
            for key, obj in self._stored(source).objects.items():
                self._reshow(view, key, view.show(obj))
        return view

    def look(self, ref: Ref) -> Obj | None:
        """A stored object, or None."""
        table = self._tables.get(ref[0])
        return table.objects.get(ref[1]) if table else None

    def in_namespace(self, namespace: str) -> Iterator[Ref]:
        """Every stored object of a namespace, in order of kind and name."""
        for kind in sorted(self._tables):
            for key in self._tables[kind].keys(namespace):
                yield kind, key

    def commit(self, change: Change, key: Key) -> None:
        """Make a change to a stored object the latest, and show it in every view."""
        kind = kind_of(change.resource)
        gone = change.type == "DELETED"
        if gone:
            self._stored(kind).drop(key)
            self.population[key[0]] -= 1
            self.ownership.pop((kind, key), None)
        else:
            self._stored(kind).put(key, change.obj)
            self.population[key[0]] += change.type == "ADDED"
        self.owners.note((kind, key), change.old, None if gone else change.obj)
        self._record(change)
        for view in self._views_of.get(kind, ()):
            self._commit_shown(view, key, change)

    def _commit_shown(self, view: View, key: Key, change: Change) -> None:
        before_key = view.shown_keys.get(key)
        before = view.table.objects[before_key] if before_key else None
        after = view.show(change.obj)
        moved = before is not None and after is not None and key_of(after) != before_key
        if before is not None and (after is None or moved or change.type == "DELETED"):
            last = after if after is not None and not moved else _dated(before, change.revision)
            self._reshow(view, key, None)
            self._record(Change("DELETED", view.resource, last, before, change.revision))
            before = None
        if after is not None and change.type != "DELETED":
            self._reshow(view, key, after)
            kind = "ADDED" if before is None else "MODIFIED"
            self._record(Change(kind, view.resource, after, before, change.revision))

    def _reshow(self, view: View, key: Key, shown: Obj | None) -> None:
        if shown is not None:
            view.shown_keys[key] = key_of(shown)
            view.table.put(key_of(shown), shown)
        elif key in view.shown_keys:
            shown_key = view.shown_keys.pop(key)
            view.table.drop(shown_key)
            self.ownership.pop((kind_of(view.resource), shown_key), None)

    def _record(self, change: Change) -> None:
        self.journal.add(change)
        self._undelivered.append(change)

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call a listener for every change from now on; returns how to stop that."""
        self._listeners.append(listener)

        def stop() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return stop

    def deliver(self) -> None:
        """Tell the listeners what was committed, each of them in commit order.

        A listener may write; what it commits is delivered after what came before.
        """
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._undelivered:
                change = self._undelivered.popleft()
                for listener in tuple(self._listeners):
                    listener(change)
        finally:
            self._delivering = False


def _dated(obj: Obj, revision: int) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}
