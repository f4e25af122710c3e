"""A hypervisor host asked, scripted and as the twin's hosts answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from harness.facts.fact import Unread
from harness.facts.hostsystem import CpuThrottle, CpuTimes, KvmVgif, KvmVgifAbsent, Virtual
from harness.facts.modules import ModuleTable
from harness.observe import guest, hostsystem
from harness.reach.nodeshell import Reply
from harness.twin.engine import Engine
from harness.twin.world.hostsystem import HostSystem
from harness.twin.world.hypervisors import Hypervisor
from harness.twin.world.world import World

UID = "0d4f1f5c-8f9f-4a8c-9a43-1f2b3c4d5e6f"
THROTTLED = "usage_usec 9\nnr_periods 10\nnr_throttled 5\nthrottled_usec 250000\n"
PLACES = [
    ("Burstable", f"kubepods/burstable/pod{UID}"),
    ("Guaranteed", f"kubepods/pod{UID}"),
    (
        "BestEffort",
        "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod"
        f"{UID.replace('-', '_')}.slice",
    ),
    ("Guaranteed", f"kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice"),
    ("Burstable", f"cpu,cpuacct/kubepods/burstable/pod{UID}"),
]


class Files:
    """A host that has these files."""

    where, root = "host hv-1", ""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        path = argv[1]
        if path not in self.files:
            said = f"cat: {path}: No such file or directory\n".encode()
            return Reply(tuple(argv), 1, b"", said, 1.0, 2.0)
        return Reply(tuple(argv), 0, self.files[path].encode(), b"", 1.0, 2.0)

    host = run


class Shell(Files):
    """A host of the twin."""

    def __init__(self, host: Hypervisor) -> None:
        super().__init__({})
        self._host = host

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        ran = self._host.run(" ".join(argv))
        return Reply(tuple(argv), ran.exit_code, ran.stdout, ran.stderr, 1.0, 2.0)

    host = run


@pytest.mark.parametrize(("qos", "place"), PLACES)
def test_a_pods_group_is_found_wherever_its_kubelet_has_it(qos: str, place: str) -> None:
    shell = Files({f"/sys/fs/cgroup/{place}/cpu.stat": THROTTLED})
    found = hostsystem.pod_throttle(shell, UID, qos)
    assert isinstance(found, CpuThrottle)
    assert found.share == 0.5
    assert place in found.origin.source


def test_a_pod_that_is_not_on_the_host_is_unknown() -> None:
    assert isinstance(hostsystem.pod_throttle(Files({}), UID, "Burstable"), Unread)


def test_the_twins_hosts_answer_as_hosts_do() -> None:
    world = World(Engine())
    shell = Shell(Hypervisor(world, "hv-1"))
    assert isinstance(hostsystem.vgif(shell), KvmVgifAbsent)
    virtual, times = hostsystem.virtual(shell), hostsystem.cpu_times(shell)
    assert isinstance(virtual, Virtual)
    assert not virtual.virtual
    assert isinstance(times, CpuTimes)
    assert times.steal_share() == 0.0


def test_a_nested_host_of_the_twin() -> None:
    world = World(Engine())
    world.hosts.systems["hv-2"] = HostSystem("amd", vgif=False, virtual=True, steal=0.1)
    shell = Shell(Hypervisor(world, "hv-2"))
    vgif, virtual, times = (
        ask(shell) for ask in (hostsystem.vgif, hostsystem.virtual, hostsystem.cpu_times)
    )
    assert isinstance(vgif, KvmVgif)
    assert isinstance(virtual, Virtual)
    assert isinstance(times, CpuTimes)
    assert (vgif.on, virtual.virtual) == (False, True)
    assert times.steal_share() == pytest.approx(0.1, abs=0.01)
    modules = guest.modules(shell)
    assert isinstance(modules, ModuleTable)
    assert modules.find("kvm_amd")
    assert not modules.find("kvm_intel")
