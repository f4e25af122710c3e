"""Exec, console and followed logs against the twin's own servers, on its virtual time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.clock import VirtualClock
from harness.httptime import HttpTimeSource
from harness.reach.access import client_from_text
from harness.reach.capture import How
from harness.reach.console import Console
from harness.reach.errors import ApiRefused
from harness.reach.execs import run_in_pod
from harness.reach.kube import Kube
from harness.reach.logs import follow_logs
from harness.twin.apiserver.execresult import ExecResult
from harness.twin.apiserver.kubeconfigs import kubeconfig
from harness.twin.apiserver.tls import Authority
from harness.twin.lab import Options, Twin
from tests.twin.apiserver.conftest import Cluster

NAMESPACE = "tenant-hil"
POOL = Path(__file__).parents[2] / "docs/examples/pool.yaml"
VMI = ("kubevirt.io/v1", "VirtualMachineInstance")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster(Authority())
    made.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    yield made
    made.close()


@pytest.fixture
def served(cluster: Cluster) -> Iterator[Kube]:
    """A client of one API server whose programs are scripted."""
    cluster.pod()
    certificate, key = cluster.authority.client("root", ("system:masters",))
    config = kubeconfig(
        {"admin": (cluster.server.url, cluster.authority.ca_pem, certificate, key)}, "admin"
    )
    client = client_from_text(yaml.safe_dump(config))
    yield Kube("twin", client, _Still())
    client.rest_client.close()


class _Still(VirtualClock):
    """Virtual time that nobody moves."""

    def __init__(self) -> None:
        super().__init__(_Nowhere())


class _Nowhere:
    def settle(self) -> Any:
        from harness.clock import Moment

        return Moment(1767225600.0, 1)

    def advance(self, until: float) -> Any:
        raise AssertionError("nobody waits here")


def test_64_megabytes_of_output(cluster: Cluster, served: Kube) -> None:
    data = bytes(range(256)) * (1 << 18)
    cluster.backend.results["cat"] = ExecResult(data, b"err", 3)
    reply = run_in_pod(served, "default", "web", ["cat"])
    assert (reply.exit_code, reply.stderr) == (3, b"err")
    assert reply.stdout == data


def test_20_execs_at_once_on_one_client(cluster: Cluster, served: Kube) -> None:
    def once(number: int) -> bool:
        reply = run_in_pod(served, "default", "web", ["tee"], stdin=b"%d" % number * 100_000)
        return reply.exit_code == 0 and reply.stdout == b"%d" % number * 100_000

    with ThreadPoolExecutor(20) as pool:
        assert all(pool.map(once, range(20)))


def test_a_dropped_exec_is_unknown(cluster: Cluster, served: Kube) -> None:
    cluster.backend.results["x"] = ExecResult(b"half", b"", 0, dropped=True)
    reply = run_in_pod(served, "default", "web", ["x"])
    assert (reply.exit_code, reply.stdout) == (None, b"half")
    assert "without an exit status, after 4 bytes" in reply.problem


@pytest.fixture
def twin(tmp_path: Path) -> Iterator[tuple[Kube, VirtualClock, Twin]]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def wait(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(30)

    async def make() -> Twin:
        made = Twin(Options(tmp_path))
        await made.start()
        return made

    running = wait(make())
    assert running.admin is not None
    source = HttpTimeSource(running.admin.url)
    clock = VirtualClock(source, patience=20)
    client = client_from_text((tmp_path / "kubeconfig").read_text(), "management")
    yield Kube("management", client, clock), clock, running
    client.rest_client.close()
    source.close()
    wait(running.close())
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def booting(kube: Kube, clock: VirtualClock) -> str:
    """The name of a VMI whose guest has just been powered on."""
    kube.create(yaml.safe_load(POOL.read_text()))
    for _ in range(600):
        clock.sleep(1)
        for found in kube.list(*VMI, NAMESPACE):
            if (found.get("status") or {}).get("phase") == "Running":
                return str(found["metadata"]["name"])
    raise AssertionError("no VMI runs")


def test_a_console_on_virtual_time(twin: tuple[Kube, VirtualClock, Twin]) -> None:
    kube, clock, running = twin
    name = booting(kube, clock)
    guest = running.world.guests.named(name)
    assert guest is not None
    printed: list[tuple[float, bytes]] = []
    guest.follow_console(lambda data: printed.append((running.engine.now, data)))
    console = Console.attach(kube, NAMESPACE, name)
    capture = console.capture
    done = capture.wait(b"install sequence: done", clock.deadline(600))
    assert done is not None
    assert done.at == clock.now()
    banner = capture.wait(b"Linux version", clock.deadline(600), since=done.end)
    assert banner is not None
    assert banner.at == clock.now() > done.at
    # the same bytes as the guest printed, each with the moment at which it was printed
    assert capture.text() == b"".join(data for _, data in printed)
    assert [piece.at for piece in capture.pieces()] == sorted({when for when, _ in printed})
    thief = Console.attach(kube, NAMESPACE, name)
    ending = capture.wait_for_end(clock.deadline(1))
    assert ending is not None
    assert (ending.how, console.ending) == (How.TAKEN, ending)
    assert capture.wait(b"\0", clock.deadline(60)) is None
    kube.delete("apps.cozystack.io/v1alpha1", "KubernetesNodes", NAMESPACE, "lab-gpu-l40s")
    gone = thief.capture.wait_for_end(clock.deadline(600))
    assert gone is not None
    assert gone.how is How.GONE
    with pytest.raises(ApiRefused):
        Console.attach(kube, NAMESPACE, name)


def test_a_followed_log_on_the_twin(twin: tuple[Kube, VirtualClock, Twin]) -> None:
    kube, clock, running = twin
    name = booting(kube, clock)
    (pod,) = (
        found["metadata"]["name"]
        for found in kube.list("v1", "Pod", NAMESPACE)
        if found["metadata"].get("labels", {}).get("vm.kubevirt.io/name") == name
    )
    found = running.world.management.find("v1", "Pod", NAMESPACE, pod)
    assert found is not None

    def say(number: int) -> None:
        running.world.hosts.say(found, f"line {number}")

    say(0)
    began = clock.now()
    for number in range(1, 21):
        running.engine.after(10.0 * number, lambda number=number: say(number), "a line")
    log = follow_logs(kube, NAMESPACE, pod, "compute", within=7200, tail=1)
    lines = log.lines()
    for number in range(21):
        assert next(lines) == b"line %d" % number
        assert clock.now() == began + 10.0 * number
    assert [piece.at - began for piece in log.capture.pieces()] == [10.0 * n for n in range(21)]
    kube.delete("apps.cozystack.io/v1alpha1", "KubernetesNodes", NAMESPACE, "lab-gpu-l40s")
    assert list(lines) == []
    assert log.ending is not None
    assert log.ending.how is How.FINISHED
    assert log.ending.at == clock.now() < began + 3600
