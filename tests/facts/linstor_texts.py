"""LINSTOR's replies in the shapes of its rest_v1_openapi.yaml, and DRBD 9's beside them."""

from __future__ import annotations

import json
from typing import Any

from harness.facts.drbd import DrbdAbsent, DrbdStatus
from harness.facts.fact import Origin, Unread
from harness.facts.linstor import LinstorNodes, LinstorPools, LinstorResources
from harness.facts.linstor_json import read_nodes, read_pools, read_resources
from tests.facts.drbd_texts import status9

Obj = dict[str, Any]
AT = Origin(1.0, "LINSTOR /v1/view/resources", "")
SENTINEL = 9223372036854775807
NAMES = ("n1", "n2", "n3")
ERROR = -4611686018427387904  # MASK_ERROR


def node(name: str, connection: str = "ONLINE", **more: Any) -> Obj:
    return {"name": name, "type": "Satellite", "connection_status": connection, **more}


def pool(name: str, free: int | None, *, pool_name: str = "data", **more: Any) -> Obj:
    said = {"free_capacity": free, "total_capacity": 209715200} if free is not None else {}
    return {
        "storage_pool_name": pool_name,
        "node_name": name,
        "provider_kind": "ZFS",
        **said,
        **more,
    }


def diskless(name: str) -> Obj:
    return pool(name, SENTINEL, pool_name="DfltDisklessStorPool", provider_kind="DISKLESS")


def resource(
    name: str,
    on: str,
    *,
    disk: str | None = "UpToDate",
    in_use: bool | None = False,
    connections: dict[str, str] | None = None,
    replications: dict[str, tuple[str, float | None]] | None = None,
    flags: tuple[str, ...] = (),
) -> Obj:
    """One entry of /v1/view/resources; what is None is not said."""
    peers = connections if connections is not None else dict.fromkeys(_others(on), "Connected")
    said = {
        peer: {"connected": word == "Connected", "message": word} for peer, word in peers.items()
    }
    towards = (
        replications
        if replications is not None
        else dict.fromkeys(_others(on), ("Established", None))
    )
    state: Obj = {} if disk is None else {"disk_state": disk}
    state["replication_states"] = {
        peer: {"replication_state": word} | ({} if done is None else {"done_percentage": done})
        for peer, (word, done) in towards.items()
    }
    return {
        "name": name,
        "node_name": on,
        "flags": list(flags),
        "layer_object": {
            "type": "DRBD",
            "drbd": {"connections": said, "promotion_score": 10103, "may_promote": True},
            "children": [{"type": "STORAGE", "storage": {}}],
        },
        "state": {} if in_use is None else {"in_use": in_use},
        "volumes": [
            {
                "volume_number": 0,
                "storage_pool_name": "data",
                "provider_kind": "ZFS",
                "allocated_size_kib": 20975884,
                "usable_size_kib": 20971520,
                "state": state,
            }
        ],
    }


def _others(on: str) -> list[str]:
    return [name for name in NAMES if name != on]


def nodes(*said: Obj) -> LinstorNodes:
    found = read_nodes(json.dumps(said or [node(name) for name in NAMES]), AT)
    assert isinstance(found, LinstorNodes), found
    return found


def pools(*said: Obj) -> LinstorPools:
    found = read_pools(json.dumps(said), AT)
    assert isinstance(found, LinstorPools), found
    return found


def view(*said: Obj) -> LinstorResources:
    """What LINSTOR says of pvc-1: on three nodes, in use on n1, with what is given instead."""
    usual = {name: resource("pvc-1", name, in_use=name == "n1") for name in NAMES}
    usual |= {one["node_name"]: one for one in said}
    return listing(*usual.values())


def listing(*said: Obj) -> LinstorResources:
    found = read_resources(json.dumps(said), AT)
    assert isinstance(found, LinstorResources), found
    return found


def kernel(
    on: str,
    *,
    name: str = "pvc-1",
    disk: str = "UpToDate",
    role: str = "",
    connections: dict[str, str] | None = None,
    replications: dict[str, tuple[str, float | None]] | None = None,
    client: bool = False,
) -> DrbdStatus | DrbdAbsent | Unread:
    """What the kernel of a node says of one resource, through the parser of its JSON."""
    peers = connections if connections is not None else dict.fromkeys(_others(on), "Connected")
    towards = replications or {}
    listed = []
    for number, (peer, word) in enumerate(peers.items()):
        state, done = towards.get(peer, ("Established" if word == "Connected" else "Off", None))
        device = {
            "volume": 0,
            "replication-state": state,
            "peer-disk-state": "UpToDate",
            "peer-client": False,
            "out-of-sync": 0,
        }
        if done is not None:
            device["percent-resync-done"] = done
        listed.append(
            {
                "peer-node-id": number,
                "name": peer,
                "connection-state": word,
                "peer-role": "Secondary",
                "peer_devices": [device],
            }
        )
    said = {
        "name": name,
        "node-id": NAMES.index(on) if on in NAMES else 7,
        "role": role or ("Primary" if on == "n1" else "Secondary"),
        "suspended": False,
        "devices": [
            {"volume": 0, "disk-state": disk, "client": client, "quorum": True, "size": 20971520}
        ],
        "connections": listed,
    }
    return status9(json.dumps([said]), on)
