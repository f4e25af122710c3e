"""Who owns which field: server-side apply, and what plain updates take from others.

Ownership is per leaf for maps and keyed lists, and whole for any other list
(lab/python_kube_stack.md section 3.3).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.twin.apiserver import lifecycle, validation
from harness.twin.apiserver.errors import UNKNOWN, ApiError, invalid_options
from harness.twin.apiserver.fieldpaths import (
    SERVER_METADATA,
    Path,
    Shape,
    by_element,
    difference,
    fields,
    from_fields_v1,
    is_key_field,
    shown,
    to_fields_v1,
    twice,
    without,
)
from harness.twin.apiserver.resources import ATOMIC, Obj, Resource

APPLY: Final = "Apply"
UPDATE: Final = "Update"
_BEFORE: Final = "before-first-apply"  # who wrote what was there when nobody was on record
_KUBECTL: Final = "kubectl"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True, order=True)
class Manager:
    """One writer in one role, as an entry of ``metadata.managedFields`` tells writers apart."""

    name: str
    operation: str  # Apply | Update
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


@dataclass(frozen=True, slots=True)
class Share:
    """The fields one manager owns, and when that last changed (RFC 3339)."""

    paths: frozenset[Path]
    time: str


@dataclass(frozen=True, slots=True)
class Origin:
    """A plain creator and what it made; the fields are worked out only when someone applies."""

    manager: Manager
    obj: Obj
    time: str


@dataclass(frozen=True, slots=True)
class Ownership:
    """Who owns the fields of one object. ``visible`` once an apply has been seen."""

    shares: Mapping[Manager, Share]
    origin: Origin | None = None
    visible: bool = False

    def managed_fields(self) -> list[Obj]:
        """The value of ``metadata.managedFields``: applies first, then by time and name."""
        entries = sorted(
            self.shares.items(), key=lambda e: (e[0].operation, e[1].time, e[0].name, e[0])
        )
        return [_entry(manager, share) for manager, share in entries]


NOBODY: Final = Ownership({}, visible=True)


def _entry(manager: Manager, share: Share) -> Obj:
    entry: Obj = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.api_version,
        "time": share.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": to_fields_v1(share.paths),
    }
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def from_managed_fields(entries: Iterable[Obj]) -> Ownership:
    """Ownership as a client wrote it into ``metadata.managedFields``; empty entries reset it."""
    shares = {}
    for entry in entries:
        if entry.get("fieldsV1"):
            manager = Manager(
                entry.get("manager", ""),
                entry.get("operation", UPDATE),
                entry.get("apiVersion", ""),
                entry.get("subresource", ""),
            )
            paths = frozenset(from_fields_v1(entry["fieldsV1"]))
            shares[manager] = Share(paths, entry.get("time", ""))
    return Ownership(shares, visible=True)


def created(manager: Manager, obj: Obj, time: str) -> Ownership:
    """Everything belongs to the one who created the object."""
    return Ownership({}, Origin(manager, obj, time))


def updated(
    own: Ownership, manager: Manager, old: Obj, new: Obj, shape: Shape, time: str
) -> Ownership:
    """Ownership after a plain update: changed fields go to the one who changed them.

    ``own`` itself where nothing changes hands.
    """
    if own.origin is not None and own.origin.manager == manager and not own.shares:
        return Ownership(own.shares, Origin(manager, new, time))
    changed, removed = difference(old, new, shape)
    shares = _taken(own.shares, manager, changed | removed)
    mine = own.shares.get(manager)
    have = mine.paths if mine else frozenset()
    if not (changed <= have and removed.isdisjoint(have)):
        shares = _given(shares, manager, (have | changed) - removed, time)
    return own if shares is own.shares else replace(own, shares=shares)


def _taken(
    shares: Mapping[Manager, Share], taker: Manager, paths: set[Path]
) -> Mapping[Manager, Share]:
    """Shares after every manager but one has lost some paths."""
    out: dict[Manager, Share] | None = None
    for manager, share in shares.items():
        if manager != taker and not share.paths.isdisjoint(paths):
            out = dict(shares) if out is None else out
            out[manager] = Share(share.paths - paths, share.time)
    return shares if out is None else {m: s for m, s in out.items() if s.paths}


def _given(
    shares: Mapping[Manager, Share], manager: Manager, paths: frozenset[Path], time: str
) -> Mapping[Manager, Share]:
    out = {m: share for m, share in shares.items() if m != manager}
    if paths:
        out[manager] = Share(paths, time)
    return out


def _worked_out(own: Ownership, live: Obj, shape: Shape) -> Ownership:
    """Ownership with the creator's fields spelled out: what it made and nobody else owns since."""
    origin = own.origin
    if origin is None:
        return replace(own, visible=True)
    elsewhere = [s.paths for m, s in own.shares.items() if m != origin.manager]
    made = fields(origin.obj, shape, nodes=True)
    paths = (made & fields(live, shape, nodes=True)).difference(*elsewhere)
    mine = own.shares.get(origin.manager)
    paths |= mine.paths if mine else frozenset()
    shares = _given(own.shares, origin.manager, frozenset(paths), origin.time)
    return Ownership(shares, visible=True)


def applied(
    own: Ownership,
    manager: Manager,
    live: Obj,
    config: Obj,
    shape: Shape,
    *,
    force: bool,
    time: str,
) -> tuple[Obj, Ownership]:
    """(object, ownership) after a server-side apply of ``config`` to ``live``.

    What the manager applied before and leaves out now goes, unless someone else owns it too.
    Raises 409 for a change to fields of others, unless ``force`` takes them.
    """
    own = _worked_out(_begun(own, live, manager.api_version, time), live, shape)
    stated = _stated(config)
    _refuse_repetition(stated, config, shape)
    wanted = frozenset(fields(stated, shape))
    before = own.shares.get(manager)
    merged = _laid_over(live, stated, shape, "")
    changed, removed = difference(live, merged, shape)
    if not force:
        excused = _applied_by_kubectl(live, shape) if manager.name == _KUBECTL else frozenset()
        _refuse_conflicts(own.shares, manager, (changed | removed) - excused)
    dropped = before.paths - wanted if before else frozenset()
    others = [share.paths for m, share in own.shares.items() if m != manager]
    if dropped:
        # Laid over again, because a map that is applied empty stays when its last field goes.
        merged = _pruned(merged, dropped, [*others, wanted])
        merged = _laid_over(merged, stated, shape, "")
        changed, removed = difference(live, merged, shape)
    shares = _taken(own.shares, manager, changed | removed)
    if before is None or before.paths != wanted:
        shares = _given(shares, manager, wanted, time)
    return merged, Ownership(shares, visible=True)


def checked_config(resource: Resource, body: Obj, name: str, manager: str) -> Obj:
    """The configuration a client applies; its name must be the request's.

    Raises 400 for what is no such configuration, 422 where no manager is named.
    """
    if not manager:
        text = "Required value: is required for apply patch"
        raise invalid_options("PatchOptions", "fieldManager", text, "FieldValueRequired")
    validation.check_shape(resource, body)
    for field in ("apiVersion", "kind"):
        if not body.get(field):
            raise ApiError(400, f"an apply configuration must say its {field}")
    metadata = body.get("metadata") or {}
    if metadata.get("managedFields"):
        raise ApiError(400, "metadata.managedFields must be nil")
    lifecycle.check_name(metadata.get("name") or "", name)
    return body


def applicable(resource: Resource, config: Obj, subresource: str) -> Obj:
    """The part of a configuration that an apply to a (sub)resource acts on."""
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    if subresource == "status":
        return {**head, "status": config.get("status")}
    if subresource == "scale":
        return {**head, "spec": {"replicas": (config.get("spec") or {}).get("replicas", 0)}}
    return {k: v for k, v in config.items() if not (k == "status" and resource.status)}


def with_identity(merged: Obj, config: Obj) -> Obj:
    """The metadata of a merged object, with which object and version the client meant."""
    said = config["metadata"]
    identity = ("name", "namespace", "uid", "resourceVersion")
    return {**merged["metadata"], **{k: said[k] for k in identity if said.get(k)}}


def _begun(own: Ownership, live: Obj, api_version: str, time: str) -> Ownership:
    """Ownership of an object whose managers nobody knows: all of it was there before."""
    if own.shares or own.origin is not None or not live:
        return own
    return Ownership({}, Origin(Manager(_BEFORE, UPDATE, api_version), live, time))


def _refuse_repetition(stated: Obj, config: Obj, shape: Shape) -> None:
    found = twice(stated, shape)
    if found:
        raise untyped(config, found)


def untyped(config: Obj, why: str) -> ApiError:
    """500, as the API answers where an applied configuration does not fit its kind."""
    name = (config.get("metadata") or {}).get("name", "")
    group, _, version = str(config.get("apiVersion", "")).rpartition("/")
    return ApiError(
        500,
        f"failed to create typed patch object (/{name}; {group}/{version}, "
        f"Kind={config.get('kind', '')}): {why}",
        reason=UNKNOWN,
    )


def _stated(config: Obj) -> Obj:
    out = {k: _without_nulls(v) for k, v in config.items() if v is not None}
    metadata = config.get("metadata") or {}
    out["metadata"] = {
        k: _without_nulls(v)
        for k, v in metadata.items()
        if k not in SERVER_METADATA and v is not None
    }
    return out


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _laid_over(live: Any, config: Any, shape: Shape, dotted: str) -> Any:
    maps = isinstance(live, dict) and isinstance(config, dict)
    if maps and shape.keys.get(dotted) != ATOMIC:
        out = dict(live)
        for name, value in config.items():
            below = f"{dotted}.{name}" if dotted else name
            out[name] = _laid_over(live.get(name), value, shape, below)
        return out
    olds, news = by_element(live, dotted, shape), by_element(config, dotted, shape)
    if olds is None or news is None:
        return config
    merged = {e: _laid_over(olds.get(e), item, shape, dotted) for e, item in news.items()}
    return [merged.get(e, olds.get(e)) for e in _woven(list(olds), list(news))]


def _woven(live: list[str], config: list[str]) -> list[str]:
    """The order of a merged list: as applied, others after whom they followed before."""
    out = list(config)
    known = set(config)
    spot = 0
    for element in live:
        if element in known:
            spot = out.index(element) + 1
        else:
            out.insert(spot, element)
            spot += 1
    return out


def _pruned(merged: Obj, dropped: frozenset[Path], kept: list[frozenset[Path]]) -> Obj:
    """A merged object without what nobody wants any more.

    An item of a list goes whole or keeps the fields that tell it apart.
    """
    for path in sorted(dropped, key=len):
        if not is_key_field(path) and not any(_holds(paths, path) for paths in kept):
            merged = without(merged, path)
    return merged


def _holds(paths: frozenset[Path], path: Path) -> bool:
    """Whether a path, or something below it, is among paths."""
    return path in paths or any(other[: len(path)] == path for other in paths)


def _refuse_conflicts(
    shares: Mapping[Manager, Share], applier: Manager, changed: set[Path]
) -> None:
    conflicts = [
        (manager, shown(path))
        for manager, share in sorted(shares.items(), key=lambda entry: entry[0])
        if manager != applier
        for path in sorted(share.paths & changed)
    ]
    if conflicts:
        raise _conflict(conflicts)


def _applied_by_kubectl(live: Obj, shape: Shape) -> frozenset[Path]:
    """What kubectl's client side applied last: its server side takes that over unasked."""
    written = (live.get("metadata") or {}).get("annotations") or {}
    try:
        config = json.loads(written.get(_LAST_APPLIED) or "null")
    except ValueError:
        return frozenset()
    return frozenset(fields(_stated(config), shape)) if isinstance(config, dict) else frozenset()


def _conflict(conflicts: list[tuple[Manager, str]]) -> ApiError:
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in conflicts
    ]
    return ApiError(409, _conflict_text(conflicts), details={"causes": causes})


def _conflict_text(conflicts: list[tuple[Manager, str]]) -> str:
    if len(conflicts) == 1:
        manager, path = conflicts[0]
        return f"Apply failed with 1 conflict: conflict with {manager}: {path}"
    lines: list[str] = []
    for manager in dict.fromkeys(manager for manager, _ in conflicts):
        lines.append(f"conflicts with {manager}:")
        lines += [f"- {path}" for owner, path in conflicts if owner == manager]
    return f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
