"""The disks of a held pool's workers: watched from before the pool is asked for, seen as facts.

What CDI runs for a clone may last a second and runs in the goldens' namespace; who looks
afterwards sees nothing of it. So the watches begin first, and say where they have a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.bringup.errors import PoolNotReady
from harness.facts import chain
from harness.facts.clonehelpers import APP_LABEL, CdiPods, CloneLeftovers, Disk, cdi_pods, leftovers
from harness.facts.clones import (
    DiskHistory,
    DiskRefused,
    DiskSource,
    WantedDisk,
    disk_history,
    disk_source,
    unseen_birth,
)
from harness.facts.diskclaims import (
    DiskClaim,
    DiskClass,
    DiskVolume,
    Migration,
    disk_claim,
    migration,
)
from harness.facts.fact import Origin, Unread
from harness.facts.goldenname import GOLDENS
from harness.facts.goldens import Golden, GoldenAbsent, golden
from harness.facts.guestdisk import GuestDisk
from harness.facts.joining import Stage
from harness.facts.objects import Obj, condition, mapped, name_of, text_at, uid_of
from harness.facts.sights import Seen
from harness.inventory.naming import deployment_name
from harness.observe import clones as observe
from harness.observe.pool import DATA_VOLUMES
from harness.reach.errors import ApiRefused
from harness.reach.watch import Feed

if TYPE_CHECKING:
    from harness.bringup.connect import ConnectedLab
    from harness.bringup.pool import HeldPool
    from harness.bringup.worker import Worker
    from harness.reach.kube import Kube

_SNAPSHOTS = ("snapshot.storage.k8s.io/v1", "VolumeSnapshot")
_DENIED = "insufficient permissions in clone source namespace"
KINDS = {
    "data_volumes": (DATA_VOLUMES, "DataVolume"),
    "claims": ("v1", "PersistentVolumeClaim"),
    "pods": ("v1", "Pod"),
    "events": ("v1", "Event"),
    "sources": (DATA_VOLUMES, "VolumeCloneSource"),
}
_TENANT = ("data_volumes", "claims", "pods", "events")


@dataclass(slots=True)
class WatchedDisks:
    """The feeds that show disks and what fills them; ``since`` is when all of them had begun.

    By place ("tenant", "golden") and kind. A pool that clones nothing has those of its tenant only;
    a feed that the API refuses stands as its refusal.
    """

    since: float
    feeds: dict[tuple[str, str], Feed | ApiRefused]

    @staticmethod
    def start(lab: ConnectedLab, pool: str) -> WatchedDisks:
        """Start every feed that is not there yet."""
        tenant = lab.inventory.tenant.namespace
        wanted = [("tenant", kind, tenant, "") for kind in _TENANT]
        if lab.inventory.pools[pool].os_image == "builtin":
            wanted += [("golden", kind, GOLDENS, "") for kind in KINDS]
            wanted.append(("anywhere", "pods", "", APP_LABEL))
        feeds = {
            (place, kind): _feed(lab, kind, namespace, labels)
            for place, kind, namespace, labels in wanted
        }
        return WatchedDisks(lab.clock.now(), feeds)

    def seen(self, place: str, kind: str, *, about: str = "") -> Seen:
        """What one of them saw."""
        feed = self.feeds.get((place, kind))
        what = f"{KINDS[kind][1]} in {_PLACES[place]}"
        if feed is None:
            return Seen(what, None, blind="only pools that clone have it watched")
        return observe.seen(feed, self.since, what, about=about)


_PLACES = {
    "tenant": "the tenant's namespace",
    "golden": GOLDENS,
    "anywhere": "all namespaces",
}


def _feed(lab: ConnectedLab, kind: str, namespace: str, labels: str) -> Feed | ApiRefused:
    try:
        return lab.observatory.feed(lab.management, *KINDS[kind], namespace, labels=labels)
    except ApiRefused as refused:
        return refused


class Clones:
    """One look at the disks of a held pool, and at the golden that they are cloned from.

    What a watch saw is read once for all of them; who wants a later look makes another.
    """

    def __init__(self, pool: HeldPool) -> None:
        self._pool = pool
        self._lab = pool.lab
        self._seen: dict[tuple[str, str, str], Seen] = {}

    def seen(self, place: str, kind: str, about: str = "") -> Seen:
        """What one of the pool's watches saw (`WatchedDisks.seen`)."""
        key = (place, kind, about)
        if key not in self._seen:
            self._seen[key] = self._pool.watched.disks.seen(place, kind, about=about)
        return self._seen[key]

    @property
    def wanted(self) -> WantedDisk:
        """What the pool asked its disks to be."""
        request, place = self._pool.request, self._lab.inventory.tenant
        return WantedDisk(
            form=request.os_image or "absent",
            schematic=self._lab.inventory.schematic_of(self._pool.name).id,
            version=request.talos_version,
            pool=deployment_name(place.cluster, self._pool.name),
            storage_class=request.storage_class,
            size=request.disk_size.bytes,
            shared=self._lab.inventory.storage_classes[request.storage_class].drbd,
        )

    def golden(self) -> Golden | GoldenAbsent | Unread:
        """The golden of the pool's image, as it stands."""
        name, at = self.wanted.golden, self._now()
        volumes = self.seen("golden", "data_volumes")
        claims = self.seen("golden", "claims")
        events = self.seen("golden", "events")
        for seen in (volumes, claims):
            if seen.since is None or seen.blind:
                origin = Origin(at, f"{self._lab.management.name} {seen.what}", "")
                return Unread(origin, f"golden {name}", seen.blind)
        return golden(name, volumes, claims, events, at=at, cluster=self._lab.management.name)

    def grown_from(self) -> Golden | GoldenAbsent | Unread | None:
        """The golden that its disks grew from, None for a pool that downloads them."""
        return self.golden() if self.wanted.form == "builtin" else None

    @property
    def disks(self) -> list[WorkerDisk]:
        """Every disk of each worker, by Machine, at least one. Raises PoolNotReady.

        Where there are fewer machines than workers that were asked for, one without a disk stands
        at the end.
        """
        objects = self._pool.watched.objects()
        machines = chain.staying(objects.machines)
        if not machines:
            raise PoolNotReady(f"no worker has a machine: {_why_not(self._pool)}")
        found = []
        for machine in machines:
            owner = chain.kubevirt_machine_of(machine, objects.kubevirt_machines)
            vm = chain.vm_of(owner, objects.virtual_machines)
            vmi = chain.vmi_of(vm, objects.vmis)
            found += [
                WorkerDisk(self, self._pool, machine, owner, vm, vmi, volume)
                for volume in chain.disks_of(vm, objects.data_volumes) or [{}]
            ]
        if len(machines) < self._pool.request.replicas:
            found.append(WorkerDisk(self, self._pool, {}, {}, {}, {}, {}))
        return found

    def _now(self) -> float:
        return self._lab.clock.now()


@dataclass(slots=True)
class WorkerDisk:
    """One worker's system disk: every fact about it, read when it is asked for."""

    _clones: Clones
    _pool: HeldPool
    _machine: Obj
    _owner: Obj
    _vm: Obj
    _vmi: Obj
    _volume: Obj

    @property
    def name(self) -> str:
        """The DataVolume's name, "" where there is none."""
        return name_of(self._volume)

    @property
    def subject(self) -> str:
        """How a verdict names it."""
        machine = name_of(self._machine)
        return f"disk {self.name}" if self.name else f"disk of {machine or 'a missing worker'}"

    def source(self) -> DiskSource | DiskRefused | Unread:
        """What it was to be made from."""
        if self._volume:
            return disk_source(self._volume, at=self._now(), cluster=self._cluster)
        return self._refused() or self._no_disk("the DataVolume")

    def history(self) -> DiskHistory | Unread:
        """How it came about, from every revision that was seen."""
        if not self._volume:
            return self._no_disk("the DataVolume")
        watched = self._clones
        return disk_history(
            uid_of(self._volume),
            watched.seen("tenant", "data_volumes", self.name),
            watched.seen("tenant", "events"),
            claims=self._disk().uids,
            at=self._now(),
            cluster=self._cluster,
        )

    def claim(self) -> DiskClaim | Unread:
        """Its PVC as it stands."""
        if not self._volume:
            return self._no_disk("the PVC")
        claims = self._clones.seen("tenant", "claims")
        found = claims.last(text_at(self._volume, "status", "claimName") or self.name)
        if found and not claims.blind:
            return disk_claim(found, at=self._now(), cluster=self._cluster)
        return self._unread("the PVC", claims.blind or f"{self.name} has none")

    def volume(self) -> DiskVolume | Unread:
        """The PersistentVolume that its PVC names."""
        claim = self.claim()
        if isinstance(claim, Unread):
            return claim
        return observe.disk_volume(self._kube, claim.volume, now=self._now)

    def storage_class(self) -> DiskClass | Unread:
        """The class that its PVC names, else the one that the pool asked for."""
        claim = self.claim()
        named = "" if isinstance(claim, Unread) else claim.storage_class
        return observe.disk_class(
            self._kube, named or self._pool.request.storage_class, now=self._now
        )

    def helpers(self) -> CdiPods | Unread:
        """CDI's pods of any namespace, from its creation until it was full."""
        history = self.history()
        if isinstance(history, Unread):
            return history
        watched = self._clones
        places = [("tenant", "pods"), ("golden", "pods"), ("anywhere", "pods")]
        born = watched.seen("tenant", "data_volumes").of(uid_of(self._volume))
        return cdi_pods(
            self._disk(),
            [watched.seen(place, kind) for place, kind in places],
            [watched.seen(place, "claims") for place in ("tenant", "golden")],
            tenant=self._pool.lab.inventory.tenant.namespace,
            since=born[0].at if born else self._pool.since,
            until=history.ended if history.ended is not None else self._now(),
            at=self._now(),
            cluster=self._cluster,
            before=unseen_birth(born),
        )

    def leftovers(self) -> CloneLeftovers | Unread:
        """What its clone left in the goldens' namespace."""
        if not self._volume:
            return self._no_disk("what its clone left")
        watched = self._clones
        kinds = [
            (KINDS[kind][1], watched.seen("golden", kind)) for kind in ("claims", "pods", "sources")
        ]
        version, kind = _SNAPSHOTS
        snapshots = observe.listed_once(self._kube, version, kind, GOLDENS, at=self._now())
        return leftovers(
            self._disk(), [*kinds, (kind, snapshots)], at=self._now(), cluster=self._cluster
        )

    def migration(self) -> Migration | Unread:
        """What its VMI says of live migration."""
        if not self._vmi:
            return self._unread("LiveMigratable", "the worker has no VMI")
        return migration(self._vmi, at=self._now(), cluster=self._cluster)

    def guest_disk(self) -> GuestDisk | Unread:
        """How large it is to the guest."""
        node = text_at(self._machine, "status", "nodeRef", "name")
        worker = next((one for one in self._joined() if one.name == node), None)
        if worker is None or not node:
            return self._unread("the disk's size in the guest", "the worker has no Ready node")
        return observe.guest_disk(worker.shell)

    def _joined(self) -> Sequence[Worker]:
        try:
            return self._pool.workers
        except PoolNotReady:
            return []

    def _disk(self) -> Disk:
        claims = self._clones.seen("tenant", "claims")
        name = text_at(self._volume, "status", "claimName") or self.name
        uids = {uid_of(one) for one in claims.ever(name)} | {uid_of(self._volume)}
        return Disk(self.name, frozenset(uids - {""}))

    def _refused(self) -> DiskRefused | None:
        """Where making the disk was refused: as its KubevirtMachine, its VM or an Event tells."""
        told = [text_at(condition(self._owner, "VMProvisioned"), "message")]
        told.append(text_at(condition(self._vm, "Failure"), "message"))
        own = {uid_of(self._owner), uid_of(self._vm)} - {""}
        events = self._clones.seen("tenant", "events")
        told += [
            text_at(one.obj, "message")
            for one in events.sights
            if text_at(mapped(one.obj, "involvedObject"), "uid") in own
        ]
        message = next((text for text in told if _DENIED in text), "")
        if not message:
            return None
        source = f"{self._cluster} KubevirtMachine {name_of(self._owner)}"
        return DiskRefused(Origin(self._now(), source, message), name_of(self._machine), message)

    def _no_disk(self, what: str) -> Unread:
        if not self._machine:
            return self._unread(what, f"the worker has no machine: {_why_not(self._pool)}")
        said = condition(self._owner, "VMProvisioned")
        why = " ".join(text_at(said, key) for key in ("status", "reason", "message")).strip()
        worker = name_of(self._machine)
        return self._unread(what, f"{worker} has no DataVolume (VMProvisioned {why or 'not told'})")

    def _unread(self, what: str, why: str) -> Unread:
        return Unread(Origin(self._now(), f"{self._cluster} {self.subject}", ""), what, why)

    @property
    def _kube(self) -> Kube:
        return self._pool.lab.management

    @property
    def _cluster(self) -> str:
        return self._kube.name

    def _now(self) -> float:
        return self._pool.lab.clock.now()


def _why_not(pool: HeldPool) -> str:
    """What the workers that did not join stand at."""
    stuck = [one for one in pool.join if one.stage is not Stage.READY]
    return "; ".join(f"{one.stuck_kind} {one.stuck_name}: {one.why}" for one in stuck) or "not told"
