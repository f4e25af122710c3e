from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from harness.reach.errors import LabError
from harness.reach.kube import Kube
from harness.reach.nodeshell import NodeShell, PodShell

ENFORCE = "pod-security.kubernetes.io/enforce"
NAMESPACES = "/api/v1/namespaces"
SPACE = f"{NAMESPACES}/hil-shell"
PODS = f"{SPACE}/pods"


@pytest.fixture
def lab(objects: Any) -> Any:
    return objects.serve(NAMESPACES, "hil-shell").serve(PODS)


def shell(kube: Kube, node: str = "gpu-1", run: str = "run-1") -> PodShell:
    return PodShell.open(kube, node, run=run, image="tools:1", wait_running=lambda *_: None)


def test_pod_is_bound_to_the_node_past_every_taint(kube: Kube, lab: Any) -> None:
    waited: list[tuple[str, str]] = []
    made = PodShell.open(
        kube,
        "gpu-1",
        run="run-1",
        image="tools:1",
        wait_running=lambda _, namespace, name: waited.append((namespace, name)),
    )
    pod = lab.stored[f"{PODS}/{made.name}"]
    spec = pod["spec"]
    assert (spec["nodeName"], spec["hostPID"]) == ("gpu-1", True)
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["containers"][0]["securityContext"]["privileged"] is True
    assert spec["containers"][0]["volumeMounts"][0]["mountPath"] == "/host"
    assert spec["volumes"][0]["hostPath"]["path"] == "/"
    assert pod["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "hil"
    assert pod["metadata"]["labels"]["hil.dev/run"] == "run-1"
    assert waited == [("hil-shell", made.name)]
    assert made.where == "guest gpu-1"


def test_namespace_allows_privileged_pods_and_is_ours(kube: Kube, lab: Any) -> None:
    shell(kube)
    labels = lab.stored[SPACE]["metadata"]["labels"]
    assert labels[ENFORCE] == "privileged"
    assert labels["app.kubernetes.io/managed-by"] == "hil"


def test_a_shell_of_the_run_is_used_again(kube: Kube, lab: Any) -> None:
    first = shell(kube)
    assert shell(kube).name == first.name
    assert shell(kube, run="run-2").name != first.name
    assert shell(kube, node="gpu-2").name != first.name


@pytest.mark.parametrize(
    "change", [{"status": {"phase": "Failed"}}, {"metadata": {"deletionTimestamp": "now"}}]
)
def test_a_dying_shell_is_not_used_again(kube: Kube, lab: Any, change: dict[str, Any]) -> None:
    first = shell(kube)
    for half, fields in change.items():
        lab.stored[f"{PODS}/{first.name}"].setdefault(half, {}).update(fields)
    assert shell(kube).name != first.name


def test_someone_elses_namespace_is_left_alone(kube: Kube, lab: Any) -> None:
    lab.put(SPACE, {"metadata": {"name": "hil-shell", "labels": {ENFORCE: "baseline"}}})
    with pytest.raises(LabError, match="baseline"):
        shell(kube)


def test_our_own_namespace_is_put_right(kube: Kube, lab: Any) -> None:
    labels = {"app.kubernetes.io/managed-by": "hil"}
    lab.put(SPACE, {"metadata": {"name": "hil-shell", "labels": labels}})
    shell(kube)
    assert lab.stored[SPACE]["metadata"]["labels"][ENFORCE] == "privileged"


def test_host_commands_run_in_the_hosts_root(kube: Kube, lab: Any, server: Any) -> None:
    async def talk(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        await socket.send_bytes(b"\x01" + json.dumps(request.query.getall("command")).encode())
        await socket.send_bytes(b'\x03{"status": "Success"}')
        await socket.close()
        return socket

    made = shell(kube)
    as_any: NodeShell = made
    server.routes[f"GET {PODS}/{made.name}/exec"] = talk
    ran = as_any.host(["/usr/local/bin/nvidia-smi", "-L"])
    assert json.loads(ran.stdout) == ["chroot", "/host", "/usr/local/bin/nvidia-smi", "-L"]
    assert json.loads(made.run(["cat", "/proc/modules"]).stdout) == ["cat", "/proc/modules"]


def test_close_deletes_the_pod_once(kube: Kube, lab: Any, server: Any) -> None:
    made = shell(kube)
    lab.serve(PODS, made.name)
    made.close()
    assert f"{PODS}/{made.name}" not in lab.stored
    made.close()
