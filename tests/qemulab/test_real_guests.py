"""The mini-lab as it is: real guests. Half a minute to boot them, so only when asked for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clock import WallClock
from harness.qemulab.boot import log_in, wait_for_prompt
from harness.qemulab.errors import Unfit
from harness.qemulab.lab import MiniLab, Wants
from harness.qemulab.rundir import is_held
from harness.reach.capture import How

pytestmark = pytest.mark.skipif(
    os.environ.get("HIL_QEMU_TESTS") != "1",
    reason="HIL_QEMU_TESTS=1 is not set: boots, rollbacks, power and wire of real guests not run",
)

CLOCK = WallClock()
BOOT = ["cat", "/proc/sys/kernel/random/boot_id"]


@pytest.fixture(scope="module")
def booted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniLab]:
    lab = MiniLab.start(tmp_path_factory.mktemp("real") / "lab", Wants())
    yield lab
    lab.close()


@pytest.fixture
def lab(booted: MiniLab) -> MiniLab:
    booted.rollback()
    return booted


def said(lab: MiniLab, guest: str, *argv: str, timeout: float = 60.0) -> str:
    shell = lab.shell(guest, CLOCK)
    try:
        reply = shell.run(argv, timeout=timeout)
    finally:
        shell.close()
    assert reply.exit_code == 0, (argv, reply)
    return reply.stdout.decode().strip()


def until(lab: MiniLab, guest: str, argv: list[str], wanted: str, seconds: float = 90.0) -> None:
    deadline = CLOCK.deadline(seconds)
    while wanted not in (seen := said(lab, guest, *argv)):
        assert not deadline.expired, seen
        CLOCK.sleep(0.3)


def test_it_is_up_and_synced_and_says_how_long_that_took(lab: MiniLab) -> None:
    for name in lab.names:
        assert said(lab, name, "drbdadm", "dstate", "r0") == "UpToDate/UpToDate"
        assert said(lab, name, "drbdadm", "role", "r0") == "Secondary/Secondary"
        assert said(lab, name, "hostname") == name
    times = lab.status()["notes"]["times"]
    assert list(times.values()) == sorted(times.values())
    assert {"image", "accelerator", "n1 prompt", "n2 ssh", "synced", "snapshot"} <= set(times)


def test_a_rollback_takes_back_files_links_and_a_pulled_plug(lab: MiniLab) -> None:
    boots = [said(lab, name, *BOOT) for name in lab.names]
    said(lab, "n1", "sh", "-c", "echo 1 > /root/trace; sync")
    lab.link().cut("n1", "n2", carrier=True)
    lab.power("n2").off()
    assert said(lab, "n1", "cat", "/sys/class/net/eth1/carrier") == "0"
    lab.rollback()
    assert [said(lab, name, *BOOT) for name in lab.names] == boots
    assert said(lab, "n1", "ls", "/root") == ""
    assert said(lab, "n1", "cat", "/sys/class/net/eth1/carrier") == "1"
    assert said(lab, "n2", "drbdadm", "dstate", "r0") == "UpToDate/UpToDate"


def test_a_snapshot_of_a_number_is_the_one_that_was_named(lab: MiniLab) -> None:
    # QEMU numbers its snapshots from 1, and the first is not this one
    said(lab, "n1", "sh", "-c", "echo 1 > /root/trace; sync")
    lab.snapshot("1")
    said(lab, "n1", "rm", "/root/trace")
    lab.rollback("1")
    assert said(lab, "n1", "cat", "/root/trace") == "1"
    lab.power("n1").off()
    lab.rollback("1")
    assert said(lab, "n1", "cat", "/root/trace") == "1"


def test_a_rollback_takes_the_guests_clocks_back(lab: MiniLab) -> None:
    uptime = float(said(lab, "n1", "cat", "/proc/uptime").split()[0])
    CLOCK.sleep(20.0)
    lab.rollback()
    began = CLOCK.monotonic()
    back = float(said(lab, "n1", "cat", "/proc/uptime").split()[0])
    # as far from the snapshot as that took, and no 20 seconds of another life
    assert back < uptime + CLOCK.monotonic() - began


def test_rollbacks_out_of_heavy_replication_leave_replicas_as_they_were(lab: MiniLab) -> None:
    for _ in range(3):
        said(lab, "n1", "drbdadm", "primary", "r0")
        shell = lab.shell("n1", CLOCK)
        write = ["dd", "if=/dev/urandom", "of=/dev/drbd0", "bs=65536", "count=900", "oflag=direct"]
        shell.run(write, timeout=1.0)
        shell.close()
        lab.rollback()
        CLOCK.sleep(1.0)
        for name in lab.names:
            assert said(lab, name, "drbdadm", "cstate", "r0") == "Connected"
            assert said(lab, name, "drbdadm", "dstate", "r0") == "UpToDate/UpToDate"
    said(lab, "n1", "drbdadm", "verify", "r0")
    until(lab, "n1", ["cat", "/proc/drbd"], "cs:Connected")
    assert re.search(r"oos:0\b", said(lab, "n1", "cat", "/proc/drbd"))


def test_a_reset_is_another_boot_on_the_same_console(lab: MiniLab) -> None:
    before = said(lab, "n1", *BOOT)
    console = lab.console("n1", CLOCK)
    try:
        lab.power("n1").reset()
        wait_for_prompt(console, CLOCK)
        assert console.ending is None
        log_in(lab.guest("n1").machine, CLOCK, console).close()
    finally:
        console.close()
    assert said(lab, "n1", *BOOT) != before


def test_what_was_flushed_outlives_a_pulled_plug(lab: MiniLab) -> None:
    said(lab, "n2", "sh", "-c", "echo kept > /root/kept; sync")
    console = lab.console("n2", CLOCK)
    lab.power("n2").off()
    ending = console.capture.wait_for_end(CLOCK.deadline(10))
    assert ending is not None
    assert ending.how is How.GONE
    lab.power("n2").on()
    console = lab.console("n2", CLOCK)
    try:
        wait_for_prompt(console, CLOCK)
    finally:
        console.close()
    assert said(lab, "n2", "cat", "/root/kept") == "kept"


def test_a_paused_machines_clock_stands_still(lab: MiniLab) -> None:
    shell = lab.shell("n2", CLOCK)
    first = float(shell.run(["cat", "/proc/uptime"]).stdout.split()[0])
    lab.power("n2").pause()
    CLOCK.sleep(3.0)
    lab.power("n2").resume()
    began = CLOCK.monotonic()
    second = float(shell.run(["cat", "/proc/uptime"]).stdout.split()[0])
    assert second - first < 3.0 + CLOCK.monotonic() - began - 1.0
    shell.close()


def test_a_silent_cut_leaves_the_carrier_and_is_noticed_by_drbd(lab: MiniLab) -> None:
    lab.link().cut("n1", "n2")
    until(lab, "n1", ["drbdadm", "cstate", "r0"], "WFConnection")
    assert said(lab, "n1", "cat", "/sys/class/net/eth1/carrier") == "1"
    lab.link().heal()
    until(lab, "n1", ["drbdadm", "cstate", "r0"], "Connected")


def test_a_delay_and_a_loss_are_of_one_direction(lab: MiniLab) -> None:
    lab.link().delay("n1", "n2", 0.3)
    told = said(lab, "n1", "ping", "-c", "3", "-q", "10.77.0.2")
    fastest = float(re.search(r"= ([\d.]+)/", told)[1])  # type: ignore[index]
    assert 300 <= fastest < 600
    lab.link().delay("n1", "n2", 0.0)
    lab.link().lose("n2", "n1", 1.0)
    shell = lab.shell("n1", CLOCK)
    assert shell.run(["ping", "-c", "2", "-W", "1", "10.77.0.2"]).exit_code == 1
    shell.close()
    links = {(w["from"], w["to"]): w["frames"] for w in lab.status()["links"]}
    assert links["n2", "n1"]["lost"] >= 2
    assert links["n1", "n2"]["lost"] == 0


def test_an_nmi_panics_a_kernel_that_is_told_to(lab: MiniLab) -> None:
    said(lab, "n1", "sh", "-c", "echo 1 > /proc/sys/kernel/unknown_nmi_panic")
    console = lab.console("n1", CLOCK)
    try:
        lab.power("n1").nmi()
        found = console.capture.wait(b"Kernel panic - not syncing: NMI", CLOCK.deadline(30))
    finally:
        console.close()
    assert found is not None


def test_a_console_answers_and_has_one_client(lab: MiniLab) -> None:
    console = lab.console("n2", CLOCK)
    try:
        spawn = console.expecting(timeout=30)
        spawn.sendline("")
        spawn.expect(b"login: ")
        spawn.sendline("root")
        spawn.expect(b"# ")
        spawn.sendline("echo mark''er-$((40 + 2))")
        spawn.expect(b"marker-42")
        with pytest.raises(Unfit, match="another client is attached"):
            lab.console("n2", CLOCK)
    finally:
        console.close()
    lab.console("n2", CLOCK).close()


def test_a_guest_that_does_not_boot_shows_its_last_lines_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    with pytest.raises(Unfit) as told:
        MiniLab.start(tmp_path / "lab", Wants(guests=1, append="rdinit=/nope root=/dev/nope"))
    assert told.value.tried == "boot n1"
    assert "its kernel panicked" in told.value.saw
    assert "Kernel panic - not syncing" in told.value.saw
    assert not is_held(tmp_path / "lab")
    left = sorted(str(f.relative_to(tmp_path / "lab")) for f in (tmp_path / "lab").rglob("*"))
    assert left == ["keeper.log", "lock", "n1", "n1/console.log", "n1/qemu.log"]
