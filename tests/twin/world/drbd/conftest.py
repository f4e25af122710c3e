"""Three hosts with wires between them, and the captures' tour of a DRBD resource on them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest

from harness.twin.engine import Engine
from harness.twin.world import drbd_report, drbd_verbs
from harness.twin.world.drbd_resource import Node, Resource, Spoilt
from harness.twin.world.drbd_state import Replica, Settings
from harness.twin.world.hostkernel import HostKernel

# The options of the captures: lab/qemu_drbd.md, resource file and "DRBD 9 for comparison".
CAPTURED = Settings(
    ping_int=2,
    ping_timeout=10,
    timeout=20,
    connect_int=3,
    on_suspended_primary_outdated="disconnect",
    rr_conflict="disconnect",
    rate=4000,
)
SIZE = 65496  # KiB, as there


class Ground:
    """The hosts n1, n2 and n3."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.rng = random.Random(7)
        self.spoilt = Spoilt()
        self.off: set[str] = set()
        self.cut: set[frozenset[str]] = set()
        self._kernels = {
            name: HostKernel(name, "boot", lambda: self.engine.now, age=30.0, release="6.18")
            for name in ("n1", "n2", "n3")
        }

    def runs(self, host: str) -> bool:
        return host not in self.off

    def reaches(self, one: str, other: str) -> bool:
        apart = frozenset((one, other)) in self.cut
        return self.runs(one) and self.runs(other) and not apart

    def connects(self, one: str, other: str) -> bool:
        return self.reaches(one, other)

    def kernel(self, host: str) -> HostKernel:
        return self._kernels[host]


class Tour:
    """A resource ``r0`` on three nodes, and what one does with it."""

    def __init__(self, settings: Settings = CAPTURED) -> None:
        self.ground = Ground()
        self.engine = self.ground.engine
        nodes = [Node(f"n{i}", f"ipv4:10.77.0.{i}:7789", "/dev/vda") for i in (1, 2, 3)]
        self.resource = Resource("r0", 0, SIZE, nodes, self.ground, settings)
        self.n1, self.n2, self.n3 = self.resource.replicas

    def up(self) -> Tour:
        """Configured everywhere, as after create-md."""
        for replica in self.resource.replicas:
            drbd_verbs.start(self.resource, replica)
        self.run(10)
        return self

    def ready(self) -> Tour:
        """Everywhere in sync, n1 Primary."""
        self.resource.establish()
        self.verb("primary", self.n1)
        return self

    def run(self, seconds: float) -> None:
        self.engine.run_until(self.engine.now + seconds)

    def until(self, done: Callable[[], bool], within: float = 60.0) -> None:
        self.engine.run_until(self.engine.now + within, stop=done)
        assert done(), f"not within {within} s"

    def verb(self, name: str, replica: Replica, *flags: str) -> None:
        drbd_verbs.VERBS[name][0](self.resource, replica, flags, "")

    def isolate(self, host: str) -> None:
        for one, other in self.resource.pairs():
            if host in (one.host, other.host):
                self.ground.cut.add(frozenset((one.host, other.host)))
                self.resource.links.cut_off(one, other)

    def cut(self, a: str, b: str) -> None:
        self.ground.cut.add(frozenset((a, b)))
        for one, other in self.resource.pairs():
            if {one.host, other.host} == {a, b}:
                self.resource.links.cut_off(one, other)

    def heal(self) -> None:
        healed, self.ground.cut = self.ground.cut, set()
        for one, other in self.resource.pairs():
            if frozenset((one.host, other.host)) in healed:
                self.resource.links.restored(one, other)

    def write(self, replica: Replica, offset: int, data: bytes) -> list[str]:
        """Write; a list that holds the outcome ("" or an errno's words) once there is one."""
        outcome: list[str] = []
        self.resource.io.write(replica, offset, data, outcome.append)
        return outcome

    def read(self, replica: Replica, offset: int, length: int) -> bytes:
        got: list[bytes] = []
        self.resource.io.read(replica, offset, length, lambda data, _: got.append(data))
        assert got, "the read stands still"
        return got[0]

    def json(self, replica: Replica) -> str:
        return drbd_report.json_text([(self.resource, replica)])

    def text(self, replica: Replica, *, full: bool = False) -> str:
        return drbd_report.text(self.resource, replica, verbose=full, statistics=full)

    def log(self, host: str) -> str:
        return self.ground.kernel(host).dmesg()


@pytest.fixture
def tour() -> Tour:
    return Tour()


@pytest.fixture
def another_tour() -> Callable[..., Tour]:
    """With other options than the captures'."""
    return lambda **changes: Tour(replace(CAPTURED, **changes))
