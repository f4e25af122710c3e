"""The course of every write: admission, checks, stamps, commit, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from harness.twin.apiserver import deletion, lifecycle, namespaces, serverside, validation
from harness.twin.apiserver.committed import Committed
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.fieldpaths import Shape, shape_of
from harness.twin.apiserver.garbage import Collector, owner_references
from harness.twin.apiserver.identities import Identities, Revisions
from harness.twin.apiserver.records import (
    Admission,
    Change,
    Key,
    Kind,
    Options,
    Ref,
    key_of,
    kind_of,
)
from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.serverside import Manager, Ownership
from harness.twin.apiserver.trees import shared

_TRIES: Final = 8  # how often a generated name that is taken is drawn anew
_COLLECTOR: Final = "kube-controller-manager"  # whose writes garbage collection makes


class Writes:
    """Creates, updates and deletes of stored objects. Also what the garbage collector asks of."""

    def __init__(
        self,
        kept: Committed,
        *,
        now: Callable[[], float],
        revisions: Revisions,
        identities: Identities,
    ) -> None:
        self.kept = kept
        self.now = now
        self.skew = 0.0
        self.revisions = revisions
        self.identities = identities
        self.admission: list[Callable[[Admission], Obj]] = []
        self._collector = Collector(kept.owners, self)
        self._shapes: dict[Kind, Shape] = {}

    # -- what the garbage collector asks for

    def look(self, ref: Ref) -> Obj | None:
        """The stored object now, or None."""
        return self.kept.look(ref)

    def serves(self, kind: Kind) -> bool:
        """Whether the cluster serves a kind, in whatever version."""
        group = kind[0].rpartition("/")[0]
        return any(r.group == group and r.kind == kind[1] for r in self.kept.registry)

    def rewrite(self, ref: Ref, metadata: Obj) -> None:
        """Give an object other metadata."""
        old = self.kept.look(ref)
        if old is not None:
            resource = self.kept.registry.by_kind(*ref[0])
            new = {**old, "metadata": metadata}
            self.update(resource, ref[1], old, new, "", Options(manager=_COLLECTOR))

    def discard(self, ref: Ref, propagation: str) -> None:
        """Delete an object on the collector's behalf; one that admission protects stays."""
        resource = self.kept.registry.by_kind(*ref[0])
        # A collector is a client like any other: refused, it leaves the object where it is.
        with suppress(ApiError):
            self.delete(resource, ref[1], Options(manager=_COLLECTOR, propagation=propagation))

    # -- create

    def create(
        self, resource: Resource, fresh: Obj, options: Options, own: Ownership | None = None
    ) -> Obj:
        """Commit a new object, as ``prepared`` gave it."""
        asked = Admission("CREATE", resource, fresh, None, "", options.user)
        obj = self.admitted(asked)
        validation.check_new(resource, obj)
        made, obj = obj, lifecycle.started(resource, obj)
        metadata = {**obj["metadata"], "uid": self.identities.uid()}
        metadata["creationTimestamp"] = lifecycle.rfc3339(self.now() + self.skew)
        if resource.generation:
            metadata["generation"] = 1
        if own is None:
            manager = Manager(options.manager, serverside.UPDATE, resource.api_version)
            own = serverside.created(manager, made, metadata["creationTimestamp"])
        if own.visible and own.shares:
            metadata["managedFields"] = own.managed_fields()
        obj = {**obj, "metadata": metadata}
        if options.dry_run:
            return obj
        obj = self._commit("ADDED", resource, obj, None)
        ref = (kind_of(resource), key_of(obj))
        self.kept.ownership[ref] = own
        if owner_references(obj):
            self._collector.settle(ref)
        return obj

    def prepared(self, resource: Resource, obj: Obj, namespace: str) -> Obj:
        """A copy of what was sent, named and with its namespace checked, ready for admission.

        Raises 409 AlreadyExists, 404 or 403 for the namespace, 400 for what is malformed.
        """
        validation.check_shape(resource, obj)
        fresh = lifecycle.new_object(resource, obj, namespace)
        metadata = fresh["metadata"]
        space = metadata.get("namespace", "")
        self._check_namespace(resource, metadata.get("name", ""), space)
        objects = self.kept.table(resource).objects
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._generated(metadata["generateName"], space, objects)
        taken = objects.get((space, metadata.get("name", "")))
        if taken is not None:
            going = bool(taken["metadata"].get("deletionTimestamp"))
            raise lifecycle.already_exists(resource, metadata["name"], terminating=going)
        return fresh

    def _generated(self, base: str, namespace: str, taken: dict[Key, Obj]) -> str:
        name = ""
        for _ in range(_TRIES):
            name = lifecycle.generated_base(base) + self.identities.suffix()
            if (namespace, name) not in taken:
                break
        return name

    def _check_namespace(self, resource: Resource, name: str, namespace: str) -> None:
        if resource.namespaced and self._has_namespaces():
            found = self.kept.look((namespaces.NAMESPACE, ("", namespace)))
            namespaces.check_open(resource, name, namespace, found)

    def _has_namespaces(self) -> bool:
        try:
            self.kept.registry.by_kind(*namespaces.NAMESPACE)
        except KeyError:
            return False
        return True

    # -- update

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
        """Commit a change to an object; gives ``old`` itself where nothing differs.

        ``own``: the ownership after a server-side apply; otherwise what changed is the manager's.
        """
        lifecycle.checked_identity(resource, old, new)
        half = "status" if subresource == "status" else ""
        tree = lifecycle.next_state(resource, old, new, half)
        tree = self.admitted(Admission("UPDATE", resource, tree, old, subresource))
        tree = shared(tree, old)
        validation.check_changed(resource, tree, old)
        if own is None:
            own = self._plainly_owned(resource, key, old, new, tree, (subresource, options.manager))
        known = self.kept.ownership.get((kind_of(resource), key))
        tree = self._with_managed_fields(tree, old, own, known)
        if tree is old:
            return old
        if resource.generation and lifecycle.counts_as_new_generation(tree, old):
            generation = old["metadata"].get("generation", 0) + 1
            tree = lifecycle.with_metadata(tree, generation=generation)
        if options.dry_run:
            return tree
        self.kept.ownership[kind_of(resource), key] = own
        return self._committed_update(resource, key, tree, old)

    def _committed_update(self, resource: Resource, key: Key, tree: Obj, old: Obj) -> Obj:
        if deletion.is_complete(resource, tree):
            return self._remove(resource, key, tree, old)
        obj = self._commit("MODIFIED", resource, tree, old)
        if owner_references(obj) is not owner_references(old):
            self._collector.settle((kind_of(resource), key))
            self._collector.dependent_gone(old)
        return obj

    def _plainly_owned(
        self,
        resource: Resource,
        key: Key,
        old: Obj,
        new: Obj,
        tree: Obj,
        writer: tuple[str, str],
    ) -> Ownership:
        """Ownership after a plain write; a client may also have written managedFields itself."""
        own = self.kept.ownership.get((kind_of(resource), key), serverside.NOBODY)
        said = (new.get("metadata") or {}).get("managedFields")
        if said is not None and said != old["metadata"].get("managedFields"):
            own = serverside.from_managed_fields(said)
        if tree is old:
            return own
        subresource, name = writer
        manager = Manager(name, serverside.UPDATE, resource.api_version, subresource)
        time = lifecycle.rfc3339(self.now())
        return serverside.updated(own, manager, old, tree, self.shape(resource), time)

    def _with_managed_fields(
        self, tree: Obj, old: Obj, own: Ownership, known: Ownership | None
    ) -> Obj:
        if not own.visible or own is known:
            return tree
        fields = own.managed_fields()
        if fields == old["metadata"].get("managedFields", []):
            return tree
        metadata = {k: v for k, v in tree["metadata"].items() if k != "managedFields"}
        if fields:
            metadata["managedFields"] = fields
        return {**tree, "metadata": metadata}

    def shape(self, resource: Resource) -> Shape:
        """What is known of a kind's fields."""
        kind = kind_of(resource)
        shape = self._shapes.get(kind)
        if shape is None:
            shape = self._shapes[kind] = shape_of(resource)
        return shape

    # -- delete

    def delete(self, resource: Resource, key: Key, options: Options) -> tuple[Obj, bool]:
        """Delete an object, or begin to: (object, whether it is gone)."""
        obj = self.kept.table(resource).objects[key]
        deletion.check_preconditions(resource, obj, options)
        if namespaces.is_namespace(resource):
            namespaces.check_deletable(key[1])
        self.admitted(Admission("DELETE", resource, obj, obj, ""))
        if options.dry_run:
            return obj, not obj["metadata"].get("finalizers")
        plan = deletion.plan(resource, obj, options, now=self.now())
        if plan is None:
            return self._remove(resource, key, obj, obj), True
        if plan is not obj:
            obj = self._commit("MODIFIED", resource, shared(plan, obj), obj)
        # The answer is the object as it was marked; what the collector then does comes after.
        self._follow_up(resource, key)
        return obj, False

    def _follow_up(self, resource: Resource, key: Key) -> None:
        """What an object that is going away takes with it, now that it says so."""
        if namespaces.is_namespace(resource):
            self._empty(key[1])
        self._collector.begin((kind_of(resource), key))

    def _empty(self, namespace: str) -> None:
        for ref in list(self.kept.in_namespace(namespace)):
            if self.kept.look(ref) is not None:
                self.discard(ref, "Background")
        self._finish_namespace(namespace)

    def _finish_namespace(self, namespace: str) -> None:
        """Remove a namespace that is going away once nothing is left in it."""
        key = ("", namespace)
        found = self.kept.look((namespaces.NAMESPACE, key))
        if found is None or not found["metadata"].get("deletionTimestamp"):
            return
        if found["metadata"].get("finalizers") or self.kept.population[namespace]:
            return
        resource = self.kept.registry.by_kind(*namespaces.NAMESPACE)
        self._remove(resource, key, found, found)

    def _remove(self, resource: Resource, key: Key, last: Obj, old: Obj) -> Obj:
        """Take an object away, and see to dependents, waiting owners and its namespace."""
        if namespaces.is_namespace(resource) and self.kept.population[key[1]]:
            return self._commit("MODIFIED", resource, last, old) if last is not old else old
        gone = self._commit("DELETED", resource, last, old)
        self._collector.owner_gone(old["metadata"]["uid"])
        self._collector.dependent_gone(old)
        if key[0]:
            self._finish_namespace(key[0])
        return gone

    # -- shared steps

    def admitted(self, question: Admission) -> Obj:
        """The object after every admission hook; a hook refuses by raising ApiError."""
        obj = question.obj
        for hook in self.admission:
            # built, not replaced: each write of the twin comes by here
            asked = Admission(
                question.verb,
                question.resource,
                obj,
                question.old,
                question.subresource,
                question.user,
            )
            obj = hook(asked)
        return obj

    def _commit(self, type_: str, resource: Resource, tree: Obj, old: Obj | None) -> Obj:
        revision = self.revisions.next()
        obj = lifecycle.with_metadata(tree, resourceVersion=str(revision))
        self.kept.commit(Change(type_, resource, obj, old, revision), key_of(obj))
        return obj
