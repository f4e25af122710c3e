"""The object store behind a simulated API server: synchronous, no I/O, no clock of its own.

It answers as the Kubernetes API does in what clients were seen to rely on: one counter for all
revisions, no revision for a write that changes nothing, main resource and status that ignore each
other's half, 410 for what the history no longer holds (lab/python_kube_stack.md section 3.3).
"""

from __future__ import annotations

import builtins
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from harness.twin.apiserver import lifecycle, listing, patching, scale, serverside, validation
from harness.twin.apiserver.committed import Committed
from harness.twin.apiserver.errors import ApiError, not_found
from harness.twin.apiserver.fieldpaths import SERVER_METADATA
from harness.twin.apiserver.identities import Identities, Revisions
from harness.twin.apiserver.records import (
    Admission,
    Change,
    Key,
    Listing,
    Options,
    key_of,
    kind_of,
)
from harness.twin.apiserver.resources import Obj, Registry, Resource
from harness.twin.apiserver.serverside import Manager, Ownership
from harness.twin.apiserver.trees import copied
from harness.twin.apiserver.views import ViewWrites
from harness.twin.apiserver.writes import Writes

__all__ = [
    "Admission",
    "Change",
    "Identities",
    "Listing",
    "Options",
    "Revisions",
    "Store",
]

_PLAIN = Options()


class Store:
    """The objects of one cluster.

    Objects that are handed out are shared with the store and with every other reader: they must
    never be changed in place. What is handed in is copied.
    """

    def __init__(
        self,
        name: str,
        registry: Registry,
        *,
        now: Callable[[], float],
        revisions: Revisions,
        identities: Identities,
        history: int = 8192,
    ) -> None:
        self.name = name
        self.registry = registry
        self.now = now
        self._revisions = revisions
        self._kept = Committed(registry, history)
        self._writes = Writes(self._kept, now=now, revisions=revisions, identities=identities)
        self._views = ViewWrites(self._kept, self._writes)
        self._bytes: dict[int, tuple[Obj, bytes]] = {}
        self._most_bytes = 2 * history

    @property
    def admission(self) -> builtins.list[Callable[[Admission], Obj]]:
        """Hooks asked before every commit; each gives a new object, or raises ApiError.

        For DELETE the object is the one about to go; what a hook gives back is then not used.
        """
        return self._writes.admission

    @property
    def revision(self) -> int:
        """The latest revision; with a shared counter, that of any store that shares it."""
        return self._revisions.current

    @property
    def skew(self) -> float:
        """By how many seconds creationTimestamps (and the server's Date) are off; 0 at first."""
        return self._writes.skew

    @skew.setter
    def skew(self, seconds: float) -> None:
        self._writes.skew = seconds

    # -- reading

    def get(self, resource: Resource, namespace: str, name: str) -> Obj:
        """One object. Raises 404."""
        return self._read(self._kept.served(resource), namespace, name)

    def scale(self, resource: Resource, namespace: str, name: str) -> Obj:
        """The ``autoscaling/v1 Scale`` of an object. Raises 404, also for a kind without one."""
        self._check_subresource(resource, "scale")
        return scale.scale_of(self.get(resource, namespace, name), builtin=resource.builtin)

    def find(self, api_version: str, kind: str, namespace: str, name: str) -> Obj | None:
        """One object, or None. Raises KeyError for a kind that is not served."""
        resource = self.registry.by_kind(api_version, kind)
        return self._kept.one(resource, _key(resource, namespace, name))

    def all(self, api_version: str, kind: str, namespace: str = "") -> builtins.list[Obj]:
        """Every object of a kind by namespace and name. Raises KeyError for an unserved kind."""
        return self._kept.table(self.registry.by_kind(api_version, kind)).values(namespace)

    def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_token: str = "",
        at: int = 0,
    ) -> Listing:
        """A list, or one page of it; ``at`` is the revision to show it at, 0 for now.

        Raises 400 for a bad selector or token, 410 for an old one.
        """
        return listing.page(
            self._kept,
            self._kept.served(resource),
            namespace,
            labels=labels,
            fields=fields,
            limit=limit,
            continue_token=continue_token,
            revision=self.revision,
            exact=at,
        )

    def encoded(self, obj: Obj) -> bytes:
        """The JSON of a stored object, encoded once."""
        kept = self._bytes.get(id(obj))
        if kept is not None:
            return kept[1]
        text = _json(obj)
        # The object is kept beside its bytes, so that its id is not given to another meanwhile.
        self._bytes[id(obj)] = (obj, text)
        if len(self._bytes) > self._most_bytes:
            del self._bytes[next(iter(self._bytes))]
        return text

    def items(self, resource: Resource, objects: Iterable[Obj]) -> Iterator[bytes]:
        """The JSON of stored objects as items of a list: built-in kinds do not name their kind."""
        if not resource.builtin:
            yield from map(self.encoded, objects)
            return
        head = _json({"apiVersion": resource.api_version, "kind": resource.kind})[:-1] + b","
        length = len(head)
        for obj in objects:
            text = self.encoded(obj)
            yield b"{" + text[length:] if text.startswith(head) else _json(_headless(obj))

    # -- writing

    def create(
        self, resource: Resource, obj: Obj, *, namespace: str = "", options: Options = _PLAIN
    ) -> Obj:
        """Store a new object. Raises 400, 403, 404 (namespace), 409 AlreadyExists, 422."""
        resource = self._kept.served(resource)
        fresh = self._writes.prepared(resource, obj, namespace)
        try:
            return self._target(resource).create(resource, fresh, options)
        finally:
            self._kept.deliver()

    def replace(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        obj: Obj,
        *,
        subresource: str = "",
        options: Options = _PLAIN,
    ) -> Obj:
        """Put an object in place of another; ``subresource``: status or scale (gives the Scale).

        A resourceVersion in ``obj`` must be the current one. Custom kinds require one, as in the
        API. Raises 400, 404, 409, 422.
        """
        resource = self._kept.served(resource)
        self._check_subresource(resource, subresource)
        old = self._read(resource, namespace, name)
        if subresource != "scale":
            validation.check_shape(resource, obj)
            if not resource.builtin:
                _require_version(resource, name, obj)
        return self._write(resource, old, obj, subresource, options)

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Any,
        *,
        content_type: str,
        subresource: str = "",
        options: Options = _PLAIN,
        read: Callable[[Any], Any] | None = None,
    ) -> Obj:
        """Change an object by a decoded patch; server-side apply creates what is not there.

        ``read`` is given the object that the patch makes, and gives the one to be stored. Without
        a resourceVersion in the patch nothing conflicts; with one it must be the current. Raises
        400, 404, 409, 415, 422, 500.
        """
        resource = self._kept.served(resource)
        self._check_subresource(resource, subresource)
        if patching.media_type(content_type) == patching.APPLY_PATCH:
            return self._apply_patch(resource, namespace, name, body, subresource, options)
        old = self._read(resource, namespace, name)
        whole = subresource != "scale"
        target = old if whole else scale.scale_of(old, builtin=resource.builtin)
        new = patching.patched(resource, target, body, content_type)
        if subresource != "scale":
            new = read(new) if read is not None else new
            validation.check_shape(resource, new, old)
        return self._write(resource, old, new, subresource, options)

    def delete(
        self, resource: Resource, namespace: str, name: str, *, options: Options = _PLAIN
    ) -> tuple[Obj, bool]:
        """Delete an object: (its last state, whether it went at once).

        It stays, marked, while finalizers, the garbage collector or a pod's grace hold it.
        Raises 403, 404, 409.
        """
        resource = self._kept.served(resource)
        obj = self._read(resource, namespace, name)
        try:
            return self._target(resource).delete(resource, key_of(obj), options)
        finally:
            self._kept.deliver()

    def delete_collection(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        options: Options = _PLAIN,
    ) -> builtins.list[Obj]:
        """Delete everything that is selected; gives the objects as the deletes left them."""
        chosen = self.list(resource, namespace, labels=labels, fields=fields).items
        left = []
        for space, name in [key_of(obj) for obj in chosen]:
            if self._kept.one(resource, (space, name)) is not None:
                left.append(self.delete(resource, space, name, options=options)[0])
        return left

    def apply(self, obj: Obj, *, manager: str) -> Obj:
        """Create an object, or bring the one that is there to what ``obj`` says.

        Labels and annotations are laid over those that are there; every other field outside the
        status is replaced, owner references and finalizers only where ``obj`` gives some.
        """
        resource = self.registry.by_kind(obj["apiVersion"], obj["kind"])
        options = Options(manager=manager)
        namespace = obj["metadata"].get("namespace", "")
        key = _key(resource, namespace, obj["metadata"].get("name", ""))
        old = self._kept.one(resource, key)
        if old is None:
            return self.create(resource, obj, options=options)
        new = {**obj, "metadata": _merged_metadata(old["metadata"], obj["metadata"])}
        if not resource.status and "status" in old:
            new.setdefault("status", old["status"])
        return self.replace(resource, *key, new, options=options)

    def edit(
        self,
        api_version: str,
        kind: str,
        namespace: str,
        name: str,
        change: Callable[[Obj], None],
        *,
        manager: str,
        subresource: str = "",
    ) -> Obj:
        """Let ``change`` work on a copy of an object, and store what it made of it. Raises 404.

        With ``subresource="status"`` only the status is taken over.
        """
        resource = self.registry.by_kind(api_version, kind)
        self._check_subresource(resource, subresource)
        old = self._read(resource, namespace, name)
        new = copied(old)
        change(new)
        return self._write(resource, old, new, subresource, Options(manager=manager))

    # -- following

    def subscribe(self, listener: Callable[[Change], None]) -> Callable[[], None]:
        """Call ``listener`` for every change after its commit, in commit order.

        A listener may read and write. Gives a function that ends it.
        """
        return self._kept.subscribe(listener)

    def since(self, resource: Resource, revision: int) -> builtins.list[Change]:
        """The changes of a kind after a revision. Raises 410 Expired, 504 for one to come."""
        return self._kept.journal.since(self._kept.served(resource), revision, self.revision)

    def forget(self) -> None:
        """Drop the history: whoever resumes from an earlier revision than now gets a 410."""
        self._kept.journal.forget(self.revision)

    # -- the course of a write

    def _read(self, resource: Resource, namespace: str, name: str) -> Obj:
        found = self._kept.one(resource, _key(resource, namespace, name))
        if found is None:
            raise not_found(resource.group, resource.plural, name)
        return found

    def _check_subresource(self, resource: Resource, subresource: str) -> None:
        served = {"": True, "status": resource.status, "scale": resource.scale}
        if not served.get(subresource, False):
            raise ApiError(404, "the server could not find the requested resource")

    def _write(
        self, resource: Resource, old: Obj, new: Any, subresource: str, options: Options
    ) -> Obj:
        if subresource == "scale":
            new = scale.scaled(old, new)
        try:
            obj = self._updated(resource, old, new, subresource, options)
        finally:
            self._kept.deliver()
        return scale.scale_of(obj) if subresource == "scale" else obj

    def _updated(
        self, resource: Resource, old: Obj, new: Obj, subresource: str, options: Options
    ) -> Obj:
        target = self._target(resource)
        return target.update(resource, key_of(old), old, new, subresource, options)

    def _apply_patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Any,
        subresource: str,
        options: Options,
    ) -> Obj:
        config = serverside.checked_config(resource, body, name, options.manager)
        key = _key(resource, namespace, name)
        live = self._kept.one(resource, key)
        if live is None and subresource:
            raise not_found(resource.group, resource.plural, name)
        merged, own = self._laid_over(resource, key, live, config, subresource, options)
        merged = {**merged, "metadata": serverside.with_identity(merged, config)}
        target = self._target(resource)
        try:
            if live is None:
                fresh = self._writes.prepared(resource, merged, namespace)
                return target.create(resource, fresh, options, own)
            obj = target.update(resource, key, live, merged, subresource, options, own)
        finally:
            self._kept.deliver()
        return scale.scale_of(obj) if subresource == "scale" else obj

    def _laid_over(
        self,
        resource: Resource,
        key: Key,
        live: Obj | None,
        config: Obj,
        subresource: str,
        options: Options,
    ) -> tuple[Obj, Ownership]:
        own = None if live is None else self._kept.ownership.get((kind_of(resource), key))
        return serverside.applied(
            own or serverside.NOBODY,
            Manager(options.manager, serverside.APPLY, resource.api_version, subresource),
            live or {},
            serverside.applicable(resource, config, subresource),
            self._writes.shape(resource),
            force=options.force,
            time=lifecycle.rfc3339(self.now()),
        )

    def _target(self, resource: Resource) -> Writes | ViewWrites:
        return self._writes if resource.projection is None else self._views


def _headless(obj: Obj) -> Obj:
    return {k: v for k, v in obj.items() if k not in ("apiVersion", "kind")}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _key(resource: Resource, namespace: str, name: str) -> Key:
    return (namespace if resource.namespaced else "", name)


def _require_version(resource: Resource, name: str, obj: Obj) -> None:
    if not (obj.get("metadata") or {}).get("resourceVersion"):
        text = "Invalid value: 0x0: must be specified for an update"
        cause = validation.Cause("metadata.resourceVersion", text)
        raise validation.invalid(resource, name, [cause], qualified=resource.qualified)


def _merged_metadata(old: Obj, new: Obj) -> Obj:
    out = {**old, **{k: v for k, v in new.items() if v and k not in SERVER_METADATA}}
    for field in ("labels", "annotations"):
        if old.get(field) and new.get(field):
            out[field] = {**old[field], **new[field]}
    return out
