"""Reads what a client sends: JSON, YAML, the few kinds of protobuf, and the patch types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import yaml

from harness.twin.apiserver import protobuf
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Obj

LIMIT = 3 * 1024 * 1024  # bytes; what a real API server takes
JSON, YAML = "application/json", "application/yaml"
APPLY = "application/apply-patch+yaml"
PATCHES: Mapping[str, type] = {
    "application/json-patch+json": list,
    "application/merge-patch+json": dict,
    "application/strategic-merge-patch+json": dict,
    APPLY: dict,
}


class _Loader(yaml.SafeLoader):
    """YAML whose timestamps stay text, as they do on their way into an API server."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_object(body: bytes, content_type: str) -> Obj:
    """The object in a request's body.

    Raises ApiError 400 where it cannot be parsed, 415 for a media type that is not read here.
    """
    media = media_type(content_type) or JSON
    if media == JSON:
        found = _json(body)
    elif media == YAML:
        found = _yaml(body)
    elif media == protobuf.CONTENT_TYPE:
        found = protobuf.decode(body)
    else:
        raise unsupported(media, (JSON, YAML, protobuf.CONTENT_TYPE))
    if not isinstance(found, dict):
        raise ApiError(400, f"the body must be an object, not {_name(found)}")
    return found


def read_patch(body: bytes, content_type: str) -> tuple[Any, str]:
    """A patch and its media type. Raises ApiError 400 or 415 as ``read_object`` does."""
    media = media_type(content_type)
    expected = PATCHES.get(media)
    if expected is None:
        raise unsupported(media, tuple(PATCHES))
    patch = _yaml(body) if media == APPLY and not body.startswith(b"{") else _json(body)
    if not isinstance(patch, expected):
        form = "a list of operations" if expected is list else "an object"
        raise ApiError(400, f"a patch of type {media} must be {form}, not {_name(patch)}")
    return patch, media


def media_type(content_type: str) -> str:
    """The media type without its parameters, in lower case."""
    return content_type.split(";", 1)[0].strip().lower()


def unsupported(media: str, accepted: tuple[str, ...]) -> ApiError:
    """415 that names what would have been read."""
    return ApiError(
        415,
        f'the body of the request was in an unknown format ("{media}") - '
        f"accepted media types include: {', '.join(accepted)}",
    )


def _json(body: bytes) -> Any:
    try:
        return _DECODER.decode(body.decode())
    except (ValueError, RecursionError) as broken:
        raise ApiError(400, f"error decoding the body as JSON: {broken}") from broken


def _yaml(body: bytes) -> Any:
    try:
        return yaml.load(body, _Loader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as broken:
        raise ApiError(400, f"error decoding the body as YAML: {broken}") from broken


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)  # one for all: making it costs more than use


def _name(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null"}
    return names.get(type(value), "a scalar")
