from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from harness.facts.fact import Unread
from harness.observe.joining_collectors import COLLECTORS, Collector, JoinContext
from harness.observe.joining_context import shortened, table
from harness.reach.errors import Unreachable

SPACE = "tenant-hil"
LABELS = {"cluster.x-k8s.io/deployment-name": "kubernetes-lab-plain"}


def obj(kind: str, version: str, name: str, **more: Any) -> dict[str, Any]:
    labels, owner = more.pop("labels", {}), more.pop("owner", None)
    owners = [{"kind": owner[0], "uid": owner[1], "name": name}] if owner else []
    metadata = {
        "name": name,
        "namespace": SPACE,
        "uid": f"{kind}-{name}",
        "labels": labels,
        "ownerReferences": owners,
    }
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def worker(**launcher: Any) -> list[dict[str, Any]]:
    """One worker's objects; ``launcher`` is what its pod has beside its names."""
    machine = obj(
        "Machine",
        "cluster.x-k8s.io/v1beta1",
        "m",
        labels=LABELS,
        spec={"infrastructureRef": {"name": "m"}},
    )
    infrastructure = "infrastructure.cluster.x-k8s.io/v1alpha1"
    volumes = [{"dataVolume": {"name": "m-disk"}}]
    template = {"template": {"spec": {"volumes": volumes}}}
    return [
        machine,
        obj("KubevirtMachine", infrastructure, "m"),
        obj("VirtualMachine", "kubevirt.io/v1", "m", spec=template),
        obj("VirtualMachineInstance", "kubevirt.io/v1", "m"),
        obj(
            "Pod",
            "v1",
            "virt-launcher-m",
            labels={
                "kubevirt.io": "virt-launcher",
                "kubevirt.io/created-by": "VirtualMachineInstance-m",
            },
            **launcher,
        ),
    ]


def context(cluster: Any, **more: Any) -> JoinContext:
    def tenant() -> Any:
        raise Unreachable("reach the tenant", "nobody", "wait")

    return JoinContext(cluster, tenant, SPACE, "lab", "plain", lambda: 5.0, **more)


def named(name: str) -> Collector:
    return next(one for one in COLLECTORS if one.name == name)


STATES = [
    ({"running": {}}, "runs: not wedged"),
    ({"waiting": {"reason": "CrashLoopBackOff"}}, "WEDGED"),
    ({"terminated": {"reason": "Error"}}, "WEDGED"),
    ({"terminated": {"reason": "Completed"}}, "a pod that another took the place of"),
    ({"waiting": {"reason": "PodInitializing"}}, "not decided"),
    ({}, "not decided"),
]


@pytest.mark.parametrize("where", ["initContainerStatuses", "containerStatuses"])
@pytest.mark.parametrize(("state", "said"), STATES)
def test_a_wedge_is_told_from_what_is_none(
    cluster: Callable[..., Any], state: dict[str, Any], said: str, where: str
) -> None:
    statuses = {where: [{"name": "guest-console-log", "state": state}]}
    lab = cluster(*worker(status={"phase": "Pending", **statuses}))
    found = named("console wedge").collect(context(lab))
    assert isinstance(found, str)
    assert said in found


def test_what_cannot_be_asked_is_unread_with_the_reason(cluster: Callable[..., Any]) -> None:
    found = named("tenant nodes").collect(context(cluster()))
    assert isinstance(found, Unread)
    assert "nobody" in found.reason


def test_only_the_machine_that_is_named_is_asked_about(cluster: Callable[..., Any]) -> None:
    lab = cluster(*worker(status={"phase": "Running"}))
    wedge = named("console wedge")
    assert "virt-launcher-m" in str(wedge.collect(context(lab, machine="m")))
    other = wedge.collect(context(lab, machine="another"))
    assert other == "no launcher pod: nothing can be wedged\n"


def test_a_console_that_is_captured_is_not_attached_to(cluster: Callable[..., Any]) -> None:
    lab = cluster(*worker(status={"phase": "Running"}))
    found = named("console").collect(context(lab, console=lambda vmi: f"boot of {vmi}"))
    assert "boot of m" in str(found)


def test_a_console_log_is_read_before_anybody_attaches(cluster: Callable[..., Any]) -> None:
    spec = {"initContainers": [{"name": "guest-console-log"}]}
    logs = {f"{SPACE}/virt-launcher-m:guest-console-log": "maintenance"}
    lab = cluster(*worker(spec=spec, status={"phase": "Running"}), logs=logs)
    assert "maintenance" in str(named("console").collect(context(lab)))


def test_a_host_without_a_key_is_said_to_be_not_asked(cluster: Callable[..., Any]) -> None:
    lab = cluster(*worker(spec={"nodeName": "hv-1"}, status={"phase": "Running"}))
    found = named("vgif of the hosts").collect(context(lab))
    assert "host hv-1" in str(found)
    assert "gives no SSH key" in str(found)


def test_a_host_that_refuses_does_not_stop_the_others(cluster: Callable[..., Any]) -> None:
    def refuse() -> Any:
        raise Unreachable("log in to hv-1", "a host key that is not known", "pin it")

    lab = cluster(*worker(spec={"nodeName": "hv-1"}, status={"phase": "Running"}))
    hosts = {"hv-1": refuse, "hv-2": lambda: nullcontext(None)}
    found = named("vgif of the hosts").collect(context(lab, hosts=hosts))
    assert "a host key that is not known" in str(found)


def test_every_collector_says_what_it_separates_and_is_bounded() -> None:
    assert len({one.name for one in COLLECTORS}) == len(COLLECTORS)
    assert len({one.file for one in COLLECTORS}) == len(COLLECTORS)
    for one in COLLECTORS:
        assert one.separates
        assert 0 < one.seconds <= 30
        assert 0 < one.most <= 1024 * 1024


def test_a_long_text_keeps_its_beginning_and_its_end() -> None:
    text = "begin" + "x" * 5000 + "end"
    found = shortened(text, 1000)
    assert found.startswith("begin")
    assert found.endswith("end")
    assert "4008 bytes left out" in found
    assert shortened("short", 1000) == "short"


def test_letters_of_several_bytes_are_not_torn() -> None:
    found = shortened("ä" * 2000, 1001)
    assert "\ufffd" not in found
    assert found.encode()


def test_a_table_keeps_its_columns() -> None:
    assert table(("A", "LONG"), [("x", ""), ("yyy", "z")]) == "A    LONG\nx    -\nyyy  z\n"
