"""A worker's own disk: files on it, the cache before it, and what they do while it stands still."""

from __future__ import annotations

from typing import Any

import pytest

from harness.twin.apiserver.execresult import ExecResult, Running
from harness.twin.world.drbd_state import Settings
from harness.twin.world.guest_disk import GuestDisk

BUDGET = 400.0
HOSTS = {"hv-1", "hv-2", "hv-3"}
FILE = "/host/var/hil"
WRITE = ("dd", "if=/dev/urandom", f"of={FILE}", "bs=65536", "count=4", "conv=fsync")
SHELL = {
    "containers": [
        {
            "name": "shell",
            "image": "busybox:1.37.0",
            "command": ["sleep", "infinity"],
            "securityContext": {"privileged": True},
            "volumeMounts": [{"name": "host", "mountPath": "/host", "readOnly": True}],
        }
    ],
    "hostNetwork": True,
    "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
}
BEHIND = (
    'rm -f "$1"; (cat /proc/uptime >"$1"; dd if=/dev/zero of="$2" bs=65536 count=1 conv=fsync; '
    'echo $? >>"$1"; cat /proc/uptime >>"$1") </dev/null >/dev/null 2>&1 &'
)


@pytest.fixture
def worker(lab: Any) -> Any:
    lab.pool("plain", storageClass="replicated")
    lab.run_until(lab.joined, BUDGET)
    space = {"pod-security.kubernetes.io/enforce": "privileged"}
    kinds = lab.tenant.registry.by_kind
    namespace = {"metadata": {"name": "s", "labels": space}}
    lab.tenant.create(kinds("v1", "Namespace"), namespace, namespace="")
    spec = {**SHELL, "nodeName": lab.nodes()[0]["metadata"]["name"]}
    pod = {"metadata": {"name": "shell"}, "spec": spec}
    lab.tenant.create(kinds("v1", "Pod"), pod, namespace="s")
    lab.run(15)
    return lab


def ask(lab: Any, *argv: str) -> Any:
    return lab.world.exec("tenant-lab", "s", "shell", "shell", list(argv))


def told(lab: Any, *argv: str) -> str:
    ran = ask(lab, *argv)
    assert isinstance(ran, ExecResult), "it stands still"
    assert (ran.exit_code, ran.error) == (0, ""), (argv, ran)
    return ran.stdout.decode()


def volume(lab: Any) -> Any:
    host = lab.management.all("kubevirt.io/v1", "VirtualMachineInstance")[0]["status"]["nodeName"]
    found = lab.world.storage.resources.values()
    return next(one for one in found if one.on(host) and one.on(host).openers), host


def cut(lab: Any) -> str:
    resource, host = volume(lab)
    for other in HOSTS - {host}:
        lab.world.storage.cut(host, other, carrier=False)
    lab.run(20)
    assert resource.on(host).suspended == {"quorum"}
    return str(host)


def test_what_is_written_goes_through_the_disk_and_is_counted_there(worker: Any) -> None:
    resource, host = volume(worker)
    before = resource.on(host).written
    told(worker, *WRITE)
    assert resource.on(host).written - before == 256
    digest, path = told(worker, "sha256sum", FILE).split()
    assert path == FILE and len(digest) == 64


def test_a_read_comes_from_the_cache_until_that_is_dropped(worker: Any) -> None:
    told(worker, *WRITE)
    resource, host = volume(worker)
    before, digest = resource.on(host).read, told(worker, "sha256sum", FILE)
    assert resource.on(host).read == before
    told(worker, "sh", "-c", "echo 3 > /proc/sys/vm/drop_caches")
    assert told(worker, "sha256sum", FILE) == digest
    assert resource.on(host).read - before == 256


def test_without_fsync_it_is_in_memory_until_a_sync(worker: Any) -> None:
    resource, host = volume(worker)
    before = resource.on(host).written
    told(worker, *WRITE[:-1])
    told(worker, "sh", "-c", "echo 3 > /proc/sys/vm/drop_caches")
    assert resource.on(host).written == before and told(worker, "sha256sum", FILE)
    told(worker, "sync")
    assert resource.on(host).written - before == 256


def test_a_write_stands_still_with_its_disk_and_goes_on(worker: Any) -> None:
    cut(worker)
    status = "/dev/shm/status"
    assert ask(worker, "sh", "-c", BEHIND, "sh", status, FILE).exit_code == 0
    ran = ask(worker, *WRITE)
    assert isinstance(ran, Running) and ran.uninterruptible
    ended: list[ExecResult] = []
    ran.follow(lambda data: None, ended.append)
    worker.run(15)
    assert not ended and len(told(worker, "cat", status).splitlines()) == 1
    worker.world.storage.heal()
    worker.run(30)
    assert [one.exit_code for one in ended] == [0]
    began, code, over = told(worker, "cat", status).splitlines()
    assert code == "0" and float(over.split()[0]) - float(began.split()[0]) > 15


def test_what_is_cached_is_read_while_the_disk_stands_still(worker: Any) -> None:
    told(worker, *WRITE)
    digest = told(worker, "sha256sum", FILE)
    cut(worker)
    assert told(worker, "sha256sum", FILE) == digest
    told(worker, "sh", "-c", "echo 3 > /proc/sys/vm/drop_caches")
    assert isinstance(ask(worker, "sha256sum", FILE), Running)


def test_with_io_error_a_write_fails_and_the_file_system_with_it(worker: Any) -> None:
    resource, host = volume(worker)
    resource.settings = Settings(on_no_quorum="io-error")
    for other in HOSTS - {host}:
        worker.world.storage.cut(host, other, carrier=False)
    worker.run(20)
    ran = ask(worker, *WRITE)
    assert ran.exit_code == 1 and b"Input/output error" in ran.stderr
    worker.world.storage.heal()
    worker.run(30)
    assert b"Input/output error" in ask(worker, *WRITE).stderr


def test_a_reboot_loses_memory_and_keeps_the_disk(worker: Any) -> None:
    told(worker, *WRITE)
    digest = told(worker, "sha256sum", FILE)
    told(worker, "dd", "if=/dev/zero", "of=/host/var/lost", "bs=4096", "count=1")
    worker.world.guests.all()[0].reboot()
    worker.run(120)
    assert told(worker, "sha256sum", FILE) == digest
    assert b"No such file" in ask(worker, "sha256sum", "/host/var/lost").stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("dd", "if=/dev/zero", "of=/host/etc/x", "bs=1", "count=1"), "Read-only file system"),
        (("rm", "/host/var/none"), "No such file or directory"),
        (("sha256sum", "/host/var/none"), "No such file or directory"),
    ],
)
def test_what_is_refused(worker: Any, argv: tuple[str, ...], said: str) -> None:
    ran = ask(worker, *argv)
    assert ran.exit_code == 1 and said in ran.stderr.decode()


def test_what_is_removed_is_gone(worker: Any) -> None:
    told(worker, *WRITE)
    told(worker, "rm", "-f", FILE)
    assert ask(worker, "sha256sum", FILE).exit_code == 1


def test_the_disks_size_is_its_claims(worker: Any) -> None:
    assert told(worker, "cat", "/sys/block/vda/size") == f"{(20 << 30) // 512}\n"


def test_a_quorum_that_is_lost_and_back_taints_the_storage_node(worker: Any) -> None:
    host = cut(worker)

    def taints() -> list[str]:
        node = worker.management.find("v1", "Node", "", host)
        return [one["key"] for one in node["spec"].get("taints") or ()]

    assert taints() == ["drbd.linbit.com/lost-quorum"]
    worker.world.storage.heal()
    worker.run(30)
    assert taints() == []


def test_a_disk_without_drbd_takes_files_too() -> None:
    disk, said = GuestDisk(), []
    disk.write("/var/a", b"x" * 9000, said.append, synced=True)
    disk.drop_caches()
    disk.fetch("/var/a", lambda data, error: said.append((data, error)))
    assert said == ["", (b"x" * 9000, "")]
