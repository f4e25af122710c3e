"""Worlds in which a worker that was asked for does not join, and who else is there."""

from __future__ import annotations

from typing import Any

from harness.twin.world import consoles
from harness.twin.world.objects import CAPI, KUBEVIRT, deep

SPACE = "tenant-hil"

MINUTE = 60.0


def pools_machines(lab: Any) -> list[Any]:
    return list(lab.world.management.all(CAPI, "Machine", SPACE))


def launcher(lab: Any) -> Any:
    (pod,) = (
        one
        for one in lab.world.management.all("v1", "Pod", SPACE)
        if one["metadata"]["name"].startswith("virt-launcher-")
    )
    return pod


def vmi(lab: Any) -> Any:
    (found,) = lab.world.management.all(KUBEVIRT, "VirtualMachineInstance", SPACE)
    return found


def test_a_nocloud_image_stays_in_maintenance(faulty: Any) -> None:
    lab = faulty("nocloud-image")
    lab.pool(gpu="")
    lab.run(29 * MINUTE)
    assert lab.guest.stage == "maintenance"
    assert b"maintenance service" in lab.guest.console()
    assert deep(vmi(lab), "status", "phase") == "Running"
    assert lab.tenant.all("v1", "Node") == []


def test_a_guest_of_a_guest_without_vgif_crawls(faulty: Any) -> None:
    lab = faulty("vgif-nested-stall")
    lab.pool(gpu="")
    lab.run(29 * MINUTE)
    assert deep(vmi(lab), "status", "phase") == "Running"
    assert lab.tenant.all("v1", "Node") == []
    assert b"Linux version" in lab.guest.console()
    lab.until(lambda: lab.tenant.all("v1", "Node"), 4 * 3600.0)


def test_a_launcher_waits_for_the_container_that_logs_the_console(faulty: Any) -> None:
    lab = faulty("console-log-wedge")
    lab.pool(gpu="")
    lab.run(29 * MINUTE)
    pod = launcher(lab)
    (log,) = deep(pod, "status", "initContainerStatuses")
    (compute,) = deep(pod, "status", "containerStatuses")
    assert log["name"] == "guest-console-log"
    assert log["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert log["restartCount"] > 1
    assert compute["state"]["waiting"]["reason"] == "PodInitializing"
    assert deep(vmi(lab), "status", "phase") == "Scheduling"


def test_the_platform_may_log_consoles_where_nothing_is_broken(faulty: Any) -> None:
    lab = faulty("console-log-wedge")
    lab.world.hosts.broken_sidecars.clear()
    lab.pool(gpu="")
    lab.until(lambda: lab.tenant.all("v1", "Node"))
    (log,) = deep(launcher(lab), "status", "initContainerStatuses")
    assert (log["ready"], "running" in log["state"]) == (True, True)


def test_a_health_check_deletes_who_had_not_the_time(faulty: Any) -> None:
    lab = faulty("mhc-deletes-slow-joiner")
    lab.pool(gpu="")
    lab.run(5 * MINUTE)
    (first,) = pools_machines(lab)
    lab.run(17 * MINUTE)
    (second,) = pools_machines(lab)
    assert first["metadata"]["name"] != second["metadata"]["name"]
    lab.run(30 * MINUTE)
    assert lab.tenant.all("v1", "Node") == []


def test_without_the_health_check_the_slow_image_would_have_joined(faulty: Any) -> None:
    lab = faulty("mhc-deletes-slow-joiner")
    lab.world.management.admission.pop()
    lab.pool(gpu="")
    lab.run(29 * MINUTE)
    assert len(lab.tenant.all("v1", "Node")) == 1


def test_the_other_clusters_operator_changes_nothing_in_the_tenants(faulty: Any) -> None:
    lab = faulty("wrong-cluster-queried")
    lab.pool()
    lab.until(lambda: lab.tenant.all("v1", "Node") and lab.offered() == "1")
    names = [one["metadata"]["name"] for one in lab.tenant.all("v1", "Pod")]
    assert not any(name.startswith("nvidia-driver-daemonset") for name in names)
    there = lab.world.management.all("v1", "Pod", "cozy-gpu-operator")
    assert any(one["metadata"]["name"].startswith("nvidia-driver") for one in there)


def test_a_console_is_taken_while_its_machine_runs_on(faulty: Any) -> None:
    lab = faulty("console-stolen")
    lab.pool(gpu="")
    lab.until(lambda: lab.world.guests.all())
    lab.run(MINUTE)
    heard, ended = bytearray(), []
    name = vmi(lab)["metadata"]["name"]
    line = consoles.attach(
        lab.world, SPACE, name, heard.extend, lambda: ended.append(lab.engine.now)
    )
    began = lab.engine.now
    lab.run(MINUTE)
    assert ended == [began + 5.0]
    assert lab.guest.running
    line.leave()


def test_who_lets_go_in_time_has_nothing_taken(faulty: Any) -> None:
    lab = faulty("console-stolen")
    lab.pool(gpu="")
    lab.until(lambda: lab.world.guests.all())
    ended: list[float] = []
    name = vmi(lab)["metadata"]["name"]
    consoles.attach(lab.world, SPACE, name, lambda _: None, lambda: ended.append(1.0)).leave()
    lab.run(MINUTE)
    assert ended == []
