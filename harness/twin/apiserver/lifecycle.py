"""What the server keeps of an object itself: metadata, the halves of a status subresource."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from harness.twin.apiserver import namespaces
from harness.twin.apiserver.errors import UNKNOWN, ApiError
from harness.twin.apiserver.fieldpaths import SERVER_METADATA
from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.trees import copied

_OMITTED_WHEN_EMPTY: Final = ("labels", "annotations", "finalizers", "ownerReferences")
_DROPPED_ON_CREATE: Final = SERVER_METADATA - {"name", "namespace"}
_LONGEST_GENERATED_BASE: Final = 58  # 63 less the five characters that are appended


@lru_cache(maxsize=1024)
def _whole_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339(seconds: float) -> str:
    """Epoch seconds as the API writes a time: whole seconds, UTC."""
    return _whole_second(int(seconds))


def new_object(resource: Resource, obj: Obj, namespace: str) -> Obj:
    """A fresh copy of what a client sent to create, without what only the server may set.

    Raises 400 for a namespace that is missing or not the request's, 500, as the API does, for a
    resourceVersion.
    """
    sent = obj.get("metadata") or {}
    if sent.get("resourceVersion"):
        text = "resourceVersion should not be set on objects to be created"
        raise ApiError(500, text, reason=UNKNOWN)
    metadata = {k: v for k, v in sent.items() if k not in _DROPPED_ON_CREATE}
    metadata["namespace"] = _namespace(resource, sent.get("namespace") or "", namespace)
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    fresh: Obj = copied({**head, **obj, **head, "metadata": tidy(metadata)})
    if resource.status:
        fresh.pop("status", None)
    return fresh


def started(resource: Resource, obj: Obj) -> Obj:
    """A new object with the status that its kind begins with."""
    if namespaces.is_namespace(resource):
        return namespaces.started(obj)
    if resource.builtin and resource.kind == "Pod":
        return {**obj, "status": {"phase": "Pending"}}
    return obj


def _namespace(resource: Resource, sent: str, asked: str) -> str:
    if not resource.namespaced:
        return ""
    if sent and asked and sent != asked:
        raise namespace_mismatch()
    if not (sent or asked):
        raise ApiError(400, "an empty namespace may not be set during creation")
    return asked or sent


def namespace_mismatch() -> ApiError:
    """400 for an object sent to another namespace than it names."""
    return ApiError(
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )


def generated_base(base: str) -> str:
    """What stays of a ``generateName`` once the suffix must fit."""
    return base[:_LONGEST_GENERATED_BASE]


def tidy(metadata: Obj) -> Obj:
    """Metadata without nulls, without empty maps and lists, without an empty namespace."""
    return {
        key: value
        for key, value in metadata.items()
        if value is not None
        and not (not value and (key in _OMITTED_WHEN_EMPTY or key == "namespace"))
    }


def checked_identity(resource: Resource, old: Obj, new: Obj) -> None:
    """Refuse a change meant for another object or another version of it.

    Raises 400 for another name or namespace, 409 for another UID or resourceVersion; what is not
    said is not compared.
    """
    said, is_ = new.get("metadata") or {}, old["metadata"]
    if said is is_:
        return
    name = is_["name"]
    check_name(said.get("name") or "", name)
    if said.get("namespace") and said["namespace"] != is_.get("namespace", said["namespace"]):
        raise namespace_mismatch()
    if said.get("uid") and said["uid"] != is_["uid"]:
        raise modified(
            resource,
            name,
            f"Precondition failed: UID in precondition: {said['uid']}, "
            f"UID in object meta: {is_['uid']}",
        )
    if said.get("resourceVersion") and said["resourceVersion"] != is_["resourceVersion"]:
        raise modified(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and "
            "try again",
        )


def check_name(said: str, name: str) -> None:
    """Refuse with 400 an object without a name, or with another than the URL's."""
    if not said:
        raise ApiError(
            400,
            f"the name of the object ({name} based on URL) was undeterminable: name must be "
            "provided",
        )
    if said != name:
        raise ApiError(
            400, f"the name of the object ({said}) does not match the name on the URL ({name})"
        )


def modified(resource: Resource, name: str, why: str, *, word: str = "") -> ApiError:
    """409 Conflict as the API words it; ``word`` names the kind, ``plural.group`` if not given."""
    return ApiError(
        409,
        f'Operation cannot be fulfilled on {word or resource.qualified} "{name}": {why}',
        details={
            "name": name,
            "group": resource.group,
            "kind": resource.kind if word else resource.plural,
        },
    )


def already_exists(resource: Resource, name: str, *, terminating: bool) -> ApiError:
    """409 AlreadyExists as the API words it."""
    prefix = "object is being deleted: " if terminating else ""
    return ApiError(
        409,
        f'{prefix}{resource.qualified} "{name}" already exists',
        reason="AlreadyExists",
        details={"name": name, "group": resource.group, "kind": resource.plural},
    )


def next_state(resource: Resource, old: Obj, new: Obj, subresource: str) -> Obj:
    """What an update makes of an object: the half it may write, with the server's own metadata.

    A write to ``status`` changes the status only; a write to the main resource leaves the status
    alone where the kind has the subresource.
    """
    if subresource == "status":
        out = {k: v for k, v in old.items() if k != "status"}
        return {**out, "status": new["status"]} if new.get("status") is not None else out
    out = {**new, "apiVersion": old["apiVersion"], "kind": old["kind"]}
    if new.get("metadata") is not old["metadata"]:
        out["metadata"] = _kept_metadata(old["metadata"], new.get("metadata") or {})
    if resource.status:
        out.pop("status", None)
        if "status" in old:
            out["status"] = old["status"]
    return out


def _kept_metadata(old: Obj, new: Obj) -> Obj:
    out = {k: v for k, v in new.items() if k not in SERVER_METADATA}
    out.update({k: v for k, v in old.items() if k in SERVER_METADATA})
    return tidy(out)


def counts_as_new_generation(new: Obj, old: Obj) -> bool:
    """Whether anything outside metadata and status differs; ``new`` shares what is equal."""
    if (new.keys() ^ old.keys()) - {"status", "metadata"}:
        return True
    return any(
        value is not old.get(key) for key, value in new.items() if key not in ("metadata", "status")
    )


def with_metadata(obj: Obj, **fields: Any) -> Obj:
    """An object with some fields of its metadata replaced."""
    return {**obj, "metadata": {**obj["metadata"], **fields}}
