"""LINSTOR's answers as facts: the REST API's JSON, and what ``linstor --machine-readable`` prints.

The command line prints the same objects inside one more list (objects.md section 8). An entry that
is none of the kind asked for is quoted and makes the fact not whole; where nothing can be read, the
answer is Unread. A key that is missing is not known, one that is new is let pass.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from harness.facts.fact import Origin, Unread
from harness.facts.linstor import (
    DISKLESS_PROVIDER,
    LinstorConnection,
    LinstorError,
    LinstorErrors,
    LinstorNode,
    LinstorNodes,
    LinstorPool,
    LinstorPools,
    LinstorReplica,
    LinstorReplication,
    LinstorResources,
    LinstorVersion,
    LinstorVolume,
)
from harness.facts.reply import plain, quote

NODES, POOLS, RESOURCES = "/v1/nodes", "/v1/view/storage-pools", "/v1/view/resources"
ERRORS, VERSION = "/v1/error-reports", "/v1/controller/version"
"""The paths that are asked, GET each."""

_SENTINEL = 2**63 - 1
"""What the controller says where there is no limit."""
_ERROR_MASK = 0xC000000000000000
"""Both bits set in ``ret_code`` mean an error (LINSTOR's apiconsts: MASK_ERROR)."""

_Obj = dict[str, Any]
_Read = TypeVar("_Read")


def read_nodes(text: str, origin: Origin) -> LinstorNodes | Unread:
    """Read the reply of `NODES`. Never raises; so for all of these."""
    found = _entries(text, NODES, origin, _node)
    return found if isinstance(found, Unread) else LinstorNodes(origin, *found)


def read_pools(text: str, origin: Origin) -> LinstorPools | Unread:
    """Read the reply of `POOLS`, or what ``linstor --machine-readable sp l`` prints."""
    found = _entries(text, POOLS, origin, _pool)
    return found if isinstance(found, Unread) else LinstorPools(origin, *found)


def read_resources(text: str, origin: Origin) -> LinstorResources | Unread:
    """Read the reply of `RESOURCES`, or what ``linstor --machine-readable r l`` prints."""
    found = _entries(text, RESOURCES, origin, _replica)
    if isinstance(found, Unread):
        return found
    replicas, whole, strange = found
    whole = whole and all(one.whole for one in replicas)
    return LinstorResources(origin, replicas, whole, strange)


def read_errors(text: str, origin: Origin) -> LinstorErrors | Unread:
    """Read the reply of `ERRORS`."""
    found = _entries(text, ERRORS, origin, _error)
    if isinstance(found, Unread):
        return found
    errors, whole, strange = found
    return LinstorErrors(origin, tuple(sorted(errors, key=lambda one: one.at)), whole, strange)


def read_version(text: str, origin: Origin) -> LinstorVersion | Unread:
    """Read the reply of `VERSION`."""
    found = _document(text)
    if isinstance(found, str):
        return Unread(origin, VERSION, found)
    version = _word(found.get("version")) if isinstance(found, dict) else ""
    if not version:
        return Unread(origin, VERSION, f"it names no version: {quote(text)}")
    return LinstorVersion(origin, version, _word(found.get("rest_api_version")))


class _Unfit(Exception):
    """An entry that is none of the kind asked for."""


def _entries(
    text: str, asked: str, origin: Origin, read: Callable[[_Obj], _Read]
) -> tuple[tuple[_Read, ...], bool, tuple[str, ...]] | Unread:
    """What was read, whether that is all, and what else there was."""
    found = _document(text)
    if isinstance(found, str):
        return Unread(origin, asked, found)
    if isinstance(found, list) and len(found) == 1 and isinstance(found[0], list):
        found = found[0]  # the command line's list of one list
    if not isinstance(found, list):
        return Unread(origin, asked, f"it is no list: {quote(text)}")
    fit: list[_Read] = []
    strange: list[str] = []
    for one in found:
        try:
            fit.append(read(_object(one)))
        except _Unfit:
            strange.append(quote(json.dumps(one)))
    if strange and not fit:
        return Unread(origin, asked, f"nothing of it is understood: {', '.join(strange[:3])}")
    return tuple(fit), not strange, tuple(strange)


def _document(text: str) -> Any:
    """The JSON, or as text why there is none."""
    try:
        found = json.loads(plain(text))
    except (ValueError, RecursionError) as error:
        return f"it is no JSON ({error}), it ends with {quote(text.rstrip()[-60:])}"
    return f"it is no list and no object: {quote(text)}" if isinstance(found, str) else found


def _node(said: _Obj) -> LinstorNode:
    return LinstorNode(
        _name(said, "name"),
        _word(said.get("type")),
        _word(said.get("connection_status")),
        _words(said.get("flags")),
    )


def _pool(said: _Obj) -> LinstorPool:
    name, provider = _name(said, "storage_pool_name"), _word(said.get("provider_kind"))
    sizes = (None, None) if provider == DISKLESS_PROVIDER else _capacity(said)
    return LinstorPool(name, _name(said, "node_name"), provider, *sizes, _reported(said))


def _capacity(said: _Obj) -> tuple[int | None, int | None]:
    return _number(said.get("free_capacity")), _number(said.get("total_capacity"))


def _reported(said: _Obj) -> tuple[str, ...]:
    """The errors among a pool's reports."""
    reports = [one for one in _listed(said.get("reports")) if isinstance(one, dict)]
    wrong = [one for one in reports if _is_error(one.get("ret_code"))]
    return tuple(" ".join(_word(one.get("message")).split()) or quote(str(one)) for one in wrong)


def _is_error(code: Any) -> bool:
    whole = isinstance(code, int) and not isinstance(code, bool)
    return whole and code & _ERROR_MASK == _ERROR_MASK


def _replica(said: _Obj) -> LinstorReplica:
    name, node = _name(said, "name"), _name(said, "node_name")
    state, drbd = said.get("state"), _drbd_layer(said.get("layer_object"))
    connections, all_connections = _connections(drbd)
    volumes = [_volume(one) for one in _listed(said.get("volumes"))]
    known = tuple(one for one, _ in volumes if one is not None)
    return LinstorReplica(
        name,
        node,
        _words(said.get("flags")),
        _flag(state.get("in_use")) if isinstance(state, dict) else None,
        drbd is not None,
        connections,
        known,
        all_connections and bool(volumes) and all(whole for _, whole in volumes),
    )


def _drbd_layer(layer: Any) -> _Obj | None:
    """What the DRBD layer says, wherever in the stack it is; None where there is no such layer."""
    pending = [layer]
    while pending:
        one = pending.pop()
        if not isinstance(one, dict):
            continue
        if isinstance(one.get("drbd"), dict):
            found: _Obj = one["drbd"]
            return found
        if one.get("type") == "DRBD":
            return {}
        pending += _listed(one.get("children"))
    return None


def _by_peer(said: Any) -> tuple[list[tuple[str, _Obj]], bool]:
    """The objects of a map by peer, in the peers' order, and whether there was nothing else."""
    if not isinstance(said, dict):
        return [], said is None
    fit = [(peer, one) for peer, one in sorted(said.items()) if isinstance(one, dict)]
    return fit, len(fit) == len(said)


def _connections(drbd: _Obj | None) -> tuple[tuple[LinstorConnection, ...], bool]:
    found, whole = _by_peer((drbd or {}).get("connections"))
    connections = (
        LinstorConnection(peer, _flag(one.get("connected")), _word(one.get("message")))
        for peer, one in found
    )
    return tuple(connections), whole


def _volume(said: Any) -> tuple[LinstorVolume | None, bool]:
    """One volume, None where it bears no number, and whether all of it was read."""
    number = _number(said.get("volume_number")) if isinstance(said, dict) else None
    if number is None:
        return None, False
    state = said.get("state") if isinstance(said.get("state"), dict) else {}
    found, whole = _by_peer(state.get("replication_states"))
    volume = LinstorVolume(
        number,
        _word(said.get("storage_pool_name")),
        _word(said.get("provider_kind")),
        _word(state.get("disk_state")),
        _number(said.get("allocated_size_kib")),
        _number(said.get("usable_size_kib")),
        tuple(_replication(peer, one) for peer, one in found),
    )
    return volume, whole


def _replication(peer: str, said: _Obj) -> LinstorReplication:
    state, done = _word(said.get("replication_state")), _share(said.get("done_percentage"))
    return LinstorReplication(peer, state, done)


def _error(said: _Obj) -> LinstorError:
    millis = _number(said.get("error_time"))
    if millis is None:
        raise _Unfit
    message = _word(said.get("exception_message")) or _word(said.get("exception"))
    return LinstorError(
        millis / 1000, _word(said.get("node_name")), message, _word(said.get("filename"))
    )


def _object(value: Any) -> _Obj:
    if not isinstance(value, dict):
        raise _Unfit
    return value


def _name(said: _Obj, key: str) -> str:
    found = _word(said.get(key))
    if not found:
        raise _Unfit
    return found


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _words(value: Any) -> tuple[str, ...]:
    return tuple(one for one in _listed(value) if isinstance(one, str))


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _share(value: Any) -> float | None:
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 100
    return float(value) if fits else None


def _number(value: Any) -> int | None:
    """A count as LINSTOR gives it; what is none, negative or "no limit" is not known."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and 0 <= value < _SENTINEL else None
