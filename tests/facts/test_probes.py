from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.nvidia import SmiCards, SmiFailed
from harness.facts.probes import NoTool, exit_code, read_seen, runs, stored
from harness.facts.reply import Output

UUID = "GPU-8d4a765a-6657-43a2-87d4-6ebab7ad40e2"
LISTED = f"GPU 0: NVIDIA L40S (UUID: {UUID})\n"
NOT_FOUND = 'exec: "nvidia-smi": executable file not found in $PATH: unknown'


def pod(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    container = {
        "name": "probe",
        "image": "ubuntu:24.04",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    return {
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "hil-probe",
            "creationTimestamp": "2026-11-30T12:00:00Z",
            "annotations": {"cdi.k8s.io/nvidia-device-plugin_x": "y"},
        },
        "spec": {"nodeName": "w1", "containers": [container], **(spec or {})},
        "status": {"phase": "Running", **status},
    }


def container(**more: Any) -> dict[str, Any]:
    return {"containers": [{"name": "probe", "image": "i", **more}]}


def state(**kind: Any) -> list[dict[str, Any]]:
    return [{"name": "probe", "state": kind}]


def test_a_pod_as_stored() -> None:
    found = stored(pod())
    assert (found.pod, found.node, found.phase) == ("p", "w1", "Running")
    assert (found.requested, found.image, found.runtime_class) == (1, "ubuntu:24.04", "")
    assert found.created == 1796040000.0
    assert found.aids == ()
    assert str(found) == "p is Running"


@pytest.mark.parametrize(
    ("spec", "aid"),
    [
        ({"runtimeClassName": "nvidia"}, "runtimeClassName nvidia"),
        ({"volumes": [{"name": "u", "hostPath": {"path": "/usr"}}]}, "host path /usr"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resource claim gpu"),
        ({"initContainers": [{"name": "setup"}]}, "init container setup"),
        (container(securityContext={"privileged": True}), "privileged container probe"),
        (
            container(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
            "variable NVIDIA_VISIBLE_DEVICES",
        ),
        (container(env=[{"name": "LD_PRELOAD", "value": "x"}]), "variable LD_PRELOAD"),
    ],
)
def test_whatever_could_bring_a_driver_is_told(spec: dict[str, Any], aid: str) -> None:
    assert aid in stored(pod(spec)).aids


def test_what_brings_none_is_no_aid() -> None:
    spec = container(env=[{"name": "PATH", "value": "/bin"}])
    spec["volumes"] = [{"name": "t", "projected": {}}]
    assert stored(pod(spec)).aids == ()


@pytest.mark.parametrize(
    ("limit", "requested"), [("2", 2), (1, 1), ("", 0), ("1k", 0), (None, 0), ("-1", 0)]
)
def test_how_many_cards_it_asks_for(limit: Any, requested: int) -> None:
    spec = container(resources={"limits": {"nvidia.com/gpu": limit}})
    assert stored(pod(spec)).requested == requested


def test_the_probes_container_is_the_one_of_its_name_else_the_first() -> None:
    sidecar = {"name": "sidecar", "image": "s"}
    assert stored(pod({"containers": [sidecar, {"name": "probe", "image": "i"}]})).image == "i"
    assert stored(pod({"containers": [sidecar]})).image == "s"
    assert stored(pod({"containers": []})).image == ""


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        ({}, "", ""),
        ({"reason": "UnexpectedAdmissionError", "message": "m"}, "UnexpectedAdmissionError", "m"),
        (
            {"containerStatuses": state(waiting={"reason": "ImagePullBackOff", "message": "i"})},
            "ImagePullBackOff",
            "i",
        ),
        (
            {"containerStatuses": state(terminated={"reason": "Error", "exitCode": 1})},
            "Error",
            "",
        ),
        ({"containerStatuses": state(terminated={"reason": "Completed"})}, "", ""),
        ({"containerStatuses": state(running={})}, "", ""),
        (
            {
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "Insufficient nvidia.com/gpu",
                    }
                ]
            },
            "Unschedulable",
            "Insufficient nvidia.com/gpu",
        ),
        ({"conditions": [{"type": "PodScheduled", "status": "True", "reason": "x"}]}, "", ""),
    ],
)
def test_how_it_stands(status: dict[str, Any], reason: str, message: str) -> None:
    found = stored(pod(None, **status))
    assert (found.reason, found.message) == (reason, message)


@pytest.mark.parametrize(
    ("status", "code", "running"),
    [
        (state(running={"startedAt": "x"}), None, True),
        (state(running={}), None, True),
        (state(terminated={"exitCode": 0}), 0, False),
        (state(terminated={"exitCode": 3}), 3, False),
        (state(waiting={"reason": "x"}), None, False),
        ([], None, False),
    ],
)
def test_whether_it_runs_and_how_it_ended(status: Any, code: int | None, *, running: bool) -> None:
    found = pod(None, containerStatuses=status)
    assert (exit_code(found), runs(found)) == (code, running)


def seen(stdout: str = "", code: int | None = 0, stderr: str = "", problem: str = "") -> object:
    output = Output(("nvidia-smi", "-L"), code, stdout, stderr, problem)
    return read_seen(output, at=1.0, source="tenant lab Pod hil-probe/p:nvidia-smi -L")


def test_cards_that_a_pod_lists() -> None:
    found = seen(LISTED)
    assert isinstance(found, SmiCards)
    assert [card.uuid for card in found.cards] == [UUID]


@pytest.mark.parametrize(
    ("stdout", "code", "stderr", "problem"),
    [
        ("", None, "", f"OCI runtime exec failed: {NOT_FOUND}"),
        ("", 126, f"OCI runtime exec failed: {NOT_FOUND}", ""),
        (f"OCI runtime exec failed: {NOT_FOUND}\n", 126, "", ""),
        ("", 127, "sh: nvidia-smi: not found", ""),
        ("", None, "", "crun: executable file `nvidia-smi` not found in $PATH: No such file"),
        ("", 127, "exec /usr/bin/nvidia-smi: no such file or directory", ""),
    ],
)
def test_a_pod_without_the_program(
    stdout: str, code: int | None, stderr: str, problem: str
) -> None:
    found = seen(stdout, code, stderr, problem)
    assert isinstance(found, NoTool), found
    assert "not found" in found.said or "no such file" in found.said


@pytest.mark.parametrize(
    ("stdout", "code", "problem"),
    [
        ("", None, "the connection closed"),
        ("", 127, ""),
        ("", None, "nvidia-smi: container not found"),
        (NOT_FOUND, 1, ""),
        (NOT_FOUND, 0, ""),
        (LISTED, None, "the connection closed"),
    ],
)
def test_what_says_nothing_of_the_program(stdout: str, code: int | None, problem: str) -> None:
    assert isinstance(seen(stdout, code, problem=problem), Unread)


def test_a_driver_that_does_not_answer_in_the_pod() -> None:
    assert isinstance(seen("Failed to initialize NVML: Unknown Error\n", 255), SmiFailed)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@given(json_like, json_like)
def test_any_object_can_be_stored(spec: Any, status: Any) -> None:
    read = {"metadata": {"name": "p"}, "spec": spec, "status": status}
    assert stored(read).pod == "p"
    assert exit_code(read) is None
    assert runs(read) is False


@given(st.text(), st.sampled_from([0, 126, 127, None]), st.text(), st.text())
def test_any_answer_is_seen(stdout: str, code: int | None, stderr: str, problem: str) -> None:
    assert isinstance(seen(stdout, code, stderr, problem), SmiCards | SmiFailed | NoTool | Unread)
