from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.reply import Output
from harness.facts.validator import (
    STAGES,
    DriverReady,
    DriverReadyAbsent,
    StageState,
    ValidatorPod,
    ValidatorStage,
    cuda_validation,
    last_line,
    read_driver_ready,
    stage,
    validator_pod,
    with_last_line,
)

DONE = {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}, "restartCount": 0}
RUNNING = {"state": {"running": {"startedAt": "x"}}, "restartCount": 0}
WAITING = {"state": {"waiting": {"reason": "PodInitializing"}}, "restartCount": 0}
CRASHED = {
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
    "lastState": {"terminated": {"exitCode": 1}},
    "restartCount": 3,
}
FAILED = {"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}, "restartCount": 1}


def pod(
    inits: list[dict[str, Any]], mains: list[dict[str, Any]] = (), phase: str = "Pending"
) -> Any:
    return {
        "kind": "Pod",
        "metadata": {"name": "v-1", "namespace": "cozy-gpu-operator"},
        "spec": {"nodeName": "w1", "initContainers": [{"name": name} for name in STAGES]},
        "status": {
            "phase": phase,
            "initContainerStatuses": [
                {"name": name, **one} for name, one in zip(STAGES, inits, strict=False)
            ],
            "containerStatuses": [{"name": "main", **one} for one in mains],
        },
    }


def read(*inits: dict[str, Any], mains: list[dict[str, Any]] = (), phase: str = "") -> ValidatorPod:
    return validator_pod(pod(list(inits), list(mains), phase), at=1.0, cluster="tenant lab")


@pytest.mark.parametrize(
    ("status", "state", "reason", "code", "restarts"),
    [
        (DONE, "done", "Completed", 0, 0),
        (RUNNING, "running", "", None, 0),
        (WAITING, "waiting", "PodInitializing", None, 0),
        (CRASHED, "waiting", "CrashLoopBackOff", 1, 3),
        (FAILED, "failed", "OOMKilled", 137, 1),
        ({}, "unknown", "", None, 0),
        ({"state": {}}, "unknown", "", None, 0),
        ({"state": {"terminated": {}}}, "failed", "", None, 0),
    ],
)
def test_a_container(
    status: dict[str, Any], state: str, reason: str, code: int | None, restarts: int
) -> None:
    found = stage("driver-validation", status)
    assert (found.state, found.reason, found.exit_code, found.restarts) == (
        StageState(state),
        reason,
        code,
        restarts,
    )


def test_a_stage_in_words() -> None:
    told = stage("x", CRASHED)
    assert str(told) == "waiting, CrashLoopBackOff, back-off 10s, ended with 1, 3 restarts"
    assert str(ValidatorStage("x", StageState.RUNNING, last_line="retrying")) == "running: retrying"


def test_the_first_stage_that_is_not_done_is_where_it_is_stuck() -> None:
    found = read(DONE, CRASHED, WAITING, WAITING)
    assert (found.pod, found.node) == ("v-1", "w1")
    assert found.stuck is not None
    assert (found.stuck.name, found.stuck.state) == ("toolkit-validation", "waiting")
    assert found.restarts == 3


def test_a_validator_that_is_through() -> None:
    found = read(DONE, DONE, DONE, DONE, mains=[RUNNING], phase="Running")
    assert (found.stuck, found.restarts, found.phase) == (None, 0, "Running")
    assert found.main == ValidatorStage("main", StageState.RUNNING)


def test_a_restart_of_the_main_container_counts() -> None:
    assert read(DONE, DONE, DONE, DONE, mains=[{**RUNNING, "restartCount": 2}]).restarts == 2


def test_a_stage_without_a_status_is_unknown_and_stuck() -> None:
    found = read(DONE)
    assert [one.state for one in found.stages] == ["done", "unknown", "unknown", "unknown"]
    assert found.stuck is found.stages[1]


def test_the_last_line_goes_to_its_stage_alone() -> None:
    found = with_last_line(read(DONE, RUNNING), "toolkit-validation", "a\nb\r\n\n")
    assert [one.last_line for one in found.stages] == ["", "b", "", ""]


@pytest.mark.parametrize(("log", "line"), [("", ""), ("\n \n", ""), ("a\nb", "b"), ("a\r\n", "a")])
def test_the_last_line_of_a_log(log: str, line: str) -> None:
    assert last_line(log) == line


@pytest.mark.parametrize(
    ("inits", "mains", "code", "reason"),
    [
        ([DONE], [DONE], 0, "Completed"),
        ([FAILED], [], 137, "OOMKilled"),
        ([DONE], [FAILED], 137, "OOMKilled"),
        ([RUNNING], [], None, "Evicted"),
        ([], [], None, "Evicted"),
    ],
)
def test_the_cuda_pod(inits: Any, mains: Any, code: int | None, reason: str) -> None:
    made = pod(inits, mains, "Succeeded")
    made["status"]["reason"] = "Evicted"
    found = cuda_validation(made, at=1.0, cluster="tenant lab", last_line="Test PASSED")
    assert (found.exit_code, found.reason) == (code, reason)
    assert (found.phase, found.node, found.last_line) == ("Succeeded", "w1", "Test PASSED")


def ready(
    stdout: str, exit_code: int | None = 0, stderr: str = ""
) -> DriverReady | DriverReadyAbsent | Unread:
    output = Output(("cat", "/run/nvidia/validations/driver-ready"), exit_code, stdout, stderr)
    return read_driver_ready(output, at=1.0, source="guest w1:driver-ready")


def test_what_the_driver_stage_left() -> None:
    found = ready('IS_HOST_DRIVER=true\r\nNVIDIA_DRIVER_ROOT=/\n\nDEV_ROOT_CTR_PATH="/host"\n')
    assert isinstance(found, DriverReady)
    assert found.entries == {
        "IS_HOST_DRIVER": "true",
        "NVIDIA_DRIVER_ROOT": "/",
        "DEV_ROOT_CTR_PATH": "/host",
    }


def test_nothing_left() -> None:
    said = "cat: /run/nvidia/validations/driver-ready: No such file or directory"
    found = ready("", 1, said)
    assert isinstance(found, DriverReadyAbsent)
    assert found.said == said


@pytest.mark.parametrize(
    ("stdout", "exit_code", "stderr", "quoted"),
    [
        ("", 0, "", "empty"),
        ("IS_HOST_DRIVER true\n", 0, "", "no KEY=value"),
        ("=true\n", 0, "", "no KEY=value"),
        ("a b=true\n", 0, "", "no KEY=value"),
        ("A=1\nA=2\n", 0, "", "A is there twice"),
        ("A=1\n", None, "", "no exit status"),
        ("", 1, "cat: /run/nvidia: No such file or directory", "ended with 1"),
    ],
)
def test_what_is_no_such_file(stdout: str, exit_code: int | None, stderr: str, quoted: str) -> None:
    found = ready(stdout, exit_code, stderr)
    assert isinstance(found, Unread)
    assert quoted in found.reason


@given(st.text(), st.sampled_from([0, 1, None]), st.text())
def test_any_text_is_ready_absent_or_unread(
    stdout: str, exit_code: int | None, stderr: str
) -> None:
    assert isinstance(ready(stdout, exit_code, stderr), DriverReady | DriverReadyAbsent | Unread)
