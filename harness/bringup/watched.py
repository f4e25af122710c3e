"""The objects of a pool, each kind watched once from before the pool is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from harness.bringup.clones import WatchedDisks
from harness.bringup.connect import ConnectedLab
from harness.facts.joining import JoinObjects, JoinTrack, join_track
from harness.facts.objects import name_of, text_at
from harness.inventory.naming import deployment_name, release_name
from harness.observe.pool import (
    CAPI,
    DATA_VOLUMES,
    DEPLOYMENT_LABEL,
    HELM,
    INFRASTRUCTURE,
    KUBEVIRT,
)
from harness.reach.history import Obj
from harness.reach.watch import Feed

MANAGEMENT_KINDS = {
    "machines": (CAPI, "Machine"),
    "machine_sets": (CAPI, "MachineSet"),
    "machine_deployments": (CAPI, "MachineDeployment"),
    "kubevirt_machines": (INFRASTRUCTURE, "KubevirtMachine"),
    "virtual_machines": (KUBEVIRT, "VirtualMachine"),
    "vmis": (KUBEVIRT, "VirtualMachineInstance"),
    "data_volumes": (DATA_VOLUMES, "DataVolume"),
    "pods": ("v1", "Pod"),
    "helm_releases": (HELM, "HelmRelease"),
    "events": ("v1", "Event"),
}
"""What is watched in the tenant's namespace of the management cluster."""


@dataclass(slots=True)
class WatchedPool:
    """The feeds that show a pool, and the pool as they show it."""

    lab: ConnectedLab
    pool: str
    feeds: dict[str, Feed]
    nodes: Feed
    disks: WatchedDisks

    @staticmethod
    def start(lab: ConnectedLab, pool: str) -> WatchedPool:
        """Start every feed: one list and one watch for each kind, whoever else asks for it."""
        namespace = lab.inventory.tenant.namespace
        feeds = {
            name: lab.observatory.feed(lab.management, api_version, kind, namespace)
            for name, (api_version, kind) in MANAGEMENT_KINDS.items()
        }
        nodes = lab.observatory.feed(lab.tenant, "v1", "Node")
        return WatchedPool(lab, pool, feeds, nodes, WatchedDisks.start(lab, pool))

    def objects(self) -> JoinObjects:
        """The pool's own objects as last seen; of its nodes that are there, every version."""
        place = self.lab.inventory.tenant
        deployment = deployment_name(place.cluster, self.pool)
        release = release_name(place.cluster, self.pool)
        listed = {name: feed.objects() for name, feed in self.feeds.items()}
        listed["machines"] = [o for o in listed["machines"] if _deployment_of(o) == deployment]
        listed["machine_sets"] = [
            o for o in listed["machine_sets"] if _deployment_of(o) == deployment
        ]
        listed["machine_deployments"] = _named(listed["machine_deployments"], deployment)
        listed["helm_releases"] = _named(listed["helm_releases"], release)
        own = {text_at(machine, "status", "nodeRef", "name") for machine in listed["machines"]}
        own |= {name_of(vmi) for vmi in listed["vmis"]}  # until a Machine refers to its Node
        there = {r.uid for r in self.nodes.history.standing() if r.key[1] in own}
        seen = [r.obj for r in self.nodes.history.revisions() if r.uid in there]
        return JoinObjects(nodes=seen, **listed)

    def tracks(self, since: float) -> tuple[JoinTrack, ...]:
        """How far each worker got, now."""
        return join_track(
            self.objects(),
            since=since,
            at=self.lab.clock.now(),
            budget=self.lab.inventory.pools[self.pool].join_budget.seconds,
            cluster=self.lab.management.name,
        )

    def node_names(self) -> set[str]:
        """The pool's Nodes that are there: from their first moment where the VM's name is the
        Node's, else from when a Machine refers to one.
        """
        deployment = deployment_name(self.lab.inventory.tenant.cluster, self.pool)
        machines = [o for o in self.feeds["machines"].objects() if _deployment_of(o) == deployment]
        known = {text_at(machine, "status", "nodeRef", "name") for machine in machines}
        return (self.own_names() | known) & {name for _, name in self.nodes.history.current}

    def leftovers(self) -> list[str]:
        """What is still there of the pool, as "Kind name"."""
        objects = self.objects()
        names = {o["metadata"]["name"] for o in objects.machines}
        left = [f"Machine {name}" for name in sorted(names)]
        left += [f"MachineDeployment {name_of(o)}" for o in objects.machine_deployments]
        left += [f"HelmRelease {name_of(o)}" for o in objects.helm_releases]
        own = self.own_names()
        for kind in ("kubevirt_machines", "virtual_machines", "vmis", "data_volumes"):
            objects_of_kind = self.feeds[kind].objects()
            left += [
                f"{MANAGEMENT_KINDS[kind][1]} {name_of(o)}"
                for o in objects_of_kind
                if name_of(o) in own
            ]
        return left

    def own_names(self) -> set[str]:
        """Names of the pool's machines and disks, by what its Machines and VMs ever referred to.

        Never by a common beginning of names: the pools md0 and md0-gpu share one.
        """
        place = self.lab.inventory.tenant
        deployment = deployment_name(place.cluster, self.pool)
        names = {
            str(revision.obj["spec"]["infrastructureRef"]["name"])
            for revision in self.feeds["machines"].history.revisions()
            if _deployment_of(revision.obj) == deployment
        }
        for revision in self.feeds["virtual_machines"].history.revisions():
            if name_of(revision.obj) in names:
                volumes = revision.obj["spec"]["template"]["spec"].get("volumes", [])
                names |= {v["dataVolume"]["name"] for v in volumes if "dataVolume" in v}
        return names


def _deployment_of(obj: Obj) -> str:
    return str((obj["metadata"].get("labels") or {}).get(DEPLOYMENT_LABEL, ""))


def _named(objects: list[Obj], name: str) -> list[Obj]:
    return [obj for obj in objects if name_of(obj) == name]
