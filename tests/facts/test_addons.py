"""Reading a tenant's addons: objects, what nslookup printed, what is mounted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts import addons
from harness.facts.addons import NameLookup
from harness.facts.fact import Unread
from harness.facts.reply import Output

BUSYBOX = (
    "Server:\t\t10.95.0.10\nAddress:\t10.95.0.10:53\n\n\n"
    "Name:\tkubernetes.default.svc.cluster.local\nAddress: 10.95.0.1\n\n"
)
BIND = (
    "Server:\t\t10.95.0.10\nAddress:\t10.95.0.10#53\n\n"
    "Name:\tkubernetes.default.svc.cluster.local\nAddress: 10.95.0.1\n"
)
OLD = (
    "Server:    10.95.0.10\nAddress 1: 10.95.0.10 kube-dns.kube-system.svc.cluster.local\n\n"
    "Name:      kubernetes.default.svc.cluster.local\nAddress 1: 10.95.0.1 kubernetes\n"
)
MISSING = (
    "Server:\t\t10.95.0.10\nAddress:\t10.95.0.10:53\n\n"
    "** server can't find kubernetes.default.svc.cluster.local: NXDOMAIN\n\n"
)


def looked_up(text: str, code: int | None = 0) -> Any:
    output = Output(("nslookup",), code, text, "", "" if code is not None else "closed")
    return addons.read_lookup(
        output, at=1.0, source="pod", service="10.95.0.10", wanted="10.95.0.1"
    )


@pytest.mark.parametrize("text", [BUSYBOX, BIND])
def test_an_answer_names_server_and_address(text: str) -> None:
    found = looked_up(text)
    assert isinstance(found, NameLookup)
    assert (found.server, found.found) == ("10.95.0.10", ("10.95.0.1",))


def test_the_servers_own_address_is_no_answer() -> None:
    found = looked_up(MISSING, 1)
    assert (found.exit_code, found.server, found.found) == (1, "10.95.0.10", ())


def test_an_older_busybox_is_read_too() -> None:
    assert looked_up(OLD).found == ("10.95.0.1",)


@pytest.mark.parametrize("code", [None, 126, 127])
def test_a_program_that_did_not_run_is_no_answer(code: int | None) -> None:
    assert isinstance(looked_up("nslookup: not found", code), Unread)


@given(st.text(max_size=80))
def test_no_text_breaks_the_readers(text: str) -> None:
    looked_up(text)
    addons.mounted_at("/data", text)


def pod(node: str = "n1", owner: str = "cilium", ready: str = "True", **more: Any) -> Any:
    return {
        "metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": owner}], **more},
        "spec": {"nodeName": node},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]},
    }


def node(**spec: Any) -> Any:
    state = [{"type": "NetworkUnavailable", "status": "False"}]
    return {"metadata": {"name": "n1"}, "spec": spec, "status": {"conditions": state}}


@pytest.mark.parametrize(
    ("pods", "told"),
    [
        ([pod()], "Ready"),
        ([pod(ready="False"), pod()], "Ready"),
        ([pod(ready="False")], "Running"),
        ([pod(deletionTimestamp="2026-01-01T00:00:00Z")], "Terminating"),
        ([pod("n2")], ""),
        ([pod(owner="cilium-envoy")], ""),
        ([], ""),
    ],
)
def test_the_agent_is_the_daemon_sets_pod_on_this_node(pods: Any, told: str) -> None:
    assert addons.node_addons(node(), pods, None, None).agent == told


def test_a_nodes_driver_taint_and_figures() -> None:
    csi = {"spec": {"drivers": [{"name": "csi.kubevirt.io"}]}}
    usage = {"timestamp": "1970-01-01T00:01:00Z", "usage": {"memory": "1Mi", "cpu": "5m"}}
    taints = [{"key": "node.cilium.io/agent-not-ready", "effect": "NoSchedule"}]
    found = addons.node_addons(node(taints=taints), [], csi, usage)
    assert (found.drivers, found.waits, found.network) == (("csi.kubevirt.io",), True, "False")
    assert (found.measured, found.usage) == (60.0, (("cpu", "5m"), ("memory", "1Mi")))
    bare = addons.node_addons({"metadata": {"name": "n1"}}, [], {"spec": {"drivers": None}}, None)
    assert (bare.drivers, bare.measured, bare.network, bare.waits) == ((), None, "", False)


def test_a_waiting_container_says_why() -> None:
    waiting = {"state": {"waiting": {"reason": "ErrImagePull"}}}
    assert addons.standing({"status": {"containerStatuses": [waiting]}}) == "ErrImagePull"
    assert addons.standing({}) == "unknown"


def slices(*, ready: bool) -> Any:
    labels = {"kubernetes.io/service-name": "kube-dns"}
    endpoint = {"addresses": ["10.243.0.4"], "conditions": {"ready": ready}}
    return [{"metadata": {"labels": labels}, "endpoints": [endpoint]}, {"metadata": {}}]


def test_only_what_is_ready_is_behind_a_service() -> None:
    service = {"metadata": {"name": "kube-dns"}, "spec": {"clusterIP": "10.95.0.10"}}
    assert addons.backend(service, slices(ready=True)).behind == ("10.243.0.4",)
    assert addons.backend(service, slices(ready=False)).behind == ()
    other = {"metadata": {"name": "another"}}
    assert addons.backend(other, slices(ready=True)).behind == ()


def test_the_default_class_is_the_only_one_marked() -> None:
    mark = {"storageclass.kubernetes.io/is-default-class": "true"}
    first = {"metadata": {"name": "a", "annotations": mark}}
    assert addons.default_class([first, {"metadata": {"name": "b"}}]) == "a"
    assert addons.default_class([first, {"metadata": {"name": "b", "annotations": mark}}]) == ""
    assert addons.default_class([]) == ""


def test_what_is_mounted_last_at_a_path() -> None:
    text = "overlay / overlay rw 0 0\n/dev/sda /data ext4 rw 0 0\n/dev/sdb /data2 ext4 rw 0 0\nx\n"
    assert addons.mounted_at("/data", text) == ("/dev/sda", "ext4")
    assert addons.mounted_at("/other", text) == ("", "")


def test_replicas_of_both_kinds() -> None:
    state = [{"type": "Available", "status": "True"}]
    deployment = {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {"replicas": 2},
                  "status": {"readyReplicas": 1, "conditions": state}}  # fmt: skip
    assert addons.replicas(deployment) == addons.Replicas("d", 2, 1, "True")
    daemon = {"kind": "DaemonSet", "metadata": {"name": "s"},
              "status": {"desiredNumberScheduled": 3, "numberReady": 2}}  # fmt: skip
    assert addons.replicas(daemon) == addons.Replicas("s", 3, 2, "")
