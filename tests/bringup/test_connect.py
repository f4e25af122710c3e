"""Within reach, or a sentence that says what is missing."""

from __future__ import annotations

import base64
import http.client
import http.server
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.bringup.connect import (
    ADMIN_KEY,
    ConnectedLab,
    LabTime,
    Reachable,
    connect,
    reachable,
    refuse_containers,
)
from harness.clock import Moment
from harness.inventory.loading import load
from harness.inventory.models import Lab
from harness.reach.errors import KubeconfigMissing, LabError, Unreachable
from harness.twin.process import TwinProcess

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def inventory() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "inventory" / "twin.yaml").read_text())
    return found


def loaded(tmp_path: Path, inventory: dict[str, Any]) -> Lab:
    path = tmp_path / "lab.yaml"
    path.write_text(yaml.safe_dump(inventory))
    return load(path)


def way(twin: TwinProcess) -> Reachable:
    return Reachable(twin.endpoint.kubeconfig, "management", twin.endpoint.clock_url)


def test_an_inventory_that_does_not_say_how(tmp_path: Path, inventory: dict[str, Any]) -> None:
    with pytest.raises(LabError, match="without `management`"):
        reachable(loaded(tmp_path, inventory))


def test_a_twin_is_not_taken_for_a_cluster(
    tmp_path: Path, inventory: dict[str, Any], twin: TwinProcess
) -> None:
    inventory |= {"kind": "cluster", "clock": "real"}
    place = {"kubeconfig": str(twin.endpoint.kubeconfig), "context": "management"}
    lab = loaded(tmp_path, inventory | {"management": place})
    with pytest.raises(LabError, match="kind: twin"):
        connect(lab, way(twin), "r")


def test_a_kubeconfig_that_is_not_there(tmp_path: Path, inventory: dict[str, Any]) -> None:
    inventory |= {"kind": "cluster", "clock": "real"}
    inventory["management"] = {"kubeconfig": {"env": "HIL_NO_SUCH"}, "context": "c"}
    with pytest.raises(KubeconfigMissing, match="HIL_NO_SUCH is not set"):
        reachable(loaded(tmp_path, inventory))


def real(tmp_path: Path, inventory: dict[str, Any], management: dict[str, Any]) -> Lab:
    inventory |= {"kind": "cluster", "clock": "real", "management": management}
    return loaded(tmp_path, inventory)


def test_the_ways_that_an_inventory_names(
    tmp_path: Path, inventory: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("kind: Config")
    named = {"kubeconfig": str(one), "context": "c"}
    assert reachable(real(tmp_path, inventory, named)) == Reachable((one,), "c")
    by_variable = {"kubeconfig": {"env": "HIL_LAB"}, "context": "c"}
    for value, meant in (
        (f"{one}\n", (one,)),
        (f"{one}:{two}", (one, two)),
        ("kind: Config", "kind: Config"),
    ):
        monkeypatch.setenv("HIL_LAB", value)
        assert reachable(real(tmp_path, inventory, by_variable)) == Reachable(meant, "c")
    in_a_pod = reachable(real(tmp_path, inventory, {"inCluster": True}))
    assert in_a_pod == Reachable(None, "")


def test_paths_in_a_named_kubeconfig_count_from_it(
    twin: TwinProcess, tmp_path: Path, inventory: dict[str, Any]
) -> None:
    config = yaml.safe_load(twin.endpoint.kubeconfig.read_text())
    cluster = next(c["cluster"] for c in config["clusters"] if c["name"] == "management")
    ca = base64.b64decode(cluster.pop("certificate-authority-data"))
    cluster["certificate-authority"] = "ca.pem"
    (tmp_path / "ca.pem").write_bytes(ca)
    (tmp_path / "config").write_text(yaml.safe_dump(config))
    named = {"kubeconfig": str(tmp_path / "config"), "context": "management"}
    found = real(tmp_path, inventory, named)
    with pytest.raises(LabError, match="kind: twin"):  # it was reached, and says what it is
        connect(found, reachable(found), "run")


def test_a_run_outside_of_any_pod(
    tmp_path: Path, inventory: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    found = real(tmp_path, inventory, {"inCluster": True})
    with pytest.raises(KubeconfigMissing, match="run it in a pod"):
        connect(found, reachable(found), "run")


def test_the_twin_is_asked_without_a_limit_and_others_as_the_inventory_says(
    lab: ConnectedLab,
    twin: TwinProcess,
    tmp_path: Path,
    inventory: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (lab.management.courtesy.rate, lab.tenant.courtesy.rate) == (0, 0)
    inventory["management"] = {
        "kubeconfig": str(twin.endpoint.kubeconfig),
        "context": "management",
        "clockUrl": twin.endpoint.clock_url,
        "requestsPerSecond": 400,
    }
    inventory["tenant"]["requestsPerSecond"] = 200
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "4")
    limited = connect(loaded(tmp_path, inventory), way(twin), "run")
    assert limited.management.courtesy.rate == 100
    assert limited.tenant.courtesy.rate == 50
    limited.close()


def test_a_tenants_secret_that_would_run_a_program_here(
    lab: ConnectedLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"}
    config = {
        "current-context": "t",
        "contexts": [{"name": "t", "context": {"cluster": "t", "user": "t"}}],
        "clusters": [{"name": "t", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "t", "user": {"exec": plugin}}],
    }
    held = {"data": {ADMIN_KEY: base64.b64encode(yaml.safe_dump(config).encode()).decode()}}
    monkeypatch.setattr(lab.management, "get", lambda *_: held)
    with pytest.raises(LabError, match="exec in it, which would be read or run on this machine"):
        _ = lab.tenant


def test_a_tenant_that_does_not_exist(
    twin: TwinProcess, tmp_path: Path, inventory: dict[str, Any]
) -> None:
    inventory["tenant"]["namespace"] = "tenant-nobody"
    with pytest.raises(LabError, match=r"tenant-nobody.*no such Namespace: create the tenant"):
        connect(loaded(tmp_path, inventory), way(twin), "run")


def test_a_tenant_cluster_that_does_not_exist(
    twin: TwinProcess, tmp_path: Path, inventory: dict[str, Any]
) -> None:
    inventory["tenant"]["cluster"] = "nolab"
    lab = connect(loaded(tmp_path, inventory), way(twin), "run")
    with pytest.raises(LabError, match=r"no such Secret.*is the tenant cluster nolab there"):
        _ = lab.tenant
    lab.close()


def test_the_tenant_is_reached_by_its_own_secret(lab: ConnectedLab) -> None:
    assert lab.tenant.get("v1", "Namespace", "", "kube-system") is not None
    assert lab.tenant is lab.tenant


class Cuts(http.server.BaseHTTPRequestHandler):
    """Cuts the first request off and answers the others."""

    asked = 0

    def do_POST(self) -> None:
        Cuts.asked += 1
        if Cuts.asked == 1:
            self.close_connection = True
            return
        body = json.dumps({"now": 5.0, "revision": 7}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def cuts() -> Iterator[str]:
    Cuts.asked = 0
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cuts)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_request_that_was_broken_off_spoils_none_after_it(cuts: str) -> None:
    time = LabTime(cuts)
    with pytest.raises(Unreachable, match="move the time of the lab"):
        time.settle()
    assert time.settle() == Moment(5.0, 7)
    assert time.advance(9.0) == Moment(5.0, 7)
    time.close()


def test_an_interrupt_while_time_moves_does_not_keep_it_from_moving_again(
    cuts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Cuts.asked = 1
    time = LabTime(cuts)

    def interrupted(_: http.client.HTTPConnection) -> http.client.HTTPResponse:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(http.client.HTTPConnection, "getresponse", interrupted)
        with pytest.raises(KeyboardInterrupt):
            time.settle()
    assert time.settle() == Moment(5.0, 7)
    time.close()


def test_a_clock_that_nobody_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match=r"Connection refused.*hil twin state"):
        LabTime(f"http://127.0.0.1:{port}").settle()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"kernelVersion": "6.8.0-1021-azure"}, "kernel 6.8.0-1021-azure"),
        ({"kernelVersion": "6.8.0-1021-azure", "osImage": "Ubuntu 24.04.1 LTS"}, ""),
        ({"providerID": "kind://docker/kind/n1"}, "kind://docker/kind/n1"),
    ],
)
def test_containers_are_not_taken_for_machines(
    lab: ConnectedLab, monkeypatch: pytest.MonkeyPatch, change: dict[str, str], says: str
) -> None:
    nodes = lab.management.list("v1", "Node")
    for node in nodes[-1:]:
        node["status"]["nodeInfo"] |= change
        node["spec"] = {**(node.get("spec") or {}), **change}
    monkeypatch.setattr(lab.management, "list", lambda *_: nodes)
    cluster = lab.inventory.model_copy(update={"kind": "cluster"})
    if says:
        with pytest.raises(LabError, match=f"{says}.*: write `nodes: containers`"):
            refuse_containers(cluster, lab.management)
    else:
        refuse_containers(cluster, lab.management)
    told = cluster.model_copy(update={"nodes": "containers"})
    refuse_containers(told, lab.management)
