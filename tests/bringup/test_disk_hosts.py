"""Which storage nodes may be taken away beneath a worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.bringup.disk_hosts import Means, plan
from harness.facts.diskfailover import StorageHost, StorageHosts
from harness.facts.fact import Origin

OURS = ("tenant-hil/w-1",)
REPLICAS = ("hv-1", "hv-2", "hv-3")
ALL = Means(power=True, link=True)


def host(name: str, **more: Any) -> StorageHost:
    given: dict[str, Any] = {
        "ready": True,
        "control": False,
        "answers": False,
        "tenant": False,
        "machines": OURS if name == "hv-1" else (),
    }
    return StorageHost(name, **{**given, **more})


def hosts(**changed: dict[str, Any]) -> StorageHosts:
    found = [host(one, **changed.get(one.replace("-", "_"), {})) for one in REPLICAS]
    return StorageHosts(Origin(0.0, "management", ""), tuple(found))


def planned(found: StorageHosts, policy: str = "suspend-io", means: Means = ALL) -> Any:
    return plan(found, "hv-1", REPLICAS, policy, means, OURS)


def test_with_nothing_in_the_way_nodes_are_switched_off() -> None:
    found = planned(hosts())
    assert (found.victim, found.how, found.others) == ("hv-2", "power", ("hv-2", "hv-3"))
    assert found.rank == 3


def test_a_node_with_somebodys_machine_is_passed_over() -> None:
    found = planned(hosts(hv_2={"machines": ("tenant-x/vm",)}))
    assert (found.victim, found.how) == ("hv-3", "wires")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"machines": ("tenant-x/vm",)}, "hv-2 runs tenant-x/vm"),
        ({"answers": True}, "the management API is reached at hv-2 itself"),
    ],
)
def test_why_a_node_may_not_be_lost(changed: dict[str, Any], said: str) -> None:
    found = planned(hosts(hv_2=changed, hv_3={"machines": ("tenant-y/vm",)}))
    assert (found.victim, found.rank) == ("", 1)
    assert said in found.why and "hv-3 runs tenant-y/vm" in found.why


CONTROL = {"control": True}


def test_of_three_control_planes_one_may_go_and_two_may_not() -> None:
    found = planned(hosts(hv_1=CONTROL, hv_2=CONTROL, hv_3=CONTROL))
    assert (found.victim, found.how) == ("hv-2", "wires")
    without = planned(hosts(hv_1=CONTROL, hv_2=CONTROL, hv_3=CONTROL), means=Means(True, False))
    assert without.how == ""
    assert "there are 1 of 3 control plane nodes, no majority" in without.why_not
    assert "cannot cut the wires" in without.why_not


def test_a_control_plane_that_is_down_already_counts() -> None:
    found = planned(hosts(hv_1=CONTROL, hv_2=CONTROL, hv_3={**CONTROL, "ready": False}))
    assert found.victim == "" and "1 of 3 control plane nodes" in found.why


def test_the_only_control_plane_stays() -> None:
    found = planned(hosts(hv_2=CONTROL))
    assert found.victim == "hv-3" and found.how == "wires"


def test_the_tenants_only_control_plane_stays() -> None:
    found = planned(hosts(hv_2={"tenant": True}))
    assert found.victim == "hv-3"
    two = planned(hosts(hv_2={"tenant": True}, hv_3={"tenant": True}), means=Means(True, False))
    assert two.victim == "hv-2" and "the tenant's only control plane" in two.why_not


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        ("io-error", "an error would end the worker's file system"),
        ("", "its class asks for nothing without a quorum"),
        ("off", "its class asks for off without a quorum"),
    ],
)
def test_the_quorum_is_lost_only_where_the_class_suspends(policy: str, said: str) -> None:
    found = planned(hosts(), policy)
    assert (found.victim, found.how) == ("hv-2", "") and said in found.why_not


def test_two_replicas_make_no_quorum() -> None:
    found = plan(hosts(), "hv-1", REPLICAS[:2], "suspend-io", ALL, OURS)
    assert found.how == "" and "2 replicas make no quorum" in found.why_not


def test_wires_are_not_cut_beside_somebody_elses_machine() -> None:
    crowded = {"machines": (*OURS, "tenant-x/vm")}
    found = planned(hosts(hv_1=crowded, hv_2={"machines": ("tenant-z/vm",)}))
    assert found.how == "" and "hv-1 runs tenant-x/vm too" in found.why_not


def test_without_power_nothing_is_lost() -> None:
    found = planned(hosts(), means=Means(power=False, link=True))
    assert (found.victim, found.why) == ("", "this lab cannot switch its machines off")


def test_a_replica_on_no_node_of_the_cluster() -> None:
    some = hosts()
    found = planned(replace(some, hosts=some.hosts[:1]))
    assert found.victim == "" and "the management cluster has no Node hv-2" in found.why
