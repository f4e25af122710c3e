"""Pods of somebody's own: images that are not there, programs that end, restarts and logs."""

from __future__ import annotations

from typing import Any

import pytest

from harness.twin.apiserver.errors import ApiError
from harness.twin.world.backend import ClusterBackend

BUDGET = 300.0
SPACE = "plain"


def create(lab: Any, name: str, *containers: Any, **spec: Any) -> None:
    listed = [{"name": f"c{i}", "image": "ubuntu:24.04", **one} for i, one in enumerate(containers)]
    pod = {"metadata": {"name": name}, "spec": {"containers": listed, **spec}}
    lab.tenant.create(lab.tenant.registry.by_kind("v1", "Pod"), pod, namespace=SPACE)


def status(lab: Any, name: str) -> Any:
    return lab.tenant.find("v1", "Pod", SPACE, name)["status"]


def state(lab: Any, name: str, index: int = 0) -> Any:
    found = status(lab, name).get("containerStatuses")
    return found[index]["state"] if found else {"waiting": {"reason": ""}}


def condition(lab: Any, name: str, kind: str) -> Any:
    return next(c for c in status(lab, name)["conditions"] if c["type"] == kind)


def log(lab: Any, name: str, container: str = "c0", **query: str) -> str:
    backend = ClusterBackend(lab.world, "tenant-lab")
    return backend.logs(SPACE, name, container, query).decode()


@pytest.fixture
def plain(lab: Any) -> Any:
    kind = lab.tenant.registry.by_kind("v1", "Namespace")
    lab.tenant.create(kind, {"metadata": {"name": SPACE}}, namespace="")
    lab.pool("plain")
    lab.run_until(lab.joined, BUDGET)
    return lab


def test_a_program_that_ends_well_is_succeeded_and_its_log_stays(plain: Any) -> None:
    create(plain, "once", {"command": ["echo", "hello"]}, restartPolicy="Never")
    plain.run_until(lambda: status(plain, "once")["phase"] == "Succeeded", 30)
    ended = state(plain, "once")["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert condition(plain, "once", "Ready")["reason"] == "PodCompleted"
    plain.run(600)
    assert log(plain, "once") == "hello\n"
    with pytest.raises(ApiError, match="previous terminated container"):
        log(plain, "once", previous="true")


def test_a_program_that_fails_is_failed_and_not_tried_again(plain: Any) -> None:
    create(plain, "once", {"command": ["cat", "/no"]}, restartPolicy="Never")
    plain.run_until(lambda: status(plain, "once")["phase"] == "Failed", 30)
    assert state(plain, "once")["terminated"]["exitCode"] == 1
    assert log(plain, "once") == "cat: /no: No such file or directory\n"
    plain.run(300)
    assert status(plain, "once")["containerStatuses"][0]["restartCount"] == 0


def test_on_failure_restarts_later_and_later_until_it_ends_well(plain: Any) -> None:
    seen = plain.record()
    create(plain, "flaky", {"command": ["false"]}, restartPolicy="OnFailure")
    plain.run_until(lambda: "waiting" in state(plain, "flaky") and restarts(plain, "flaky"), 60)
    waiting = state(plain, "flaky")["waiting"]
    assert waiting["reason"] == "CrashLoopBackOff" and "back-off 10s" in waiting["message"]
    assert status(plain, "flaky")["phase"] == "Running"
    assert condition(plain, "flaky", "Ready")["status"] == "False"
    (event,) = plain.events("BackOff", plain.tenant)
    assert "Back-off restarting failed container c0" in event["message"]
    plain.run(600)
    # at once, after 10, 20, 40, 80 and 160 s: then five minutes for ever
    assert restarts(plain, "flaky") == 6
    assert "back-off 5m0s" in state(plain, "flaky")["waiting"]["message"]
    phases = {
        change.obj["status"]["phase"]
        for change in seen
        if change.resource.kind == "Pod" and change.obj["metadata"]["name"] == "flaky"
    }
    assert phases == {"Pending", "Running"}
    create(plain, "good", {"command": ["true"]}, restartPolicy="OnFailure")
    plain.run_until(lambda: status(plain, "good")["phase"] == "Succeeded", 30)
    plain.run(60)
    assert (status(plain, "good")["phase"], restarts(plain, "good")) == ("Succeeded", 0)


def restarts(lab: Any, name: str) -> int:
    found = status(lab, name).get("containerStatuses")
    return int(found[0]["restartCount"]) if found else 0


def test_always_restarts_what_ended_well_and_keeps_the_log_before(plain: Any) -> None:
    create(plain, "loop", {"command": ["echo", "again"]})
    plain.run_until(lambda: restarts(plain, "loop") == 1, 60)
    plain.run_until(lambda: "waiting" in state(plain, "loop"), 30)
    found = status(plain, "loop")["containerStatuses"][0]
    assert found["lastState"]["terminated"]["reason"] == "Completed"
    assert log(plain, "loop") == log(plain, "loop", previous="true") == "again\n"


def test_a_pod_with_a_sidecar_runs_until_both_have_ended(plain: Any) -> None:
    sleeper = {"command": ["sleep", "100"]}
    create(plain, "two", {"command": ["true"]}, sleeper, restartPolicy="Never")
    plain.run(20)
    assert status(plain, "two")["phase"] == "Running"
    assert "terminated" in state(plain, "two", 0) and "running" in state(plain, "two", 1)
    assert "c0" in condition(plain, "two", "Ready")["message"]
    plain.run_until(lambda: status(plain, "two")["phase"] == "Succeeded", 100)


def test_an_image_that_does_not_exist_is_tried_again_and_said(plain: Any) -> None:
    create(plain, "typo", {"image": "example.org/probe:does-not-exist"})
    plain.run_until(
        lambda: state(plain, "typo").get("waiting", {}).get("reason") == "ErrImagePull", 20
    )
    assert "not found" in state(plain, "typo")["waiting"]["message"]
    plain.run_until(
        lambda: state(plain, "typo").get("waiting", {}).get("reason") == "ImagePullBackOff", 20
    )
    assert status(plain, "typo")["phase"] == "Pending"
    plain.run(60)
    texts = [e["message"] for e in plain.events("Failed", plain.tenant)]
    assert any("Failed to pull image" in text for text in texts)
    assert "Error: ErrImagePull" in texts and "Error: ImagePullBackOff" in texts
    assert plain.events("BackOff", plain.tenant)


def test_a_reference_that_is_none_is_said(plain: Any) -> None:
    create(plain, "bad", {"image": "UPPER/case"})
    plain.run_until(
        lambda: state(plain, "bad").get("waiting", {}).get("reason") == "InvalidImageName", 20
    )
    assert "invalid reference format" in state(plain, "bad")["waiting"]["message"]


def test_a_main_program_that_is_not_in_the_image_does_not_start(plain: Any) -> None:
    create(plain, "no", {"command": ["nvidia-smi", "-L"]}, restartPolicy="Never")
    plain.run_until(lambda: status(plain, "no")["phase"] == "Failed", 20)
    ended = state(plain, "no")["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("StartError", 128)
    assert 'exec: "nvidia-smi": executable file not found in $PATH' in ended["message"]


def test_an_image_whose_shell_gets_no_input_ends_at_once(plain: Any) -> None:
    create(plain, "shell", {}, restartPolicy="Never")
    plain.run_until(lambda: status(plain, "shell")["phase"] == "Succeeded", 20)


def test_a_reboot_ends_what_is_not_to_be_restarted(plain: Any) -> None:
    create(plain, "never", {"command": ["sleep", "infinity"]}, restartPolicy="Never")
    create(plain, "always", {"command": ["sleep", "infinity"]})
    for name in ("always", "never"):
        plain.run_until(lambda name=name: status(plain, name)["phase"] == "Running", 30)
    plain.world.guests.all()[0].reboot()
    plain.run_until(lambda: status(plain, "never")["phase"] == "Failed", 120)
    assert state(plain, "never")["terminated"]["exitCode"] == 255
    plain.run_until(lambda: "running" in state(plain, "always"), 60)
    assert restarts(plain, "always") == 1


def test_a_deleted_pod_starts_nothing_any_more(plain: Any) -> None:
    create(plain, "loop", {"command": ["false"]}, terminationGracePeriodSeconds=0)
    plain.run(30)
    plain.tenant.delete(plain.tenant.registry.by_kind("v1", "Pod"), SPACE, "loop")
    plain.run(600)
    assert plain.tenant.find("v1", "Pod", SPACE, "loop") is None
