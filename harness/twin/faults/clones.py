"""Faults of how a worker's disk is cloned: over the network, or not at all.

CDI falls back without an error: such a disk ends like any other, and its pods were never in the
tenant's namespace (clone_path.md section 4).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.twin.apiserver.access import GROUP
from harness.twin.apiserver.resources import Obj
from harness.twin.apiserver.store import Admission
from harness.twin.faults.consequences import NO_DISK, NO_HOST
from harness.twin.faults.model import Edit, Fault
from harness.twin.faults.requests import MANAGER, both, class_changed, disk_rules
from harness.twin.world.landscape_rbac import ACCOUNTS, BINDING, CLUSTER_ROLE
from harness.twin.world.objects import CDI, SNAPSHOT, deep
from harness.twin.world.pool_disk import PUBLIC, USE_POPULATOR
from harness.twin.world.storage_classes import LINSTOR

if TYPE_CHECKING:
    from harness.twin.world.world import World

CLONED = ("cloned",)
NOT_CLONED = frozenset({"csi-clone"})
RBAC = f"{GROUP}/v1"


def strategy(name: str) -> Edit:
    """CDI is told how to clone, whatever the storage can do."""

    def write(cdi: Obj) -> None:
        cdi["spec"]["cloneStrategyOverride"] = name

    return lambda world: _write(world, (CDI, "CDI", "", "cdi"), write)


def _write(world: World, which: tuple[str, str, str, str], change: Callable[[Obj], None]) -> None:
    world.management.edit(*which, change, manager=MANAGER)


def _take_snapshots(world: World) -> None:
    """The driver has a class of snapshots."""
    made = {
        "apiVersion": SNAPSHOT,
        "kind": "VolumeSnapshotClass",
        "metadata": {"name": "linstor"},
        "driver": LINSTOR,
        "deletionPolicy": "Delete",
    }
    world.cluster.create(made, manager=MANAGER)


def _golden_claim(world: World) -> Obj:
    (claim,) = world.cluster.all("v1", "PersistentVolumeClaim", PUBLIC)
    return claim


def _of_another_driver(world: World) -> None:
    """The golden's volume is from the storage that the platform had before."""
    name = _golden_claim(world)["spec"]["volumeName"]
    volume = world.cluster.find("v1", "PersistentVolume", "", name)
    assert volume is not None
    world.cluster.edit(
        volume, lambda one: one["spec"]["csi"].update(driver="driver.longhorn.io"), manager=MANAGER
    )


def _with_a_file_system(world: World) -> None:
    """The golden was imported before the StorageProfile gave blocks to several nodes."""
    claim = _golden_claim(world)
    once: Obj = {"accessModes": ["ReadWriteOnce"]}
    world.cluster.edit(
        claim, lambda one: one["spec"].update(once, volumeMode="Filesystem"), manager=MANAGER
    )
    world.cluster.status(claim, lambda one: one["status"].update(once), manager=MANAGER)


def _without_populator(world: World) -> None:
    """A webhook puts the annotation of a download on every DataVolume."""

    def stray(asked: Admission) -> Obj:
        obj = asked.obj
        if asked.resource.kind != "DataVolume" or asked.verb != "CREATE":
            return obj
        if not deep(obj, "spec", "source", "pvc"):
            return obj
        written = copy.deepcopy(obj)
        written["metadata"].setdefault("annotations", {})[USE_POPULATOR] = "false"
        return written

    world.management.admission.append(stray)


def _unbind(world: World) -> None:
    binding = world.cluster.find(RBAC, "RoleBinding", PUBLIC, BINDING)
    assert binding is not None
    world.cluster.remove(binding)


def _widen(world: World) -> None:
    """Somebody made the role do for everything that has to do with disks."""

    def change(role: Obj) -> None:
        role["rules"][0].update(resources=["datavolumes", "datavolumes/source"], verbs=["*"])

    _write(world, (RBAC, "ClusterRole", "", CLUSTER_ROLE), change)


def _bind_everywhere(world: World) -> None:
    made = {
        "apiVersion": RBAC,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "cdi-clone-everything"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": CLUSTER_ROLE},
        "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": ACCOUNTS}],
    }
    world.cluster.create(made, manager=MANAGER)


def _leave_temporary_claims(world: World) -> None:
    """A backup's finalizer holds every claim beside the golden."""

    def made(claim: Obj) -> None:
        metadata = claim["metadata"]
        if metadata["namespace"] == PUBLIC and metadata["name"].startswith("tmp-pvc-"):
            world.cluster.add_finalizer(claim, "backup.example.org/hold", manager="backup")

    world.on_created("v1", "PersistentVolumeClaim", made)


FAULTS = (
    Fault(
        id="silent-host-assisted-fallback",
        sentence="CDI is to clone by snapshots, the storage has no class of them, and CDI copies.",
        seen="CloneInProgress; cloneType copy, cloneFallbackReason and an Event "
        "NoVolumeSnapshotClass; a source pod and an upload pod in cozy-public, none in the "
        "tenant's namespace; Succeeded, Clone Complete",
        wrong_diagnosis="no pod in the tenant's namespace, so the storage cloned it",
        breaks=NOT_CLONED,
        where=CLONED,
        edit=strategy("snapshot"),
        source="CDI",
    ),
    Fault(
        id="fallback-without-expansion",
        sentence="The class does not let volumes grow, so that CDI copies into a larger one.",
        seen="cloneType copy, Event NoVolumeExpansion; the disk has the size asked for",
        wrong_diagnosis="the storage was slow",
        breaks=NOT_CLONED,
        where=CLONED,
        edit=class_changed(allowVolumeExpansion=False),
        source="CDI",
    ),
    Fault(
        id="fallback-other-provisioner",
        sentence="The golden's volume is another driver's than the pool's class has.",
        seen="cloneType copy, Event IncompatibleProvisioners; both claims name the same class",
        wrong_diagnosis="one class, so one storage",
        breaks=NOT_CLONED,
        where=CLONED,
        edit=_of_another_driver,
        source="CDI",
    ),
    Fault(
        id="fallback-other-volume-mode",
        sentence="The golden is a file system of one node, the pool's disks are blocks.",
        seen="cloneType copy, Event IncompatibleVolumeModes; the golden's claim ReadWriteOnce",
        wrong_diagnosis="a file is a file",
        breaks=NOT_CLONED | {"golden-ready"},
        where=CLONED,
        edit=_with_a_file_system,
        source="CDI",
    ),
    Fault(
        id="clone-strategy-copy",
        sentence="CDI is told to copy. It gives no reason, for it gave nothing up.",
        seen="cloneType copy, and neither cloneFallbackReason nor an Event of a fallback",
        wrong_diagnosis="no fallback reason, so it did not fall back",
        breaks=NOT_CLONED,
        where=CLONED,
        edit=strategy("copy"),
        source="CDI",
    ),
    Fault(
        id="clone-strategy-snapshot",
        sentence="CDI is told to clone through snapshots, and the storage has them.",
        seen="SnapshotForSmartCloneInProgress; cloneType snapshot; no pod carried any bytes",
        wrong_diagnosis="no pod carried it, so it is a CSI clone",
        breaks=NOT_CLONED,
        where=CLONED,
        edit=both(_take_snapshots, strategy("snapshot")),
        source="CDI",
    ),
    Fault(
        id="usepopulator-false-on-builtin",
        sentence="A webhook puts a download's annotation on disks that are cloned.",
        seen="usePopulator false; CloneInProgress, an upload pod in the tenant's namespace and a "
        "source pod in cozy-public; Event NoPopulator",
        wrong_diagnosis="a slow CSI driver",
        breaks=NOT_CLONED | {"disk-source"},
        where=CLONED,
        edit=_without_populator,
        source="CDI",
    ),
    Fault(
        id="cross-ns-rbac-missing",
        sentence="The RoleBinding by which tenants clone from cozy-public is gone.",
        seen="VMCreateFailed on the KubevirtMachine: insufficient permissions in clone source "
        "namespace; no DataVolume at all",
        wrong_diagnosis="Cluster API's KubeVirt provider",
        breaks=NOT_CLONED | {"clone-rbac", "node-joins"},
        blinds=(NO_HOST | NO_DISK) - NOT_CLONED,
        where=CLONED,
        edit=_unbind,
        source="S-OSI; CDI",
    ),
    Fault(
        id="clone-role-too-wide",
        sentence="The role by which tenants clone lets them do anything with goldens.",
        seen="every clone works; a tenant can delete what all pools are cloned from",
        wrong_diagnosis="the clone works, so the rights are right",
        breaks=frozenset({"clone-rbac"}),
        where=CLONED,
        edit=_widen,
        source="S-OSI (inferred)",
    ),
    Fault(
        id="clone-from-anywhere",
        sentence="The clone's role is bound to every service account for the whole cluster.",
        seen="every clone works; a tenant can clone another tenant's disks",
        wrong_diagnosis="the shipped binding is there, so that is how it works",
        breaks=frozenset({"clone-rbac"}),
        where=CLONED,
        edit=_bind_everywhere,
        source="S-OSI (inferred)",
    ),
    Fault(
        id="clone-leaves-temporary-claim",
        sentence="Something holds the temporary claims of clones in cozy-public.",
        seen="the disk is as it should be; tmp-pvc-<uid> stays, being deleted for ever",
        wrong_diagnosis="Succeeded, so CDI has cleaned up",
        breaks=NOT_CLONED,
        where=CLONED,
        edit=_leave_temporary_claims,
        source="S-OSI (inferred)",
    ),
    Fault(
        id="cloned-disk-unmarked",
        sentence="The chart does not mark cloned disks with their golden and their pool.",
        seen="the disks are clones; nobody can tell which golden still has any, nor does the chart "
        "know its own",
        wrong_diagnosis="the annotations are for people",
        breaks=frozenset({"disk-source"}),
        where=CLONED,
        edit=disk_rules(marks_disks=False),
        source="S-OSI (inferred)",
    ),
)
