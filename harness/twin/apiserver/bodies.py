"""Reads what a client sends: JSON, YAML, the few kinds of protobuf, and the patch types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
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
# What an API server reads as a boolean and this library as text.
_Loader.bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"[yYnN]\Z"), list("yYnN"))


def read_object(body: bytes, content_type: str) -> Obj:
    """The object in a request's body. Raises as ``read_strictly``."""
    return read_strictly(body, content_type)[0]


def read_strictly(body: bytes, content_type: str) -> tuple[Obj, list[str]]:
    """The object in a request's body, and the fields that it says twice (of JSON only).

    Raises ApiError 400 where it cannot be parsed, 415 for a media type that is not read here.
    """
    media = media_type(content_type) or JSON
    twice: list[str] = []
    if media == JSON:
        found, twice = _json_strictly(body)
    elif media == YAML:
        found = _yaml(body)
    elif media == protobuf.CONTENT_TYPE:
        found = protobuf.decode(body)
    else:
        raise unsupported((JSON, YAML, protobuf.CONTENT_TYPE))
    if not isinstance(found, dict):
        raise ApiError(400, f"the body must be an object, not {_name(found)}")
    return found, twice


def read_patch(body: bytes, content_type: str) -> tuple[Any, str]:
    """A patch and its media type. Raises ApiError 400 or 415 as ``read_object`` does."""
    media = media_type(content_type)
    expected = PATCHES.get(media)
    if expected is None:
        raise unsupported(tuple(PATCHES))
    patch = _yaml(body) if media == APPLY and not body.startswith(b"{") else _json(body)
    if not isinstance(patch, expected):
        form = "a list of operations" if expected is list else "an object"
        raise ApiError(400, f"a patch of type {media} must be {form}, not {_name(patch)}")
    return patch, media


def media_type(content_type: str) -> str:
    """The media type without its parameters, in lower case."""
    return content_type.split(";", 1)[0].strip().lower()


def unsupported(accepted: tuple[str, ...]) -> ApiError:
    """415 that names what would have been read."""
    return ApiError(
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def _json(body: bytes, decoder: json.JSONDecoder | None = None) -> Any:
    try:
        return (decoder or _DECODER).decode(body.decode())
    except (ValueError, RecursionError) as broken:
        raise ApiError(400, f"error decoding the body as JSON: {broken}") from broken


def _json_strictly(body: bytes) -> tuple[Any, list[str]]:
    """A JSON value, and the paths of the fields that one of its maps says twice."""
    twice: dict[int, list[str]] = {}

    def made(pairs: list[tuple[str, Any]]) -> Obj:
        out = dict(pairs)
        if len(out) < len(pairs):
            said = [name for name, _ in pairs]
            twice[id(out)] = [name for i, name in enumerate(said) if name in said[:i]]
        return out

    decoder = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=made)
    found = _json(body, decoder)
    return found, list(_paths(found, twice, "")) if twice else []


def _paths(value: Any, twice: Mapping[int, list[str]], above: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (f"{above}.{n}" if above else n for n in twice.get(id(value), ()))
        for name, item in value.items():
            yield from _paths(item, twice, f"{above}.{name}" if above else name)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _paths(item, twice, f"{above}[{i}]")


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
