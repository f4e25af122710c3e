"""What each verb does: reads a call, asks the store, writes the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from harness.twin.apiserver import bodies, decoding
from harness.twin.apiserver.builtin_kinds import is_review
from harness.twin.apiserver.calls import (
    Answer,
    Call,
    document,
    encode,
    no_such_resource,
    not_allowed,
)
from harness.twin.apiserver.discovery import verbs_of
from harness.twin.apiserver.errors import ApiError, invalid_options
from harness.twin.apiserver.queries import delete_options, number, write_options
from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.reviews import Reviews
from harness.twin.apiserver.store import Listing, Options, Store
from harness.twin.apiserver.tables import partial, table
from harness.twin.apiserver.tokens import Tokens
from harness.twin.apiserver.watching import check_reached, revision_of

_STORED = ("", "status", "scale")
_LIST = "ListOptions"
_HANDED_BACK = frozenset(
    {("", plural) for plural in (
        "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates", "resourcequotas",
        "serviceaccounts", "services",
    )}
    | {("storage.k8s.io", plural) for plural in (
        "csidrivers", "csinodes", "storageclasses", "volumeattachments",
    )}
)  # fmt: skip
"""Kinds whose deletion answers with the object, also when it is gone (Kubernetes' OpenAPI)."""


class Verbs:
    """Answers calls for the kinds of one cluster, watches and execs aside."""

    def __init__(self, store: Store, reviews: Reviews, tokens: Tokens) -> None:
        self._store = store
        self._reviews = reviews
        self._tokens = tokens
        self._verbs: dict[str, Callable[[Call], Answer]] = {
            "get": self._get,
            "list": self._list,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def answer(self, call: Call) -> Answer:
        """The answer to a call. ApiError for everything that is refused."""
        return self._verbs[call.verb](call)

    # -- reading

    def _get(self, call: Call) -> Answer:
        target = call.target
        if target.subresource not in _STORED or is_review(target.resource):
            raise not_allowed()
        if "resourceVersion" in call.query:
            check_reached(self._store, revision_of(call.query["resourceVersion"]))
        if target.subresource == "scale":
            return document(self._store.scale(target.resource, target.namespace, target.name))
        obj = self._store.get(target.resource, target.namespace, target.name)
        return self._object(call, obj)

    def _list(self, call: Call) -> Answer:
        resource, query = call.target.resource, call.query
        if is_review(resource):
            raise not_allowed()
        _check_list(query)
        revision = _list_revision(query.get("resourceVersion", ""))
        check_reached(self._store, revision)
        listing = self._store.list(
            resource,
            call.target.namespace,
            labels=query.get("labelSelector", ""),
            fields=query.get("fieldSelector", ""),
            limit=number(query, "limit") or 0,
            continue_token=query.get("continue", ""),
            at=revision if query.get("resourceVersionMatch") == "Exact" else 0,
        )
        metadata: Obj = {"resourceVersion": str(listing.revision)}
        if listing.continue_token:
            metadata["continue"] = listing.continue_token
        if listing.remaining is not None:
            metadata["remainingItemCount"] = listing.remaining
        return self._listed(call, listing, metadata)

    def _listed(self, call: Call, listing: Listing, metadata: Obj) -> Answer:
        resource = call.target.resource
        if call.form.table:
            include = call.query.get("includeObject", "")
            rows = table(
                resource, listing.items, now=self._store.now(), metadata=metadata, include=include
            )
            return document(rows)
        if call.form.partial:
            head = ("PartialObjectMetadataList", "meta.k8s.io/v1")
            items: Iterable[bytes] = (encode(partial(obj)) for obj in listing.items)
        else:
            head = (f"{resource.kind}List", resource.api_version)
            items = self._store.items(resource, listing.items)
        body = b'{"kind":%b,"apiVersion":%b,"metadata":%b,"items":[%b]}' % (
            encode(head[0]),
            encode(head[1]),
            encode(metadata),
            b",".join(items),
        )
        return Answer(200, body)

    def _object(self, call: Call, obj: Obj, status: int = 200) -> Answer:
        form = call.form
        if form.table:
            metadata = {"resourceVersion": obj["metadata"].get("resourceVersion", "")}
            include = call.query.get("includeObject", "")
            now, resource = self._store.now(), call.target.resource
            rows = table(resource, [obj], now=now, metadata=metadata, include=include)
            return document(rows, status)
        if form.partial:
            return document(partial(obj), status)
        return Answer(status, self._store.encoded(obj))

    # -- writing

    def _create(self, call: Call) -> Answer:
        target = call.target
        if target.subresource in ("eviction", "token"):
            return self._posted_below(call)
        if target.name or target.subresource:
            raise not_allowed()
        if target.resource.namespaced and not target.namespace:
            raise not_allowed()
        options = replace(write_options(call.query, call.agent, "CreateOptions"), user=call.user)
        obj, warnings = _sent(call, options)
        if is_review(target.resource):
            reviewed = self._reviews.answer(target.resource, obj, call.user, target.namespace)
            return document(reviewed, 201)
        stored = self._store.create(
            target.resource, obj, namespace=target.namespace, options=options
        )
        return _warned(self._object(call, stored, 201), warnings)

    def _posted_below(self, call: Call) -> Answer:
        target = call.target
        body = bodies.read_object(call.body, call.content_type)
        if target.subresource == "token":
            return document(self._tokens.request(target.namespace, target.name, body), 201)
        options = delete_options(call.query, body.get("deleteOptions"), call.agent)
        self._store.delete(target.resource, target.namespace, target.name, options=options)
        return document({**_success({}), "code": 201}, 201)

    def _update(self, call: Call) -> Answer:
        target = call.target
        self._check_writable(call)
        options = write_options(call.query, call.agent, "UpdateOptions")
        obj, warnings = _sent(call, options)
        stored = self._store.replace(
            target.resource,
            target.namespace,
            target.name,
            obj,
            subresource=target.subresource,
            options=options,
        )
        return _warned(self._written(call, stored), warnings)

    def _patch(self, call: Call) -> Answer:
        target = call.target
        self._check_writable(call)
        patch, media = bodies.read_patch(call.body, call.content_type)
        if media == bodies.APPLY and not call.query.get("fieldManager"):
            text = "Required value: is required for apply patch"
            raise invalid_options("PatchOptions", "fieldManager", text, "FieldValueRequired")
        if media != bodies.APPLY and "force" in call.query:
            text = "Forbidden: may not be specified for non-apply patch"
            raise invalid_options("PatchOptions", "force", text)
        if media == bodies.APPLY:
            decoding.check_applied(target.resource, patch)
        created = media == bodies.APPLY and self._is_new(call)
        options = replace(write_options(call.query, call.agent, "PatchOptions"), user=call.user)
        warnings: list[str] = []

        def read(made: Any) -> Any:
            found = decoding.decoded(target.resource, made)
            text = encode(made).decode() if found.mismatch or found.strict else ""
            known, told = decoding.patched(text, found, options.field_validation)
            warnings.extend(told)
            return known

        stored = self._store.patch(
            target.resource,
            target.namespace,
            target.name,
            patch,
            content_type=media,
            subresource=target.subresource,
            options=options,
            read=read,
        )
        return _warned(self._written(call, stored, 201 if created else 200), warnings)

    def _is_new(self, call: Call) -> bool:
        target = call.target
        resource = target.resource
        return (
            self._store.find(resource.api_version, resource.kind, target.namespace, target.name)
            is None
        )

    def _written(self, call: Call, stored: Obj, status: int = 200) -> Answer:
        if call.target.subresource == "scale":
            return document(stored, status)
        return self._object(call, stored, status)

    def _delete(self, call: Call) -> Answer:
        target = call.target
        if target.subresource or is_review(target.resource):
            raise not_allowed()
        obj, gone = self._store.delete(
            target.resource, target.namespace, target.name, options=_delete_options(call)
        )
        resource = target.resource
        if not gone or (resource.group, resource.plural) in _HANDED_BACK:
            return self._object(call, obj)
        return document(_success(_details(target.resource, obj)))

    def _delete_collection(self, call: Call) -> Answer:
        target = call.target
        if "deletecollection" not in verbs_of(target.resource):
            raise not_allowed()
        if target.resource.namespaced and not target.namespace:
            raise not_allowed()
        deleted = self._store.delete_collection(
            target.resource,
            target.namespace,
            labels=call.query.get("labelSelector", ""),
            fields=call.query.get("fieldSelector", ""),
            options=_delete_options(call),
        )
        metadata = {"resourceVersion": str(self._store.revision)}
        return self._listed(call, Listing(deleted, self._store.revision), metadata)

    def _check_writable(self, call: Call) -> None:
        target = call.target
        if not target.name or target.subresource not in _STORED or is_review(target.resource):
            raise not_allowed()
        if target.resource.namespaced and not target.namespace:
            raise no_such_resource()


def _sent(call: Call, options: Options) -> tuple[Obj, Sequence[str]]:
    """The object in a call's body as its kind knows it, and what to warn of."""
    resource = call.target.resource
    obj, twice = bodies.read_strictly(call.body, call.content_type)
    if call.target.subresource == "scale" or is_review(resource):
        return obj, ()
    return decoding.sent(resource, decoding.decoded(resource, obj, twice), options.field_validation)


def _warned(answer: Answer, warnings: Sequence[str]) -> Answer:
    if not warnings:
        return answer
    return replace(answer, headers={**answer.headers, **decoding.header(warnings)})


def _check_list(query: Any) -> None:
    match, version = query.get("resourceVersionMatch", ""), query.get("resourceVersion", "")
    number(query, "timeoutSeconds")
    if "sendInitialEvents" in query:
        raise _forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")
    if match not in ("", "Exact", "NotOlderThan"):
        text = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan", ""'
        raise invalid_options(_LIST, "resourceVersionMatch", text, "FieldValueNotSupported")
    if match and not version:
        raise _forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        )
    if match == "Exact" and version == "0":
        raise _forbidden(
            "resourceVersionMatch",
            'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        )
    if query.get("continue") and version not in ("", "0"):
        raise ApiError(400, "specifying resource version is not allowed when using continue")


def _forbidden(field: str, why: str) -> ApiError:
    return invalid_options(_LIST, field, f"Forbidden: {why}")


def _list_revision(version: str) -> int:
    try:
        return revision_of(version)
    except ApiError as problem:
        raise ApiError(400, f"invalid resource version: {problem.message}") from problem


def _delete_options(call: Call) -> Options:
    body = bodies.read_object(call.body, call.content_type) if call.body.strip() else None
    return delete_options(call.query, body, call.agent)


def _details(resource: Resource, obj: Obj) -> Obj:
    metadata = obj["metadata"]
    details = {"name": metadata["name"], "group": resource.group, "kind": resource.plural}
    details["uid"] = metadata["uid"]
    return {key: value for key, value in details.items() if value}


def _success(details: Obj) -> Obj:
    status: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return {**status, "details": details} if details else status
