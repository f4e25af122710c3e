"""Workers as the tenant cluster sees them: joining, reboots, silence, pods."""

from __future__ import annotations

from typing import Any

import pytest

from harness.twin.apiserver.errors import ApiError
from harness.twin.world.backend import ClusterBackend
from harness.twin.world.objects import CAPI

BUDGET = 300.0
LEASE = "coordination.k8s.io/v1"


def condition(obj: Any, kind: str, field: str = "status") -> Any:
    found = [c for c in obj["status"]["conditions"] if c["type"] == kind]
    return found[0].get(field) if found else None


def create(store: Any, kind: str, obj: Any, namespace: str = "") -> Any:
    return store.create(store.registry.by_kind("v1", kind), obj, namespace=namespace)


def shell(node: str, *, privileged: bool = True, mounts: bool = True) -> Any:
    container: Any = {"name": "shell", "image": "busybox", "command": ["sleep", "2147483647"]}
    spec: Any = {
        "nodeName": node,
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    if privileged:
        container["securityContext"] = {"privileged": True}
    if mounts:
        container["volumeMounts"] = [{"name": "host", "mountPath": "/host"}]
        spec["volumes"] = [{"name": "host", "hostPath": {"path": "/"}}]
        spec["hostNetwork"] = True
    return {"metadata": {"generateName": "shell-"}, "spec": spec}


@pytest.fixture
def worker(lab: Any) -> Any:
    """A lab with one GPU worker that has joined."""
    lab.gpu_pool()
    lab.run_until(lab.joined, BUDGET)
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    create(lab.tenant, "Namespace", {"metadata": {"name": "shells", "labels": labels}})
    create(lab.tenant, "Namespace", {"metadata": {"name": "plain"}})
    return lab


def run_shell(lab: Any, **how: Any) -> Any:
    node = lab.nodes()[0]["metadata"]["name"]
    pod = create(lab.tenant, "Pod", shell(node, **how), "shells")
    name = pod["metadata"]["name"]
    lab.run_until(
        lambda: lab.tenant.find("v1", "Pod", "shells", name)["status"]["phase"] == "Running", 20
    )
    return lab.tenant.find("v1", "Pod", "shells", name)


def test_a_node_tells_its_system_and_beats(worker: Any) -> None:
    node = worker.nodes()[0]
    info = node["status"]["nodeInfo"]
    guest = worker.world.guests.named(node["metadata"]["name"])
    assert info["osImage"] == "Talos (v1.13.6)"
    assert info["kubeletVersion"] == "v1.35.0"
    assert info["bootID"] == guest.boot_id
    assert node["metadata"]["labels"]["gpu"] == "on"
    assert node["spec"]["providerID"] == f"kubevirt://{node['metadata']['name']}"
    assert "taints" not in node["spec"]
    machine = worker.one(CAPI, "Machine")
    notes = node["metadata"]["annotations"]
    assert notes["cluster.x-k8s.io/machine"] == machine["metadata"]["name"]

    def beat() -> str:
        name = node["metadata"]["name"]
        lease = worker.tenant.find(LEASE, "Lease", "kube-node-lease", name)
        return str(lease["spec"]["renewTime"])

    beats = set()
    for _ in range(6):
        worker.run(10)
        beats.add(beat())
    assert len(beats) == 6
    before = condition(worker.nodes()[0], "Ready", "lastHeartbeatTime")
    changed = condition(worker.nodes()[0], "Ready", "lastTransitionTime")
    worker.run(301)
    assert condition(worker.nodes()[0], "Ready", "lastHeartbeatTime") > before
    assert condition(worker.nodes()[0], "Ready", "lastTransitionTime") == changed


def test_a_node_joins_tainted_and_not_ready(lab: Any) -> None:
    seen = lab.record()
    lab.pool("plain")
    lab.run_until(lab.joined, BUDGET)
    first = next(
        change.obj
        for change in seen
        if change.resource.kind == "Node" and "lab-plain" in change.obj["metadata"]["name"]
        if (change.obj.get("status") or {}).get("conditions")
    )
    assert condition(first, "Ready") == "False"
    taints = {taint["key"] for taint in first["spec"]["taints"]}
    assert "node.cilium.io/agent-not-ready" in taints


def test_privileged_pods_need_a_namespace_that_allows_them(worker: Any) -> None:
    node = worker.nodes()[0]["metadata"]["name"]
    with pytest.raises(ApiError) as refused:
        create(worker.tenant, "Pod", shell(node), "plain")
    assert refused.value.code == 403
    assert 'violates PodSecurity "baseline:latest"' in refused.value.message
    assert "hostPath volumes" in refused.value.message
    create(worker.tenant, "Pod", shell(node, privileged=False, mounts=False), "plain")
    assert run_shell(worker)["status"]["containerStatuses"][0]["ready"]


def test_a_shell_reaches_the_guest_through_its_mount_only(worker: Any) -> None:
    name = run_shell(worker)["metadata"]["name"]
    argv = ["chroot", "/host", "/usr/local/bin/nvidia-smi", "-L"]
    ran = worker.world.exec("tenant-lab", "shells", name, "shell", argv, b"")
    (card,) = worker.world.guests.all()[0].cards
    assert ran.stdout.decode() == f"GPU 0: NVIDIA L40S (UUID: {card.uuid})\n"
    bare = run_shell(worker, mounts=False)["metadata"]["name"]
    ran = worker.world.exec("tenant-lab", "shells", bare, "shell", argv, b"")
    assert ran.exit_code != 0 and not ran.stdout


def test_exec_says_why_it_cannot(worker: Any) -> None:
    node = worker.nodes()[0]["metadata"]["name"]
    backend = ClusterBackend(worker.world, "tenant-lab")
    with pytest.raises(ApiError) as missing:
        backend.exec("shells", "nobody", "", ["id"], b"")
    assert missing.value.code == 404
    pod = create(worker.tenant, "Pod", shell(node), "shells")["metadata"]["name"]
    worker.run(0)
    with pytest.raises(ApiError, match="container not found"):
        backend.exec("shells", pod, "shell", ["id"], b"")
    worker.run(10)
    with pytest.raises(ApiError, match="is not valid for pod"):
        backend.exec("shells", pod, "other", ["id"], b"")
    worker.world.guests.named(node).reboot()
    with pytest.raises(ApiError, match="error dialing backend"):
        backend.exec("shells", pod, "shell", ["id"], b"")


def test_a_reboot_shows_in_boot_id_events_and_restart_counts_and_nowhere_else(worker: Any) -> None:
    pod = run_shell(worker)
    before, vmi = worker.nodes()[0], worker.world.guests.all()[0]
    machine = worker.one(CAPI, "Machine")["metadata"]["uid"]
    vmi.reboot()
    old = before["status"]["nodeInfo"]["bootID"]
    worker.run_until(lambda: worker.nodes()[0]["status"]["nodeInfo"]["bootID"] != old, 120)
    worker.run_until(lambda: condition(worker.nodes()[0], "Ready") == "True", 60)
    after = worker.nodes()[0]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    machine_id = after["status"]["nodeInfo"]["machineID"]
    assert machine_id == before["status"]["nodeInfo"]["machineID"]
    (event,) = worker.events("Rebooted", worker.tenant)
    assert event["type"] == "Warning" and vmi.boot_id in event["message"]
    worker.run(10)
    again = worker.tenant.find("v1", "Pod", "shells", pod["metadata"]["name"])
    (status,) = again["status"]["containerStatuses"]
    assert status["restartCount"] == 1 and status["ready"]
    assert again["metadata"]["uid"] == pod["metadata"]["uid"]
    assert worker.events("SandboxChanged", worker.tenant)
    assert worker.one(CAPI, "Machine")["metadata"]["uid"] == machine


def test_a_silent_node_becomes_unknown_and_a_pool_of_one_is_never_remediated(worker: Any) -> None:
    worker.world.guests.all()[0].power_off()
    worker.world.workers["lab"].went_down(worker.nodes()[0]["metadata"]["name"])
    worker.run(45)
    assert condition(worker.nodes()[0], "Ready") == "True"
    worker.run(10)
    assert condition(worker.nodes()[0], "Ready") == "Unknown"
    assert worker.events("NodeNotReady", worker.tenant)
    uid = worker.one(CAPI, "Machine")["metadata"]["uid"]
    worker.run(1200)
    assert worker.one(CAPI, "Machine")["metadata"]["uid"] == uid
    check = worker.one(CAPI, "MachineHealthCheck")
    assert condition(check, "RemediationAllowed", "reason") == "TooManyUnhealthy"


def test_one_silent_node_of_two_is_replaced(lab: Any) -> None:
    lab.pool("plain", minReplicas=2)
    lab.run_until(lambda: len(lab.joined()) == 2, BUDGET)
    victim = lab.nodes()[0]["metadata"]["name"]
    lab.world.guests.named(victim).power_off()
    lab.world.workers["lab"].went_down(victim)
    lab.run(280)
    assert victim in [node["metadata"]["name"] for node in lab.nodes()]
    lab.run_until(lambda: victim not in [n["metadata"]["name"] for n in lab.nodes()], 180)
    lab.run_until(lambda: len(lab.joined()) == 2, BUDGET)


def test_a_slow_joiner_is_replaced_after_its_startup_time(lab: Any) -> None:
    lab.world.timings.override("import.transfer", 3000.0)
    lab.pool("plain", minReplicas=2, nodeStartupTimeout="10m", maxUnhealthy="100%")
    lab.run(60)
    first = {machine["metadata"]["uid"] for machine in lab.management.all(CAPI, "Machine")}
    lab.run(700)
    second = {machine["metadata"]["uid"] for machine in lab.management.all(CAPI, "Machine")}
    assert len(first) == len(second) == 2 and not first & second


def test_without_its_bootstrap_token_a_kubelet_never_registers(lab: Any) -> None:
    (token,) = [
        secret
        for secret in lab.tenant.all("v1", "Secret", "kube-system")
        if secret["metadata"]["name"].startswith("bootstrap-token-")
    ]
    kind = lab.tenant.registry.by_kind("v1", "Secret")
    name = token["metadata"]["name"]
    lab.tenant.delete(kind, "kube-system", name)
    lab.pool("plain")
    lab.run(400)
    assert lab.nodes() == []
    assert lab.one(CAPI, "Machine")["status"]["phase"] == "Provisioned"
    lab.tenant.create(
        kind, {"metadata": {"name": name}, "data": token["data"]}, namespace="kube-system"
    )
    lab.run_until(lab.joined, 60)


def test_a_worker_without_port_50001_keeps_rebooting_every_seventy_minutes(lab: Any) -> None:
    def drop(service: Any) -> None:
        ports = service["spec"]["ports"]
        service["spec"]["ports"] = [port for port in ports if port["port"] != 50001]

    lab.management.edit("v1", "Service", "tenant-hil", "kubernetes-lab", drop, manager="kubectl")
    lab.pool("plain")
    lab.run_until(lab.joined, BUDGET)
    boots = {lab.nodes()[0]["status"]["nodeInfo"]["bootID"]}
    for _ in range(3):
        lab.run(4300)
        boots.add(lab.nodes()[0]["status"]["nodeInfo"]["bootID"])
    assert len(boots) == 4


def test_a_healthy_gpu_worker_stays_on_one_boot_for_93_minutes(worker: Any) -> None:
    boot = worker.nodes()[0]["status"]["nodeInfo"]["bootID"]
    worker.run(93 * 60)
    assert worker.nodes()[0]["status"]["nodeInfo"]["bootID"] == boot
    assert worker.events("Rebooted", worker.tenant) == []


def test_a_pod_without_a_node_is_scheduled_once_there_is_one(lab: Any) -> None:
    create(lab.tenant, "Namespace", {"metadata": {"name": "plain"}})
    spec = {"containers": [{"name": "main", "image": "pause"}]}
    create(lab.tenant, "Pod", {"metadata": {"name": "early"}, "spec": spec}, "plain")
    lab.run(5)
    assert lab.events("FailedScheduling", lab.tenant)
    lab.pool("plain")
    lab.run_until(
        lambda: lab.tenant.find("v1", "Pod", "plain", "early")["status"]["phase"] == "Running", 400
    )


def test_a_deleted_pod_has_its_grace_and_goes(worker: Any) -> None:
    pod = run_shell(worker)
    kind = worker.tenant.registry.by_kind("v1", "Pod")
    spec = {**shell(pod["spec"]["nodeName"])["spec"], "terminationGracePeriodSeconds": 30}
    slow = create(worker.tenant, "Pod", {"metadata": {"name": "slow"}, "spec": spec}, "shells")
    worker.run(10)
    for name in (pod["metadata"]["name"], slow["metadata"]["name"]):
        worker.tenant.delete(kind, "shells", name)
    assert [p["metadata"]["name"] for p in worker.tenant.all("v1", "Pod", "shells")] == ["slow"]
    worker.run(5)
    assert worker.tenant.all("v1", "Pod", "shells") == []


def test_a_launcher_that_is_deleted_takes_the_guest_with_it_and_a_new_one_comes(
    worker: Any,
) -> None:
    (launcher,) = [
        pod
        for pod in worker.management.all("v1", "Pod", "tenant-hil")
        if "virt-launcher" in pod["metadata"]["name"]
    ]
    vmi = worker.one("kubevirt.io/v1", "VirtualMachineInstance")["metadata"]["uid"]
    kind = worker.management.registry.by_kind("v1", "Pod")
    worker.management.delete(kind, "tenant-hil", launcher["metadata"]["name"])
    worker.run(10)
    node = worker.nodes()[0]
    worker.run_until(
        lambda: (
            worker.nodes()[0]["status"]["nodeInfo"]["bootID"]
            != node["status"]["nodeInfo"]["bootID"]
        ),
        200,
    )
    assert worker.one("kubevirt.io/v1", "VirtualMachineInstance")["metadata"]["uid"] != vmi
