"""What a pool consists of at one moment, by name, UID and content, to be compared with later.

A pool that adopts nothing renders byte for byte what it rendered, across a forced reconcile and
across a platform upgrade (S-KM; S-OSI). The state outlives a run as a JSON file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.objects import (
    Obj,
    at_path,
    condition,
    listed,
    mapped,
    name_of,
    origin_of,
    text_at,
    uid_of,
)
from harness.facts.reply import quote

SCHEMA = 1
"""Version of the file's shape; a file of another one is refused."""
RELEASE_LABEL = "cozystack.io/kubernetes-nodes-release"
KIND = "hil pool state"

Regime = Literal["fixed", "content"]

_HASH = re.compile(r"-[0-9a-f]{6}")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TemplateState:
    """A template in use: its kind, name and UID, and the SHA-256 of its spec as canonical JSON."""

    kind: str
    name: str
    uid: str
    digest: str


@dataclass(frozen=True, slots=True)
class ReleaseState:
    """The pool's HelmRelease: its Ready condition, its revision, and what it was last told.

    ``handled`` and ``forced`` are status.lastHandledReconcileAt and lastHandledForceAt, the values
    of the annotations that asked; ``values`` is the SHA-256 of spec.values.
    """

    name: str
    ready: str
    reason: str
    message: str
    revision: int
    handled: str
    forced: str
    values: str


@dataclass(frozen=True, slots=True)
class PoolState(Fact):
    """A pool. Mappings are from an object's name to its UID, ``boots`` from a Node's to its boot.

    ``regime`` is "content" where the TalosConfigTemplate is named by its content (post-#3523: six
    hex digits at its end or its own label), else "fixed" (S-KM; gpu_path 1.2). ``job`` is the name
    of the reconcile Job, "" where it is not there: it goes after 600 s, which says nothing.
    """

    pool: str
    cluster: str
    regime: Regime
    bootstrap: TemplateState
    machine: TemplateState
    job: str
    machines: dict[str, str] = field(hash=False)
    vmis: dict[str, str] = field(hash=False)
    data_volumes: dict[str, str] = field(hash=False)
    boots: dict[str, str] = field(hash=False)
    release: ReleaseState


def template_state(template: Any) -> TemplateState:
    """A template as it stands."""
    spec = at_path(template, "spec")
    return TemplateState(
        text_at(template, "kind"), name_of(template), uid_of(template), digest(spec)
    )


def release_state(release: Any) -> ReleaseState:
    """A HelmRelease as it stands."""
    said = condition(release, "Ready")
    history = listed(release, "status", "history")
    revision = at_path(history, 0, "version")
    return ReleaseState(
        name=name_of(release),
        ready=text_at(said, "status"),
        reason=text_at(said, "reason"),
        message=text_at(said, "message"),
        revision=revision if isinstance(revision, int) else 0,
        handled=text_at(release, "status", "lastHandledReconcileAt"),
        forced=text_at(release, "status", "lastHandledForceAt"),
        values=digest(at_path(release, "spec", "values")),
    )


def pool_state(
    pool: str,
    *,
    release: Obj,
    bootstrap: Obj,
    machine: Obj,
    jobs: Sequence[Obj],
    machines: Sequence[Obj],
    vmis: Sequence[Obj],
    data_volumes: Sequence[Obj],
    nodes: Sequence[Obj],
    cluster: str,
    at: float,
    where: str,
) -> PoolState:
    """Put a pool's objects together; ``bootstrap`` and ``machine`` are the templates in use.

    ``cluster`` is the tenant cluster's name, ``where`` how messages speak of the management one.
    """
    objects = [release, bootstrap, machine, *jobs, *machines, *vmis, *data_volumes, *nodes]
    raw = "\n".join(_line(one) for one in objects)
    return PoolState(
        origin=Origin(at, f"{where} objects of pool {pool} of {cluster}", raw),
        pool=pool,
        cluster=cluster,
        regime=regime(bootstrap, f"kubernetes-{cluster}-{pool}"),
        bootstrap=template_state(bootstrap),
        machine=template_state(machine),
        job=name_of(max(jobs, key=_age, default={})),
        machines=_by_name(machines),
        vmis=_by_name(vmis),
        data_volumes=_by_name(data_volumes),
        boots={name_of(one): text_at(one, "status", "nodeInfo", "bootID") for one in nodes},
        release=release_state(release),
    )


def regime(template: Any, fixed: str) -> Regime:
    """How a TalosConfigTemplate is named, where ``fixed`` is what the older charts name it."""
    labelled = RELEASE_LABEL in mapped(template, "metadata", "labels")
    beyond = name_of(template).removeprefix(fixed)
    return "content" if labelled or _HASH.fullmatch(beyond) else "fixed"


def digest(value: Any) -> str:
    """SHA-256 of a value as canonical JSON, hexadecimal."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def to_json(state: PoolState) -> str:
    """A state as the text of a file; `read_state` reads it back."""
    written = {"kind": KIND, "schema": SCHEMA, "at": state.origin.at, "state": state.values()}
    return json.dumps(written, indent=1, sort_keys=True) + "\n"


def read_state(text: str, *, at: float, source: str) -> PoolState | Unread:
    """Read the text of a state's file.

    What is no such file, a file of another schema, and one that lacks a part are Unread, each
    with what is wrong with it. ``at`` dates an Unread; a state keeps its own moment.
    """
    origin = Origin(at, source, text)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        return Unread(origin, KIND, f"no JSON ({error}): {quote(text)}")
    if at_path(found, "kind") != KIND:
        return Unread(origin, KIND, f"the file is no {KIND}: {quote(text)}")
    if at_path(found, "schema") != SCHEMA:
        seen = quote(repr(at_path(found, "schema")))
        why = f"the file has schema {seen}, this hil reads {SCHEMA}: record the state anew with it"
        return Unread(origin, KIND, why)
    try:
        return _state(found, Origin(_number(found, "at"), source, text))
    except (ValueError, OverflowError) as wrong:  # a number that is none of seconds
        return Unread(origin, KIND, f"the file is damaged: {wrong}")


def _state(found: Any, origin: Origin) -> PoolState:
    state = _part(found, "state")
    named = _text(state, "regime")
    if named not in get_args(Regime):
        raise ValueError(f"regime {quote(named)} is none of {', '.join(get_args(Regime))}")
    return PoolState(
        origin=origin,
        pool=_text(state, "pool"),
        cluster=_text(state, "cluster"),
        regime="content" if named == "content" else "fixed",
        bootstrap=_record(_part(state, "bootstrap"), TemplateState),
        machine=_record(_part(state, "machine"), TemplateState),
        job=_text(state, "job"),
        machines=_texts(state, "machines"),
        vmis=_texts(state, "vmis"),
        data_volumes=_texts(state, "data_volumes"),
        boots=_texts(state, "boots"),
        release=_record(_part(state, "release"), ReleaseState),
    )


def _record(part: Mapping[str, Any], shape: type[_T]) -> _T:
    """A flat dataclass from its fields; each must be there and of its type."""
    values: dict[str, Any] = {}
    for one in dataclasses.fields(shape):  # type: ignore[arg-type]  # both shapes are dataclasses
        value = part.get(one.name)
        if type(value).__name__ != one.type:
            raise ValueError(f"{one.name} is {quote(repr(value))}, no {one.type}")
        values[one.name] = value
    return shape(**values)


def _part(parent: Any, key: str) -> dict[str, Any]:
    found = at_path(parent, key)
    if not isinstance(found, dict):
        raise ValueError(f"{key} is {quote(repr(found))}, no mapping")
    return found


def _text(parent: Any, key: str) -> str:
    found = at_path(parent, key)
    if not isinstance(found, str):
        raise ValueError(f"{key} is {quote(repr(found))}, no text")
    return found


def _texts(parent: Any, key: str) -> dict[str, str]:
    found = _part(parent, key)
    if not all(isinstance(value, str) for value in found.values()):
        raise ValueError(f"{key} holds more than texts: {quote(repr(found))}")
    return dict(found)


def _number(parent: Any, key: str) -> float:
    found = at_path(parent, key)
    if isinstance(found, bool) or not isinstance(found, int | float):
        raise ValueError(f"{key} is {quote(repr(found))}, no number")
    return float(found)


def _age(obj: Obj) -> tuple[str, str]:
    return text_at(obj, "metadata", "creationTimestamp"), name_of(obj)


def _by_name(objects: Sequence[Obj]) -> dict[str, str]:
    return {name_of(one): uid_of(one) for one in objects}


def _line(obj: Obj) -> str:
    """One object in the raw text: what of it is compared."""
    origin = origin_of(obj, 0.0, "")
    told = {"of": origin.source.strip(), "uid": uid_of(obj), "spec": digest(at_path(obj, "spec"))}
    return json.dumps(told, sort_keys=True)
