"""What goes wrong with LINSTOR below workers' disks: its nodes, its room, its view."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.diagnose.case import MANAGEMENT, Kind, Text, Thing
from harness.diagnose.causes.drbd import LOOK_DRBD, places, replicas, resources
from harness.diagnose.causes.shown import DEGRADED, NOT_JOINED, STUCK
from harness.diagnose.causes.signs import fits, proves, rules_out
from harness.diagnose.findings import Cause, Seen
from harness.diagnose.things import said, stuck
from harness.diagnose.view import View
from harness.facts import linstor_json
from harness.facts.drbd import (
    DrbdResource,
)
from harness.facts.fact import Origin
from harness.facts.linstor import (
    ONLINE,
    LinstorNodes,
    LinstorPools,
    LinstorReplica,
)
from harness.facts.objects import condition, listed, mapped, text_at
from harness.facts.quantity import bytes_of

NO_SPACE = re.compile(
    r"(?i)not enough free (?:space|capacity)|no space left|out of (?:disk )?space"
)


def _nodes(view: View) -> Iterator[tuple[Text, LinstorNodes]]:
    for text in view.texts(Kind.LINSTOR):
        if '"connection_status"' in text.text or text.node == linstor_json.NODES:
            found = linstor_json.read_nodes(text.text, Origin(0.0, text.source, text.text))
            if isinstance(found, LinstorNodes):
                yield text, found


def _pools(view: View) -> Iterator[tuple[Text, LinstorPools]]:
    for text in view.texts(Kind.LINSTOR):
        if '"storage_pool_name"' in text.text and '"provider_kind"' in text.text:
            found = linstor_json.read_pools(text.text, Origin(0.0, text.source, text.text))
            if isinstance(found, LinstorPools):
                yield text, found


@proves("LINSTOR: GET /v1/nodes", "an empty list")
def _no_nodes(view: View) -> Iterator[Seen]:
    for text, found in _nodes(view):
        if not found.nodes and found.whole:
            yield Seen("LINSTOR knows no node at all", text.source)


@proves("LinstorSatellite: condition Available", "False on every one")
def _none_available(view: View) -> Iterator[Seen]:
    satellites = view.things("LinstorSatellite", MANAGEMENT)
    down = [
        one for one in satellites if text_at(condition(one.obj, "Available"), "status") == "False"
    ]
    if satellites and len(down) == len(satellites) and view.lacks("LinstorSatellite", MANAGEMENT):
        yield Seen(f"none of {len(down)} satellites is available: {said(down[0], 'Available')}",
                   down[0].where)  # fmt: skip


@fits("satellite pods in cozy-linstor", "not Ready: a container waits or crashes")
def _satellite_pods(view: View) -> Iterator[Seen]:
    for pod in view.things("Pod", MANAGEMENT, "cozy-linstor"):
        for key in ("initContainerStatuses", "containerStatuses"):
            for status in listed(pod.obj, "status", key):
                why = stuck(status)
                if why:
                    yield Seen(f"{pod.name}, container {text_at(status, 'name')}: {why}", pod.where)


@rules_out("LINSTOR: GET /v1/nodes", "a node is ONLINE")
def _online(view: View) -> Iterator[Seen]:
    for text, found in _nodes(view):
        online = [one.name for one in found.nodes if one.connection == ONLINE]
        if online:
            yield Seen(f"LINSTOR has {', '.join(online)} ONLINE", text.source)


@proves("LINSTOR: GET /v1/nodes", "a node that is not ONLINE, beside others that are")
def _node_offline(view: View) -> Iterator[Seen]:
    for text, found in _nodes(view):
        off = [one for one in found.nodes if one.connection not in ("", ONLINE)]
        if off and len(off) < len(found.nodes):
            for one in off:
                yield Seen(f"LINSTOR's node {one.name} is {one.connection}", text.source, one.name)


@proves("Events and conditions of claims and volumes", "not enough free space")
def _no_space(view: View) -> Iterator[Seen]:
    for event in view.events(cluster=MANAGEMENT):
        text = text_at(event.obj, "message")
        if NO_SPACE.search(text):
            about = text_at(event.obj, "involvedObject", "name")
            yield Seen(f"{about}: {text[:200]}", event.source, "")


@proves(
    "LINSTOR: GET /v1/view/storage-pools, beside a claim that waits and its class's autoPlace",
    "fewer pools have room for it than replicas are asked for",
)
def _no_place(view: View) -> Iterator[Seen]:
    copies_of = places(view)
    for claim in _pending(view):
        wanted = copies_of.get(text_at(claim.obj, "spec", "storageClassName"))
        asked = _asked(claim)
        for text, found in _pools(view) if wanted and asked else ():
            disks = [one for one in found.pools if not one.diskless]
            fit = [one.name for one in disks if one.free is None or one.free * 1024 >= (asked or 0)]
            if disks and found.whole and len(fit) < (wanted or 0):
                room = ", ".join(f"{one.node} {(one.free or 0) // 2**20} GiB" for one in disks)
                yield Seen(f"{claim.name} asks for {(asked or 0) // 2**30} GiB on {wanted} nodes; "
                           f"free: {room}", text.source)  # fmt: skip


@fits(
    "LINSTOR: GET /v1/view/storage-pools, free_capacity (KiB)",
    "less than a disk that waits asks for",
)
def _little_free(view: View) -> Iterator[Seen]:
    asked = [size for one in _pending(view) if (size := _asked(one))]
    for text, found in _pools(view):
        for pool in found.pools:
            if asked and pool.free is not None and pool.free * 1024 < max(asked):
                yield Seen(f"pool {pool.name} on {pool.node} has {pool.free // 2**20} GiB free, "
                f"and "
                           f"a claim asks for {max(asked) // 2**30} GiB", text.source)  # fmt: skip


@rules_out("LINSTOR: GET /v1/view/storage-pools, free_capacity", "plenty on every node")
def _much_free(view: View) -> Iterator[Seen]:
    asked = [size for one in _pending(view) if (size := _asked(one))]
    for text, found in _pools(view):
        free = [one.free * 1024 for one in found.pools if one.free is not None and not one.diskless]
        if asked and free and min(free) > 4 * max(asked):
            yield Seen(f"every pool has {min(free) // 2**30} GiB free or more", text.source)


def _pending(view: View) -> Iterator[Thing]:
    for one in view.things("PersistentVolumeClaim", MANAGEMENT):
        if text_at(one.obj, "status", "phase") == "Pending":
            yield one


def _asked(claim: Thing) -> int | None:
    return bytes_of(mapped(claim.obj, "spec", "resources", "requests").get("storage"))


@proves("LINSTOR's view beside drbdsetup status", "they say otherwise of one replica")
def _stale(view: View) -> Iterator[Seen]:
    kernel = {(resource.name, text.node): resource for text, resource in resources(view)}
    hosts = {text.node for text in view.texts(Kind.DRBD)}
    for text, one in replicas(view):
        found = kernel.get((one.name, one.node))
        if one.node not in hosts or not one.drbd:
            continue
        differs = _differs(one, found)
        if differs:
            yield Seen(f"{one.name} on {one.node}: {differs}", text.source, one.node)


def _differs(view_of: LinstorReplica, kernel: DrbdResource | None) -> str:
    if kernel is None:
        return "LINSTOR lists it, and the kernel does not know it"
    for volume in view_of.volumes:
        device = kernel.device(volume.number)
        told = volume.disk_state
        if device and told and device.disk_state and told not in (device.disk_state, "TieBreaker"):
            return f"LINSTOR says {told}, the kernel {device.disk_state}"
    if view_of.in_use is not None and kernel.role and view_of.in_use != (kernel.role == "Primary"):
        return f"LINSTOR says in use: {view_of.in_use}, the kernel {kernel.role}"
    return ""


CAUSES = (
    Cause(
        id="no-linstor-node",
        family="storage",
        title="LINSTOR has no node",
        story="No satellite ever came up (drbd-logger ends where the host's kernel has no DRBD "
        "module), so that LINSTOR has no node and makes no volume.",
        signs=(_no_nodes, _none_available, _satellite_pods, _online),
        wrong="a bug of the CSI driver",
        why_wrong="it has nowhere to put a volume. Every claim of the cluster waits, not one.",
        check="the satellites' pods, and the DRBD module on the hosts",
        command="kubectl get linstorsatellites; kubectl -n cozy-linstor get pods; linstor node "
        "list",
        symptoms=(STUCK, NOT_JOINED),
    ),
    Cause(
        id="linstor-node-offline",
        family="storage",
        title="A LINSTOR node is not online",
        story="The controller does not hear one satellite: what it says of that node is old, and "
        "no replica is made there.",
        signs=(_node_offline, _satellite_pods),
        wrong="the replicas there are gone",
        why_wrong="the kernel may replicate on without its satellite; only drbdsetup tells.",
        check="the satellite's pod, and drbdsetup status on that host",
        command="linstor node list; " + LOOK_DRBD,
        symptoms=(STUCK, DEGRADED),
    ),
    Cause(
        id="no-room-in-pools",
        family="storage",
        title="The storage pools have no room",
        story="No storage pool has enough free space for the disk; with ZFS, what was deleted may "
        "not be free yet.",
        signs=(_no_space, _no_place, _little_free, _much_free),
        wrong="autoPlace, or the number of replicas",
        why_wrong="LINSTOR finds places and no room in them: free_capacity says so, totals do not.",
        check="free_capacity of every pool, measured, not reckoned from what was deleted",
        command="linstor storage-pool list",
        symptoms=(STUCK, NOT_JOINED),
    ),
    Cause(
        id="linstor-view-stale",
        family="storage",
        title="LINSTOR's view is not what the kernel says",
        story="A satellite is connected and tells nothing new, or the kernel was changed behind "
        "it: what LINSTOR lists is old.",
        signs=(_stale,),
        wrong="LINSTOR says UpToDate",
        why_wrong="the kernel is right where they differ.",
        check="drbdsetup status on that host beside linstor resource list, twice, seconds apart",
        command=LOOK_DRBD + "; linstor resource list",
        symptoms=(DEGRADED,),
    ),
)  # fmt: skip
