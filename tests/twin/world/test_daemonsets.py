"""A user's own DaemonSets and Deployments in a tenant cluster make pods, and roll."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.world import nodefit

BUDGET = 300.0
APPS = "apps/v1"


def make(lab: Any, kind: str, name: str, spec: Any, space: str = "mine", **more: Any) -> Any:
    labels = {"app": name}
    obj = {
        "metadata": {"name": name, "namespace": space},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
            **more,
        },
    }
    return lab.tenant.create(lab.tenant.registry.by_kind(APPS, kind), obj, namespace=space)


def pods(lab: Any, name: str = "helper") -> list[Any]:
    found = lab.tenant.all("v1", "Pod", "mine")
    return [pod for pod in found if pod["metadata"]["labels"].get("app") == name]


def phases(lab: Any, name: str = "helper") -> list[str]:
    return [pod["status"]["phase"] for pod in pods(lab, name)]


def found(lab: Any, name: str = "helper", kind: str = "DaemonSet") -> Any:
    return lab.tenant.find(APPS, kind, "mine", name)


def edit(lab: Any, change: Any, name: str = "helper", kind: str = "DaemonSet") -> None:
    lab.tenant.edit(APPS, kind, "mine", name, change, manager="kubectl")


PAUSE = {"containers": [{"name": "main", "image": "pause"}]}


@pytest.fixture
def pair(lab: Any) -> Any:
    """A lab with a namespace and two plain workers."""
    namespace = {"metadata": {"name": "mine"}}
    lab.tenant.create(lab.tenant.registry.by_kind("v1", "Namespace"), namespace)
    lab.pool("plain", minReplicas=2)
    lab.run_until(lambda: len(lab.joined()) == 2, BUDGET)
    return lab


def test_a_pod_on_each_node_that_counts_as_ready(pair: Any) -> None:
    make(pair, "DaemonSet", "helper", PAUSE)
    pair.run_until(lambda: phases(pair) == ["Running", "Running"], 30)
    pair.run(2)
    status = found(pair)["status"]
    for count in ("desiredNumberScheduled", "currentNumberScheduled", "numberReady",
                  "numberAvailable", "updatedNumberScheduled"):  # fmt: skip
        assert status[count] == 2
    assert "numberUnavailable" not in status
    assert status["observedGeneration"] == found(pair)["metadata"]["generation"]
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods(pair)}
    assert owners == {found(pair)["metadata"]["uid"]}
    assert {pod["spec"]["nodeName"] for pod in pods(pair)} == {
        node["metadata"]["name"] for node in pair.nodes()
    }


def test_a_selector_follows_a_nodes_labels(pair: Any) -> None:
    make(pair, "DaemonSet", "helper", {**PAUSE, "nodeSelector": {"disk": "fast"}})
    pair.run(10)
    assert pods(pair) == [] and found(pair)["status"]["desiredNumberScheduled"] == 0
    name = pair.nodes()[0]["metadata"]["name"]

    def label(value: str) -> None:
        pair.tenant.edit(
            "v1", "Node", "", name,
            lambda stored: stored["metadata"]["labels"].update(disk=value), manager="kubectl",
        )  # fmt: skip

    label("fast")
    pair.run_until(lambda: phases(pair) == ["Running"], 30)
    label("slow")
    pair.run_until(lambda: pods(pair) == [], 30)


def test_a_taint_keeps_pods_away_that_do_not_tolerate_it(pair: Any) -> None:
    name = pair.nodes()[0]["metadata"]["name"]
    taint = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
    pair.tenant.edit(
        "v1", "Node", "", name, lambda stored: stored["spec"].update(taints=[taint]), manager="k"
    )
    make(pair, "DaemonSet", "helper", PAUSE)
    tolerant = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
    make(pair, "DaemonSet", "bold", {**PAUSE, **tolerant})
    pair.run_until(lambda: len(pods(pair, "bold")) == 2, 30)
    pair.run(10)
    assert [pod["spec"]["nodeName"] == name for pod in pods(pair)] == [False]


def test_a_changed_template_rolls_one_pod_at_a_time(pair: Any) -> None:
    make(pair, "DaemonSet", "helper", PAUSE)
    pair.run_until(lambda: phases(pair) == ["Running", "Running"], 30)
    seen = pair.record()
    old = {pod["metadata"]["name"] for pod in pods(pair)}

    def image(stored: Any) -> None:
        stored["spec"]["template"]["spec"]["containers"][0]["image"] = "pause:2"

    edit(pair, image)
    pair.run_until(
        lambda: (
            (found(pair)["status"].get("updatedNumberScheduled"), phases(pair))
            == (2, ["Running", "Running"])
        ),
        90,
    )
    assert not old & {pod["metadata"]["name"] for pod in pods(pair)}
    down = [
        change.obj["status"].get("numberUnavailable", 0)
        for change in seen
        if change.resource.kind == "DaemonSet" and change.obj["metadata"]["name"] == "helper"
    ]
    assert max(down) == 1


def test_on_delete_waits_for_somebody_to_delete(pair: Any) -> None:
    make(pair, "DaemonSet", "helper", PAUSE, updateStrategy={"type": "OnDelete"})
    pair.run_until(lambda: phases(pair) == ["Running", "Running"], 30)
    old = [pod["metadata"]["name"] for pod in pods(pair)]

    def image(stored: Any) -> None:
        stored["spec"]["template"]["spec"]["containers"][0]["image"] = "pause:2"

    edit(pair, image)
    pair.run(60)
    assert [pod["metadata"]["name"] for pod in pods(pair)] == old
    kind = pair.tenant.registry.by_kind("v1", "Pod")
    pair.tenant.delete(kind, "mine", old[0])
    pair.run_until(lambda: old[0] not in [p["metadata"]["name"] for p in pods(pair)], 60)
    pair.run_until(lambda: found(pair)["status"].get("updatedNumberScheduled") == 1, 30)


def test_a_refused_pod_is_told_and_tried_again(pair: Any) -> None:
    spec = {**PAUSE, "volumes": [{"name": "host", "hostPath": {"path": "/"}}]}
    make(pair, "DaemonSet", "helper", spec)
    pair.run(60)
    assert pods(pair) == []
    told = pair.events("FailedCreate", pair.tenant)
    assert len(told) > 2
    assert all("violates PodSecurity" in event["message"] for event in told)

    def allow(stored: Any) -> None:
        stored["metadata"]["labels"] = {"pod-security.kubernetes.io/enforce": "privileged"}

    pair.tenant.edit("v1", "Namespace", "", "mine", allow, manager="kubectl")
    pair.run_until(lambda: phases(pair) == ["Running", "Running"], 60)


def test_its_pods_go_with_it_and_come_to_a_new_node(pair: Any) -> None:
    make(pair, "DaemonSet", "helper", PAUSE)
    pair.run_until(lambda: phases(pair) == ["Running", "Running"], 30)
    pair.pool("more")
    pair.run_until(lambda: len(pair.joined()) == 3, BUDGET)
    pair.run_until(lambda: len(pods(pair)) == 3, 30)
    pair.tenant.delete(pair.tenant.registry.by_kind(APPS, "DaemonSet"), "mine", "helper")
    pair.run_until(lambda: pods(pair) == [], 60)


def test_a_deployment_has_its_replicas_and_scales(pair: Any) -> None:
    make(pair, "Deployment", "web", PAUSE, replicas=3)
    pair.run_until(lambda: phases(pair, "web") == ["Running"] * 3, 60)
    pair.run(2)
    status = found(pair, "web", "Deployment")["status"]
    assert status["availableReplicas"] == status["replicas"] == 3
    edit(pair, lambda stored: stored["spec"].update(replicas=1), "web", "Deployment")
    pair.run_until(lambda: len(pods(pair, "web")) == 1, 60)

    def image(stored: Any) -> None:
        stored["spec"]["template"]["spec"]["containers"][0]["image"] = "pause:2"

    edit(pair, image, "web", "Deployment")
    pair.run_until(
        lambda: [p["spec"]["containers"][0]["image"] for p in pods(pair, "web")] == ["pause:2"], 60
    )
    pair.tenant.delete(pair.tenant.registry.by_kind(APPS, "Deployment"), "mine", "web")
    pair.run_until(lambda: pods(pair, "web") == [], 60)


def term(**expression: Any) -> Any:
    path = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": path}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ({"key": "gpu", "operator": "In", "values": ["on", "yes"]}, True),
        ({"key": "gpu", "operator": "NotIn", "values": ["on"]}, False),
        ({"key": "gpu", "operator": "Exists"}, True),
        ({"key": "gpu", "operator": "DoesNotExist"}, False),
        ({"key": "cards", "operator": "Gt", "values": ["1"]}, True),
        ({"key": "cards", "operator": "Lt", "values": ["2"]}, False),
        ({"key": "gpu", "operator": "Gt", "values": ["1"]}, False),
        ({"key": "gpu", "operator": "nonsense"}, False),
    ],
)
def test_required_node_affinity(expression: Any, *, wanted: bool) -> None:
    node = {"metadata": {"name": "a", "labels": {"gpu": "on", "cards": "2"}}}
    assert nodefit.selects(term(**expression), node) is wanted


def test_affinity_by_name_and_terms_that_match_nothing() -> None:
    node = {"metadata": {"name": "a"}}
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
    path = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [by_name]}}
    spec = {"affinity": {"nodeAffinity": path}}
    assert nodefit.selects(spec, node)
    assert not nodefit.selects(spec, {"metadata": {"name": "b"}})
    path["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = [{}]
    assert not nodefit.selects(spec, node)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


@given(anything, anything)
def test_what_somebody_wrote_by_hand_never_stops_the_world(terms: Any, tolerations: Any) -> None:
    node = {"metadata": {"name": "a"}, "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    path = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    nodefit.selects({"affinity": {"nodeAffinity": path}}, node)
    nodefit.tolerates(nodefit.listed(tolerations), node)
