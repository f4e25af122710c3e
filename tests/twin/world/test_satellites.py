"""Satellites on the management cluster: who they are, what runs in them, what power does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execresult import ExecResult, Running
from harness.twin.world.objects import KUBEVIRT

SPACE = "cozy-linstor"
SIZE = 64 * 1024 * 1024
BUDGET = 900.0
DEVICE = "/dev/drbd1001"  # the golden image's, from before the story, is the first


def satellite(lab: Any, host: str) -> Any:
    pods = lab.management.all("v1", "Pod", SPACE)
    (found,) = [one for one in pods if one["spec"]["nodeName"] == host]
    return found


def ask(lab: Any, host: str, *argv: str) -> Any:
    name = satellite(lab, host)["metadata"]["name"]
    return lab.world.exec("management", SPACE, name, "linstor-satellite", list(argv))


def told(lab: Any, host: str, *argv: str) -> str:
    result = ask(lab, host, *argv)
    assert isinstance(result, ExecResult) and not result.error, result
    return (result.stdout + result.stderr).decode()


@pytest.fixture
def volume(lab: Any) -> str:
    """A scratch volume: its resource's name. It is DEVICE."""
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "scratch", "namespace": "tenant-hil"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block",
            "storageClassName": "replicated",
            "resources": {"requests": {"storage": str(SIZE)}},
        },
    }
    kind = lab.management.registry.by_kind("v1", "PersistentVolumeClaim")
    lab.management.create(kind, claim, namespace="tenant-hil")
    lab.run(10)
    found = lab.management.find("v1", "PersistentVolumeClaim", "tenant-hil", "scratch")
    return str(found["spec"]["volumeName"])


def test_one_on_each_hypervisor_as_piraeus_names_them(lab: Any) -> None:
    pods = lab.management.all("v1", "Pod", SPACE)
    assert sorted(one["spec"]["nodeName"] for one in pods) == ["hv-1", "hv-2", "hv-3"]
    for pod in pods:
        name, _, suffix = pod["metadata"]["name"].rpartition("-")
        assert name == f"linstor-satellite.{pod['spec']['nodeName']}" and len(suffix) == 5
        labels = pod["metadata"]["labels"]
        assert labels["app.kubernetes.io/component"] == "linstor-satellite"
        assert pod["status"]["phase"] == "Running"
    lab.run(30)
    assert satellite(lab, "hv-1")["status"]["containerStatuses"][0]["restartCount"] == 0


def test_one_that_is_deleted_is_made_anew(lab: Any) -> None:
    old = satellite(lab, "hv-1")["metadata"]
    kind = lab.management.registry.by_kind("v1", "Pod")
    lab.management.delete(kind, SPACE, old["name"])
    lab.run(30)
    pod = satellite(lab, "hv-1")
    assert pod["metadata"]["uid"] != old["uid"] and pod["status"]["phase"] == "Running"


def test_a_replicated_claim_is_a_resource_of_its_volumes_name(lab: Any, volume: str) -> None:
    shown = lab.management.find("v1", "PersistentVolume", "", volume)["spec"]["csi"]
    assert shown == {"driver": "linstor.csi.linbit.com", "volumeHandle": volume}
    for host in ("hv-1", "hv-2", "hv-3"):
        (seen,) = json.loads(told(lab, host, "drbdsetup", "status", "--json", volume))
        assert (seen["name"], seen["devices"][0]["minor"]) == (volume, 1001)
        assert seen["devices"][0]["size"] == SIZE // 1024
        assert len(seen["connections"]) == 2
    assert "brw-rw----" in told(lab, "hv-1", "ls", "-l", DEVICE)
    kind = lab.management.registry.by_kind("v1", "PersistentVolumeClaim")
    lab.management.delete(kind, "tenant-hil", "scratch")
    lab.run(1)
    assert volume not in told(lab, "hv-1", "drbdsetup", "status")
    assert ask(lab, "hv-1", "drbdsetup", "status", volume).exit_code == 10


def test_a_local_claim_is_none(lab: Any) -> None:
    kind = lab.management.registry.by_kind("v1", "PersistentVolumeClaim")
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    spec["resources"] = {"requests": {"storage": "1Gi"}}  # type: ignore[assignment]
    notes = {"volume.kubernetes.io/selected-node": "hv-1"}
    body = {"metadata": {"name": "here", "annotations": notes}, "spec": spec}
    lab.management.create(kind, body, namespace="tenant-hil")
    lab.run(10)
    (made,) = [
        one["metadata"]["name"]
        for one in lab.management.all("v1", "PersistentVolume")
        if one["spec"]["storageClassName"] == "local"
    ]
    shown = json.loads(told(lab, "hv-1", "drbdsetup", "status", "--json"))
    assert shown and made not in [one["name"] for one in shown]


def test_random_bytes_go_through_the_device_and_come_back_elsewhere(lab: Any, volume: str) -> None:
    device, places = DEVICE, ["bs=65536", "count=4"]
    wrote = told(lab, "hv-1", "dd", "if=/dev/urandom", f"of={device}", *places, "seek=2",
                 "oflag=direct", "conv=fsync")  # fmt: skip
    assert wrote.startswith("4+0 records in\n4+0 records out\n262144 bytes (262.1 kB, 256.0 KiB) ")
    read = ask(lab, "hv-2", "dd", f"if={device}", *places, "skip=2", "iflag=direct")
    assert read.exit_code == 0 and len(read.stdout) == 4 * 65536 and any(read.stdout)
    by_name = f"if=/dev/drbd/by-res/{volume}/0"
    assert ask(lab, "hv-3", "dd", by_name, *places, "skip=2").stdout == read.stdout
    below = f"/dev/zvol/data/{volume}_00000"
    assert ask(lab, "hv-3", "dd", f"if={below}", *places, "skip=2").stdout == read.stdout


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (["drbdsetup", "status", "nosuch"], 10, "nosuch: No such resource\n"),
        (["drbdsetup", "status", "--frob"], 20, "drbdsetup: unrecognized option '--frob'\n"),
        (["drbdsetup", "frob"], 20, "invalid command\n"),
        (["drbdadm", "frob"], 20, "drbdadm: Unknown command 'frob'\n"),
        (["drbdadm", "primary"], 20, "drbdadm: 'primary' requires a resource argument\n"),
        (
            ["drbdadm", "role", "nosuch"],
            10,
            "'nosuch' not defined in your config (for this host).\n",
        ),
        (
            ["dd", "if=/dev/drbd9", "count=1"],
            1,
            "dd: failed to open '/dev/drbd9': No such file or directory\n",
        ),
        (
            ["dd", "if=/dev/zero", "frob=1"],
            1,
            "dd: unrecognized operand 'frob=1'\nTry 'dd --help' for more information.\n",
        ),
    ],
)
def test_programs_complain_in_their_own_words(
    lab: Any, argv: list[str], status: int, words: str
) -> None:
    result = ask(lab, "hv-1", *argv)
    assert (result.exit_code, result.stderr.decode()) == (status, words)


def test_drbdadm_names_the_command_that_failed(lab: Any, volume: str) -> None:
    told(lab, "hv-1", "drbdadm", "primary", volume)
    result = ask(lab, "hv-2", "drbdadm", "primary", volume)
    assert result.exit_code == 11
    assert result.stderr.decode() == (
        f"{volume}: State change failed: (-1) Multiple primaries not allowed by config\n"
        f"Command 'drbdsetup primary {volume}' terminated with exit code 11\n"
    )
    told(lab, "hv-3", "drbdadm", "down", volume)
    result = ask(lab, "hv-3", "drbdadm", "status", volume)
    assert (result.exit_code, result.stderr.decode()) == (
        10,
        f"{volume}: No such resource\n"
        f"Command 'drbdsetup status {volume}' terminated with exit code 10\n",
    )


def test_what_is_not_modelled_is_refused_in_words(lab: Any) -> None:
    assert "not modelled" in ask(lab, "hv-1", "sh", "-c", "for i in 1 2; do echo $i; done").error
    assert "not modelled" in ask(lab, "hv-1", "dd", "if=/dev/zero", "of=/tmp/x").error
    assert "not modelled" in ask(lab, "hv-1", "drbdadm", "adjust", "all").error
    assert "not modelled" in ask(lab, "hv-1", "drbdsetup", "show").error
    assert "executable file not found" in ask(lab, "hv-1", "zpool", "list").error


def test_proc_drbd_holds_versions_and_no_state(lab: Any, volume: str) -> None:
    lines = told(lab, "hv-1", "cat", "/proc/drbd").splitlines()
    assert lines[0] == "version: 9.2.14 (api:2/proto:118-123)"
    assert lines[1].startswith("GIT-hash: ") and len(lines) == 3
    assert lines[2] == "Transports (api:21): tcp (9.2.14)"
    node = lab.management.find("v1", "Node", "", "hv-1")["status"]["nodeInfo"]
    boot = told(lab, "hv-1", "cat", "/proc/sys/kernel/random/boot_id")
    assert boot == f"{node['bootID']}\n"


# -- programs that take time


def test_events_are_streamed_until_the_timeout(lab: Any, volume: str) -> None:
    running = ask(lab, "hv-2", "timeout", "30", "drbdsetup", "events2", "--timestamps", volume)
    assert isinstance(running, Running)
    heard: list[bytes] = []
    ended: list[ExecResult] = []
    running.follow(heard.append, ended.append)
    assert b"".join(heard).endswith(b" exists -\n")
    told(lab, "hv-1", "drbdadm", "primary", volume)
    assert b"conn-name:hv-1 role:Primary\n" in heard[-1]
    assert heard[-1].startswith(b"2026-01-01T00:00:10.000000+00:00 change resource name:pvc-")
    lab.run(29)
    assert not ended
    lab.run(2)
    assert [one.exit_code for one in ended] == [124]
    told(lab, "hv-1", "drbdadm", "secondary", volume)
    assert b"role:Secondary" not in heard[-1]


def test_a_stream_is_left_behind_in_a_file(lab: Any, volume: str) -> None:
    script = 'rm -f "$3"; timeout "$1" drbdsetup events2 --timestamps "$2" </dev/null >"$3" 2>&1 &'
    told(lab, "hv-1", "sh", "-c", script, "sh", "600", volume, "/tmp/events")
    lab.world.storage.cut("hv-1", "hv-2", carrier=False)
    lab.run(30)
    text = told(lab, "hv-1", "cat", "/tmp/events")
    assert text.count("exists -\n") == 1
    assert "conn-name:hv-2 connection:NetworkFailure role:Unknown\n" in text


def test_a_write_that_stands_still_is_left_behind_with_its_status(lab: Any, volume: str) -> None:
    script = (
        'rm -f "$1"; (dd if=/dev/urandom of="$2" bs="$3" count="$4" seek="$5" oflag=direct '
        'conv=fsync; echo $? >"$1") </dev/null >/dev/null 2>&1 &'
    )
    told(lab, "hv-1", "drbdadm", "primary", volume)
    for other in ("hv-2", "hv-3"):
        lab.world.storage.cut("hv-1", other, carrier=False)
    told(lab, "hv-1", "sh", "-c", script, "sh", "/tmp/w", DEVICE, "65536", "1", "0")
    lab.run(60)
    assert ask(lab, "hv-1", "cat", "/tmp/w").exit_code == 1
    lab.world.storage.heal()
    lab.run(60)
    assert told(lab, "hv-1", "cat", "/tmp/w") == "0\n"


def test_no_signal_ends_a_write_that_stands_still(lab: Any, volume: str) -> None:
    told(lab, "hv-1", "drbdadm", "primary", volume)
    for other in ("hv-2", "hv-3"):
        lab.world.storage.cut("hv-1", other, carrier=False)
    lab.run(30)
    place = [f"of={DEVICE}", "bs=65536", "count=1"]
    running = ask(lab, "hv-1", "timeout", "5", "dd", "if=/dev/urandom", *place)
    assert isinstance(running, Running) and running.uninterruptible
    ended: list[ExecResult] = []
    running.follow(lambda _: None, ended.append)
    lab.run(120)
    assert not ended
    lab.world.power.off("hv-1")
    assert [one.dropped for one in ended] == [True]


# -- wires and power


def cut(storage: Any) -> None:
    storage.cut("hv-1", "hv-2", carrier=True)


def deafen(storage: Any) -> None:
    storage.lose("hv-1", "hv-2", 1.0)


def hold_up(storage: Any) -> None:
    storage.delay("hv-1", "hv-2", 2.0)


def disturb(storage: Any) -> None:
    storage.lose("hv-1", "hv-2", 0.05)
    storage.delay("hv-2", "hv-1", 0.05)


@pytest.mark.parametrize("effect", [cut, deafen, hold_up, disturb])
def test_what_wires_do_to_connections(lab: Any, volume: str, effect: Any) -> None:
    effect(lab.world.storage)
    lab.run(20)
    first = "Connected" if effect is disturb else "Connecting"
    assert told(lab, "hv-1", "drbdadm", "cstate", volume) == f"{first}\nConnected\n"
    lab.world.storage.heal()
    lab.run(30)
    assert told(lab, "hv-1", "drbdadm", "cstate", volume) == "Connected\nConnected\n"


def test_a_carrier_that_goes_is_in_both_kernels_logs(lab: Any, volume: str) -> None:
    lab.world.storage.cut("hv-1", "hv-2", carrier=True)
    for host, seen in (("hv-1", True), ("hv-2", True), ("hv-3", False)):
        assert ("Link is Down" in told(lab, host, "dmesg")) is seen


def ready(lab: Any, host: str) -> str:
    node = lab.management.find("v1", "Node", "", host)
    (found,) = [one for one in node["status"]["conditions"] if one["type"] == "Ready"]
    return str(found["status"])


def test_a_host_that_is_off_answers_nobody_and_comes_back(lab: Any, volume: str) -> None:
    before = told(lab, "hv-2", "cat", "/proc/sys/kernel/random/boot_id")
    restarts = satellite(lab, "hv-2")["status"]["containerStatuses"][0]["restartCount"]
    lab.world.power.off("hv-2")
    lab.world.power.off("hv-2")
    with pytest.raises(ApiError, match="no route to host"):
        ask(lab, "hv-2", "true")
    lab.run(49)
    assert ready(lab, "hv-2") == "True"
    lab.run(5)
    assert ready(lab, "hv-2") == "Unknown"
    assert told(lab, "hv-1", "drbdadm", "cstate", volume) == "Connecting\nConnected\n"
    lab.world.power.on("hv-2")
    assert lab.world.power.state("hv-2") == "booting"

    def back() -> bool:
        if lab.world.power.state("hv-2") != "on" or ready(lab, "hv-2") != "True":
            return False
        pod = satellite(lab, "hv-2")
        if not all(one["ready"] for one in pod["status"]["containerStatuses"]):
            return False
        seen = ask(lab, "hv-2", "drbdadm", "dstate", volume)
        return bool(seen.stdout == b"UpToDate/UpToDate/UpToDate\n")

    assert 100 < lab.run_until(back, 300) < 200
    after = told(lab, "hv-2", "cat", "/proc/sys/kernel/random/boot_id")
    node = lab.management.find("v1", "Node", "", "hv-2")
    assert after != before and node["status"]["nodeInfo"]["bootID"] == after.strip()
    pod = satellite(lab, "hv-2")["status"]["containerStatuses"][0]
    assert pod["restartCount"] == restarts + 1
    assert not node["spec"].get("taints")


def test_what_power_refuses(lab: Any) -> None:
    lab.world.power.off("hv-3")
    with pytest.raises(ApiError, match="hv-3 is switched off: it cannot be reset"):
        lab.world.power.reset("hv-3")
    with pytest.raises(ApiError, match="hv-3 is off: it cannot be paused"):
        lab.world.power.pause("hv-3")
    with pytest.raises(ApiError, match="no hypervisor 'hv-9'"):
        lab.world.power.off("hv-9")


def test_a_paused_host_goes_on_as_if_nothing_had_been(lab: Any, volume: str) -> None:
    boot = told(lab, "hv-3", "cat", "/proc/sys/kernel/random/boot_id")
    lab.world.power.pause("hv-3")
    lab.run(30)
    assert told(lab, "hv-1", "drbdadm", "cstate", volume) == "Connected\nConnecting\n"
    lab.world.power.resume("hv-3")
    lab.run(30)
    assert told(lab, "hv-1", "drbdadm", "cstate", volume) == "Connected\nConnected\n"
    assert told(lab, "hv-3", "cat", "/proc/sys/kernel/random/boot_id") == boot


def test_a_hosts_machines_stop_with_it_and_start_anew(lab: Any) -> None:
    lab.pool(storageClass="replicated")
    lab.run_until(lab.joined, BUDGET)
    old = lab.one(KUBEVIRT, "VirtualMachineInstance")
    host = old["status"]["nodeName"]
    (disk,) = [
        one for one in lab.world.storage.resources.values() if one.on(host).role == "Primary"
    ]
    with pytest.raises(ApiError, match="pausing those is not modelled"):
        lab.world.power.pause(host)
    lab.world.power.reset(host)
    assert not lab.world.guests.all()
    lab.run(120)
    (node,) = lab.nodes()
    assert [c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"] == [
        "Unknown"
    ]

    def runs_anew() -> bool:
        found = lab.management.all(KUBEVIRT, "VirtualMachineInstance")
        return bool(
            len(found) == 1
            and found[0]["metadata"]["uid"] != old["metadata"]["uid"]
            and (found[0].get("status") or {}).get("phase") == "Running"
        )

    lab.run_until(runs_anew, BUDGET)
    now = lab.one(KUBEVIRT, "VirtualMachineInstance")["status"]["nodeName"]
    lab.run_until(lambda: disk.on(now) is not None and disk.on(now).role == "Primary", 120)


def test_a_worker_whose_disk_stands_still_falls_silent_and_comes_back(lab: Any) -> None:
    lab.pool(storageClass="replicated")
    lab.run_until(lab.joined, BUDGET)
    host = lab.one(KUBEVIRT, "VirtualMachineInstance")["status"]["nodeName"]
    boot = lab.nodes()[0]["status"]["nodeInfo"]["bootID"]
    for other in {"hv-1", "hv-2", "hv-3"} - {host}:
        lab.world.storage.cut(host, other, carrier=False)
    lab.run(150)
    assert "suspended:quorum" in told(lab, host, "drbdadm", "status")
    assert node_ready(lab) == "Unknown"
    lab.world.storage.heal()
    lab.run(60)
    assert node_ready(lab) == "True"
    assert lab.nodes()[0]["status"]["nodeInfo"]["bootID"] == boot


def node_ready(lab: Any) -> str:
    (node,) = lab.nodes()
    (found,) = [one for one in node["status"]["conditions"] if one["type"] == "Ready"]
    return str(found["status"])
