"""What a worker's reboot leaves on its Node and pods, and in Events that do not stay."""

from __future__ import annotations

from typing import Any

import pytest

from harness.twin.world.worker_node import NOT_READY

BUDGET = 900.0
HOUR = 3600.0


@pytest.fixture
def joined(lab: Any) -> Any:
    """A lab with one worker, whose pods have all come up."""
    lab.pool()
    lab.run_until(lab.joined, BUDGET)
    lab.run(120)
    return lab


def counts(lab: Any) -> dict[str, set[int]]:
    """By pod of the worker, how often each of its containers was started again."""
    return {
        pod["metadata"]["name"]: {one["restartCount"] for one in pod["status"]["containerStatuses"]}
        for pod in lab.tenant.all("v1", "Pod")
        if pod["spec"].get("nodeName") and pod["status"].get("containerStatuses")
    }


def reboot(lab: Any) -> str:
    (guest,) = lab.world.guests.all()
    before = lab.nodes()[0]["status"]["nodeInfo"]["bootID"]
    guest.reboot()
    lab.run_until(lambda: lab.nodes()[0]["status"]["nodeInfo"]["bootID"] != before, 120)
    return str(lab.nodes()[0]["status"]["nodeInfo"]["bootID"])


def test_all_pods_of_a_node_are_started_again_with_it_each_once(joined: Any) -> None:
    before = counts(joined)
    assert len(before) > 5
    for times in (1, 2):
        reboot(joined)
        joined.run(180)
        assert counts(joined) == {name: {times} for name in before}


def test_the_sandbox_of_each_pod_changed_and_the_node_says_that_it_rebooted(joined: Any) -> None:
    pods, boot_id = set(counts(joined)), reboot(joined)
    told = joined.events("SandboxChanged", joined.tenant)
    assert {one["involvedObject"]["name"] for one in told} == pods
    (rebooted,) = joined.events("Rebooted", joined.tenant)
    assert (rebooted["type"], rebooted["involvedObject"]["kind"]) == ("Warning", "Node")
    assert boot_id in rebooted["message"]


def test_pods_that_would_have_been_driven_out_are_spared_where_the_node_is_ready_in_time(
    joined: Any,
) -> None:
    reboot(joined)
    (node,) = joined.nodes()
    taints = [one for one in node["spec"]["taints"] if one["key"] == NOT_READY]
    assert [one["effect"] for one in taints] == ["NoExecute"]
    assert joined.events("TaintManagerEviction", joined.tenant) == []
    joined.run(120)
    assert not joined.nodes()[0]["spec"].get("taints")
    told = joined.events("TaintManagerEviction", joined.tenant)
    spared = {one["involvedObject"]["name"] for one in told}
    assert any(name.startswith("coredns-") for name in spared)
    daemons = [name for name in counts(joined) if name.startswith("cilium-")]
    assert daemons
    assert not spared & set(daemons), "a DaemonSet's pods stay whatever comes"
    for one in told:
        about = one["involvedObject"]
        text = f"Cancelling deletion of Pod {about['namespace']}/{about['name']}"
        assert (one["type"], one["message"]) == ("Normal", text)


def test_a_node_that_joins_drives_nobody_out(joined: Any) -> None:
    assert joined.events("TaintManagerEviction", joined.tenant) == []


def test_events_are_gone_an_hour_after_they_were_last_said(joined: Any) -> None:
    reboot(joined)
    seen: list[str] = []
    joined.tenant.subscribe(lambda change: seen.append(f"{change.type} {change.obj['kind']}"))
    joined.run(HOUR - 60)
    assert joined.events("Rebooted", joined.tenant)
    joined.run(180)
    assert not joined.events("Rebooted", joined.tenant)
    assert "DELETED Event" in seen, "a watch is told"


def test_events_of_one_minute_expire_together_and_those_said_again_later(joined: Any) -> None:
    gone: list[tuple[float, str]] = []

    def hear(change: Any) -> None:
        if (change.type, change.obj["kind"]) == ("DELETED", "Event"):
            gone.append((joined.engine.now, change.obj["reason"]))

    reboot(joined)
    joined.run(600)
    reboot(joined)
    said = joined.engine.now
    joined.tenant.subscribe(hear)
    joined.run(HOUR + 600)
    restarts = [at for at, reason in gone if reason == "SandboxChanged"]
    assert len(restarts) > 5
    assert len(set(restarts)) == 1, "they were counted up in the second reboot, all at once"
    assert said + HOUR - 1 <= restarts[0] <= said + HOUR + 60
    moments = {at for at, _ in gone}
    assert len(moments) <= 5 < len(gone)


@pytest.mark.parametrize(("kept", "there"), [(300.0, False), (HOUR, True)])
def test_a_cluster_may_keep_events_for_less(lab: Any, kept: float, *, there: bool) -> None:
    for cluster in lab.world.tenant_clusters.values():
        cluster.events.retention = kept
    lab.pool()
    lab.run_until(lab.joined, BUDGET)
    lab.run(400)
    assert bool(lab.events("RegisteredNode", lab.tenant)) is there
