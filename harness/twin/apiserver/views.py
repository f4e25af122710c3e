"""Writes to a projection: what a client says of the shown kind, kept in the stored one."""

from __future__ import annotations

from harness.twin.apiserver import lifecycle, serverside, validation
from harness.twin.apiserver.committed import Committed, View
from harness.twin.apiserver.records import Admission, Key, Options, key_of, kind_of
from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.serverside import Manager, Ownership
from harness.twin.apiserver.trees import shared
from harness.twin.apiserver.writes import Writes


class ViewWrites:
    """Creates, updates and deletes of shown objects; admission sees the shown and the stored."""

    def __init__(self, kept: Committed, writes: Writes) -> None:
        self._kept = kept
        self._writes = writes

    def create(
        self, resource: Resource, fresh: Obj, options: Options, own: Ownership | None = None
    ) -> Obj:
        """Store what a new shown object stands for; gives the shown object."""
        shown = self._writes.admitted(Admission("CREATE", resource, fresh, None, ""))
        validation.check_new(resource, shown)
        view = self._kept.view(resource)
        source = self._source(view)
        namespace, name = view.stored_key(key_of(shown))
        stored = _named(view.projection.keep(shown, None), namespace, name)
        stored = self._writes.create(
            source, self._writes.prepared(source, stored, namespace), options
        )
        if not options.dry_run:
            manager = Manager(options.manager, serverside.UPDATE, resource.api_version)
            time = stored["metadata"]["creationTimestamp"]
            self._own(resource, shown, own or serverside.created(manager, shown, time))
        return self._shown(view, stored, shown)

    def update(
        self,
        resource: Resource,
        key: Key,
        old: Obj,
        new: Obj,
        subresource: str,
        options: Options,
        own: Ownership | None = None,
    ) -> Obj:
        """Change what a shown object stands for; gives the shown object."""
        lifecycle.checked_identity(resource, old, new)
        half = "status" if subresource == "status" else ""
        asked = lifecycle.next_state(resource, old, new, half)
        asked = self._writes.admitted(Admission("UPDATE", resource, asked, old, subresource))
        tree: Obj = shared(asked, old)
        validation.check_changed(resource, tree, old)
        if own is None:
            own = self._plainly_owned(resource, key, old, tree, options.manager)
        if not options.dry_run:
            self._own(resource, old, own)
        if tree is old:
            return old
        view = self._kept.view(resource)
        source, stored_key = self._source(view), view.stored_key(key)
        before = self._kept.table(source).objects[stored_key]
        stored = _named(view.projection.keep(tree, before), *stored_key)
        half = half if source.status else ""
        stored = self._writes.update(source, stored_key, before, stored, half, options)
        return self._shown(view, stored, tree)

    def delete(self, resource: Resource, key: Key, options: Options) -> tuple[Obj, bool]:
        """Delete what a shown object stands for."""
        view = self._kept.view(resource)
        before = view.table.objects[key]
        self._writes.admitted(Admission("DELETE", resource, before, before, ""))
        stored, gone = self._writes.delete(self._source(view), view.stored_key(key), options)
        return self._shown(view, stored, before), gone

    def _source(self, view: View) -> Resource:
        return self._kept.registry.by_kind(*view.projection.source)

    def _shown(self, view: View, stored: Obj, asked: Obj) -> Obj:
        """The committed shown object; one that is not there (dry run, gone) as it would be."""
        kept = view.table.objects.get(key_of(asked))
        same = kept is not None and (
            kept["metadata"]["resourceVersion"] == stored["metadata"].get("resourceVersion")
        )
        return kept if kept is not None and same else view.show(stored) or asked

    def _own(self, resource: Resource, shown: Obj, own: Ownership) -> None:
        self._kept.ownership[kind_of(resource), key_of(shown)] = own

    def _plainly_owned(
        self, resource: Resource, key: Key, old: Obj, tree: Obj, name: str
    ) -> Ownership:
        own = self._kept.ownership.get((kind_of(resource), key), serverside.NOBODY)
        manager = Manager(name, serverside.UPDATE, resource.api_version)
        time = lifecycle.rfc3339(self._writes.now())
        return serverside.updated(own, manager, old, tree, self._writes.shape(resource), time)


def _named(stored: Obj, namespace: str, name: str) -> Obj:
    """A stored object under the name the projection gives it, without the shown identity."""
    identity = ("uid", "resourceVersion", "managedFields", "namespace")
    metadata = {k: v for k, v in (stored.get("metadata") or {}).items() if k not in identity}
    metadata["name"] = name
    if namespace:
        metadata["namespace"] = namespace
    return {**stored, "metadata": metadata}
