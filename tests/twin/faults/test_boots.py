"""What the faults of boots do, as both clusters show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.twin.faults.boots import REPLACED_AT, SHORT_LIVED
from harness.twin.world import conditions
from harness.twin.world.images import VANILLA

CAPI = "cluster.x-k8s.io/v1beta1"
Make = Callable[[str], Any]


def made(faulty: Make, fault: str) -> Any:
    """A lab under one fault with one worker, and every version of its Node from the first."""
    lab = faulty(fault)
    lab.nodes = []

    def hear(change: Any) -> None:
        if change.obj["kind"] == "Node" and "status" in change.obj and change.type != "DELETED":
            ready = conditions.holds(change.obj, "Ready")
            lab.nodes.append((change.obj["status"]["nodeInfo"]["bootID"], ready))

    lab.tenant.subscribe(hear)
    lab.pool("plain", gpu="", schematic=VANILLA)
    lab.until(lambda: any(ready for _, ready in lab.nodes))
    return lab


def machines(lab: Any) -> list[str]:
    return [one["metadata"]["name"] for one in lab.world.cluster.all(CAPI, "Machine")]


def test_a_worker_is_replaced_once_and_late(faulty: Make) -> None:
    lab = made(faulty, "vmi-recreated")
    (first,) = machines(lab)
    lab.run(REPLACED_AT - 300)
    assert machines(lab) == [first]
    lab.until(lambda: machines(lab) not in ([first], []) and len(machines(lab)) == 1, 900.0)
    events = lab.world.cluster.all("v1", "Event")
    (told,) = [one for one in events if one["reason"] == "MachineMarkedUnhealthy"]
    assert told["involvedObject"]["name"] == first
    boots = {boot for boot, _ in lab.nodes}
    assert len(boots) == 1, "the old boot never ended under its own identity"
    (second,) = machines(lab)
    lab.until(lambda: len({boot for boot, _ in lab.nodes}) == 2)
    lab.run(2 * REPLACED_AT)
    assert machines(lab) == [second]


def test_an_installation_may_show_two_boots_before_the_node_is_ready(faulty: Make) -> None:
    lab = made(faulty, "install-reboot-flagged")
    boots = list(dict.fromkeys(boot for boot, _ in lab.nodes))
    assert len(boots) == 2
    assert not any(ready for boot, ready in lab.nodes if boot == boots[0])
    assert [one for one in lab.tenant.all("v1", "Event") if one["reason"] == "Rebooted"]
    lab.run(2 * 3600.0)
    assert lab.guest.boot_id == boots[1], "and stays on the second"


@pytest.mark.parametrize(("fault", "there"), [("events-expired", False), ("boot-id-repeats", True)])
def test_events_of_the_joining_are_gone_or_there(faulty: Make, fault: str, *, there: bool) -> None:
    lab = made(faulty, fault)
    lab.run(SHORT_LIVED + 100)
    for cluster in (lab.world.cluster, *lab.world.tenant_clusters.values()):
        events = cluster.all("v1", "Event")
        told = [one for one in events if one["reason"] in ("RegisteredNode", "Scheduled")]
        assert bool(told) is there
