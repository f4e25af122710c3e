"""A person's way into a worker's operating system, and who may go it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.clients.driving import (
    NAMESPACE,
    Binary,
    Kubectl,
    RunningTwin,
    eventually,
    finish,
    pool_request,
)


def shell(tenant: Kubectl, namespace: str) -> str:
    (node,) = tenant.read("get", "nodes")["items"]
    container = {
        "name": "shell",
        "image": "docker.io/library/busybox:1.37",
        "command": ["sleep", "86400"],
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "host", "mountPath": "/host"}],
    }
    spec = {
        "nodeName": node["metadata"]["name"],
        "hostPID": True,
        "containers": [container],
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    }
    metadata = {"name": "shell", "namespace": namespace}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@pytest.fixture
def space(tenant: Kubectl, unique: str) -> str:
    tenant("create", "namespace", unique)
    return unique


def test_exec_in_a_privileged_pod(tenant: Kubectl, space: str) -> None:
    body = shell(tenant, space)
    refused = tenant("apply", "-f", "-", stdin=body, code=1).stderr
    assert 'violates PodSecurity "baseline:latest"' in refused
    tenant("label", "namespace", space, "pod-security.kubernetes.io/enforce=privileged")
    tenant("apply", "-f", "-", stdin=body)
    early = tenant("exec", "-n", space, "shell", "--", "true", code=1).stderr
    assert "container" in early
    tenant.twin.advance(60)
    events = tenant("get", "events", "-n", space).stdout.splitlines()
    assert events[0].split() == ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    assert any(" Started " in line and " pod/shell " in line for line in events[1:])
    assert "Started container shell" in tenant("describe", "pod", "shell", "-n", space).stdout
    run = ("exec", "-n", space, "shell", "--")
    modules = tenant(*run, "cat", "/proc/modules")
    assert any(line.startswith("nvidia ") for line in modules.stdout.splitlines())
    cards = tenant(*run, "chroot", "/host", "/usr/local/bin/nvidia-smi", "-L").stdout
    assert cards.startswith("GPU 0: NVIDIA L40S (UUID: GPU-")
    failed = tenant(*run, "cat", "/none", code=1)
    assert failed.stdout == ""
    assert failed.stderr.startswith("cat: can't open '/none': No such file or directory\n")
    absent = tenant(*run, "chroot", "/host", "cat", "/proc/modules", code=127).stderr
    assert "chroot: can't execute 'cat'" in absent  # Talos has no programs in its root
    assert "no such file or directory" in tenant(*run, "/none", code=1).stderr
    assert tenant("logs", "-n", space, "shell").stdout == ""


def test_logs(lab: Kubectl) -> None:
    name = "kubernetes-lab-gpu-l40s"
    importer = ("logs", "-n", NAMESPACE, "-l", "kubevirt.io=virt-launcher")
    assert lab(*importer, "-c", "compute").returncode == 0
    assert "container none is not valid" in lab(*importer, "-c", "none", code=1).stderr
    assert lab.read("get", "md", name, "-n", NAMESPACE)["status"]["readyReplicas"] == 1


def test_a_log_is_cut_as_asked(newest: Binary, twin: Callable[..., RunningTwin]) -> None:
    lab = newest.at(twin())
    lab("apply", "-f", "-", stdin=json.dumps(pool_request()))
    lab.twin.advance(60)
    log = ("logs", "-n", NAMESPACE, "-l", "cozystack.io/talos-reconcile")
    lines = lab(*log).stdout.splitlines()
    assert lines[0] == "prerequisites are there"
    assert lines[1].endswith(" serverside-applied")
    assert lab(*log, "--tail=1").stdout.splitlines() == lines[1:]
    assert lab(*log, "--tail=0").stdout == ""
    assert lab(*log, "--limit-bytes=5").stdout == "prere"
    for asked in (("--previous",), ("--timestamps",), ("--since=1s",)):
        assert "Error from server (BadRequest)" in lab(*log, *asked, code=1).stderr


def test_a_log_is_followed_until_its_container_ends(
    newest: Binary, twin: Callable[..., RunningTwin]
) -> None:
    lab = newest.at(twin())
    lab("apply", "-f", "-", stdin=json.dumps(pool_request()))
    job = ("-n", NAMESPACE, "-l", "cozystack.io/talos-reconcile")
    for _ in range(60):
        lab.twin.advance(1)
        if lab("get", "pods", *job, "-o", "jsonpath={.items[*].status.phase}").stdout == "Running":
            break
    (name,) = lab("get", "pods", *job, "-o", "name").stdout.split()
    following = lab.start("logs", "-f", "-n", NAMESPACE, name)
    eventually(lambda: lab.twin.requests(f"/{name.removeprefix('pod/')}/log") > 0, "it follows")
    assert following.poll() is None  # its container runs
    lab.twin.advance(60)
    ended = finish(following)
    lines = ended.stdout.splitlines()
    assert (ended.returncode, lines[0]) == (0, "prerequisites are there")
    assert lines[-1].endswith(" serverside-applied")


def test_who_may_do_what(lab: Kubectl, namespace: str, tmp_path: Path) -> None:
    assert lab("auth", "can-i", "delete", "nodes").stdout == "yes\n"
    here = ("-n", namespace)
    lab("create", "serviceaccount", "bot", *here)
    bot = lab.as_user(credentials(lab, namespace, tmp_path))
    assert bot("auth", "can-i", "list", "pods", *here, code=1).stdout == "no\n"
    denied = bot("get", "pods", *here, code=1).stderr
    assert f'User "system:serviceaccount:{namespace}:bot" cannot list resource "pods"' in denied
    lab("create", "role", "reader", "--verb=get,list", "--resource=pods", *here)
    lab("create", "rolebinding", "r", "--role=reader", f"--serviceaccount={namespace}:bot", *here)
    assert bot("auth", "can-i", "list", "pods", *here).stdout == "yes\n"
    assert bot("auth", "can-i", "list", "pods", "-n", "default", code=1).stdout == "no\n"
    bot("get", "pods", *here)
    assert "forbidden" in bot("delete", "pod", "x", *here, code=1).stderr
    lab("delete", "rolebinding", "r", *here)
    assert bot("auth", "can-i", "list", "pods", *here, code=1).stdout == "no\n"


def credentials(lab: Kubectl, namespace: str, folder: Path) -> Path:
    """A kubeconfig that holds the account's token and nothing else."""
    token = lab("create", "token", "bot", "-n", namespace).stdout.strip()
    config = yaml.safe_load(lab.twin.kubeconfig.read_text())
    config["users"] = [{"name": "bot", "user": {"token": token}}]
    for context in config["contexts"]:
        context["context"]["user"] = "bot"
    file = folder / "bot"
    file.write_text(yaml.safe_dump(config))
    return file
