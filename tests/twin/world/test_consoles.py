"""A VMI's console and its log, as the management cluster's API server gets at them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.twin.apiserver.errors import ApiError
from harness.twin.world.backend import ClusterBackend
from harness.twin.world.objects import KUBEVIRT

NAMESPACE = "tenant-hil"


class Reader:
    def __init__(self) -> None:
        self.heard = b""
        self.ended = 0

    def hear(self, data: bytes) -> None:
        self.heard += data

    def end(self) -> None:
        self.ended += 1


def backend(lab: Any) -> ClusterBackend:
    return ClusterBackend(lab.world, "management")


def running(lab: Any) -> Any:
    """A VMI that runs, with a guest that is booting."""
    lab.gpu_pool()

    def phase() -> bool:
        found = lab.ours(KUBEVIRT, "VirtualMachineInstance")
        return bool(found) and (found[0].get("status") or {}).get("phase") == "Running"

    lab.run_until(phase, 600)
    return lab.ours(KUBEVIRT, "VirtualMachineInstance")[0]["metadata"]


def attach(lab: Any, name: str) -> tuple[Reader, Any]:
    reader = Reader()
    return reader, backend(lab).console(NAMESPACE, name, reader.hear, reader.end)


def test_only_what_is_printed_from_now_on_is_heard(lab: Any) -> None:
    vmi = running(lab)
    first, _ = attach(lab, vmi["name"])
    lab.run(10)
    late, _ = attach(lab, vmi["name"])
    assert b"Linux version" in first.heard
    assert late.heard == b""
    lab.run(60)
    assert first.heard.endswith(late.heard)
    assert late.heard


def test_a_reboot_goes_on_in_the_same_console(lab: Any) -> None:
    vmi = running(lab)
    reader, _ = attach(lab, vmi["name"])
    lab.run(300)
    assert reader.heard.count(b"Linux version") == 2  # the installation ends in a reboot
    assert reader.ended == 0


def test_leaving_ends_hearing(lab: Any) -> None:
    vmi = running(lab)
    reader, line = attach(lab, vmi["name"])
    line.leave()
    line.leave()
    lab.run(60)
    lab.delete_pool()
    lab.run(300)
    assert (reader.heard, reader.ended) == (b"", 0)


def test_the_end_of_the_machine_is_told_once(lab: Any) -> None:
    vmi = running(lab)
    reader, line = attach(lab, vmi["name"])
    assert line.machine == vmi["uid"]
    lab.delete_pool()
    lab.run(300)
    assert reader.ended == 1


def test_what_is_typed_reaches_a_reader_only(lab: Any) -> None:
    vmi = running(lab)
    lab.run(30)
    reader, line = attach(lab, vmi["name"])
    line.type(b"ignored")
    typed: list[bytes] = []
    lab.world.guests.named(vmi["name"]).console_reader = typed.append
    line.type(b"read")
    assert typed == [b"read"]
    assert reader.heard == b""


def refusal(lab: Any, name: str) -> tuple[int, str]:
    with pytest.raises(ApiError) as caught:
        attach(lab, name)
    return caught.value.code, caught.value.message


def edit(lab: Any, name: str, subresource: str, change: Any) -> None:
    lab.management.edit(
        KUBEVIRT,
        "VirtualMachineInstance",
        NAMESPACE,
        name,
        change,
        manager="test",
        subresource=subresource,
    )


def test_refusals_are_virt_apis(lab: Any) -> None:
    missing = 'virtualmachineinstance.kubevirt.io "none" not found'
    assert refusal(lab, "none") == (404, missing)
    name = running(lab)["name"]
    edit(lab, name, "status", lambda vmi: vmi["status"].update(phase="Scheduling"))
    assert refusal(lab, name) == (400, "VMI is not running")
    edit(lab, name, "status", lambda vmi: vmi["status"].update(phase="Failed"))
    code, text = refusal(lab, name)
    assert code == 409
    assert text.endswith("VMI is in failed status")
    devices = {"autoattachSerialConsole": False}
    edit(lab, name, "", lambda vmi: vmi["spec"]["domain"]["devices"].update(devices))
    assert refusal(lab, name) == (400, "No serial consoles are present.")


def test_a_log_is_followed(lab: Any) -> None:
    name = running(lab)["name"]
    pods = lab.management.all("v1", "Pod", NAMESPACE)
    (pod,) = (p for p in pods if p["metadata"]["labels"].get("vm.kubevirt.io/name") == name)
    reader = Reader()
    where = (NAMESPACE, pod["metadata"]["name"], "compute")
    before = backend(lab).logs(*where, {})
    stop = backend(lab).follow_logs(*where, reader.hear)
    lab.world.hosts.say(pod, "one")
    assert reader.heard == b"one\n"
    stop()
    lab.world.hosts.say(pod, "two")
    assert reader.heard == b"one\n"
    assert backend(lab).logs(*where, {}) == before + b"one\ntwo\n"


def test_the_console_log_container_is_followed_too(lab: Any) -> None:
    lab.gpu_pool(logSerialConsole=True)
    reader = Reader()

    def runs() -> bool:
        found = lab.ours(KUBEVIRT, "VirtualMachineInstance")
        return bool(found) and (found[0].get("status") or {}).get("phase") == "Running"

    lab.run_until(runs, 600)
    (pod,) = (
        p
        for p in lab.management.all("v1", "Pod", NAMESPACE)
        if any(c["name"] == "guest-console-log" for c in p["spec"].get("initContainers", ()))
    )
    where = (NAMESPACE, pod["metadata"]["name"], "guest-console-log")
    backend(lab).follow_logs(*where, reader.hear)
    lab.run(20)
    assert b"Linux version" in reader.heard
    assert backend(lab).logs(*where, {}) == reader.heard
