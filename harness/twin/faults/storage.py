"""Faults of replicated disks: what is wrong below a worker, and with DRBD itself.

The first ones are on workers' own disks from the moment they are opened; the others show when
somebody puts a volume to a trial.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.consequences import ALL_TRIALS
from harness.twin.faults.model import ALL_POOLS, Edit, Fault
from harness.twin.faults.requests import MANAGER, both
from harness.twin.world import drbd_verbs
from harness.twin.world.drbd_resource import Resource
from harness.twin.world.drbd_state import STANDALONE
from harness.twin.world.objects import STORAGE
from harness.twin.world.storage_csi import DRIVER

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest
    from harness.twin.world.world import World

CLASS = "replicated"
_OPTIONS = f"property.{DRIVER}/DrbdOptions"
QUORUM = f"{_OPTIONS}/auto-quorum"
NO_DATA = f"{_OPTIONS}/Resource/on-no-data-accessible"
PLACES = f"{DRIVER}/autoPlace"
_SETTLED = 45.0
"""Seconds after a Node is Ready: the Machine of one that is cut off is replaced within minutes, and
whoever looks at its storage has to come before that."""
LATER_TRIALS = frozenset({"drbd-disk-loss", "drbd-io-policy", "drbd-quorum", "drbd-verify"})
"""Unknown where the trial of the link, or of a split, leaves a volume that is not in sync."""


def spoilt(**change: object) -> Edit:
    """DRBD does not work as it should."""

    def edit(world: World) -> None:
        for name, value in change.items():
            setattr(world.storage.spoilt, name, value)

    return edit


def parameters(**change: str) -> Edit:
    """The class asks for something else, or not for it; names are those of this module."""
    names = {"places": PLACES, "quorum": QUORUM, "no_data": NO_DATA}

    def write(klass: Obj) -> None:
        klass["parameters"] |= {names[name]: value for name, value in change.items()}

    return lambda world: _edit_class(world, write)


def _edit_class(world: World, write: Callable[[Obj], None]) -> None:
    world.management.edit(STORAGE, "StorageClass", "", CLASS, write, manager=MANAGER)


def disks(change: Callable[[Resource, str], None]) -> Edit:
    """Something is done to each worker's disk once the worker has opened it, on its host.

    Once: a worker opens its disk anew where its host was off for a while.
    """

    def edit(world: World) -> None:
        done: set[str] = set()

        def opened(resource: Resource, host: str) -> None:
            if resource.name not in done:
                done.add(resource.name)
                change(resource, host)

        world.storage_csi.on_disk.append(opened)

    return edit


def _others(resource: Resource, host: str) -> list[str]:
    return [one.host for one in resource.running() if one.host != host]


def _resync_last(resource: Resource, host: str) -> None:
    """The replica on the last of the other hosts has to be brought up anew."""
    replica = resource.on(_others(resource, host)[-1])
    assert replica is not None
    drbd_verbs.invalidate(resource, replica, (), "")


def _drop_last(resource: Resource, host: str) -> None:
    replica = resource.on(_others(resource, host)[-1])
    assert replica is not None
    resource.drop(replica)


def _differ(resource: Resource, host: str) -> None:
    """Three blocks differ on another host, and a verify has found them."""
    mine, other = resource.on(host), resource.on(_others(resource, host)[0])
    assert mine is not None and other is not None
    other.data.write(0, b"\xff" * 3 * 4096)
    mine.peers[other.node_id].bits.set(0, 3)
    other.peers[mine.node_id].bits.set(0, 3)


def _part(resource: Resource, host: str) -> None:
    """One replica has a history of its own, and talks to nobody."""
    replica = resource.on(_others(resource, host)[-1])
    assert replica is not None
    common, theirs = replica.current, resource.generation()
    replica.current = resource.generation()
    for peer in replica.peers.values():
        other = resource.replica(peer.node_id)
        other.current = theirs
        peer.bitmap_uuid = other.peers[replica.node_id].bitmap_uuid = common
        for one, view in ((replica, peer), (other, other.peers[replica.node_id])):
            text = "Split-Brain detected but unresolved, dropping connection!"
            resource.say(one, "peer-device", view, text)
            resource.links.reset(one, view)
            view.connection = STANDALONE
    resource.commit("connect-failed")


def _forget_writes(world: World) -> None:
    """A cache below each replica acknowledges what peers send, and loses it."""
    world.storage.on_created.append(_forgetful)


def _forgetful(resource: Resource) -> None:
    for replica in resource.replicas:
        replica.forgets_writes = True


def _fail_without_quorum(world: World) -> None:
    """Somebody set the option on LINSTOR's controller, from where it reaches every volume."""

    def told(resource: Resource) -> None:
        resource.settings = replace(resource.settings, on_no_quorum="io-error")

    world.storage.on_created.append(told)


def _cut_off_workers(world: World) -> None:
    """Soon after a worker is Ready, its host's replication network is gone."""

    def cut(host: str) -> None:
        for other in world.storage.hosts():
            if other != host:
                world.storage.cut(host, other, carrier=False)

    def ready(name: str, _: Guest) -> None:
        for resource in world.storage.resources.values():
            host = world.storage_csi.host_of(resource.name, name)
            if host:
                world.engine.after(_SETTLED, partial(cut, host), f"{host} is cut off")

    for workers in world.workers.values():
        workers.on_up.append(ready)


FAULTS = (
    Fault(
        id="drbd-resync-stalls",
        sentence="A replica of each worker's disk is resynced, and no resync comes to its end.",
        seen="SyncTarget and Inconsistent, done:40.00 for ever; the worker runs on; a volume that "
        "a trial had to resync stays so, and further trials have nothing in sync to begin with",
        wrong_diagnosis="the registry is slow",
        breaks=frozenset({"storage-ok", "drbd-outdated-refused"}),
        blinds=ALL_TRIALS - {"drbd-outdated-refused", "drbd-failover"} | {"disk-failover"},
        where=ALL_POOLS,
        edit=both(spoilt(stall=0.4), disks(_resync_last)),
        source="faults.md 54, that it stalls inferred",
    ),
    Fault(
        id="drbd-quorum-suspended",
        sentence="A worker's host loses its replication network: its disk has no quorum.",
        seen="drbdsetup: quorum:no suspended:quorum with the disk still UpToDate; the guest's I/O "
        "stands still without an error; the Node is NotReady a minute and a half later",
        wrong_diagnosis="the guest hangs, or its kernel panicked",
        breaks=frozenset({"storage-ok"}),
        blinds=ALL_TRIALS | {"disk-failover"},
        where=ALL_POOLS,
        edit=_cut_off_workers,
        source="faults.md 55",
    ),
    Fault(
        id="drbd-split-brain-standing",
        sentence="The class keeps two copies without a quorum; a side that diverged stays away, "
        "whoever's data are to be discarded.",
        seen="StandAlone on both sides with UpToDate each, and Split-Brain in the kernel's log; "
        "connect --discard-my-data changes nothing",
        wrong_diagnosis="UpToDate on both: all is well",
        breaks=frozenset({"storage-ok", "drbd-io-policy", "drbd-quorum"}),
        blinds=frozenset({"disk-failover"}),
        where=ALL_POOLS,
        edit=both(parameters(places="2", quorum="off"), spoilt(keeps_diverged=True), disks(_part)),
        source="lab/qemu_drbd.md, trap 1 (inferred for LINSTOR)",
    ),
    Fault(
        id="drbd-out-of-sync-silent",
        sentence="Blocks of a worker's disk differ between two replicas that are both UpToDate.",
        seen="Connected, Established, UpToDate/UpToDate, and out-of-sync:12",
        wrong_diagnosis="UpToDate/UpToDate means the same bytes",
        breaks=frozenset({"storage-ok"}),
        where=ALL_POOLS,
        edit=disks(_differ),
        source="lab/qemu_drbd.md, trap 3",
    ),
    Fault(
        id="drbd-replica-missing",
        sentence="A worker's disk has one replica fewer than its class asks for.",
        seen="two nodes, UpToDate and connected; the third does not know the resource",
        wrong_diagnosis="everything that is listed is UpToDate",
        breaks=frozenset({"storage-ok"}),
        blinds=frozenset({"disk-failover"}),
        where=ALL_POOLS,
        edit=disks(_drop_last),
        source="objects.md section 8 (inferred)",
    ),
    Fault(
        id="drbd-write-lost",
        sentence="A cache below the replicas acknowledges writes of peers and loses them.",
        seen="every state as it should be; after a failover the other replica reads what was "
        "there before",
        wrong_diagnosis="the application did not flush",
        breaks=frozenset(
            {
                "drbd-disk-loss",
                "drbd-failover",
                "drbd-link-loss",
                "drbd-outdated-refused",
                "drbd-primary-loss",
                "drbd-quorum",
                "drbd-replica-loss",
                "drbd-verify",
            }
        ),
        where=ALL_POOLS,
        edit=_forget_writes,
        source="inferred: volatile write caches without barriers",
    ),
    Fault(
        id="drbd-link-heals-without-reconnect",
        sentence="After a cut, connections between two hosts are not made again.",
        seen="Connecting on both sides, for good, with the link healed",
        wrong_diagnosis="the link is still down",
        breaks=frozenset({"drbd-link-loss"}),
        blinds=LATER_TRIALS | {"drbd-split-brain", "disk-failover"},
        where=ALL_POOLS,
        edit=spoilt(stays_apart=True),
        source="inferred: a firewall that forgot the port",
    ),
    Fault(
        id="drbd-without-quorum",
        sentence="The class does not ask for a quorum.",
        seen="a Primary that is cut off from all others writes on",
        wrong_diagnosis="quorum:yes in the status",
        breaks=frozenset({"drbd-io-policy", "drbd-quorum"}),
        where=ALL_POOLS,
        edit=parameters(quorum="off"),
        source="objects.md section 8 (inferred)",
    ),
    Fault(
        id="drbd-outdated-promoted",
        sentence="A node is promoted although its data are outdated.",
        seen="role:Primary with disk:Outdated",
        wrong_diagnosis="a failover that worked",
        breaks=frozenset({"drbd-outdated-refused"}),
        where=ALL_POOLS,
        edit=spoilt(promotes_outdated=True),
        source="inferred",
    ),
    Fault(
        id="drbd-verify-blind",
        sentence="An online verify finds nothing, whatever differs.",
        seen="Online verify done, and blocks that read otherwise on the other replica",
        wrong_diagnosis="verified, so all replicas hold the same",
        breaks=frozenset({"drbd-verify"}),
        where=ALL_POOLS,
        edit=spoilt(blind=True),
        source="inferred",
    ),
    Fault(
        id="drbd-no-remote-io",
        sentence="A node that loses its disk does not read from its peers, and its I/O fails.",
        seen="Diskless, and Input/output error in the guest",
        wrong_diagnosis="both replicas are lost",
        breaks=frozenset({"drbd-disk-loss"}),
        where=ALL_POOLS,
        edit=both(spoilt(local_only=True), parameters(no_data="io-error")),
        source="objects.md section 8: allowRemoteVolumeAccess (inferred)",
    ),
    Fault(
        id="drbd-fails-without-quorum",
        sentence="The class has I/O wait for a quorum, and the volumes' own option has it fail.",
        seen="cut off from its peers, a Primary gives Input/output error; the worker's file system "
        "is read-only from then on",
        wrong_diagnosis="a broken disk",
        breaks=frozenset({"drbd-io-policy", "drbd-quorum", "disk-failover"}),
        where=ALL_POOLS,
        edit=_fail_without_quorum,
        source="objects.md section 8 (inferred)",
    ),
)
