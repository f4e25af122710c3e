"""Asking a cluster which platform is installed: as it is, and where it may not be asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from kubernetes.client import AuthenticationV1TokenRequest, CoreV1Api

from harness.bringup.connect import ConnectedLab
from harness.observe.platformversion import APPS, SOURCES, platform_version
from harness.reach.access import client_from_text
from harness.reach.errors import ApiRefused, Refused, Unreachable
from harness.reach.kube import Kube
from harness.twin.process import TwinProcess

Make = Callable[..., Any]
ARTIFACT = {"artifact": {"revision": "sha256:aa"}}
ROLLED_OUT = {"replicas": 1, "updatedReplicas": 1}


def now() -> float:
    return 1767225700.0


@pytest.fixture
def deployment(obj: Make) -> Make:
    def make(name: str, image: str, *args: str, namespace: str = "cozy-system") -> Any:
        container = {"name": name, "image": image, "args": list(args)}
        spec = {"replicas": 1, "template": {"spec": {"containers": [container]}}}
        return obj(APPS, "Deployment", name, namespace, spec=spec, status=ROLLED_OUT)

    return make


def test_the_twin_tells_its_release_from_two_sources(lab: ConnectedLab) -> None:
    found = platform_version(lab.management, now=lab.clock.now)
    assert (found.version, found.reason) == ("v1.7.0", "")
    wheres = [one.where.split(" of ")[0] for one in found.sources]
    assert wheres == [
        "COZYSTACK_VERSION",
        "the image",
        "OCIRepository cozy-system/cozystack-packages",
    ]
    assert found.origin.at == lab.clock.now()


def test_an_upgrade_under_way_is_told(lab: ConnectedLab) -> None:
    place = (APPS, "Deployment", "cozy-system", "cozystack-operator")

    def look(version: str) -> str:
        stored = lab.management.get(*place)
        assert stored is not None
        stored["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = version
        lab.management.replace(stored)
        found = platform_version(lab.management, now=lab.clock.now)
        assert found.version == ""
        return found.reason

    reason = look("v1.8.0")
    assert "'v1.8.0'" in reason and ":v1.7.0@sha256" in reason
    assert "is not rolled out" in look("v1.7.0")
    status = {"status": {"observedGeneration": 3}}
    lab.management.merge(*place, status, subresource="status")
    assert platform_version(lab.management, now=lab.clock.now).version == "v1.7.0"


def test_only_the_platform_s_own_is_asked(cluster: Make, deployment: Make, obj: Make) -> None:
    kube = cluster(
        deployment("cozystack-operator", "x/cozystack-operator:v9.9.9", namespace="tenant-x"),
        deployment("cozystack-operator", "x/cozystack-operator:v1.4.0"),
        deployment("cozystack", "x/installer:v0.41.5"),
        obj(SOURCES, "OCIRepository", "cozystack-packages", "cozy-system", status=ARTIFACT),
        name="management",
    )
    found = platform_version(kube, now=now)
    assert found.version == "v1.4.0"
    assert (found.sources[-1].text, found.origin.at) == ("sha256:aa", now())


def test_what_came_before_the_operator_is_asked_where_there_is_none(
    cluster: Make, deployment: Make
) -> None:
    kube = cluster(deployment("cozystack", "x/installer:v0.41.5"), name="management")
    found = platform_version(kube, now=now)
    assert found.version == "v0.41.5"
    assert found.origin.source == "management Deployment cozy-system/cozystack"


def test_packages_out_of_git_are_looked_for_there(
    cluster: Make, deployment: Make, obj: Make
) -> None:
    url = "--platform-source-url=https://example.org/x.git"
    status = {"artifact": {"revision": "v1.3.0@sha1:aa"}}
    kube = cluster(
        deployment("cozystack-operator", "x/cozystack-operator:v1.4.0", url),
        obj(SOURCES, "GitRepository", "cozystack-packages", "cozy-system", status=status),
    )
    assert "'v1.3.0@sha1:aa'" in platform_version(kube, now=now).reason


def test_a_cluster_without_a_platform_says_so(cluster: Make) -> None:
    found = platform_version(cluster(name="management"), now=now)
    assert found.version == ""
    assert "it is not there, nor is cozystack, that of v0" in found.reason


class Barred:
    """A cluster that answers for some kinds with an error."""

    def __init__(self, inner: Any, **errors: Exception) -> None:
        self.name = "management"
        self._inner, self._errors = inner, errors

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Any:
        if kind in self._errors:
            raise self._errors[kind]
        return self._inner.get(api_version, kind, namespace, name)


def test_who_may_not_read_it_is_told_in_the_api_s_words(cluster: Make) -> None:
    text = 'deployments.apps "cozystack-operator" is forbidden'
    kube: Any = Barred(cluster(), Deployment=Refused(403, "Forbidden", text))
    found = platform_version(kube, now=now)
    assert found.version == "" and "it may not be read: 403 Forbidden" in found.reason
    assert "is forbidden" in found.reason


def test_a_kind_that_is_not_served_costs_a_source_and_no_more(
    cluster: Make, deployment: Make
) -> None:
    inner = cluster(deployment("cozystack-operator", "x/cozystack-operator:v1.4.0"))
    kube: Any = Barred(inner, OCIRepository=ApiRefused(404, "NotFound", "no such kind"))
    found = platform_version(kube, now=now)
    assert found.version == "v1.4.0"
    assert "no such kind" in found.sources[-1].text


def test_a_cluster_that_does_not_answer_is_unknown_and_no_error(cluster: Make) -> None:
    kube: Any = Barred(cluster(), Deployment=Unreachable("ask", "no answer", "look"))
    found = platform_version(kube, now=now)
    assert (found.version, found.reason) == ("", "the cluster could not be asked: no answer")


@pytest.fixture
def robot(lab: ConnectedLab, twin: TwinProcess) -> Iterator[Kube]:
    """The management cluster with the credentials of a service account that may do nothing."""
    account = {"metadata": {"name": "robot", "namespace": "tenant-hil"}}
    lab.management.create({"apiVersion": "v1", "kind": "ServiceAccount", **account})
    given = CoreV1Api(lab.management.client).create_namespaced_service_account_token(
        "robot", "tenant-hil", AuthenticationV1TokenRequest(spec={"audiences": []})
    )
    shown = yaml.safe_load(twin.endpoint.kubeconfig.read_text())
    context = next(one for one in shown["contexts"] if one["name"] == "management")["context"]
    for one in shown["users"]:
        if one["name"] == context["user"]:
            one["user"] = {"token": given.status.token}
    yield Kube("management", client_from_text(json.dumps(shown), "management"), lab.clock)
    lab.management.delete("v1", "ServiceAccount", "tenant-hil", "robot")


def test_what_rbac_lets_be_read_decides_what_is_known(lab: ConnectedLab, robot: Kube) -> None:
    found = platform_version(robot, now=lab.clock.now)
    assert found.version == ""
    assert "403 Forbidden" in found.reason and "serviceaccount:tenant-hil:robot" in found.reason
    group, home = "rbac.authorization.k8s.io", {"name": "look", "namespace": "cozy-system"}
    rule = {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}
    made = {"apiVersion": f"{group}/v1", "metadata": home}
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "tenant-hil"}
    role = {"apiGroup": group, "kind": "Role", "name": "look"}
    lab.management.create({**made, "kind": "Role", "rules": [rule]})
    lab.management.create({**made, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]})
    found = platform_version(robot, now=lab.clock.now)
    assert found.version == "v1.7.0"
    assert "403 Forbidden" in found.sources[-1].text
    for kind in ("RoleBinding", "Role"):
        lab.management.delete(f"{group}/v1", kind, "cozy-system", "look")
