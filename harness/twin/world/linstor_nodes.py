"""LINSTOR's nodes: which satellites are registered, and which the controller is connected to.

Piraeus registers a node once its satellite's pod is Ready for the first time; a satellite that
never got so far is no node. A process that ends closes its connection; a host that is gone is
missed after the controller's ping timeout. The LinstorSatellite objects follow a little later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.twin.world import conditions
from harness.twin.world.objects import PIRAEUS, Obj
from harness.twin.world.reconcile import Activities
from harness.twin.world.satellites import is_satellite

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

ONLINE, OFFLINE, CONNECTED = "ONLINE", "OFFLINE", "CONNECTED"
_SYNC = 0.5  # seconds from a connection until the satellite has everything (order)


class Nodes:
    """Every node as the controller sees it. ``came`` and ``went`` are told of each host."""

    def __init__(
        self, world: World, came: Callable[[str], None], went: Callable[[str], None]
    ) -> None:
        self._world = world
        self._came, self._went = came, went
        self._work = Activities(world.engine)
        self._status: dict[str, str] = {}  # by host, of registered nodes
        self._dead: set[str] = set()  # hosts that answer nobody
        world.cluster.on("v1", "Pod", self._hear)
        world.cluster.on(PIRAEUS, "LinstorSatellite", self._hear_satellite)

    def names(self) -> list[str]:
        """The registered nodes, by name."""
        self._register()
        return sorted(self._status)

    def status(self, host: str) -> str:
        """How a node's connection is; "" for a host that is no node."""
        self._register()
        return self._status.get(host, "")

    def online(self, host: str) -> bool:
        """Whether a node is connected and in step."""
        return self.status(host) == ONLINE

    def begin(self) -> None:
        """Register whoever is Ready as the story begins, and tell of whoever is not."""
        self._register()
        for host in self._world.storage.hosts():
            if host not in self._status:
                self._tell(host)

    # -- hosts

    def host_stops(self, host: str) -> None:
        """A host answers nobody any more, and nobody says so."""
        self._dead.add(host)
        self._work.stop(f"LINSTOR reconnects {host}")
        seconds = self._world.timings.draw("linstor.ping")
        self._work.start(f"LINSTOR misses {host}", seconds, lambda: self._lost(host))

    def host_goes_on(self, host: str) -> None:
        """A host answers again; its satellite may have to be connected anew."""
        self._dead.discard(host)
        self._work.stop(f"LINSTOR misses {host}")
        if self._runs(host):
            self._reconnect(host)

    def satellite_up(self, host: str) -> None:
        """After a boot a satellite has what the controller gave it."""
        self._dead.discard(host)
        self._work.stop(f"LINSTOR misses {host}")
        self._work.stop(f"LINSTOR reconnects {host}")
        self._online(host)

    # -- pods

    def _register(self) -> None:
        for host in self._world.storage.hosts():
            if host not in self._status and host not in self._dead and self._runs(host):
                self._status[host] = ONLINE
                self._came(host)
                self._tell(host)

    def _runs(self, host: str) -> bool:
        """Whether a satellite that Piraeus wants runs on a host, as far as its kubelet told."""
        wanted = self._world.cluster.find(PIRAEUS, "LinstorSatellite", "", host) is not None
        return wanted and any(
            is_satellite(pod) and conditions.holds(pod, "Ready")
            for pod in self._world.hosts.pods_on(host)
        )

    def _hear(self, change: Change) -> None:
        pod = change.obj
        host = pod["spec"].get("nodeName", "")
        if not is_satellite(pod) or host in self._dead:
            return
        ready = change.type != "DELETED" and conditions.holds(pod, "Ready")
        was = change.old is not None and conditions.holds(change.old, "Ready")
        if ready and not was and host in self._status:
            self._reconnect(host)
        elif ready and not was:
            self._work.start(f"LINSTOR registers {host}", 0.0, self._register)
        elif was and not ready:
            self._work.stop(f"LINSTOR reconnects {host}")
            self._lost(host)

    def _hear_satellite(self, change: Change) -> None:
        """A LinstorSatellite that somebody deletes takes its node along."""
        if change.type == "DELETED":
            host = change.obj["metadata"]["name"]
            if self._status.pop(host, "") == ONLINE:
                self._went(host)

    # -- connections

    def _lost(self, host: str) -> None:
        if self._status.get(host, OFFLINE) != OFFLINE:
            self._status[host] = OFFLINE
            self._went(host)
            self._tell(host)

    def _reconnect(self, host: str) -> None:
        if self._status.get(host) == ONLINE:
            return
        seconds = self._world.timings.draw("linstor.reconnect")
        self._work.start(f"LINSTOR reconnects {host}", seconds, lambda: self._connected(host))

    def _connected(self, host: str) -> None:
        if host in self._status:
            self._status[host] = CONNECTED
            self._work.start(f"LINSTOR syncs {host}", _SYNC, lambda: self._online(host))

    def _online(self, host: str) -> None:
        if host in self._dead or self._status.get(host, ONLINE) == ONLINE:
            self._register()
            return
        self._status[host] = ONLINE
        self._came(host)
        self._tell(host)

    # -- Piraeus

    def _tell(self, host: str) -> None:
        found = self._world.cluster.find(PIRAEUS, "LinstorSatellite", "", host) or {}
        if conditions.holds(found, "Available") == (self._status.get(host) == ONLINE):
            return
        seconds = self._world.timings.draw("linstor.operator")
        self._work.start(f"LinstorSatellite {host}", seconds, lambda: self._write(host))

    def _write(self, host: str) -> None:
        found = self._world.cluster.find(PIRAEUS, "LinstorSatellite", "", host)
        if found is None:
            return
        now, online = self._world.engine.now, self._status.get(host) == ONLINE
        told = conditions.false("Available", "Error", "satellite not online")
        if online:
            told = conditions.true("Available", "AsExpected", "satellite online")

        def change(stored: Obj) -> None:
            conditions.write(stored, now, told, metav1=True)

        if conditions.find(found, "Available").get("status") != told.status:
            self._world.cluster.status(found, change, manager="piraeus-operator")
