"""What LINSTOR's REST API shows of nodes, pools, resources and groups, as JSON values.

Names of fields: LIN docs/rest_v1_openapi.yaml. What is empty or not known is left out, as the
controller's serializer does; a number that is 0 and a false are there. Sizes are KiB, times ms.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.twin.world.linstor_groups import DEFAULT_GROUP, Group
from harness.twin.world.linstor_nodes import ONLINE
from harness.twin.world.linstor_pools import DATA, DISKLESS, DISKLESS_POOL, PEER_SLOTS, ZFS

if TYPE_CHECKING:
    from harness.twin.world.drbd_resource import Resource
    from harness.twin.world.drbd_state import Replica
    from harness.twin.world.linstor import ErrorReport, Linstor, Volume
    from harness.twin.world.linstor_reports import PeerTold, Told
    from harness.twin.world.world import World

Json = dict[str, Any]
WITHOUT_END = 9223372036854775807
"""What a pool without disks says that it has."""
_LONG = 2**64
MASK_ERROR, MASK_WARN = 0xC000000000000000, 0x8000000000000000
NOT_CONNECTED = 1002 | MASK_WARN
_SATELLITE_PORT = 3367  # with TLS, as Piraeus configures it
_PROVIDERS = ("DISKLESS", "ZFS", "ZFS_THIN", "FILE", "FILE_THIN")
_LAYERS = ("DRBD", "STORAGE")


def lean(**fields: Any) -> Json:
    """A JSON object without what is empty: null, "", [] and {}."""
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, ())}


def report(code: int, message: str, **more: str) -> Json:
    """One entry of an answer that says how something went; codes are signed 64-bit numbers."""
    signed = code - _LONG if code >= _LONG // 2 else code
    return lean(ret_code=signed, message=message, **more)


class View:
    """The controller's answers about what it knows."""

    def __init__(self, world: World, linstor: Linstor) -> None:
        self._world, self._linstor = world, linstor

    def identity(self, *what: str) -> str:
        """The UUID of an object: the same for the same lab and name."""
        digest = hashlib.sha256("/".join((str(self._world.seed), *what)).encode()).digest()
        return str(uuid.UUID(bytes=digest[:16], version=4))

    # -- nodes and pools

    def nodes(self) -> list[Json]:
        """Every registered node."""
        return [self._node(host) for host in self._linstor.nodes.names()]

    def _node(self, host: str) -> Json:
        status = self._linstor.nodes.status(host)
        online = status == ONLINE
        interface = {
            "name": "default-ipv4",
            "address": self._world.hosts.address_of(host),
            "satellite_port": _SATELLITE_PORT,
            "satellite_encryption_type": "SSL",
            "is_active": True,
            "uuid": self.identity("net-interface", host),
        }
        return lean(
            name=host,
            type="SATELLITE",
            props={"Aux/registered-by": "piraeus-operator", "CurStltConnName": "default-ipv4",
                   "NodeUname": host},
            net_interfaces=[interface],
            connection_status=status,
            uuid=self.identity("node", host),
            storage_providers=list(_PROVIDERS) if online else [],
            resource_layers=list(_LAYERS) if online else [],
        )  # fmt: skip

    def pools(self) -> list[Json]:
        """Every pool of every registered node, by the pool's name, then the node's."""
        hosts = self._linstor.nodes.names()
        return [self._pool(name, host) for name in (DATA, DISKLESS_POOL) for host in hosts]

    def _pool(self, name: str, host: str) -> Json:
        disks, online = name == DATA, self._linstor.nodes.online(host)
        total: int | None = None
        free: int | None = None
        if online:
            total = self._linstor.pools.on(host).total if disks else WITHOUT_END
            free = self._linstor.free(host) if disks else WITHOUT_END
        traits = {"SupportsSnapshots": "true" if disks else "false"}
        return lean(
            storage_pool_name=name,
            node_name=host,
            provider_kind=ZFS if disks else DISKLESS,
            props={"StorDriver/StorPoolName": DATA} if disks else {},
            static_traits=({"Provisioning": "Fat"} if disks else {}) | traits,
            free_capacity=free,
            total_capacity=total,
            free_space_mgr_name=f"{host};{name}",
            uuid=self.identity("storage-pool", host, name),
            reports=[] if online else [not_connected(host)],
            supports_snapshots=disks,
            external_locking=False,
        )

    # -- resources

    def resources(self) -> list[Json]:
        """Every resource with its volume, by its name, then the node's."""
        known = set(self._linstor.nodes.names())
        return [
            self._resource(volume, host)
            for _, volume in sorted(self._linstor.volumes.items())
            for host in volume.hosts
            if host in known
        ]

    def _resource(self, volume: Volume, host: str) -> Json:
        online = self._linstor.nodes.online(host)
        drbd = self._world.storage.resources.get(volume.name)
        told = self._linstor.reports.told(drbd, host) if drbd is not None else None
        replica = next((one for one in drbd.replicas if one.host == host), None) if drbd else None
        layer = _storage_layer(volume)
        if drbd is not None and replica is not None:
            layer = _drbd_layer(volume, drbd, replica, told, layer)
        return lean(
            name=volume.name,
            node_name=host,
            props={"StorPoolName": volume.group.pool},
            flags=["DELETE"] if volume.name in self._linstor.deleting else None,
            layer_object=layer,
            state={"in_use": told.in_use} if told is not None else None,
            uuid=self.identity("resource", host, volume.name),
            create_timestamp=round(volume.created * 1000),
            volumes=[self._volume(volume, host, drbd, told, online=online)],
        )

    def _volume(
        self, volume: Volume, host: str, drbd: Resource | None, told: Told | None, *, online: bool
    ) -> Json:
        layers: list[Json] = [{"type": "STORAGE", "data": _storage_volume(volume)}]
        state: Json | None = None
        device = _backing(volume)
        if drbd is not None:
            device = f"/dev/drbd{drbd.minor}"
            layers.insert(0, {"type": "DRBD", "data": _drbd_volume(volume, drbd)})
            state = _state(told) if told is not None else None
        elif online:
            state = {"disk_state": "Created"}
        return lean(
            volume_number=0,
            storage_pool_name=volume.group.pool,
            provider_kind=ZFS,
            device_path=device,
            allocated_size_kib=volume.allocated,
            usable_size_kib=volume.kib,
            state=state,
            layer_data_list=layers,
            uuid=self.identity("volume", host, volume.name),
            reports=[] if online else [not_connected(host)],
        )

    # -- definitions and groups

    def definitions(self, *, volumes: bool) -> list[Json]:
        """Every resource definition, by name; with its volume definition if asked for."""
        return [
            self._definition(volume, volumes=volumes)
            for _, volume in sorted(self._linstor.volumes.items())
        ]

    def _definition(self, volume: Volume, *, volumes: bool) -> Json:
        drbd = self._world.storage.resources.get(volume.name)
        layers: list[Json] = [{"type": "STORAGE"}]
        props = dict(volume.group.props)
        if drbd is not None:
            layers.insert(0, {"type": "DRBD", "data": _drbd_definition(drbd)})
            props |= {
                "DrbdOptions/Resource/quorum": drbd.settings.quorum,
                "DrbdOptions/Resource/on-no-quorum": drbd.settings.on_no_quorum,
            }
        return lean(
            name=volume.name,
            props=props,
            layer_data=layers,
            uuid=self.identity("resource-definition", volume.name),
            resource_group_name=volume.group.name,
            volume_definitions=[self.volume_definition(volume)] if volumes else [],
        )

    def volume_definition(self, volume: Volume) -> Json:
        """The one volume of a resource definition."""
        drbd = self._world.storage.resources.get(volume.name)
        layers: list[Json] = [{"type": "STORAGE"}]
        if drbd is not None:
            minor = {"volume_number": 0, "minor_number": drbd.minor}
            layers.insert(0, {"type": "DRBD", "data": minor})
        return lean(
            volume_number=0,
            size_kib=volume.kib,
            layer_data=layers,
            uuid=self.identity("volume-definition", volume.name),
        )

    def groups(self) -> list[Json]:
        """Every resource group, by name."""
        return [self._group(one) for one in self._linstor.groups()]

    def _group(self, group: Group) -> Json:
        chosen = lean(
            place_count=group.place_count,
            storage_pool=group.pool,
            storage_pool_list=[group.pool] if group.pool else [],
            layer_stack=list(group.layers) if group.name != DEFAULT_GROUP else [],
        )
        return lean(
            name=group.name,
            description="Default resource group" if group.name == DEFAULT_GROUP else "",
            props=dict(group.props),
            select_filter=chosen,
            uuid=self.identity("resource-group", group.name),
        )

    def error_reports(self) -> list[Json]:
        """Every error report, the newest first."""
        kept = list(enumerate(self._linstor.error_reports))
        return [self._error(number, one) for number, one in reversed(kept)]

    def _error(self, number: int, one: ErrorReport) -> Json:
        instance = self.identity("instance", one.node)[:8].upper()
        return lean(
            node_name=one.node,
            error_time=round(one.moment * 1000),
            filename=f"ErrorReport-{instance}-00000-{number:06d}.log",
            module="CONTROLLER" if one.node == "Controller" else "SATELLITE",
            version=VERSION["version"],
            exception=one.exception,
            exception_message=one.message,
        )


VERSION: Mapping[str, str] = {
    "version": "1.31.3",
    "git_hash": "0" * 40,
    "build_time": "2025-07-15T00:00:00+00:00",
    "rest_api_version": "1.26.0",
}
"""The controller's own version: that of the image of Piraeus' server. No build had that hash."""


def not_connected(host: str) -> Json:
    """What is said with everything of a node that the controller is not connected to."""
    return report(
        NOT_CONNECTED,
        f"No active connection to satellite '{host}'",
        details="The controller is trying to (re-) establish a connection to the satellite.",
    )


def _backing(volume: Volume) -> str:
    return f"/dev/zvol/{DATA}/{volume.name}_00000"


def _storage_volume(volume: Volume) -> Json:
    return {
        "volume_number": 0,
        "device_path": _backing(volume),
        "allocated_size_kib": volume.allocated,
        "usable_size_kib": volume.allocated,
        "disk_state": "[]",
    }


def _storage_layer(volume: Volume) -> Json:
    return {"type": "STORAGE", "storage": {"storage_volumes": [_storage_volume(volume)]}}


def _drbd_definition(drbd: Resource) -> Json:
    return {
        "peer_slots": PEER_SLOTS,
        "al_stripes": 1,
        "al_stripe_size_kib": 32,
        "port": int(drbd.replicas[0].address.rpartition(":")[2]) if drbd.replicas else 0,
        "transport_type": "IP",
        "down": False,
    }


def _drbd_volume(volume: Volume, drbd: Resource) -> Json:
    return {
        "drbd_volume_definition": {"volume_number": 0, "minor_number": drbd.minor},
        "device_path": f"/dev/drbd{drbd.minor}",
        "backing_device": _backing(volume),
        "allocated_size_kib": volume.allocated,
        "usable_size_kib": volume.kib,
    }


def _drbd_layer(
    volume: Volume, drbd: Resource, replica: Replica, told: Told | None, below: Json
) -> Json:
    peers = told.peers if told is not None else {}
    shown = lean(
        drbd_resource_definition=_drbd_definition(drbd),
        node_id=replica.node_id,
        peer_slots=PEER_SLOTS,
        al_stripes=1,
        al_size=32,
        drbd_volumes=[_drbd_volume(volume, drbd)],
        connections={name: _connection(one) for name, one in peers.items()},
        promotion_score=told.score if told is not None else None,
        may_promote=told.may_promote if told is not None else None,
    )
    return {"children": [below], "type": "DRBD", "drbd": shown}


def _connection(peer: PeerTold) -> Json:
    return {"connected": peer.connection == "Connected", "message": peer.connection}


def _state(told: Told) -> Json:
    replication = {
        name: lean(replication_state=one.replication, done_percentage=_rounded(one.done))
        for name, one in told.peers.items()
    }
    return lean(disk_state=told.disk, replication_states=replication)


def _rounded(done: float | None) -> float | None:
    return None if done is None else round(done, 2)
