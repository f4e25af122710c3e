"""What goes wrong below workers' disks: LINSTOR, DRBD, room."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from harness.diagnose.case import MANAGEMENT, TENANT, Kind, Text, Thing
from harness.diagnose.causes.shown import DEGRADED, FROZEN, NOT_READY
from harness.diagnose.causes.signs import fits, proves, rules_out, speaks_against
from harness.diagnose.findings import Cause, Grade, Seen
from harness.diagnose.things import said
from harness.diagnose.view import View
from harness.facts import drbd8, drbd9, drbdlog, linstor_json
from harness.facts.drbd import (
    CONNECTED,
    ESTABLISHED,
    PRIMARY,
    STANDALONE,
    UP_TO_DATE,
    DrbdDevice,
    DrbdPeer,
    DrbdPeerDevice,
    DrbdResource,
    DrbdStatus,
)
from harness.facts.fact import Origin
from harness.facts.linstor import (
    LinstorReplica,
    LinstorResources,
)
from harness.facts.objects import condition, listed, mapped, text_at
from harness.facts.reply import Output

DRIVER = "linstor.csi.linbit.com"
LOST_QUORUM = "drbd.linbit.com/lost-quorum"
_SPLIT = re.compile(r"Split-Brain detected")
_OPTIONS = "property.linstor.csi.linbit.com/DrbdOptions"
_QUORUM = f"{_OPTIONS}/auto-quorum"


# -- reading


@lru_cache(maxsize=64)
def _status(text: Text) -> DrbdStatus | None:
    """DRBD's status of one machine, in JSON or text; None where it is neither."""
    output, node = Output(("drbdsetup",), 0, text.text), text.node or text.source
    at, source = text.at or 0.0, text.source
    if text.text.lstrip()[:1] in ("[", "{"):
        found = drbd9.read_status9(output, at=at, source=source, node=node, version="")
    else:
        found = drbd8.read_status8(output, None, at=at, source=source, node=node)
    return found if isinstance(found, DrbdStatus) else None


def resources(view: View) -> Iterator[tuple[Text, DrbdResource]]:
    """Every resource that a status lists, with the text that it was read from."""
    for text in view.texts(Kind.DRBD):
        status = _status(text)
        yield from ((text, one) for one in status.resources) if status else ()


def _devices(view: View) -> Iterator[tuple[Text, DrbdResource, DrbdDevice]]:
    for text, resource in resources(view):
        yield from ((text, resource, one) for one in resource.devices)


def _peers(view: View) -> Iterator[tuple[Text, DrbdResource, DrbdPeer]]:
    for text, resource in resources(view):
        yield from ((text, resource, one) for one in resource.peers)


def _peer_devices(view: View) -> Iterator[tuple[Text, DrbdResource, DrbdPeer, DrbdPeerDevice]]:
    for text, resource, peer in _peers(view):
        yield from ((text, resource, peer, one) for one in peer.devices)


def replicas(view: View) -> Iterator[tuple[Text, LinstorReplica]]:
    """Every replica that LINSTOR lists, with the text that it was read from."""
    for text in view.texts(Kind.LINSTOR):
        if '"layer_object"' in text.text:
            found = linstor_json.read_resources(text.text, Origin(0.0, text.source, text.text))
            if isinstance(found, LinstorResources):
                yield from ((text, one) for one in found.replicas)


def disk_of(view: View, resource: str) -> str:
    """The claim that a resource's volume is bound to, as a subject; else the resource's name."""
    for one in view.things("PersistentVolumeClaim", MANAGEMENT):
        if text_at(one.obj, "spec", "volumeName") == resource:
            return f"disk {one.name}"
    return f"resource {resource}"


# -- LINSTOR's nodes


# -- room


# -- DRBD


@proves("drbdsetup status: suspended, quorum", "suspended:quorum, quorum:no, disk UpToDate")
def _suspended(view: View) -> Iterator[Seen]:
    for text, resource in resources(view):
        lost = any(one.quorum is False for one in resource.devices)
        if lost and "quorum" in (resource.suspended or ()):
            disk = resource.devices[0].disk_state
            yield Seen(f"{resource.name} on {text.node}: quorum:no, suspended:quorum, {disk}",
                       text.source, disk_of(view, resource.name))  # fmt: skip


@fits("the Node's taints on the management cluster", LOST_QUORUM)
def _tainted(view: View) -> Iterator[Seen]:
    for node in view.things("Node", MANAGEMENT):
        if any(text_at(one, "key") == LOST_QUORUM for one in listed(node.obj, "spec", "taints")):
            yield Seen(f"{node.name} has the taint {LOST_QUORUM}", node.where, f"host {node.name}")


@fits("the tenant's Nodes", "NotReady, its kubelet stopped posting, while the VMI runs")
def _silent_node(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        for worker in pool.workers:
            state = text_at(condition(worker.node.obj, "Ready"), "status")
            running = text_at(worker.vmi.obj, "status", "phase") == "Running"
            if worker.node.name and state == "Unknown" and running:
                disk = _disk_of_vmi(worker.vmi) or pool.subject
                yield Seen(f"{worker.node.name}: {said(worker.node, 'Ready')}; its VMI runs",
                           worker.node.source, disk)  # fmt: skip


def _disk_of_vmi(vmi: Thing) -> str:
    """The first claim that a virtual machine has as a disk, as a subject; "" where none is told."""
    for one in listed(vmi.obj, "spec", "volumes"):
        claim = text_at(one, "dataVolume", "name")
        claim = claim or text_at(one, "persistentVolumeClaim", "claimName")
        if claim:
            return f"disk {claim}"
    return ""


@fits("LINSTOR: GET /v1/view/resources", "a connection that is not Connected")
def _unconnected(view: View) -> Iterator[Seen]:
    for text, one in replicas(view):
        for peer in one.connections:
            if peer.connected is False:
                yield Seen(f"{one.name} on {one.node}: {peer.peer} {peer.message}", text.source,
                           disk_of(view, one.name))  # fmt: skip


@rules_out(
    "drbdsetup status on the host where the disk is Primary",
    "a quorum, and nothing suspended; a Secondary does not tell",
)
def _none_suspended(view: View) -> Iterator[Seen]:
    found = list(resources(view))
    wrong = {one.name for _, one in found if one.suspended}
    wrong |= {one.name for _, one, device in _devices(view) if device.quorum is False}
    for text, one in found:
        if one.name not in wrong and one.role == PRIMARY and one.devices:
            yield Seen(f"{one.name} is Primary on {text.node}, with its quorum, not suspended",
                       text.source, disk_of(view, one.name))  # fmt: skip


@proves("drbdsetup status: replication", "SyncTarget or PausedSyncT, Inconsistent, done below 100")
def _resyncing(view: View) -> Iterator[Seen]:
    for text, resource, peer, one in _peer_devices(view):
        if one.replication in ("SyncTarget", "PausedSyncT"):
            done = "" if one.done is None else f", done:{one.done:g}"
            yield Seen(f"{resource.name} on {text.node}: {one.replication} from {peer.name}{done}",
                       text.source, disk_of(view, resource.name))  # fmt: skip


@proves("drbdsetup status, and the kernel's log", "StandAlone, and Split-Brain detected")
def _split(view: View) -> Iterator[Seen]:
    alone = {(resource.name): text for text, resource, peer in _peers(view)
             if peer.connection == STANDALONE}  # fmt: skip
    for text, line in view.lines(_SPLIT, Kind.DMESG, Kind.CONSOLE):
        log = drbdlog.read_log(Output(("dmesg",), 0, text.text), at=0.0, source=text.source,
                               node=text.node)  # fmt: skip
        named = {e.resource for e in getattr(log, "entries", ()) if e.what == "split brain"}
        for resource in named & set(alone) or (set(alone) if "" in named else set()):
            yield Seen(f"{resource}: {line!r}", text.source, disk_of(view, resource))


@fits("drbdsetup status", "StandAlone on both sides, UpToDate each")
def _alone(view: View) -> Iterator[Seen]:
    for text, resource, peer in _peers(view):
        if peer.connection == STANDALONE:
            state = resource.devices[0].disk_state if resource.devices else ""
            yield Seen(f"{resource.name} on {text.node} towards {peer.name}: StandAlone, {state}",
                       text.source, disk_of(view, resource.name))  # fmt: skip


@rules_out("drbdsetup status of the disk's hosts", "every connection is Connected")
def _all_connected(view: View) -> Iterator[Seen]:
    found: dict[str, list[tuple[Text, bool]]] = {}
    for text, resource, peer in _peers(view):
        found.setdefault(resource.name, []).append((text, peer.connection == CONNECTED))
    for name, peers in found.items():
        if all(connected for _, connected in peers):
            yield Seen(f"all {len(peers)} connections of {name} are Connected", peers[0][0].source,
                       disk_of(view, name))  # fmt: skip


@proves("drbdsetup status: out-of-sync", "not 0, with Established, UpToDate on both sides")
def _out_of_sync(view: View) -> Iterator[Seen]:
    for text, resource, peer, one in _peer_devices(view):
        own = resource.device(one.volume)
        same = own is not None and own.disk_state == one.disk_state == UP_TO_DATE
        if one.out_of_sync and one.replication == ESTABLISHED and same:
            yield Seen(f"{resource.name} on {text.node}, {peer.name}: out-of-sync:"
                       f"{one.out_of_sync // 1024} KiB, UpToDate/UpToDate", text.source,
                       disk_of(view, resource.name))  # fmt: skip


def places(view: View) -> dict[str, int]:
    """Copies that each DRBD class asks for."""
    found = {}
    for one in view.things("StorageClass", MANAGEMENT):
        parameters = mapped(one.obj, "parameters")
        layers = str(parameters.get(f"{DRIVER}/layerList", parameters.get("layerList", "drbd")))
        asked = str(parameters.get(f"{DRIVER}/autoPlace", parameters.get("autoPlace", "")))
        if text_at(one.obj, "provisioner") == DRIVER and asked.isdecimal() and "drbd" in layers:
            found[one.name] = int(asked)
    return found


@proves(
    "LINSTOR: GET /v1/view/resources beside the class's autoPlace", "fewer replicas with a disk"
)
def _too_few(view: View) -> Iterator[Seen]:
    copies: dict[str, set[str]] = {}
    seen: dict[str, set[str]] = {}
    peers: dict[str, set[str]] = {}
    for _, one in replicas(view):
        copies.setdefault(one.name, set()).update(() if one.diskless else (one.node,))
        seen.setdefault(one.name, set()).add(one.node)
        peers.setdefault(one.name, set()).update(peer.peer for peer in one.connections)
    partly = {name for name in seen if peers[name] - seen[name]}  # a list of some nodes only
    copies_of = places(view)
    for claim in view.things("PersistentVolumeClaim", MANAGEMENT):
        volume = text_at(claim.obj, "spec", "volumeName")
        wanted = copies_of.get(text_at(claim.obj, "spec", "storageClassName"))
        if wanted and volume in copies and volume not in partly and len(copies[volume]) < wanted:
            yield Seen(f"{claim.name} has {len(copies[volume])} replicas "
                       f"({', '.join(sorted(copies[volume]))}), its class asks for {wanted}",
                       "LINSTOR", f"disk {claim.name}")  # fmt: skip


@proves("StorageClass: parameters auto-quorum and autoPlace", "a quorum is not asked for")
def _no_quorum(view: View) -> Iterator[Seen]:
    for one in view.things("StorageClass", MANAGEMENT):
        value = mapped(one.obj, "parameters").get(_QUORUM)
        if one.name in places(view) and one.knows("parameters") and value in (None, "off"):
            yield Seen(f"StorageClass {one.name}: auto-quorum is {value or 'not set'}", one.where,
                       one.name)  # fmt: skip


@proves("StorageClass: parameter on-no-data-accessible", "io-error: I/O fails where it could wait")
def _io_errors(view: View) -> Iterator[Seen]:
    for one in view.things("StorageClass", MANAGEMENT):
        for key, value in mapped(one.obj, "parameters").items():
            if key.endswith("on-no-data-accessible") and value == "io-error":
                yield Seen(f"StorageClass {one.name}: on-no-data-accessible is {value}", one.where,
                           one.name)  # fmt: skip


@speaks_against("reboots of the node", "the guest answers: it does not stand still")
def _answers(view: View) -> Iterator[Seen]:
    silent = [
        n for n in view.tenant_nodes if text_at(condition(n.obj, "Ready"), "status") != "True"
    ]
    if view.tenant_nodes and not silent and view.lacks("Node", TENANT):
        yield Seen(f"all {len(view.tenant_nodes)} Nodes of the tenant are Ready")


def degraded(view: View) -> Iterator[Seen]:
    """Replicas that are not whole: suspended, not connected, not up to date."""
    for text, resource in resources(view):
        wrong = [f"suspended:{one}" for one in resource.suspended or ()]
        wrong += [f"{p.name} {p.connection}" for p in resource.peers if p.connection != CONNECTED]
        wrong += [
            d.disk_state
            for d in resource.devices
            if d.disk_state not in (UP_TO_DATE, "")
            and not (d.disk_state == "Diskless" and d.client)
        ]
        if wrong:
            yield Seen(f"{resource.name} on {text.node}: {', '.join(wrong)}", text.source,
                       disk_of(view, resource.name))  # fmt: skip


LOOK_DRBD = "kubectl -n cozy-linstor exec <satellite> -c linstor-satellite -- drbdsetup status " \
    "--verbose --statistics"  # fmt: skip

CAUSES = (
    Cause(
        id="quorum-lost",
        family="storage",
        title="A disk has no quorum, and its I/O stands still",
        story="The worker's disk lost its peers: DRBD suspends I/O (suspend-io) and gives no "
        "error, the guest stands still, its Node goes NotReady later.",
        signs=(_suspended, _tainted, _silent_node, _unconnected, _none_suspended, _answers),
        wrong="the guest hangs, or its kernel panicked",
        why_wrong="the guest waits for its disk: drbdsetup says suspended:quorum with the disk "
        "UpToDate. A reset does not help.",
        check="suspended and quorum in drbdsetup status on the worker's host, then the replication "
        "network",
        command=LOOK_DRBD,
        symptoms=(FROZEN, DEGRADED, NOT_READY),
        leads_to=("replaced-by-health-check",),
    ),
    Cause(
        id="resync-under-way",
        family="storage",
        title="A replica is being resynced",
        story="A replica is Inconsistent and being brought up to date: reads cross the network, "
        "and a boot from it is slow.",
        signs=(_resyncing,),
        wrong="the registry, or the import, is slow",
        why_wrong="the disk is what is slow: see done and where it does not move.",
        check="done, twice",
        command=LOOK_DRBD,
        symptoms=(DEGRADED,),
    ),
    Cause(
        id="split-brain",
        family="storage",
        title="Two replicas have histories of their own",
        story="Both sides wrote while apart: the connection is StandAlone, and either side's "
        "writes since have to be given up by somebody's decision.",
        signs=(_split, _alone, _all_connected),
        wrong="UpToDate on both: all is well; or: the network is down",
        why_wrong="StandAlone is not waiting for the network; UpToDate says only that each trusts "
        "its own data. The kernel's log says Split-Brain; it also tells a disconnect by hand.",
        check="why it is StandAlone, in the kernel's log of both hosts",
        command="dmesg | grep -i drbd (on both hosts)",
        symptoms=(DEGRADED,),
    ),
    Cause(
        id="replicas-differ",
        family="storage",
        title="Replicas that are both UpToDate differ",
        story="A verify found blocks that differ between two replicas, and nothing has synced them "
        "since: what is read depends on where.",
        signs=(_out_of_sync,),
        wrong="UpToDate/UpToDate means the same bytes",
        why_wrong="it means that nothing is known to be missing; out-of-sync counts what a verify "
        "found. Disconnecting and connecting syncs it, from the Primary.",
        check="out-of-sync, after a verify",
        command=LOOK_DRBD,
        symptoms=(DEGRADED,),
    ),
    Cause(
        id="replica-missing",
        family="storage",
        title="A disk has fewer replicas than its class asks for",
        story="What is there is UpToDate and connected; a replica that should be there is not "
        "known at all.",
        signs=(_too_few,),
        wrong="everything listed is UpToDate",
        why_wrong="what is missing is not listed.",
        check="the count of replicas with a disk, per resource",
        command="linstor resource list; kubectl get storageclass <class> -o yaml",
        symptoms=(DEGRADED,),
    ),
    Cause(
        id="class-without-quorum",
        family="storage",
        title="The class does not ask for a quorum",
        story="A Primary that is cut off from all others writes on: two halves can go different "
        "ways.",
        signs=(_no_quorum,),
        wrong="quorum:yes in the status",
        why_wrong="without the option every device says yes, always.",
        check="the class's parameters",
        command="kubectl get storageclass <class> -o yaml",
        grade=Grade.HAZARD,
    ),
    Cause(
        id="class-gives-io-errors",
        family="storage",
        title="The class lets I/O fail where no data can be reached",
        story="on-no-data-accessible is io-error: a guest that loses its replicas gets errors and "
        "remounts read-only, instead of waiting.",
        signs=(_io_errors,),
        wrong="both replicas are lost",
        why_wrong="they may be only out of reach for a while.",
        check="the class's parameters",
        command="kubectl get storageclass <class> -o yaml",
        grade=Grade.HAZARD,
    ),
)  # fmt: skip
