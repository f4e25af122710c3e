"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386), answering as the API does."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import jsonpatch
import jsonpointer

from harness.twin.apiserver import strategic
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.trees import copied

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"


def media_type(content_type: str) -> str:
    """A content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def patched(resource: Resource, target: Obj, body: Any, content_type: str) -> Obj:
    """``target`` after a patch; parts it does not touch may be shared with ``target``.

    Raises 415 for a content type this kind does not take, 400 for a patch that is malformed, 422
    for one that does not fit the object.
    """
    kind = media_type(content_type)
    if kind == JSON_PATCH:
        return _object(json_patch(target, body))
    if kind == MERGE_PATCH:
        return _object(merge_patch(target, _map_body(body)))
    if kind == STRATEGIC_PATCH and resource.builtin:
        return strategic.merge(target, _map_body(body), resource.list_keys)
    raise unsupported(resource)


def unsupported(resource: Resource) -> ApiError:
    """415 that names what the kind does take."""
    accepted = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH]
    if resource.builtin:
        accepted.insert(2, STRATEGIC_PATCH)
    return ApiError(
        415,
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386: ``target`` with ``patch`` laid over it; ``target`` itself when nothing differs."""
    if not isinstance(patch, dict):
        return patch
    base = target if isinstance(target, dict) else {}
    out: Obj | None = None if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            if key in base:
                out = dict(base) if out is None else out
                out.pop(key, None)
            continue
        before = base.get(key)
        after = merge_patch(before, value)
        if after is not before:
            out = dict(base) if out is None else out
            out[key] = after
    return base if out is None else out


def json_patch(target: Obj, operations: Any) -> Any:
    """RFC 6902: a fresh copy of ``target`` after all operations, or none of them."""
    if not isinstance(operations, list) or not all(isinstance(op, dict) for op in operations):
        raise ApiError(400, "error decoding patch: a JSON patch is a list of operations")
    if not all(isinstance(op.get(k, ""), str) for op in operations for k in ("op", "path", "from")):
        raise ApiError(400, "error decoding patch: op, path and from are text")
    try:
        return _Operations(operations).apply(copied(target), in_place=True)
    except (jsonpatch.JsonPatchConflict, jsonpatch.JsonPatchTestFailed) as problem:
        raise _does_not_fit(problem) from problem
    except jsonpointer.JsonPointerException as problem:
        raise _does_not_fit(problem) from problem
    except (jsonpatch.InvalidJsonPatch, TypeError, KeyError) as problem:
        raise _does_not_fit(problem) from problem


class _Replace(jsonpatch.ReplaceOperation):
    """As in the API, a map's field that is not there is replaced by being set."""

    def apply(self, obj: Any) -> Any:
        above, key = self.pointer.to_last(obj)
        if isinstance(above, dict) and key is not None and key not in above:
            above[key] = self.operation["value"]
            return obj
        return super().apply(obj)


class _Operations(jsonpatch.JsonPatch):
    operations = MappingProxyType({**jsonpatch.JsonPatch.operations, "replace": _Replace})


def _does_not_fit(problem: Exception) -> ApiError:
    cause = {"reason": "UnexpectedServerResponse", "message": str(problem)}
    return ApiError(
        422,
        "the server rejected our request due to an error in our request",
        details={"causes": [cause]},
    )


def _map_body(body: Any) -> Obj:
    if not isinstance(body, dict):
        raise ApiError(400, f"error decoding patch: an object was expected, not {body!r:.80}")
    return body


def _object(result: Any) -> Obj:
    if not isinstance(result, dict):
        raise ApiError(422, "the patch leaves no object")
    return result
