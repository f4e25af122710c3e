"""What storage stands on in this lab: the hypervisors' kernels, the wires between them, and DRBD.

Replication has wires of its own: a cut one parts two hypervisors' DRBD, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from harness.twin.world import drbd_verbs
from harness.twin.world.drbd_resource import Node, Resource, Spoilt
from harness.twin.world.drbd_state import Settings
from harness.twin.world.hostkernel import HostKernel
from harness.twin.world.objects import deep

if TYPE_CHECKING:
    from harness.twin.world.world import World

FIRST_MINOR, FIRST_PORT = 1000, 7000
AGE = 1_900_800.0
"""Seconds for which the hypervisors have been up when the story begins: 22 days."""
_DEAF = 0.5  # share of lost frames from which TCP gets nothing through in time (order)
_CARRIER = "eth1"


@dataclass(slots=True)
class Wires:
    """The replication network: for each pair of hosts one wire, as it is now.

    ``cut`` says for a pair whether its carrier is gone too; ``lost`` the share of frames and
    ``late`` the seconds, for each direction.
    """

    cut: dict[frozenset[str], bool] = field(default_factory=dict)
    lost: dict[tuple[str, str], float] = field(default_factory=dict)
    late: dict[tuple[str, str], float] = field(default_factory=dict)

    def passes(self, one: str, other: str, patience: float) -> bool:
        """Whether an answer comes back within ``patience`` seconds."""
        both = ((one, other), (other, one))
        deaf = any(self.lost.get(way, 0.0) >= _DEAF for way in both)
        trip = sum(self.late.get(way, 0.0) for way in both)
        return frozenset((one, other)) not in self.cut and not deaf and trip <= patience


class Storage:
    """Every DRBD resource of the lab, and who runs to hold it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.engine = world.engine
        self.rng: Random = world.rng("drbd")
        self.spoilt = Spoilt()
        self.settings = Settings()
        self.wires = Wires()
        self.resources: dict[str, Resource] = {}
        self.on_created: list[Callable[[Resource], None]] = []
        self._random = world.rng("urandom")
        self._down: set[str] = set()
        self._were_cut: set[frozenset[str]] = set()
        self._kernels: dict[str, HostKernel] = {}
        self._boots = world.rng("host boots")
        self._numbers = 0

    def hosts(self) -> list[str]:
        """The hypervisors, by name."""
        return [node["metadata"]["name"] for node in self._world.cluster.all("v1", "Node")]

    # -- what resources stand on

    def runs(self, host: str) -> bool:
        """Whether a host's kernel runs and its time goes on."""
        return host not in self._down

    def reaches(self, one: str, other: str) -> bool:
        """Whether frames pass between two hosts, both ways, in time."""
        patience = self.settings.ping_timeout / 10
        return self.runs(one) and self.runs(other) and self.wires.passes(one, other, patience)

    def connects(self, one: str, other: str) -> bool:
        """Whether a new connection between two hosts comes about."""
        apart = self.spoilt.stays_apart and frozenset((one, other)) in self._were_cut
        return self.reaches(one, other) and not apart

    def kernel(self, host: str) -> HostKernel:
        """A host's kernel."""
        if host not in self._kernels:
            node = self._world.cluster.find("v1", "Node", "", host) or {}
            info = deep(node, "status", "nodeInfo") or {}
            self._kernels[host] = HostKernel(
                host,
                str(info.get("bootID", "")),
                lambda: self.engine.now,
                age=AGE,
                release=str(info.get("kernelVersion", "")),
            )
        return self._kernels[host]

    def random(self, count: int) -> bytes:
        """What /dev/urandom gives."""
        return self._random.randbytes(count)

    # -- resources

    def create(self, name: str, size: int, settings: Settings, hosts: Sequence[str]) -> Resource:
        """A resource of ``size`` KiB with a replica on each host, in sync."""
        number = self._numbers
        self._numbers += 1
        nodes = [
            Node(host, f"ipv4:{self._address(host)}:{FIRST_PORT + number}", _below(name))
            for host in hosts
        ]
        made = Resource(name, FIRST_MINOR + number, size, nodes, self, settings)
        made.establish()
        self.resources[name] = made
        for hook in self.on_created:
            hook(made)
        for replica in made.replicas:
            if not self.runs(replica.host):
                made.forget(replica)
        return made

    def grow(self, name: str, size: int) -> None:
        """Make a resource ``size`` KiB large, as `drbdadm resize --assume-clean` leaves it."""
        found = self.resources.get(name)
        if found is not None and size > found.size:
            found.size = size
            found.commit("resize")

    def remove(self, name: str) -> None:
        """Take a resource away; one that is not there is fine."""
        found = self.resources.pop(name, None)
        if found is not None:
            found.remove()

    def _address(self, host: str) -> str:
        node = self._world.cluster.find("v1", "Node", "", host) or {}
        found = [a["address"] for a in deep(node, "status", "addresses") or ()]
        return str(found[0]) if found else ""

    # -- hosts come and go

    def host_stops(self, host: str, *, loses_memory: bool) -> None:
        """A host stands still; with ``loses_memory`` its kernel is gone as well."""
        self._down.add(host)
        for resource in self.resources.values():
            for one, other in resource.pairs():
                if host in (one.host, other.host):
                    resource.links.cut_off(one, other)
            if loses_memory:
                for replica in resource.replicas:
                    if replica.host == host and replica.up:
                        resource.forget(replica)

    def host_goes_on(self, host: str) -> None:
        """A host that stood still goes on with all that it holds."""
        self._down.discard(host)
        self._look_at_wires()

    def host_boots(self, host: str) -> str:
        """A host's kernel starts afresh; the new boot id."""
        self._down.discard(host)
        kernel = self.kernel(host)
        kernel.boot(self._boots)
        return kernel.boot_id

    def satellite_up(self, host: str) -> None:
        """LINSTOR's satellite on a host brings its resources up."""
        for resource in tuple(self.resources.values()):
            for replica in resource.replicas:
                if replica.host == host and not replica.up:
                    drbd_verbs.start(resource, replica)

    # -- wires

    def cut(self, one: str, other: str, *, carrier: bool) -> None:
        """Cut the wire between two hosts; with ``carrier`` both see that theirs is gone."""
        before = self._passing()
        self.wires.cut[frozenset((one, other))] = carrier
        self._were_cut.add(frozenset((one, other)))
        if carrier:
            self._say_carrier((one, other), "Down")
        self._compare(before)

    def lose(self, one: str, other: str, share: float) -> None:
        """Lose a share of the frames from one host to another; 0 ends that."""
        before = self._passing()
        self.wires.lost[one, other] = share
        self._compare(before)

    def delay(self, one: str, other: str, seconds: float) -> None:
        """Have frames from one host to another come later; 0 ends that."""
        before = self._passing()
        self.wires.late[one, other] = seconds
        self._compare(before)

    def heal(self) -> None:
        """Every wire as it was."""
        before = self._passing()
        gone = [pair for pair, carrier in self.wires.cut.items() if carrier]
        self.wires = Wires()
        for pair in gone:
            self._say_carrier(tuple(sorted(pair)), "Up")
        self._compare(before)

    def _say_carrier(self, hosts: tuple[str, ...], state: str) -> None:
        for host in hosts:
            self.kernel(host).log(f"{_CARRIER}: Link is {state}")

    def _passing(self) -> Mapping[tuple[str, str], bool]:
        hosts = self.hosts()
        return {(a, b): self.reaches(a, b) for a in hosts for b in hosts if a < b}

    def _compare(self, before: Mapping[tuple[str, str], bool]) -> None:
        for (one, other), passed in before.items():
            passes = self.reaches(one, other)
            if passes != passed:
                self._tell(one, other, passes=passes)

    def _look_at_wires(self) -> None:
        for (one, other), passes in self._passing().items():
            if passes:
                self._tell(one, other, passes=True)

    def _tell(self, one: str, other: str, *, passes: bool) -> None:
        for resource in tuple(self.resources.values()):
            for a, b in resource.pairs():
                if {a.host, b.host} == {one, other}:
                    (resource.links.restored if passes else resource.links.cut_off)(a, b)


def _below(name: str) -> str:
    """The device below a replica: a ZFS volume of the class's pool, as LINSTOR names it."""
    return f"/dev/zvol/data/{name}_00000"
