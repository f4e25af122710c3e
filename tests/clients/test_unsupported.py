"""What the twin does not do, it refuses: with the API's Status, in words, and without a wait."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from tests.clients.driving import TENANT, Binary, Kubectl, RunningTwin, api, make_namespace

NOT_SERVED = "the server could not find the requested resource"
NO_TAR = 'exec: "tar": executable file not found in $PATH'
BY_HAND = "does not read {} in protobuf; send it as application/json"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.org"},
    "spec": {
        "group": "example.org",
        "names": {"kind": "Widget", "plural": "widgets"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
}


@dataclass(frozen=True)
class Place:
    """A running pod on the tenant's worker."""

    kubectl: Kubectl
    namespace: str
    node: str

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What kubectl says on its standard error; it must end with 1."""
        filled = [part.format(node=self.node) for part in arguments]
        return self.kubectl("-n", self.namespace, *filled, stdin=stdin, code=1).stderr


@pytest.fixture(scope="module")
def place(binary: Binary, standing: RunningTwin) -> Place:
    """The same pod for every test of one kubectl."""
    tenant, namespace = binary.at(standing, *TENANT), f"refused-{binary.home.name}"
    make_namespace(standing, namespace)
    tenant("run", "one", "--image=busybox", "-n", namespace, "--", "sleep", "86400")
    standing.advance(60)
    (node,) = tenant.read("get", "nodes")["items"]
    return Place(tenant, namespace, node["metadata"]["name"])


REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "attach": (("attach", "one"), NOT_SERVED),
    "port-forward": (("port-forward", "pod/one", ":80"), NOT_SERVED),
    "cp": (("cp", "one:/etc/hosts", "{node}.hosts"), NO_TAR),
    "proxy to a node": (("get", "--raw", "/api/v1/nodes/{node}/proxy/metrics"), NOT_SERVED),
    "metrics": (("get", "--raw", "/metrics"), NOT_SERVED),
    "top pod": (("top", "pod"), NOT_SERVED),
    "run attached": (
        ("run", "two", "--image=busybox", "-i", "--pod-running-timeout=1s"),
        "timed out waiting for the condition",
    ),
    "logs --previous": (("logs", "one", "--previous"), "previous terminated container"),
    "exec without the program": (("exec", "one", "--", "/none"), "no such file or directory"),
    "exec elsewhere": (("exec", "one", "-c", "none", "--", "true"), "container none is not valid"),
    "ingresses": (("create", "ingress", "i", "--rule=a/b=c:80"), NOT_SERVED),
    "budgets": (("create", "pdb", "b", "--min-available=1", "--selector=a=b"), NOT_SERVED),
    "priorities": (("create", "priorityclass", "p", "--value=1"), NOT_SERVED),
    "csr": (("get", "csr"), "doesn't have a resource type"),
    "componentstatuses": (("get", "componentstatuses"), "doesn't have a resource type"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_refused_in_words(place: Place, what: str) -> None:
    arguments, words = REFUSED[what]
    assert words in place(*arguments)


PROTOBUF: dict[str, tuple[tuple[str, ...], str]] = {
    "deployment": (("create", "deployment", "d", "--image=x"), "apps/v1 Deployment"),
    "job": (("create", "job", "j", "--image=x"), "batch/v1 Job"),
    "quota": (("create", "quota", "q", "--hard=pods=1"), "v1 ResourceQuota"),
    "debug node": (
        ("debug", "node/{node}", "--image=busybox", "--profile=sysadmin", "--", "true"),
        "v1 Pod",
    ),
}


@pytest.mark.parametrize("what", PROTOBUF)
def test_what_is_sent_in_protobuf_is_refused_unless_it_is_known(place: Place, what: str) -> None:
    if place.kubectl.minor() < 32:
        pytest.skip("this kubectl sends JSON")
    arguments, kind = PROTOBUF[what]
    assert BY_HAND.format(kind) in place(*arguments)


def test_what_is_refused_in_protobuf_is_taken_in_json(place: Place) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": place.namespace},
        "spec": {"hard": {"pods": "10"}},
    }
    place.kubectl("create", "-f", "-", stdin=json.dumps(quota))
    place.kubectl("delete", "quota", "q", "-n", place.namespace)


def test_kinds_of_ones_own_are_refused(place: Place) -> None:
    refused = place("create", "-f", "-", stdin=json.dumps(CRD))
    assert "this server serves a fixed set of kinds" in refused


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/api/v1/namespaces/default/pods/one/attach", 404, "NotFound"),
        ("/api/v1/namespaces/default/pods/one/portforward", 404, "NotFound"),
        ("/api/v1/nodes/hv-1/proxy/", 404, "NotFound"),
        ("/api/v1/namespaces/kube-system/services/kube-dns/proxy/", 404, "NotFound"),
        ("/apis/apps/v9/deployments", 404, "NotFound"),
        ("/api/v1/unicorns", 404, "NotFound"),
    ],
)
def test_the_answer_is_a_status(standing: RunningTwin, path: str, status: int, reason: str) -> None:
    one = api(standing)
    answer = one.call_api("GET", one.configuration.host + path)
    told = json.loads(answer.read())
    assert (answer.status, told["code"], told["kind"]) == (status, status, "Status")
    assert (told["status"], told["reason"]) == ("Failure", reason)
    assert told["message"] == NOT_SERVED
