from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.bringup.watched import WatchedPool
from harness.clock import WallClock
from harness.inventory.loading import load
from harness.inventory.manifest import kubernetes_nodes
from harness.reach.access import Timeouts, client_from_file
from harness.reach.capture import How
from harness.reach.errors import ApiRefused
from harness.reach.kube import Kube
from harness.reach.reattaching import EVERY, LastingConsole
from harness.session.labs import LabChoice
from harness.twin.process import TwinProcess
from tests.reach.serial_consoles import CONSOLE, scripted

INVENTORY = Path(__file__).parents[2] / "inventory" / "twin.yaml"
SPACE = "tenant-hil"
KIND = ("kubevirt.io/v1", "VirtualMachineInstance", SPACE)


class Moved(WallClock):
    """Real time, and as much more as a test adds."""

    more = 0.0

    def now(self) -> float:
        return super().now() + self.more


@pytest.fixture
def clock() -> Moved:
    return Moved()


@pytest.fixture
def kube(server: Any, clock: Moved) -> Iterator[Kube]:
    client = client_from_file(server.write(server.kubeconfig()))
    yield Kube("management", client, clock, timeouts=Timeouts(connect=5.0, read=5.0))
    client.rest_client.close()


def waits_for(console: LastingConsole, text: bytes) -> bool:
    return console.capture.wait(text, WallClock().deadline(10)) is not None


def test_another_vmi_of_the_name_is_taken_up_with_a_seam(
    server: Any, kube: Kube, vmi: dict[str, Any], clock: Moved
) -> None:
    server.routes[f"GET {CONSOLE}"] = scripted(b"first\r\n", "end")
    vmi["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    console = LastingConsole.attach(kube, "ns", "vm")
    assert waits_for(console, b"first")
    del vmi["metadata"]["deletionTimestamp"]
    vmi["metadata"]["uid"] = "u-2"
    server.routes[f"GET {CONSOLE}"] = scripted(b"second\r\n", "wait")
    clock.more = EVERY
    assert waits_for(console, b"second")
    (seam,) = console.seams
    assert (seam.before, seam.after, console.uid) == ("u-1", "u-2", "u-2")
    said = console.capture.text()
    assert said.index(b"first") < said.index(b"VMI u-1 went; attached to u-2")
    assert console.ending is None
    console.close()
    assert console.ending is not None
    assert console.ending.how is How.OURS


def test_while_none_has_taken_its_place_it_goes_on_and_at_last_says_that_it_went(
    server: Any, kube: Kube, vmi: dict[str, Any], clock: Moved
) -> None:
    server.routes[f"GET {CONSOLE}"] = scripted(b"first\r\n", "end")
    vmi["status"]["phase"] = "Succeeded"
    console = LastingConsole.attach(kube, "ns", "vm")
    assert waits_for(console, b"first")
    clock.more = EVERY
    assert not console.capture.wait_for_more(console.capture.size, 0.3)
    assert (console.ending, console.seams) == (None, [])
    console.close()
    assert console.ending is not None
    assert console.ending.how is How.GONE


def test_the_very_vmi_that_is_going_is_not_attached_to_again(
    server: Any, kube: Kube, vmi: dict[str, Any], clock: Moved
) -> None:
    server.routes[f"GET {CONSOLE}"] = scripted(b"first\r\n", "end")
    vmi["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    console = LastingConsole.attach(kube, "ns", "vm")
    assert waits_for(console, b"first")
    clock.more = EVERY
    assert not console.capture.wait_for_more(console.capture.size, 0.3)
    assert (console.seams, server.requests(CONSOLE)) == ([], 1)
    console.close()


def test_a_stolen_console_is_not_taken_back(
    server: Any, kube: Kube, vmi: dict[str, Any], clock: Moved
) -> None:
    server.routes[f"GET {CONSOLE}"] = scripted(b"first\r\n", "end")
    console = LastingConsole.attach(kube, "ns", "vm")
    ending = console.capture.wait_for_end(WallClock().deadline(10))
    assert ending is not None
    assert (ending.how, ending.early) == (How.TAKEN, True)
    clock.more = EVERY
    console.settle()
    assert server.requests(CONSOLE) == 1


def test_a_machine_that_was_migrated_is_attached_to_on_its_new_host(
    server: Any, kube: Kube, vmi: dict[str, Any], clock: Moved
) -> None:
    server.routes[f"GET {CONSOLE}"] = scripted(b"first\r\n", "end")
    vmi["status"]["nodeName"] = "h1"
    vmi["status"]["migrationState"] = {"startTimestamp": "2026-01-01T00:00:00Z"}
    console = LastingConsole.attach(kube, "ns", "vm")
    assert waits_for(console, b"first")
    while console._console.ending is None:
        console.capture.wait_for_more(console.capture.size, 0.05)
    clock.more = EVERY
    console.settle()
    assert (console.ending, console.seams, server.requests(CONSOLE)) == (None, [], 1)
    vmi["status"]["nodeName"] = "h2"
    server.routes[f"GET {CONSOLE}"] = scripted(b"second\r\n", "wait")
    clock.more = 2 * EVERY
    assert waits_for(console, b"second")
    (seam,) = console.seams
    assert (seam.before, seam.after) == ("u-1", "u-1")
    assert b"VMI u-1 was migrated; attached to it anew " in console.capture.text()
    console.close()


def test_a_machine_that_does_not_run_is_refused(
    server: Any, kube: Kube, vmi: dict[str, Any]
) -> None:
    with pytest.raises(ApiRefused):
        LastingConsole.attach(kube, "ns", "vm")


def test_on_virtual_time_nothing_of_the_successors_boot_is_missed(tmp_path: Path) -> None:
    """It is taken up in the turn in which it runs."""
    process = TwinProcess(tmp_path, seed=1, faults=())
    choice = LabChoice(load(INVENTORY), "test", tmp_path, attach=tmp_path)
    try:
        with choice.open("cloned") as lab:
            lab.management.create(kubernetes_nodes(lab.inventory, "cloned"))
            WatchedPool.start(lab, "cloned")  # time stops at what somebody watches
            lab.clock.sleep(150.0, "workers")
            names = sorted(one["metadata"]["name"] for one in lab.management.list(*KIND))
            console = LastingConsole.attach(lab.management, SPACE, names[0])
            lab.management.delete(*KIND, names[0])
            found = console.capture.wait(b"Linux version", lab.clock.deadline(600.0))
            console.close()
    finally:
        process.close()
    assert found is not None
    (seam,) = console.seams
    assert seam.offset < found.start
    assert 0 < seam.at - seam.ended < 60
    assert f"VMI {seam.before} went; attached to {seam.after}".encode() in console.capture.text()
