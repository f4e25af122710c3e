"""Logging in to a hypervisor host with what the inventory says of it."""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.bringup import hosts
from harness.bringup.pool import HeldPool
from harness.clock import WallClock
from harness.facts.fact import Unread
from harness.facts.lspci import PciDrivers
from harness.inventory.models import Host
from harness.reach.errors import KeyUnusable
from harness.reach.execs import Reply
from harness.reach.ssh import SshShell
from harness.reach.sshlogin import Machine

PIN = "SHA256:" + "a" * 43
LSPCI = (
    "09:00.0 3D controller [0302]: NVIDIA Corporation AD102GL [L40S] [10de:26b9] (rev a1)\n"
    "\tSubsystem: NVIDIA Corporation AD102GL [L40S] [10de:1851]\n"
    "\tKernel driver in use: vfio-pci\n"
    "\tKernel modules: nouveau\n"
)


@dataclass
class Door:
    """Stands in for the SSH server: who came with what, and what the key's file was then."""

    came: list[Machine] = field(default_factory=list)
    keys: list[tuple[str, int]] = field(default_factory=list)
    closed: int = 0

    where = "host gpu-host-1"

    def open(self, machine: Machine, clock: Any) -> Any:
        self.came.append(machine)
        path = machine.key_file
        assert path is not None
        if path.exists():
            self.keys.append((path.read_text(), stat.S_IMODE(path.stat().st_mode)))
        return self

    def run(self, argv: list[str], **_: Any) -> Reply:
        return Reply(tuple(argv), 0, LSPCI.encode(), b"", 1.0, 2.0)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Door:
    made = Door()
    monkeypatch.setattr(SshShell, "open", made.open)
    return made


def host(**more: Any) -> Host:
    return Host.model_validate({"name": "gpu-host-1", "ssh": {"env": "HIL_KEY"}, **more})


def test_a_key_from_a_variable_is_a_file_of_this_users_alone_while_logging_in(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIL_KEY", "-----BEGIN KEY-----\nxyz\n-----END KEY-----")
    hosts.log_in(host(hostKey=PIN), WallClock())
    (machine,) = door.came
    assert (machine.host, machine.user, machine.where) == ("gpu-host-1", "root", "host gpu-host-1")
    assert (machine.pins.fingerprint, machine.port) == (PIN, 22)
    assert door.keys == [("-----BEGIN KEY-----\nxyz\n-----END KEY-----\n", 0o600)]
    assert machine.key_file is not None and not machine.key_file.exists()


def test_a_key_in_a_file_is_used_where_it_lies(door: Door, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("the key\n")
    named = host(ssh={"file": str(key)}, address="192.0.2.7", user="core", port=2222, hostKey=PIN)
    hosts.log_in(named, WallClock())
    (machine,) = door.came
    assert (machine.host, machine.port) == ("192.0.2.7", 2222)
    assert (machine.user, machine.key_file) == ("core", key)
    assert key.exists()


def test_without_a_pin_the_users_known_hosts_count(
    door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HIL_KEY", "x")
    known = tmp_path / "known_hosts"
    known.write_text("gpu-host-1 ssh-ed25519 AAAA\n")
    monkeypatch.setattr(hosts, "KNOWN_HOSTS", known)
    hosts.log_in(host(), WallClock())
    assert door.came[0].pins.known_hosts == "gpu-host-1 ssh-ed25519 AAAA\n"


def test_a_key_that_is_not_there_is_a_sentence(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIL_KEY", raising=False)
    with pytest.raises(KeyUnusable, match=r"log in to host gpu-host-1.*HIL_KEY is not set: export"):
        hosts.log_in(host(), WallClock())
    assert door.came == []


def test_a_pool_asks_the_host_that_its_machine_runs_on(
    gpu_pool: HeldPool, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    (machine,) = gpu_pool.machines
    assert machine.host
    monkeypatch.setenv("HIL_KEY", "x")
    named = (host(name=machine.host), host(name="another"))
    inventory = gpu_pool.lab.inventory.model_copy(update={"hosts": named})
    monkeypatch.setattr(gpu_pool.lab, "inventory", inventory)
    for _ in range(2):
        found = machine.host_drivers()
        assert isinstance(found, PciDrivers)
        assert [(one.pci_id, one.driver) for one in found.functions] == [("10de:26b9", "vfio-pci")]
    assert [one.host for one in door.came] == [machine.host]
    gpu_pool.close_shells()
    assert door.closed == 1


def test_a_host_without_a_key_is_not_asked(gpu_pool: HeldPool, door: Door) -> None:
    (machine,) = gpu_pool.machines
    found = machine.host_drivers()
    assert isinstance(found, Unread)
    assert "names no key to log in there with" in found.reason
    nowhere = gpu_pool.host_drivers("")
    assert isinstance(nowhere, Unread) and "runs nowhere" in nowhere.reason
    assert door.came == []
