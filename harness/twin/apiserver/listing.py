"""Lists in pages: every page of one list shows the same revision."""

from __future__ import annotations

import base64
import binascii
import json
from bisect import bisect_right

from harness.twin.apiserver.committed import Committed
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.records import Key, Listing, key_of
from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.selectors import Matcher, matcher
from harness.twin.apiserver.shelf import as_it_was, in_namespace

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or go on with the token in this response, "
    "which shows the rest of the list as it is now."
)
_NOW = -1  # the revision of a token that goes on with the list as it is now
_FIRST: Key = ("", "")


def page(
    kept: Committed,
    resource: Resource,
    namespace: str,
    *,
    labels: str,
    fields: str,
    limit: int,
    continue_token: str,
    revision: int,
    exact: int = 0,
) -> Listing:
    """One page of a list; ``exact`` is the revision to show it at, 0 for now.

    Raises 400 for a selector or a token that does not read, 410 for a revision that the history
    no longer reaches.
    """
    chosen = matcher(resource, labels, fields)
    at, after = exact, _FIRST
    if continue_token:
        at, after = _decoded(continue_token)
        _check_token(kept, at, after)
    elif exact and not kept.journal.reaches(exact):
        raise ApiError(410, "The resourceVersion for the provided list is too old.")
    if not at and not continue_token:
        return _cut(kept.table(resource).values(namespace), chosen, limit, revision)
    at = at if at > 0 else revision
    objects = _past(kept, resource, at, revision)
    keys = in_namespace(sorted(objects), namespace)
    keys = keys[bisect_right(keys, after) :]
    return _cut([objects[key] for key in keys], chosen, limit, at)


def _check_token(kept: Committed, at: int, after: Key) -> None:
    if at != _NOW and not kept.journal.reaches(at):
        raise ApiError(410, _TOO_OLD, metadata={"continue": _encoded(_NOW, after)})


def _past(kept: Committed, resource: Resource, at: int, current: int) -> dict[Key, Obj]:
    undo: dict[Key, Obj | None] = {}
    for change in reversed(kept.journal.since(resource, at, current)):
        undo[key_of(change.obj)] = change.old
    return as_it_was(kept.table(resource).objects, undo)


def _cut(objects: list[Obj], chosen: Matcher | None, limit: int, revision: int) -> Listing:
    items = objects if chosen is None else [obj for obj in objects if chosen(obj)]
    if limit <= 0 or len(items) <= limit:
        return Listing(items, revision)
    left = len(items) - limit
    token = _encoded(revision, key_of(items[limit - 1]))
    return Listing(items[:limit], revision, token, left if chosen is None else None)


def _encoded(revision: int, key: Key) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": list(key)})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decoded(token: str) -> tuple[int, Key]:
    try:
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        told = json.loads(raw)
        namespace, name = told["start"]
        return int(told["rv"]), (str(namespace), str(name))
    except (binascii.Error, ValueError, KeyError, TypeError) as problem:
        raise ApiError(
            400, f"invalid continue token: continue key is not valid: {problem}"
        ) from problem
