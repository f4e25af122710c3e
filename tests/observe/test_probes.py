from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.facts.fact import Unread
from harness.facts.nvidia import SmiCards, SmiFailed
from harness.facts.probes import Control, CudaRun, EarlyPod, Injected, NoTool
from harness.observe import probes
from harness.reach.errors import ApiRefused
from harness.reach.nodeshell import Reply

Make = Callable[..., Any]
NS = "hil-probe"
UUID = "GPU-8d4a765a-6657-43a2-87d4-6ebab7ad40e2"
NOT_FOUND = 'exec: "nvidia-smi": executable file not found in $PATH: unknown'


def now() -> float:
    return 1767225700.0


@pytest.fixture
def pod(obj: Make) -> Make:
    def make(phase: str = "Running", limit: str = "1", **state: Any) -> Any:
        limits = {"nvidia.com/gpu": limit} if limit else {}
        container = {"name": "probe", "image": "i", "resources": {"limits": limits}}
        statuses = [{"name": "probe", "state": state or {"running": {}}}]
        spec = {"nodeName": "w1", "containers": [container]}
        return obj(
            "v1", "Pod", "p", NS, spec=spec, status={"phase": phase, "containerStatuses": statuses}
        )

    return make


def answering(code: int | None, stdout: str = "", problem: str = "") -> Any:
    def execute(kube: Any, namespace: str, name: str, argv: Sequence[str]) -> Reply:
        assert (kube.name, namespace, name) == ("tenant lab", NS, "p")
        assert list(argv) == ["nvidia-smi", "-L"]
        return Reply(tuple(argv), code, stdout.encode(), b"", 1.0, 2.0, problem)

    return execute


LISTS = answering(0, f"GPU 0: NVIDIA L40S (UUID: {UUID})\n")
LACKS = answering(None, problem=f"OCI runtime exec failed: {NOT_FOUND}")


def never(kube: Any, namespace: str, name: str, argv: Sequence[str]) -> Reply:
    raise AssertionError("nothing had to be run")


def test_a_fresh_pod(cluster: Make, pod: Make) -> None:
    found = probes.injected(cluster(pod()), NS, "p", now=now, execute=LISTS)
    assert isinstance(found, Injected)
    assert (found.stored.pod, found.stored.node, found.stored.requested) == ("p", "w1", 1)
    assert isinstance(found.smi, SmiCards)
    assert [card.uuid for card in found.smi.cards] == [UUID]
    assert found.smi.origin.source == "tenant lab Pod hil-probe/p:nvidia-smi -L"
    assert (found.smi.origin.at, found.origin.at) == (2.0, now())


def test_in_a_pod_that_does_not_run_nothing_is_run(cluster: Make, pod: Make) -> None:
    waiting = pod("Pending", waiting={"reason": "ImagePullBackOff", "message": "m"})
    found = probes.injected(cluster(waiting), NS, "p", now=now, execute=never)
    assert isinstance(found, Injected)
    assert isinstance(found.smi, Unread)
    assert found.smi.reason == "pod p is Pending (ImagePullBackOff: m)"


@pytest.mark.parametrize(
    ("execute", "finds", "said"),
    [
        (LACKS, 0, "executable file not found"),
        (LISTS, 1, UUID),
        (answering(255, "Failed to initialize NVML: Unknown Error\n"), 1, "Failed to initialize"),
    ],
)
def test_a_control(cluster: Make, pod: Make, execute: Any, finds: int, said: str) -> None:
    found = probes.control(cluster(pod(limit="")), NS, "p", now=now, execute=execute)
    assert isinstance(found, Control)
    assert (found.found_driver, found.stored.requested) == (bool(finds), 0)
    assert said in found.said


def test_a_control_that_did_not_answer_is_none(cluster: Make, pod: Make) -> None:
    gone = answering(None, problem="the connection closed")
    found = probes.control(cluster(pod()), NS, "p", now=now, execute=gone)
    assert isinstance(found, Unread)
    assert "the connection closed" in found.reason
    waiting = pod("Pending", waiting={"reason": "x"})
    assert isinstance(probes.control(cluster(waiting), NS, "p", now=now, execute=never), Unread)


@pytest.mark.parametrize(
    ("state", "logs", "code", "log"),
    [
        ({"terminated": {"exitCode": 0}}, {f"{NS}/p:probe": "Test PASSED\n"}, 0, "Test PASSED\n"),
        ({"terminated": {"exitCode": 3}}, {}, 3, None),
        ({"running": {}}, {f"{NS}/p:probe": "half"}, None, None),
    ],
)
def test_a_cuda_program(
    cluster: Make, pod: Make, state: Any, logs: Any, code: int | None, log: str | None
) -> None:
    found = probes.cuda_run(cluster(pod("Succeeded", **state), logs=logs), NS, "p", now=now)
    assert isinstance(found, CudaRun)
    assert (found.exit_code, found.log, found.stored.phase) == (code, log, "Succeeded")


def test_an_early_pod_that_runs(cluster: Make, pod: Make) -> None:
    found = probes.early_pod(cluster(pod()), NS, "p", None, now=now, execute=LACKS)
    assert isinstance(found, EarlyPod)
    assert isinstance(found.smi, NoTool)
    assert found.advertised is None


def test_an_early_pod_that_was_refused(cluster: Make, pod: Make) -> None:
    refused = pod("Failed")
    refused["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "m"}
    found = probes.early_pod(cluster(refused), NS, "p", "0", now=now, execute=never)
    assert isinstance(found, EarlyPod)
    assert (found.smi, found.advertised) == (None, "0")
    assert str(found.stored) == "p is Failed (UnexpectedAdmissionError: m)"


def test_an_early_pod_may_fail_to_answer(cluster: Make, pod: Make) -> None:
    failed = answering(255, "Failed to initialize NVML: Unknown Error\n")
    found = probes.early_pod(cluster(pod()), NS, "p", None, now=now, execute=failed)
    assert isinstance(found, EarlyPod)
    assert isinstance(found.smi, SmiFailed)


def test_a_pod_that_is_gone_is_unread(cluster: Make) -> None:
    empty = cluster()
    for found in (
        probes.injected(empty, NS, "p", now=now, execute=never),
        probes.control(empty, NS, "p", now=now, execute=never),
        probes.cuda_run(empty, NS, "p", now=now),
        probes.early_pod(empty, NS, "p", None, now=now, execute=never),
    ):
        assert isinstance(found, Unread)
        assert (found.asked, found.reason) == ("Pod hil-probe/p", "it is not there")


def test_without_an_executor_the_probes_own_container_is_used(
    cluster: Make, pod: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def run(kube: Any, namespace: str, name: str, argv: Any, *, container: str) -> Reply:
        asked.append((namespace, name, list(argv), container))
        return Reply(tuple(argv), 0, b"No devices found\n", b"", 1.0, 2.0)

    monkeypatch.setattr(probes, "run_in_pod", run)
    found = probes.injected(cluster(pod()), NS, "p", now=now)
    assert isinstance(found, Injected)
    assert asked == [(NS, "p", ["nvidia-smi", "-L"], "probe")]


@pytest.mark.parametrize(("code", "raises"), [(400, 0), (404, 0), (403, 1), (500, 1)])
def test_only_a_log_that_is_not_there_is_none(
    cluster: Make, pod: Make, code: int, raises: int
) -> None:
    kube = cluster(pod("Failed", terminated={"exitCode": 1}))
    kube.refusing = code
    if raises:
        with pytest.raises(ApiRefused):
            probes.cuda_run(kube, NS, "p", now=now)
    else:
        found = probes.cuda_run(kube, NS, "p", now=now)
        assert isinstance(found, CudaRun)
        assert found.log is None
