from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.facts.daemonsets import DaemonSets
from harness.facts.fact import Unread
from harness.facts.gpunode import GpuNode
from harness.facts.operator import Addons, OperatorPolicy, OperatorValues
from harness.facts.validator import STAGES, CudaValidation, ValidatorAbsent, ValidatorPod
from harness.observe import operator
from harness.reach.errors import ApiRefused

Make = Callable[..., Any]
HOME = ("tenant-test", "lab")
OPERATOR = "cozy-gpu-operator"


def now() -> float:
    return 1767225700.0


@pytest.fixture
def release(obj: Make) -> Make:
    def make(name: str, values: Any, namespace: str = "tenant-test") -> Any:
        return obj(operator.HELM, "HelmRelease", name, namespace, spec={"values": values})

    return make


def test_the_values_are_those_of_this_cluster(cluster: Make, release: Make) -> None:
    kube = cluster(
        release("kubernetes-other-gpu-operator", {"gpu-operator": {"driver": {"enabled": True}}}),
        release("kubernetes-lab-gpu-operator", {}, "tenant-else"),
        release("kubernetes-lab-gpu-operator", {"gpu-operator": {"driver": {"enabled": False}}}),
        name="management",
    )
    found = operator.operator_values(kube, *HOME, now=now)
    assert isinstance(found, OperatorValues)
    assert found.driver_enabled is False
    assert found.origin.at == now()
    assert found.origin.source == "management HelmRelease tenant-test/kubernetes-lab-gpu-operator"


def test_no_release_is_unread(cluster: Make) -> None:
    for ask, name in (
        (operator.operator_values, "kubernetes-lab-gpu-operator"),
        (operator.addons, "kubernetes-lab"),
    ):
        found = ask(cluster(name="management"), *HOME, now=now)
        assert isinstance(found, Unread)
        assert (found.asked, found.reason) == (
            f"HelmRelease tenant-test/{name}",
            "it is not there",
        )


@pytest.mark.parametrize(
    ("hami", "on"), [(("kubernetes-lab-hami",), 1), (("kubernetes-other-hami",), 0), ((), 0)]
)
def test_addons(cluster: Make, release: Make, hami: tuple[str, ...], on: int) -> None:
    values = {"addons": {"gpuOperator": {"valuesOverride": {"driver": {"enabled": True}}}}}
    kube = cluster(release("kubernetes-lab", values), *(release(one, {}) for one in hami))
    found = operator.addons(kube, *HOME, now=now)
    assert isinstance(found, Addons)
    assert (found.override, found.hami_release) == (("driver.enabled",), bool(on))


def test_the_policy(cluster: Make, obj: Make) -> None:
    kube = cluster(obj(operator.NVIDIA, "ClusterPolicy", "cluster-policy", status={"state": "x"}))
    found = operator.policy(kube, now=now)
    assert isinstance(found, OperatorPolicy)
    assert found.state == "x"
    absent = operator.policy(cluster(), now=now)
    assert isinstance(absent, Unread)
    assert absent.asked == "ClusterPolicy cluster-policy"


def test_daemonsets_of_every_namespace(cluster: Make, obj: Make) -> None:
    kube = cluster(
        obj("apps/v1", "DaemonSet", "b", "kube-system"), obj("apps/v1", "DaemonSet", "a", "default")
    )
    found = operator.daemonsets(kube, now=now)
    assert isinstance(found, DaemonSets)
    assert [str(one) for one in found.sets] == ["default/a", "kube-system/b"]
    assert found.origin.at == now()


@pytest.fixture
def pod(obj: Make) -> Make:
    def make(
        name: str,
        *done: int,
        app: str = "nvidia-operator-validator",
        node: str = "w1",
        namespace: str = OPERATOR,
        **metadata: str,
    ) -> Any:
        states = [{"terminated": {"exitCode": code}} for code in done] + [{"running": {}}]
        inits = [
            {"name": stage, "state": state} for stage, state in zip(STAGES, states, strict=False)
        ]
        return obj(
            "v1",
            "Pod",
            name,
            namespace,
            metadata={"labels": {"app": app}, **metadata},
            spec={"nodeName": node, "initContainers": [{"name": one} for one in STAGES]},
            status={"phase": "Running", "initContainerStatuses": inits},
        )

    return make


def test_the_validator_and_the_last_line_of_where_it_is_stuck(cluster: Make, pod: Make) -> None:
    logs = {f"{OPERATOR}/v-1:toolkit-validation": "first\nlast\n"}
    found = operator.validator_pod(cluster(pod("v-1", 0), logs=logs), "w1", now=now)
    assert isinstance(found, ValidatorPod)
    assert found.stuck is not None
    assert (found.stuck.name, found.stuck.last_line) == ("toolkit-validation", "last")


def test_a_stage_without_a_log_has_no_line(cluster: Make, pod: Make) -> None:
    found = operator.validator_pod(cluster(pod("v-1", 0)), "w1", now=now)
    assert isinstance(found, ValidatorPod)
    assert found.stuck is not None
    assert found.stuck.last_line == ""


def test_a_log_that_may_not_be_read_is_raised(cluster: Make, pod: Make) -> None:
    kube = cluster(pod("v-1", 0))
    kube.refusing = 403
    with pytest.raises(ApiRefused):
        operator.validator_pod(kube, "w1", now=now)


def test_of_a_validator_that_is_through_no_log_is_asked(cluster: Make, pod: Make) -> None:
    found = operator.validator_pod(cluster(pod("v-1", 0, 0, 0, 0)), "w1", now=now)
    assert isinstance(found, ValidatorPod)
    assert found.stuck is None


def test_the_newest_pod_of_this_node_that_stays(cluster: Make, pod: Make) -> None:
    kube = cluster(
        pod("old", creationTimestamp="2026-11-30T10:00:00Z"),
        pod("new", creationTimestamp="2026-11-30T11:00:00Z"),
        pod("going", creationTimestamp="2026-11-30T12:00:00Z", deletionTimestamp="x"),
        pod("elsewhere", node="w2", creationTimestamp="2026-11-30T12:00:00Z"),
        pod("other", app="other", creationTimestamp="2026-11-30T12:00:00Z"),
        pod("foreign", namespace="default", creationTimestamp="2026-11-30T12:00:00Z"),
    )
    found = operator.validator_pod(kube, "w1", now=now)
    assert isinstance(found, ValidatorPod)
    assert found.pod == "new"


def test_a_node_without_a_validator(cluster: Make, pod: Make) -> None:
    found = operator.validator_pod(cluster(pod("v-1", node="w2")), "w1", now=now)
    assert isinstance(found, ValidatorAbsent)
    assert (found.node, found.origin.at) == ("w1", now())
    assert found.origin.source == "tenant lab pods of nvidia-operator-validator on w1"


def test_the_cuda_pod(cluster: Make, pod: Make) -> None:
    app = "nvidia-cuda-validator"
    found = operator.cuda_validation(cluster(pod("c-1", 0, app=app)), "w1", now=now)
    assert isinstance(found, CudaValidation)
    assert (found.pod, found.exit_code, found.last_line) == ("c-1", 0, "")
    logs = {f"{OPERATOR}/c-1:driver-validation": "error 802\n"}
    failed = operator.cuda_validation(cluster(pod("c-1", 1, app=app), logs=logs), "w1", now=now)
    assert isinstance(failed, CudaValidation)
    assert (failed.exit_code, failed.last_line) == (1, "error 802")
    absent = operator.cuda_validation(cluster(pod("c-1", node="w2", app=app)), "w1", now=now)
    assert isinstance(absent, Unread)
    assert absent.asked == "pod nvidia-cuda-validator on w1"


def test_what_a_node_says(cluster: Make, obj: Make) -> None:
    kube = cluster(obj("v1", "Node", "w1", status={"allocatable": {"nvidia.com/gpu": "1"}}))
    found = operator.gpu_node(kube, "w1", now=now)
    assert isinstance(found, GpuNode)
    assert found.allocatable == "1"
    absent = operator.gpu_node(kube, "w2", now=now)
    assert isinstance(absent, Unread)
    assert absent.asked == "Node w2"
