"""helm on the standing twin: a small chart of our own, installed, changed and taken away."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

from tests.clients.driving import (
    LAST_APPLIED,
    Result,
    RunningTwin,
    api,
    checked,
    environment,
    finish,
    helms,
    make_namespace,
    started,
)

CHART = Path(__file__).with_name("chart")
NONE = "no helm: put one on PATH, or name some in HIL_HELM (':' between them)"


@dataclass(frozen=True)
class Helm:
    """A helm with a home of its own, in one namespace of the management cluster."""

    path: str
    home: Path
    twin: RunningTwin
    namespace: str

    def __call__(self, *arguments: str, code: int = 0) -> Result:
        fixed = ("--kubeconfig", str(self.twin.kubeconfig), "--namespace", self.namespace)
        env = environment(HOME=str(self.home))
        return checked(finish(started([self.path, *fixed, *arguments], env)), code)

    def read(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json").stdout)

    def data(self, name: str) -> dict[str, str]:
        """What is in one of the release's ConfigMaps."""
        found = client.CoreV1Api(api(self.twin)).read_namespaced_config_map(name, self.namespace)
        data: dict[str, str] = found.data
        return data

    def secrets(self) -> dict[str, str]:
        """The state that each release Secret's label tells, by the Secret's name."""
        listed = client.CoreV1Api(api(self.twin)).list_namespaced_secret(
            self.namespace, field_selector="type=helm.sh/release.v1"
        )
        return {one.metadata.name: one.metadata.labels["status"] for one in listed.items}


@pytest.fixture(params=helms() or [None], ids=str)
def helm(
    request: pytest.FixtureRequest, standing: RunningTwin, tmp_path: Path, unique: str
) -> Helm:
    if request.param is None:
        pytest.skip(NONE)
    make_namespace(standing, unique)
    return Helm(request.param, tmp_path, standing, unique)


def test_the_life_of_a_release(helm: Helm) -> None:
    assert "notes is red." in helm("install", "notes", str(CHART)).stdout
    assert helm.data("notes-settings")["colour"] == "red"
    upgraded = helm("upgrade", "notes", str(CHART), "--set", "colour=blue").stdout
    assert "has been upgraded" in upgraded
    assert helm.data("notes-settings") == {
        "colour": "blue",
        "revision": "2",
        "cluster": helm.data("notes-found")["kubelet"],
        "virtual-machines": "true",
    }
    (listed,) = helm.read("list")
    assert (listed["name"], listed["revision"], listed["status"]) == ("notes", "2", "deployed")
    helm("rollback", "notes", "1")
    assert helm.data("notes-settings")["colour"] == "red"
    history = [(entry["revision"], entry["status"]) for entry in helm.read("history", "notes")]
    assert history == [(1, "superseded"), (2, "superseded"), (3, "deployed")]
    assert helm.secrets() == {
        "sh.helm.release.v1.notes.v1": "superseded",
        "sh.helm.release.v1.notes.v2": "superseded",
        "sh.helm.release.v1.notes.v3": "deployed",
    }
    assert helm("uninstall", "notes").stdout == 'release "notes" uninstalled\n'
    assert (helm.secrets(), helm.read("list")) == ({}, [])
    assert "release: not found" in helm("status", "notes", code=1).stderr


def test_a_chart_looks_into_the_cluster(helm: Helm) -> None:
    dry = ("template", "notes", str(CHART), "--dry-run=server")
    assert found(helm(*dry)) == {
        "kubelet": version(helm),
        "nodes": "3",
        "cpu": "4",
        "memory": "16Gi",
        "absent": "true",
    }
    missing = found(helm(*dry, "--set", "node=none", "--set", "instancetype=none"))
    assert (missing["kubelet"], missing["cpu"], missing["nodes"]) == ("", "", "3")
    assert helm.secrets() == {}  # nothing was installed


def found(rendered: Result) -> dict[str, str]:
    documents = [obj for obj in yaml.safe_load_all(rendered.stdout) if obj]
    (data,) = [o["data"] for o in documents if o["metadata"]["name"] == "notes-found"]
    return dict(data)


def version(helm: Helm) -> str:
    return str(client.VersionApi(api(helm.twin)).get_code().git_version)


def test_install_waits_until_everything_is_there(helm: Helm) -> None:
    made = f"{helm.namespace}-made"
    where = ("--namespace", made, "--create-namespace")
    helm("install", "notes", str(CHART), *where, "--wait", "--timeout", "30s")
    status = helm.read("status", "notes", "--namespace", made)
    assert (status["info"]["status"], status["namespace"]) == ("deployed", made)
    helm("uninstall", "notes", "--namespace", made, "--wait", "--timeout", "30s")


def test_a_field_that_somebody_else_changed_is_a_conflict(helm: Helm) -> None:
    helm("install", "notes", str(CHART))
    client.CoreV1Api(api(helm.twin)).patch_namespaced_config_map(
        "notes-settings", helm.namespace, {"data": {"colour": "green"}}, field_manager="somebody"
    )
    upgrade = ("upgrade", "notes", str(CHART), "--set", "colour=blue")
    refused = helm(*upgrade, code=1).stderr
    assert 'Apply failed with 1 conflict: conflict with "somebody"' in refused
    assert ".data.colour" in refused
    assert helm.data("notes-settings")["colour"] == "green"
    assert [entry["status"] for entry in helm.read("history", "notes")] == ["deployed", "failed"]
    helm(*upgrade, "--force-conflicts")
    assert helm.data("notes-settings")["colour"] == "blue"


def test_what_is_not_helms_is_left_alone(helm: Helm) -> None:
    body = {"metadata": {"name": "notes-settings", "annotations": {LAST_APPLIED: "{}"}}}
    client.CoreV1Api(api(helm.twin)).create_namespaced_config_map(helm.namespace, body)
    refused = helm("install", "notes", str(CHART), code=1).stderr
    assert "invalid ownership metadata" in refused
    assert 'ConfigMap "notes-settings"' in refused


def test_who_may_not_read_secrets_sees_no_releases(helm: Helm) -> None:
    refused = helm("list", "--kube-as-user", "nobody", code=1).stderr
    assert 'User "nobody" cannot list resource "secrets"' in refused
