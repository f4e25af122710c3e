"""What real kubectl and the official Python client make of the server."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.twin.apiserver.execresult import ExecResult
from harness.twin.apiserver.kubeconfigs import kubeconfig

KUBECTL = shutil.which("kubectl")
CONFIG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: cm}\ndata: {size: '%d'}\n"
WIDGET = "apiVersion: example.org/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: %d}\n"

Result = subprocess.CompletedProcess[str]
Kubectl = Callable[..., Result]


@pytest.fixture
def config(cluster: Any, tmp_path: Path) -> Path:
    """A kubeconfig with two users: an administrator and one with no rights."""

    def credentials(user: str, *groups: str) -> tuple[str, bytes, bytes, bytes]:
        pair = cluster.authority.client(user, groups)
        return (cluster.server.url, cluster.authority.ca_pem, *pair)

    servers = {"admin": credentials("root", "system:masters"), "jane": credentials("jane")}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig(servers, "admin")))
    return file


@pytest.fixture
def kubectl(config: Path, tmp_path: Path) -> Kubectl:
    if KUBECTL is None:
        pytest.skip("kubectl is not on PATH")
    # Its discovery cache is keyed by host and port: another server on this port must not share it.
    home = {**os.environ, "HOME": str(tmp_path), "KUBECONFIG": str(config)}
    command = [KUBECTL, "--cache-dir", str(tmp_path / "cache")]

    def run(*arguments: str, stdin: str = "", code: int = 0, timeout: float = 30) -> Result:
        ended = subprocess.run(
            [*command, *arguments],
            input=stdin,
            env=home,
            timeout=timeout,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, ended
        return ended

    return run


def test_reading(cluster: Any, kubectl: Kubectl) -> None:
    cluster.pod()
    cluster.now += 7200
    rows = kubectl("get", "pods").stdout.splitlines()
    assert rows[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert rows[1].split() == ["web", "0/1", "Running", "0", "120m"]
    assert "node-1" in kubectl("get", "pods", "-o", "wide").stdout
    assert kubectl("get", "wd").stderr == "No resources found in default namespace.\n"
    told = kubectl("describe", "pod", "web").stdout
    assert "Image:" in told
    assert "example.org/i:1" in told
    kinds = kubectl("api-resources").stdout
    assert "widgets" in kinds
    assert "example.org/v1" in kinds
    assert "doesn't have a resource type" in kubectl("get", "nonesuch", code=1).stderr


@pytest.mark.parametrize(("text", "ref"), [(CONFIG, "configmap/cm"), (WIDGET, "widget/w")])
def test_apply(cluster: Any, kubectl: Kubectl, text: str, ref: str) -> None:
    for size, outcome in ((1, "created"), (2, "configured"), (2, "unchanged")):
        ended = kubectl("apply", "-f", "-", stdin=text % size)
        assert ended.stdout.endswith(f" {outcome}\n")
        assert ended.stderr == ""
    applied = kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text % 3)
    assert applied.stdout.endswith(" serverside-applied\n")
    field = ".data.size" if text == CONFIG else ".spec.size"
    assert kubectl("get", ref, "-o", f"jsonpath={{{field}}}").stdout == "3"
    assert kubectl("delete", ref).stdout.startswith(ref.split("/", maxsplit=1)[0])
    assert "NotFound" in kubectl("get", ref, code=1).stderr


def test_a_server_side_conflict_names_the_other_manager(cluster: Any, kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-", "--field-manager")
    kubectl(*apply, "one", stdin=CONFIG % 1)
    ended = kubectl(*apply, "two", stdin=CONFIG % 2, code=1)
    assert 'conflict with "one"' in ended.stderr


def test_waiting(cluster: Any, kubectl: Kubectl) -> None:
    cluster.pod()
    wait = ("wait", "pod/web", "--timeout=2s")
    kubectl(*wait, "--for=jsonpath={.status.phase}=Running")
    assert "timed out" in kubectl(*wait, "--for=condition=Ready", code=1).stderr


def test_watching(cluster: Any, kubectl: Kubectl) -> None:
    cluster.config_map("cm", size="1")
    watch = ("get", "configmaps", "-w", "--request-timeout=1s")
    assert "cm" in kubectl(*watch).stdout
    assert cluster.log.count(verb="watch", status=200) >= 1


def test_exec_and_logs(cluster: Any, kubectl: Kubectl) -> None:
    cluster.pod()
    cluster.backend.results["false"] = ExecResult(b"out", b"err", 7)
    ended = kubectl("exec", "web", "--", "false", code=7)
    assert ended.stdout == "out"
    assert ended.stderr.startswith("err")
    assert kubectl("exec", "-i", "web", "--", "cat", stdin="through").stdout == "through"
    assert kubectl("logs", "web").stdout == "one\ntwo\n"


def test_rights(cluster: Any, kubectl: Kubectl) -> None:
    jane = ("--context", "jane")
    assert kubectl("auth", "can-i", "create", "pods").stdout == "yes\n"
    assert kubectl(*jane, "auth", "can-i", "create", "pods", code=1).stdout == "no\n"
    assert 'User "jane" cannot list resource "pods"' in kubectl(*jane, "get", "po", code=1).stderr
    kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
    kubectl("create", "rolebinding", "reader", "--role=reader", "--user=jane")
    kubectl(*jane, "get", "pods")
    assert "jane" in kubectl(*jane, "auth", "whoami").stdout


def test_what_is_created_in_protobuf(cluster: Any, kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "other")
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    kubectl("create", "serviceaccount", "bot")
    assert kubectl("get", "secret", "s", "-o", "jsonpath={.data.a}").stdout == "Yg=="
    assert kubectl("create", "token", "bot").stdout.count(".") == 2
    refused = kubectl("create", "deployment", "d", "--image=x", code=1)
    assert "does not read apps/v1 Deployment in protobuf" in refused.stderr
    kubectl("delete", "namespace", "other")


def test_official_python_client(cluster: Any, config: Path) -> None:
    from kubernetes import client
    from kubernetes import config as loading

    cluster.pod()
    with loading.new_client_from_config(str(config)) as api:
        core = client.CoreV1Api(api)
        assert [pod.metadata.name for pod in core.list_pod_for_all_namespaces().items] == ["web"]
        with pytest.raises(client.ApiException) as refused:
            core.read_namespaced_pod("missing", "default")
        assert refused.value.status == 404
        made = client.CustomObjectsApi(api).create_namespaced_custom_object(
            "example.org", "v1", "default", "widgets", yaml.safe_load(WIDGET % 1)
        )
        assert made["metadata"]["uid"]


def test_a_log_is_followed_until_the_container_ends(cluster: Any, kubectl: Kubectl) -> None:
    cluster.pod()
    running = {"name": "main", "containerID": "containerd://1", "state": {"running": {}}}
    cluster.container_is(running)

    def last_words() -> None:
        cluster.until(lambda: cluster.backend.readers != [], 9)
        cluster.run(lambda: [heard(b"three\n") for heard in tuple(cluster.backend.readers)])
        cluster.container_is({**running, "state": {"terminated": {"exitCode": 0}}})

    speaker = threading.Thread(target=last_words)
    speaker.start()
    assert kubectl("logs", "-f", "web").stdout == "one\ntwo\nthree\n"
    speaker.join(10)


def test_kinds_that_are_nothing_but_subresources_confuse_nobody(
    cluster: Any, kubectl: Kubectl
) -> None:
    assert "subresources.kubevirt.io" not in kubectl("api-resources").stdout
    question = ("auth", "can-i", "get", "virtualmachineinstances.subresources.kubevirt.io")
    told = kubectl(*question, "--subresource=console")
    assert told.stdout.strip() == "yes"
