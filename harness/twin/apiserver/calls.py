"""One request to the API, read once, and the answer to it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from harness.twin.apiserver.access import Attributes, User
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.negotiation import PLAIN, Form
from harness.twin.apiserver.queries import Query, boolean
from harness.twin.apiserver.routing import Target

_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)
_METHODS = {"POST": "create", "PUT": "update", "PATCH": "patch", "GET": "get"}


@dataclass(frozen=True, slots=True)
class Call:
    """A request for a kind. ``verb`` is the API's word for it."""

    target: Target
    verb: str
    user: User
    query: Query
    agent: str = ""
    form: Form = PLAIN
    body: bytes = b""
    content_type: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back."""

    status: int
    body: bytes
    content_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


def verb_of(method: str, target: Target, query: Query) -> str:
    """The API's word for a method on a target. ApiError 405 for a method it has none for."""
    if method == "GET" and not target.name:
        return "watch" if boolean(query, "watch") else "list"
    if method == "DELETE":
        return "delete" if target.name else "deletecollection"
    verb = _METHODS.get(method)
    if verb is None:
        raise not_allowed()
    return verb


def attributes(target: Target, verb: str, query: Query) -> Attributes:
    """What the authorizer is asked about a call."""
    name = target.name
    if not name and "fieldSelector" in query:
        name = _selected_name(query["fieldSelector"])
    resource = target.resource
    return Attributes(
        verb, resource.group, resource.plural, target.subresource, target.namespace, name
    )


def unserved(parts: tuple[str, ...], method: str) -> Attributes:
    """What is asked of the authorizer about a path that names no kind served here."""
    verb = {"DELETE": "delete", **_METHODS}.get(method, method.lower())
    version = {"api": 2, "apis": 3}.get(parts[0] if parts else "", 0)
    rest = parts[version:]
    if not version or not rest:
        return Attributes(method.lower(), path="/" + "/".join(parts))
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    verb = "list" if verb == "get" and not name else verb
    group = parts[1] if version == 3 else ""
    return Attributes(verb, group, resource, subresource, namespace, name)


def document(value: Any, status: int = 200, content_type: str = "application/json") -> Answer:
    """An answer of one JSON document."""
    return Answer(status, encode(value), content_type)


def encode(value: Any) -> bytes:
    """A value as compact JSON."""
    return _ENCODER.encode(value).encode()


def failure(error: ApiError) -> Answer:
    """The Status that a refusal is answered with."""
    answer = document(error.status(), error.code)
    wait = error.details.get("retryAfterSeconds")
    return (
        answer
        if wait is None
        else Answer(answer.status, answer.body, headers={"Retry-After": str(wait)})
    )


def not_allowed() -> ApiError:
    """405 as the API words it."""
    return ApiError(405, "the server does not allow this method on the requested resource")


def no_such_resource() -> ApiError:
    """404 for a path where nothing is served."""
    # kubectl debug takes the details for granted (1.35)
    return ApiError(404, "the server could not find the requested resource", details={})


def _selected_name(fields: str) -> str:
    for term in fields.split(","):
        key, _, value = term.partition("=")
        if key == "metadata.name" and value:
            return value.removeprefix("=")
    return ""
