"""A worker that is made to boot anew from inside, and one whose memory runs out."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execresult import ExecResult

BUDGET = 900.0


@pytest.fixture
def shell(lab: Any) -> Any:
    """A worker with a privileged shell on it; a call runs a command there."""
    lab.pool()
    lab.run_until(lab.joined, BUDGET)
    (node,) = lab.nodes()
    container = {
        "name": "shell",
        "image": "busybox",
        "command": ["sleep", "2147483647"],
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": "host", "mountPath": "/host"}],
    }
    spec = {
        "nodeName": node["metadata"]["name"],
        "hostNetwork": True,
        "restartPolicy": "Always",
        "containers": [container],
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    }
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    spaces = lab.tenant.registry.by_kind("v1", "Namespace")
    lab.tenant.create(spaces, {"metadata": {"name": "hil-shell", "labels": labels}}, namespace="")
    pods = lab.tenant.registry.by_kind("v1", "Pod")
    lab.tenant.create(pods, {"metadata": {"name": "shell"}, "spec": spec}, namespace="hil-shell")
    lab.run_until(lambda: runs(lab), 60)

    def ask(*argv: str) -> ExecResult:
        found = lab.world.exec("tenant-lab", "hil-shell", "shell", "shell", list(argv))
        assert isinstance(found, ExecResult)
        return found

    return ask


def runs(lab: Any) -> bool:
    pod = lab.tenant.find("v1", "Pod", "hil-shell", "shell")
    found = pod["status"].get("containerStatuses") or []
    (node,) = lab.nodes()
    up = lab.world.workers["lab"].guest_of(node["metadata"]["name"]) is not None
    return up and bool(found) and "running" in found[0]["state"]


def restarts(lab: Any) -> int:
    pod = lab.tenant.find("v1", "Pod", "hil-shell", "shell")
    return int(pod["status"]["containerStatuses"][0]["restartCount"])


def boot_id(shell: Any) -> str:
    return str(shell("cat", "/proc/sys/kernel/random/boot_id").stdout.decode().strip())


@pytest.mark.parametrize(("letter", "farewell"), [("b", "sysrq: Resetting"), ("c", "Rebooting in")])
def test_sysrq_boots_the_guest_anew(lab: Any, shell: Any, letter: str, farewell: str) -> None:
    before, (guest,) = boot_id(shell), lab.world.guests.all()
    printed = len(guest.console())
    result = shell("sh", "-c", f"echo {letter} > /proc/sysrq-trigger")
    assert result.dropped
    with pytest.raises(ApiError, match="error dialing backend"):
        shell("true")
    lab.run_until(lambda: runs(lab), 200)
    assert boot_id(shell) != before and restarts(lab) == 1
    console = guest.console()[printed:].decode()
    assert farewell in console and console.count("Linux version") == 1
    assert console.index(farewell) < console.index("Linux version")
    assert "reboot: Restarting system" not in console  # nobody was asked to go down
    assert float(shell("cat", "/proc/uptime").stdout.split()[0]) < 200
    assert lab.nodes()[0]["status"]["nodeInfo"]["bootID"] == boot_id(shell)


def test_a_panic_waits_as_long_as_it_is_told(lab: Any, shell: Any) -> None:
    assert shell("cat", "/proc/sys/kernel/panic").stdout == b"10\n"
    assert shell("sh", "-c", "echo 3 > /proc/sys/kernel/panic").exit_code == 0
    assert shell("cat", "/proc/sys/kernel/panic").stdout == b"3\n"
    (guest,) = lab.world.guests.all()
    shell("sh", "-c", "echo c > /proc/sysrq-trigger")
    text = guest.console().decode()
    assert "Kernel panic - not syncing: sysrq triggered crash\r\n" in text
    assert "Rebooting in 3 seconds..\r\n" in text
    lab.run_until(lambda: runs(lab), 200)
    assert shell("cat", "/proc/sys/kernel/panic").stdout == b"10\n"  # each boot begins alike


def test_a_panic_may_be_the_end(lab: Any, shell: Any) -> None:
    shell("sh", "-c", "echo 0 > /proc/sys/kernel/panic")
    shell("sh", "-c", "echo c > /proc/sysrq-trigger")
    (guest,) = lab.world.guests.all()
    lab.run(120)
    assert not guest.running
    assert "end Kernel panic" in guest.console().decode().splitlines()[-1]


def test_the_log_printed_on_the_console_is_no_boot(lab: Any, shell: Any) -> None:
    before, (guest,) = boot_id(shell), lab.world.guests.all()
    printed = len(guest.console())
    assert shell("sh", "-c", "dmesg > /dev/ttyS0").exit_code == 0
    assert "Linux version" in guest.console()[printed:].decode()
    assert boot_id(shell) == before and restarts(lab) == 0


def test_what_may_not_be_written_is_refused(lab: Any, shell: Any) -> None:
    assert shell("sh", "-c", "echo x > /proc/sys/kernel/panic").exit_code == 1
    result = shell("sh", "-c", "echo 1 > /proc/version")
    assert (result.exit_code, result.stderr) == (
        1,
        b"sh: can't create /proc/version: Read-only file system\n",
    )
    pods = lab.tenant.registry.by_kind("v1", "Pod")
    node = lab.nodes()[0]["metadata"]["name"]
    plain = {"name": "main", "image": "busybox", "command": ["sleep", "9999"]}
    body = {"metadata": {"name": "plain"}, "spec": {"nodeName": node, "containers": [plain]}}
    lab.tenant.create(pods, body, namespace="default")
    lab.run(60)
    argv = ["sh", "-c", "echo b > /proc/sysrq-trigger"]
    refused = lab.world.exec("tenant-lab", "default", "plain", "main", argv)
    assert refused.exit_code == 1 and b"can't create /proc/sysrq-trigger" in refused.stderr


def test_memory_that_runs_out_is_told_as_a_kernel_tells_it(lab: Any) -> None:
    lab.world.on_guest.append(lambda guest, _: guest.run_out_of_memory((400.0, 700.0)))
    lab.pool()
    lab.run_until(lab.joined, BUDGET)
    (guest,) = lab.world.guests.all()
    first = guest.boot_id
    lab.run_until(lambda: "Out of memory" in guest.kernel_log().decode(), 600)
    log = guest.kernel_log().decode()
    assert re.search(
        r"^\[ *[\d.]+\] Out of memory: Killed process (\d+) \(([\w-]+)\) total-vm:\d+kB, "
        r"anon-rss:\d+kB, file-rss:\d+kB, shmem-rss:\d+kB, UID:\d+ pgtables:\d+kB "
        r"oom_score_adj:\d+$",
        log,
        re.MULTILINE,
    )
    assert re.search(r"\] [\w-]+ invoked oom-killer: gfp_mask=0x\w+\(.*\), order=0,", log)
    assert "] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null)," in log
    assert "] oom_reaper: reaped process " in log
    meminfo = guest.run(["cat", "/proc/meminfo"]).stdout.decode()
    assert re.search(r"^MemAvailable: +61440 kB$", meminfo, re.MULTILINE)
    lab.run_until(lambda: guest.boot_id != first, 200)
    assert "deadlocked on memory" in guest.console().decode()
    meminfo = guest.run(["cat", "/proc/meminfo"]).stdout.decode()
    available = re.search(r"^MemAvailable: +(\d+) kB$", meminfo, re.MULTILINE)
    assert available is not None
    assert int(available[1]) > 13_000_000
