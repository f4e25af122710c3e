"""The hypervisors: their cards, the scheduler of the management cluster, and its kubelets."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.twin.world import conditions, init_stages, pods, sidecars
from harness.twin.world.heartbeats import Heartbeat
from harness.twin.world.hostsystem import HostSystem
from harness.twin.world.nvidia import Card, gb202, h100, l40s
from harness.twin.world.objects import Obj, deep, labels_of, quantity, terminating
from harness.twin.world.reconcile import Activities, Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

L40S = "nvidia.com/AD102GL_L40S"
GB202 = "nvidia.com/GB202GL_RTX_PRO_6000_BLACKWELL_SERVER_EDITION"
# inferred: the slug rule on the PCI-IDs name GH100 [H100 SXM5 80GB] (objects.md section 6)
H100 = "nvidia.com/GH100_H100_SXM5_80GB"
# host, resource, addresses on the host's PCI bus; allocatable is what the Node object says
_INVENTORY = (
    ("hv-1", L40S, ("0000:17:00.0", "0000:65:00.0", "0000:ca:00.0", "0000:e3:00.0")),
    ("hv-2", GB202, ("0000:16:00.0", "0000:38:00.0", "0000:a5:00.0", "0000:c8:00.0")),
    ("hv-3", H100, ("0000:1b:00.0", "0000:43:00.0")),
)
_MAKERS: dict[str, Callable[[str, str], Card]] = {L40S: l40s, GB202: gb202, H100: h100}
_FIRST_GUEST_SLOT = 9
VFIO = "vfio-pci"
_MOUNT_AGAIN = 1.0  # seconds between two looks of a kubelet at a volume it waits for (order)


@dataclass(frozen=True, slots=True)
class HostCard:
    """A card in a hypervisor. ``uuid`` is the card's own and stays wherever it is plugged.

    ``resource`` is what the host advertises it as, ``board`` what it is, by the resource name that
    such a card has; "" where the two are the same.
    """

    host: str
    resource: str
    bdf: str
    uuid: str
    board: str = ""

    @property
    def pci_id(self) -> str:
        """Vendor and device: ``10de:26b9``."""
        return self._card(self.bdf).pci_id

    def in_guest(self, index: int) -> Card:
        """The card as the ``index``-th one of a guest sees it."""
        return self._card(f"0000:{_FIRST_GUEST_SLOT + index:02x}:00.0")

    def _card(self, bdf: str) -> Card:
        return _MAKERS[self.board or self.resource](bdf, self.uuid)


class Hosts:
    """Places pods on hypervisors, runs them, and hands cards out."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._engine = world.engine
        self.cards = _inventory(world)
        # who holds a host's cards, or one card by its UUID, where it is not vfio-pci
        self.drivers: dict[str, str] = {}
        self.systems: dict[str, HostSystem] = {}  # by host, where it is another than most are
        self.broken_sidecars: set[str] = set()  # names of containers that come up on no host
        self.logs: dict[str, list[str]] = {}  # pod UID to its lines
        self._readers: dict[str, list[Callable[[bytes], None]]] = {}  # of logs, by pod UID
        self._held: dict[str, str] = {}  # uuid of a card to UID of the pod that has it
        self._waiting: dict[tuple[str, str], None] = {}
        self._work = Activities(world.engine)
        self._addresses: dict[str, int] = {}
        self._beats: dict[str, Heartbeat] = {}
        self._down: set[str] = set()  # hosts whose kubelet does nothing
        self._queue = Queue(
            world.engine,
            "default-scheduler",
            self._schedule,
            lambda: world.timings.draw("scheduler"),
        )
        self._cluster.on("v1", "Pod", self._hear)
        self._cluster.on("v1", "Node", lambda _: self._again())
        self._cluster.on("v1", "PersistentVolumeClaim", self._hear_claim)

    def start_heartbeats(self) -> None:
        """Let every hypervisor give signs of life."""
        for node in self._cluster.all("v1", "Node"):
            name = node["metadata"]["name"]
            self._beats[name] = Heartbeat(self._cluster, name)
            self._beats[name].start()

    def system_of(self, node: str) -> HostSystem:
        """What a host's own operating system is."""
        return self.systems.get(node, HostSystem())

    def address_of(self, node: str) -> str:
        """A host's own address."""
        return _host_ip(node)

    def pods_on(self, node: str) -> list[Obj]:
        """The pods that are bound to a host."""
        return [
            pod for pod in self._cluster.all("v1", "Pod") if deep(pod, "spec", "nodeName") == node
        ]

    def kubelet_stops(self, node: str) -> None:
        """A host's kubelet does nothing more and says nothing more."""
        self._down.add(node)
        self._beats[node].stop()

    def kubelet_goes_on(self, node: str, *, booted: bool) -> None:
        """A host's kubelet is there again. What ran before a boot does not run after it."""
        self._down.discard(node)
        self._beats[node].start()
        for pod in self.pods_on(node):
            if terminating(pod):
                self._kill(pod)
            elif pods.finished(pod):
                continue
            elif not deep(pod, "status", "startTime"):
                self._begin(pod)
            elif deep(pod, "status", "phase") != "Running":
                self._start_later(pod, self._run)
            elif booted:
                self._restart(pod)

    def _restart(self, pod: Obj) -> None:
        if pod["spec"].get("restartPolicy") == "Never":
            self.finish(pod, exit_code=255)
            return
        now = self._engine.now
        self._cluster.status(pod, lambda stored: pods.interrupted(stored, now), manager="kubelet")
        self._start_later(pod, self._run_again)

    def _start_later(self, pod: Obj, run: Callable[[Obj], None]) -> None:
        seconds = self._world.timings.draw("pod.start")
        self._work.start(f"start {pod['metadata']['uid']}", seconds, lambda: run(pod))

    def _run_again(self, pod: Obj) -> None:
        current, now = self._cluster.current(pod), self._engine.now
        if current is None or terminating(current) or current["spec"]["nodeName"] in self._down:
            return
        ip = str(deep(current, "status", "podIP") or "")
        self._cluster.status(
            current, lambda stored: pods.running(stored, ip, now), manager="kubelet"
        )

    def cards_of(self, pod: Obj) -> list[HostCard]:
        """The cards a pod has, by address."""
        mine = [card for card in self.cards if self._held.get(card.uuid) == pod["metadata"]["uid"]]
        return sorted(mine, key=lambda card: card.bdf)

    def driver_of(self, card: HostCard) -> str:
        """Which of the host's drivers holds a card."""
        return self.drivers.get(card.uuid) or self.drivers.get(card.host) or VFIO

    def place_for(self, pod: Obj) -> str:
        """The host that would take a pod now, or ""."""
        fits, _ = self._candidates(pod)
        return fits[0] if fits else ""

    def environment(self, pod: Obj) -> dict[str, str]:
        """What the device plugin put into the environment of the pod's containers.

        ``PCI_RESOURCE_<NAME>`` (objects.md section 6): of the running container, not of the Pod
        object.
        """
        found: dict[str, list[str]] = {}
        for card in self.cards_of(pod):
            name = card.resource.upper().replace("/", "_").replace(".", "_")
            found.setdefault(f"PCI_RESOURCE_{name}", []).append(card.bdf)
        return {name: ",".join(addresses) for name, addresses in found.items()}

    def address(self, node: str) -> str:
        """The next free address of a host's pod network (10.244.<64 x index>.0/18)."""
        hosts = [host["metadata"]["name"] for host in self._cluster.all("v1", "Node")]
        index = hosts.index(node) if node in hosts else 3
        taken = self._addresses[node] = self._addresses.get(node, 0) + 1
        third, fourth = divmod(taken, 250)
        return f"10.244.{64 * index + third % 64}.{fourth + 2}"

    def say(self, pod: Obj, line: str) -> None:
        """Add a line to a pod's log."""
        uid = pod["metadata"]["uid"]
        self.logs.setdefault(uid, []).append(line)
        for heard in tuple(self._readers.get(uid, ())):
            heard(f"{line}\n".encode())

    def follow_log(self, pod: Obj, heard: Callable[[bytes], None]) -> Callable[[], None]:
        """Hand each further line of a pod's log to ``heard``; returns how to stop."""
        readers = self._readers.setdefault(pod["metadata"]["uid"], [])
        readers.append(heard)
        return lambda: readers.remove(heard)

    # -- events

    def _hear(self, change: Change) -> None:
        pod = change.obj
        metadata = pod["metadata"]
        if change.type == "DELETED" or pods.finished(pod):
            self._let_go(pod)
            self._again()
        if change.type == "DELETED":
            self._work.stop(f"start {metadata['uid']}")
            self.logs.pop(metadata["uid"], None)
            self._readers.pop(metadata["uid"], None)
            self._waiting.pop((metadata["namespace"], metadata["name"]), None)
        elif terminating(pod):
            self._kill(pod)
        elif not pod["spec"].get("nodeName"):
            if change.type == "ADDED":
                self._queue.hear(change)
        elif not pods.finished(pod) and not deep(pod, "status", "startTime"):
            self._begin(pod)

    def _hear_claim(self, change: Change) -> None:
        namespace = change.obj["metadata"]["namespace"]
        for space, name in self._waiting if change.type == "ADDED" else ():
            if space == namespace:
                self._queue.add(space, name)

    def _begin(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        if pod["spec"]["nodeName"] not in self._down:
            self._work.start(f"start {uid}", 0.0, lambda: self._admit(pod))

    def _let_go(self, pod: Obj) -> None:
        for card in self.cards_of(pod):
            del self._held[card.uuid]

    def _again(self) -> None:
        for namespace, name in self._waiting:
            self._queue.add(namespace, name)

    # -- scheduling

    def _schedule(self, namespace: str, name: str) -> None:
        pod = self._cluster.find("v1", "Pod", namespace, name)
        if pod is None or pod["spec"].get("nodeName") or terminating(pod):
            self._waiting.pop((namespace, name), None)
            return
        fits, why = self._candidates(pod)
        missing = self._world.claims.missing(pod)
        if missing:
            count = len(self._cluster.all("v1", "Node"))
            why = f'persistentvolumeclaim "{missing}" not found.'
            fits, why = [], f"0/{count} nodes are available: {why}"
        if not fits:
            self._waiting[namespace, name] = None
            self._unschedulable(pod, why)
            return
        self._waiting.pop((namespace, name), None)
        self._bind(pod, fits[0])

    def _bind(self, pod: Obj, node: str) -> None:
        now = self._engine.now
        self._cluster.edit(
            pod, lambda stored: stored["spec"].update(nodeName=node), manager="kube-scheduler"
        )
        self._cluster.status(
            pod, lambda stored: pods.scheduled(stored, now), manager="kube-scheduler"
        )
        place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        text = f"Successfully assigned {place} to {node}"
        self._cluster.events.normal(pod, "Scheduled", text, "default-scheduler")

    def _candidates(self, pod: Obj) -> tuple[list[str], str]:
        """Nodes that can take the pod, the emptiest first; and why the others cannot."""
        running = self._active()
        refusals: dict[str, int] = {}
        fits: list[tuple[int, str]] = []
        nodes = self._cluster.all("v1", "Node")
        for node in nodes:
            name = node["metadata"]["name"]
            mine = [other for other in running if other["spec"]["nodeName"] == name]
            reasons = _refusals(pod, node, mine)
            for reason in reasons:
                refusals[reason] = refusals.get(reason, 0) + 1
            if not reasons:
                fits.append((len(mine), name))
        told = ", ".join(f"{count} {reason}" for reason, count in sorted(refusals.items()))
        why = (
            f"0/{len(nodes)} nodes are available: {told}. preemption: 0/{len(nodes)} nodes are "
            f"available: {len(nodes)} No preemption victims found for incoming pod."
        )
        return [name for _, name in sorted(fits)], why

    def _active(self) -> list[Obj]:
        return [
            pod
            for pod in self._cluster.all("v1", "Pod")
            if pod["spec"].get("nodeName") and not pods.finished(pod)
        ]

    def _unschedulable(self, pod: Obj, why: str) -> None:
        refused = conditions.false("PodScheduled", "Unschedulable", why)

        def change(stored: Obj) -> None:
            stored.setdefault("status", {})["phase"] = "Pending"
            conditions.write(stored, self._engine.now, refused)

        self._cluster.status(pod, change, manager="kube-scheduler")
        self._cluster.events.warning(pod, "FailedScheduling", why, "default-scheduler")

    # -- kubelet

    def _admit(self, pod: Obj) -> None:
        current = self._cluster.current(pod)
        if current is None or terminating(current) or current["spec"]["nodeName"] in self._down:
            return
        if deep(current, "status", "startTime"):
            return
        missing = self._allocate(current)
        if missing:
            self._refuse(current, missing)
            return
        now, node = self._engine.now, current["spec"]["nodeName"]
        self._cluster.status(
            current,
            lambda found: init_stages.accepted(found, _host_ip(node), now),
            manager="kubelet",
        )
        uid = current["metadata"]["uid"]
        seconds = self._world.timings.draw(_start_of(current))
        self._work.start(f"start {uid}", seconds, lambda: self._run(current))

    def _allocate(self, pod: Obj) -> str:
        """Take cards for a pod; "" or why a device plugin cannot."""
        for resource, count in sorted(pods.requests(pod).items()):
            if resource not in _MAKERS:
                continue
            free = [
                card
                for card in self.cards
                if card.host == pod["spec"]["nodeName"]
                and card.resource == resource
                and card.uuid not in self._held
                and self.driver_of(card) == VFIO
            ]
            if len(free) < count:
                return (
                    f"Allocate failed due to requested number of devices unavailable for "
                    f"{resource}. Requested: {count}, Available: {len(free)}, "
                    "which is unexpected"
                )
            for card in free[:count]:
                self._held[card.uuid] = pod["metadata"]["uid"]
        return ""

    def _refuse(self, pod: Obj, why: str) -> None:
        def change(stored: Obj) -> None:
            stored["status"] |= {
                "phase": "Failed",
                "reason": "UnexpectedAdmissionError",
                "message": f"Pod was rejected: {why}",
            }

        self._cluster.status(pod, change, manager="kubelet")
        self._cluster.events.warning(pod, "UnexpectedAdmissionError", why, "kubelet")

    def _run(self, pod: Obj) -> None:
        current = self._cluster.current(pod)
        if current is None or terminating(current) or current["spec"]["nodeName"] in self._down:
            return
        if self._world.claims.unbound(current):
            uid = current["metadata"]["uid"]
            self._work.start(f"start {uid}", _MOUNT_AGAIN, lambda: self._run(current))
            return
        if sidecars.start(self._cluster, current, self.broken_sidecars, self._engine.now):
            key = f"start {current['metadata']['uid']}"
            self._work.start(key, sidecars.BACK_OFF, lambda: self._run(current))
            return
        ip, now = self.address(current["spec"]["nodeName"]), self._engine.now
        self._cluster.status(
            current, lambda stored: pods.running(stored, ip, now), manager="kubelet"
        )
        for container in current["spec"]["containers"]:
            text = f"Started container {container['name']}"
            self._cluster.events.normal(current, "Started", text, "kubelet")

    def _kill(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        self._work.stop(f"start {uid}")
        if deep(pod, "spec", "nodeName") in self._down:
            return  # nobody is there to end it
        if not self._work.running(f"kill {uid}"):
            for container in pod["spec"]["containers"]:
                text = f"Stopping container {container['name']}"
                self._cluster.events.normal(pod, "Killing", text, "kubelet")
        launcher = labels_of(pod).get("kubevirt.io") == "virt-launcher"
        name = "virt.shutdown" if launcher else "pod.kill"
        seconds = 0.0 if pods.finished(pod) else self._world.timings.draw(name)
        self._work.start(f"kill {uid}", seconds, lambda: self._cluster.remove(pod))

    # -- for those who own pods

    def finish(self, pod: Obj, *, exit_code: int = 0) -> None:
        """The pod's program has ended by itself."""
        now = self._engine.now
        self._cluster.status(
            pod, lambda stored: pods.ended(stored, now, exit_code=exit_code), manager="kubelet"
        )


def _inventory(world: World) -> tuple[HostCard, ...]:
    rng = world.rng("card uuids")
    return tuple(
        HostCard(host, resource, bdf, f"GPU-{uuid.UUID(int=rng.getrandbits(128), version=4)}")
        for host, resource, addresses in _INVENTORY
        for bdf in addresses
    )


def _refusals(pod: Obj, node: Obj, running: list[Obj]) -> list[str]:
    if deep(node, "spec", "unschedulable"):
        return ["node(s) were unschedulable"]
    if not conditions.holds(node, "Ready"):
        return ["node(s) had untolerated taint(s)"]
    wanted = pod["spec"].get("nodeSelector") or {}
    if any(labels_of(node).get(key) != value for key, value in wanted.items()):
        return ["node(s) didn't match Pod's node affinity/selector"]
    short = []
    for resource, count in sorted(pods.requests(pod).items()):
        have = quantity((deep(node, "status", "allocatable") or {}).get(resource, 0))
        used = sum(pods.requests(other).get(resource, 0) for other in running)
        if have - used < count:
            short.append(f"Insufficient {resource}")
    return short


def _start_of(pod: Obj) -> str:
    labels = labels_of(pod)
    if labels.get("kubevirt.io") == "virt-launcher":
        return "launcher.start"
    return "importer.start" if labels.get("cdi.kubevirt.io") == "importer" else "pod.start"


def _host_ip(node: str) -> str:
    return f"192.168.100.{10 + int(node.rpartition('-')[2])}" if node[-1:].isdigit() else ""
