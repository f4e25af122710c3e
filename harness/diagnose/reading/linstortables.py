"""LINSTOR's tables for people, as what ``linstor --machine-readable`` prints of the same.

Columns as python-linstor's client draws them: `node list`, `storage-pool list`, `resource list`,
`volume list`. Only what the table shows is said: a key that is not there is not known.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from harness.diagnose.reading.tables import boxed

Obj = dict[str, Any]
_Cells = dict[str, str]

_SIZE = re.compile(r"(?P<count>\d+(?:\.\d+)?) ?(?P<unit>B|[KMGTP]iB)")
_UNITS = {"B": 1 / 1024, "KiB": 1, "MiB": 1024, "GiB": 1024**2, "TiB": 1024**3, "PiB": 1024**4}
_STATE = re.compile(r"(?P<state>[A-Za-z]+)(?:\((?P<done>[\d.]+)%\))?")


def as_json(text: str) -> list[tuple[str, bool]]:
    """The JSON of each table that is known, and whether its closing line is missing."""
    found = []
    for names, rows, closed in boxed(text):
        read = next((one for needed, one in _READERS if set(needed).issubset(names)), None)
        if read is not None:
            listed = [read(dict(zip(names, row, strict=True))) for row in rows]
            found.append((json.dumps([listed]), not closed))
    return found


def _node(cells: _Cells) -> Obj:
    said: Obj = {"name": cells["Node"], "type": cells["NodeType"]}
    state = re.match(r"[A-Za-z_]+", cells["State"])
    if state:
        said["connection_status"] = state[0].upper()
    return said


def _pool(cells: _Cells) -> Obj:
    said: Obj = {"storage_pool_name": cells["StoragePool"], "node_name": cells["Node"]}
    said["provider_kind"] = cells["Driver"]
    for column, key in (("FreeCapacity", "free_capacity"), ("TotalCapacity", "total_capacity")):
        size = kib(cells.get(column, ""))
        if size is not None:
            said[key] = size
    return said


def _resource(cells: _Cells) -> Obj:
    said: Obj = {"name": cells.get("ResourceName") or cells.get("Resource", "")}
    said["node_name"] = cells["Node"]
    usage = cells.get("Usage", cells.get("InUse", ""))
    if usage in ("InUse", "Unused"):
        said["state"] = {"in_use": usage == "InUse"}
    said["layer_object"] = {"drbd": {**_connections(cells.get("Conns", ""))}}
    volume: Obj = {"volume_number": int(cells["VolNr"]) if cells.get("VolNr", "").isdigit() else 0}
    state = _STATE.match(cells["State"])
    if state:
        _state(volume, said, state)
    said["volumes"] = [volume]
    return said


def _state(volume: Obj, said: Obj, state: re.Match[str]) -> None:
    """``SyncTarget(12.5%)`` is told of the replication, ``TieBreaker`` of the resource."""
    word = state["state"]
    if word == "TieBreaker":
        said["flags"] = ["TIE_BREAKER", "DRBD_DISKLESS", "DISKLESS"]
    volume["state"] = {"disk_state": "Inconsistent" if word == "SyncTarget" else word}
    if word == "SyncTarget":
        one: Obj = {"replication_state": word}
        if state["done"]:
            one["done_percentage"] = float(state["done"])
        volume["state"]["replication_states"] = {"": one}


def _connections(cell: str) -> Obj:
    """``Connecting(n2,n3)``; ``Ok`` names no peer."""
    connections: Obj = {}
    for word, peers in re.findall(r"([A-Za-z]+)\(([^)]*)\)", cell):
        for peer in peers.split(","):
            connections[peer.strip()] = {"connected": word == "Connected", "message": word}
    return {"connections": connections} if connections else {}


def kib(said: str) -> int | None:
    """``12.5 GiB`` in KiB, as the table rounds it; None where it is no size."""
    found = _SIZE.fullmatch(said.strip())
    return None if found is None else int(float(found["count"]) * _UNITS[found["unit"]])


_READERS: tuple[tuple[tuple[str, ...], Callable[[_Cells], Obj]], ...] = (
    (("Node", "NodeType", "State"), _node),
    (("StoragePool", "Node", "Driver"), _pool),
    (("ResourceName", "Node", "State"), _resource),
    (("Resource", "Node", "State", "VolNr"), _resource),
)
