"""Which machine runs in which VMI: disk image, config drive and cards put together."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.world.guest import Guest
from harness.twin.world.images import UnknownSchematic
from harness.twin.world.objects import CDI, Obj, decode, deep, labels_of, quantity
from harness.twin.world.pool_chart import CLUSTER_NAME

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

TRUSTD = 50001
_NO_CERTIFICATE = "api certificates to be generated"


class Guests:
    """Every powered-on guest, by VMI and by Node name (both are the VM's name)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._by_uid: dict[str, Guest] = {}
        self._clusters: dict[str, str] = {}  # VMI UID to its Cluster API cluster
        self._installed: dict[str, bool] = {}  # UID of the disk's DataVolume
        self._disks: dict[str, str] = {}  # VMI UID to UID of the disk's DataVolume
        self._when_stopped: dict[str, list[Callable[[], None]]] = {}  # by VMI UID
        self._cluster.on("v1", "Service", self._hear_service)

    def named(self, name: str) -> Guest | None:
        """The guest of a VM or Node of this name, or None."""
        return next((guest for guest in self._by_uid.values() if guest.hostname == name), None)

    def all(self) -> list[Guest]:
        """Every guest, in the order they were started."""
        return list(self._by_uid.values())

    def of(self, instance: Obj) -> Guest | None:
        """The guest of a VMI, or None."""
        return self._by_uid.get(instance["metadata"]["uid"])

    def start(self, instance: Obj, pod: Obj) -> None:
        """Power a VMI's machine on. A disk without a readable image leaves a dead machine."""
        uid, name = instance["metadata"]["uid"], instance["metadata"]["name"]
        disk = self._disk(instance)
        image = self._world.claims.content_of(self._claim(disk))
        if image is None:
            return
        try:
            built = self._world.factory.image(image.schematic, image.version)
        except UnknownSchematic:
            return
        held = self._world.hosts.cards_of(pod)
        guest = Guest(
            hostname=name,
            machine_config=self._user_data(instance),
            image=built,
            cards=tuple(card.in_guest(index) for index, card in enumerate(held)),
            engine=self._world.engine,
            rng=self._world.rng(f"guest {name} {uid}"),
            kind=image.kind,
        )
        guest.pace = self._world.hosts.system_of(pod["spec"]["nodeName"]).pace
        guest.kernel.disk_bytes = self._size(disk)
        disk_uid = (disk.get("metadata") or {}).get("uid", "")
        guest.installed = self._installed.get(disk_uid, False)
        guest.root.size = partial(self._size, disk)
        cluster = labels_of(instance).get(CLUSTER_NAME, "")
        self._by_uid[uid], self._clusters[uid], self._disks[uid] = guest, cluster, disk_uid
        self._check_certificate(guest, cluster, instance["metadata"]["namespace"])
        for hook in self._world.on_guest:
            hook(guest, instance)
        guest.power_on(lambda: self._up(guest, instance), lambda: self._rebooting(guest, instance))

    def stop(self, instance: Obj) -> None:
        """Cut a VMI's power; nothing happens where nothing runs."""
        uid = instance["metadata"]["uid"]
        for tell in self._when_stopped.pop(uid, ()):
            tell()
        guest = self._by_uid.pop(uid, None)
        if guest is None:
            return
        self._installed[self._disks.pop(uid)] = guest.installed
        guest.power_off()
        workers = self._world.workers_of(self._clusters.pop(uid))
        if workers is not None:
            workers.went_down(guest.hostname)

    def when_stopped(self, instance: Obj, tell: Callable[[], None]) -> Callable[[], None]:
        """Call ``tell`` once when a VMI's machine is stopped; returns how to call that off."""
        uid = instance["metadata"]["uid"]
        self._when_stopped.setdefault(uid, []).append(tell)

        def call_off() -> None:
            waiting = self._when_stopped.get(uid, [])
            if tell in waiting:
                waiting.remove(tell)

        return call_off

    def has_agent(self, instance: Obj) -> bool:
        """Whether the guest's image carries the agent."""
        guest = self.of(instance)
        return guest is not None and guest.image.has_guest_agent

    def agent_answers(self, instance: Obj) -> bool:
        """Whether the agent runs in this boot."""
        guest = self.of(instance)
        return guest is not None and guest.services.is_up("ext-qemu-guest-agent")

    # -- what a guest tells

    def _up(self, guest: Guest, instance: Obj) -> None:
        workers = self._world.workers_of(labels_of(instance).get(CLUSTER_NAME, ""))
        if workers is not None:
            workers.kubelet_up(guest, instance)

    def _rebooting(self, guest: Guest, instance: Obj) -> None:
        cluster = labels_of(instance).get(CLUSTER_NAME, "")
        self._check_certificate(guest, cluster, instance["metadata"]["namespace"])
        workers = self._world.workers_of(cluster)
        if workers is not None:
            workers.went_down(guest.hostname)

    # -- what a guest is made of

    def _disk(self, instance: Obj) -> Obj:
        namespace = instance["metadata"]["namespace"]
        for volume in deep(instance, "spec", "volumes") or ():
            if "dataVolume" in volume:
                name = volume["dataVolume"]["name"]
                return self._cluster.find(CDI, "DataVolume", namespace, name) or {}
        return {}

    def _size(self, disk: Obj) -> int:
        """Bytes of a disk as its claim has them now: the machine sees it grow."""
        return quantity(deep(self._claim(disk), "status", "capacity", "storage") or "0")

    def _claim(self, disk: Obj) -> Obj:
        metadata = disk.get("metadata") or {}
        place = (metadata.get("namespace", ""), metadata.get("name", ""))
        return self._cluster.find("v1", "PersistentVolumeClaim", *place) or {}

    def _user_data(self, instance: Obj) -> str:
        namespace = instance["metadata"]["namespace"]
        for volume in deep(instance, "spec", "volumes") or ():
            name = deep(volume, "cloudInitConfigDrive", "secretRef", "name")
            secret = self._cluster.find("v1", "Secret", namespace, name) if name else None
            if secret is not None:
                return decode((secret.get("data") or {}).get("userdata", ""))
        return ""

    # -- apid's certificate comes through the control plane's Service (S-DOC: port 50001)

    def _hear_service(self, change: Change) -> None:
        name, namespace = change.obj["metadata"]["name"], change.obj["metadata"]["namespace"]
        for uid, cluster in self._clusters.items():
            if cluster == name:
                self._check_certificate(self._by_uid[uid], cluster, namespace)

    def _check_certificate(self, guest: Guest, cluster: str, namespace: str) -> None:
        service = self._cluster.find("v1", "Service", namespace, cluster)
        ports = [port.get("port") for port in deep(service or {}, "spec", "ports") or ()]
        if TRUSTD in ports:
            if "apid" in guest.services.held:
                guest.services.release("apid")
        elif guest.services.is_up("apid"):
            # what is up has its certificate; the next boot does not get one
            guest.services.held["apid"] = _NO_CERTIFICATE
        else:
            guest.services.hold("apid", _NO_CERTIFICATE)
