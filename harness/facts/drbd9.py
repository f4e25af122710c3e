"""DRBD 9: ``drbdsetup status --json`` as a fact.

The keys are those of the captures drbd9_* (9.2.14) and of drbd-utils (objects.md section 8). An
older 9 has fewer, a newer one more: a key that is missing is not known, one that is new is let
pass. ``client`` is false in JSON for "no" and for "not known" alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from harness.facts.drbd import (
    KIB,
    NO_RESOURCE,
    NOT_SAID,
    NOTHING,
    DrbdAbsent,
    DrbdDevice,
    DrbdPeer,
    DrbdPeerDevice,
    DrbdResource,
    DrbdStatus,
)
from harness.facts.fact import Origin, Unread
from harness.facts.reply import Output, plain, quote, unfinished

STATUS = ("drbdsetup", "status", "--json", "--verbose", "--statistics")
ASKED = "drbdsetup status --json"

_REASONS = ("user", "no-data", "fencing", "quorum")
_UNKNOWN_KIB = (2**64 - 1) // 2
"""What -1, "no figure", comes out as when drbdsetup halves sectors into KiB."""

_Obj = Mapping[str, Any]


def no_such_resource(output: Output, resource: str) -> bool:
    """Whether ``drbdsetup`` said that there is no such resource (exit status 10)."""
    return (
        bool(resource)
        and output.exit_code == 10
        and f"{resource}: No such resource" in plain(output.stdout + output.stderr).split("\n")
    )


def read_status9(
    output: Output,
    *,
    at: float,
    source: str,
    node: str = "",
    version: str = "",
    resource: str = "",
) -> DrbdStatus | DrbdAbsent | Unread:
    """Read the reply of `STATUS`; ``resource`` is the one asked for, "" for all.

    JSON that is cut or is no list of resources is Unread; a resource of which a part is missing or
    has another shape is kept with what it says, and is not whole.
    """
    origin = output.origin(at, source)
    if no_such_resource(output, resource):
        said = output.stderr.strip()
        return DrbdAbsent(origin, node, NO_RESOURCE, resource, version, said)
    problem = unfinished(output, ASKED, origin)
    if problem is not None:
        return problem
    found = _resources(output.stdout)
    if isinstance(found, str):
        return Unread(origin, ASKED, found)
    if not found and output.stderr.strip():
        # drbdsetup that may not ask the kernel complains, lists nothing, and ends with 0
        return Unread(origin, ASKED, f"nothing listed, but it said {quote(output.stderr.strip())}")
    if not found:
        said = output.stdout.strip()
        return DrbdAbsent(origin, node, NOTHING, resource, version, said)
    return _status(found, origin, node, version)


def _resources(text: str) -> list[Any] | str:
    """The list, or why there is none."""
    try:
        found = json.loads(plain(text))
    except (ValueError, RecursionError) as error:
        return f"it is no JSON ({error}), it ends with {quote(text.rstrip()[-60:])}"
    if not isinstance(found, list):
        return f"it is no list of resources: {quote(text)}"
    return found


def _status(found: list[Any], origin: Origin, node: str, version: str) -> DrbdStatus:
    strange = tuple(quote(str(one)) for one in found if not _word(_part(one, "name")))
    resources = tuple(_resource(one) for one in found if _word(_part(one, "name")))
    whole = not strange and all(one.whole for one in resources)
    return DrbdStatus(origin, node, version, resources, whole=whole, strange=strange)


def _resource(said: _Obj) -> DrbdResource:
    devices, devices_whole = _listed(said, "devices")
    peers, peers_whole = _listed(said, "connections")
    below = [_listed(one, "peer_devices")[1] for one in peers]
    return DrbdResource(
        name=_word(said["name"]),
        role=_word(said.get("role")),
        node_id=_number(said.get("node-id")),
        suspended=_suspended(said),
        force_io_failures=_flag(said.get("force-io-failures")),
        devices=tuple(_device(one) for one in devices),
        peers=tuple(_peer(one) for one in peers),
        whole=devices_whole and peers_whole and all(below),
    )


def _device(said: _Obj) -> DrbdDevice:
    return DrbdDevice(
        volume=int(said["volume"]),
        minor=_number(said.get("minor")),
        disk_state=_word(said.get("disk-state")),
        size=_bytes(said.get("size")),
        quorum=_flag(said.get("quorum")),
        client=_flag(said.get("client")),
        blocked=_word(said.get("blocked")),
        backing=_word(said.get("backing_dev")),
    )


def _peer(said: _Obj) -> DrbdPeer:
    return DrbdPeer(
        name=_word(said.get("name")),
        node_id=_number(said.get("peer-node-id")),
        connection=_word(said.get("connection-state")),
        role=_word(said.get("peer-role")),
        devices=tuple(_peer_device(one) for one in _listed(said, "peer_devices")[0]),
    )


def _peer_device(said: _Obj) -> DrbdPeerDevice:
    return DrbdPeerDevice(
        volume=int(said["volume"]),
        replication=_word(said.get("replication-state")),
        disk_state=_word(said.get("peer-disk-state")),
        client=_flag(said.get("peer-client")),
        out_of_sync=_bytes(said.get("out-of-sync")),
        done=_share(said.get("percent-resync-done")),
        resync_suspended=reasons(_word(said.get("resync-suspended"))),
    )


def reasons(said: str) -> tuple[str, ...] | None:
    """The reasons of a "suspended:" value: "no" is none, "" is not said."""
    if not said:
        return None
    return () if said == "no" else tuple(said.split(","))


def _suspended(said: _Obj) -> tuple[str, ...] | None:
    flags = {reason: _flag(said.get(f"suspended-{reason}")) for reason in _REASONS}
    named = tuple(reason for reason, flag in flags.items() if flag)
    suspended = _flag(said.get("suspended"))
    if suspended is None:
        return named or (() if all(flag is False for flag in flags.values()) else None)
    return named or ((NOT_SAID,) if suspended else ())


def _listed(said: Any, key: str) -> tuple[list[_Obj], bool]:
    """The objects under a key, and whether there were no others and a volume or name in each."""
    found = _part(said, key)
    if not isinstance(found, list):
        return [], False
    key = "name" if key == "connections" else "volume"
    fit = [one for one in found if _fits(_part(one, key), key)]
    return fit, len(fit) == len(found)


def _fits(value: Any, key: str) -> bool:
    return isinstance(value, str) if key == "name" else _number(value) is not None


def _part(said: Any, key: str) -> Any:
    return said.get(key) if isinstance(said, dict) else None


def _word(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _share(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _bytes(value: Any) -> int | None:
    kib = _number(value)
    return None if kib is None or kib >= _UNKNOWN_KIB else kib * KIB
