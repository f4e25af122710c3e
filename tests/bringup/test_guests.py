"""A set of guests as scenarios see it, on a host that is scripted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.bringup.guests import GuestLab, GuestPool, hold
from harness.bringup.terms import Terms
from harness.clock import WallClock
from harness.facts.fact import Unread
from harness.facts.modules import ModuleTable
from harness.inventory.loading import load
from harness.reach.nodeshell import Reply

ROOT = Path(__file__).resolve().parents[2]
MODULES = b"nvidia_uvm 1 0 - Live 0x0 (OE)\nnvidia 1 1 nvidia_uvm, Live 0x0 (OE)\n"


class Shell:
    root = ""

    def __init__(self, guest: str, answers: dict[str, bytes]) -> None:
        self.where = f"guest {guest}"
        self.closed = False
        self._answers = answers

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        assert not self.closed, "a shell that was let go of is not asked"
        said = self._answers.get(" ".join(argv))
        code = None if said is None else 0
        return Reply(tuple(argv), code, said or b"", b"", 1.0, 2.0, "" if said else "no answer")

    def close(self) -> None:
        self.closed = True


class Host:
    names = ("n1", "n2")

    def __init__(self) -> None:
        self.did: list[str] = []
        self.shells: list[Shell] = []

    def shell(self, guest: str, clock: Any) -> Any:
        self.did.append(f"log in to {guest}")
        self.shells.append(Shell(guest, {"cat /proc/modules": MODULES}))
        return self.shells[-1]

    def console(self, guest: str, clock: Any) -> Any:
        raise AssertionError("nobody listens here")

    def printed(self, guest: str, most: int) -> bytes:
        return f"{guest} login: ".encode()[-most:]

    def power(self, guest: str) -> Any:
        return f"power of {guest}"

    def link(self) -> Any:
        return "the wire"

    def rollback(self, name: str = "pristine") -> None:
        self.did.append("roll back")


@pytest.fixture
def host() -> Host:
    return Host()


def pool_on(host: Host, *faults: str, terms: Terms | None = None) -> GuestPool:
    inventory = load(ROOT / "inventory" / "qemu-mini.yaml")

    def plant(name: str) -> None:
        host.did.append(f"plant {name}")

    lab = GuestLab(inventory, WallClock(), host, "run", faults, plant)
    return GuestPool(lab, "mini", lambda kind, text: None, terms or Terms())


def test_its_machines_are_the_guests_and_asked_over_one_login_each(host: Host) -> None:
    pool = pool_on(host)
    seen = [worker.modules() for worker in pool.workers]
    again = [worker.modules() for worker in pool.workers]
    assert all(isinstance(one, ModuleTable) for one in (*seen, *again))
    assert host.did == ["log in to n1", "log in to n2"]
    assert [worker.subject for worker in pool.workers] == ["guest n1", "guest n2"]


def test_what_cannot_be_asked_is_unread(host: Host) -> None:
    assert isinstance(pool_on(host).workers[0].nvidia_params(), Unread)


def test_the_inventory_says_what_is_expected_of_them(host: Host) -> None:
    pool = pool_on(host)
    assert pool.expected_modules == ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
    assert (pool.cards, pool.replicas, pool.disks()) == (1, 2, ("r0",))
    assert pool.addons() is None and pool.daemonsets() is None


def test_the_first_scenario_takes_them_as_they_are_and_each_other_after_a_roll_back(
    host: Host,
) -> None:
    pool = pool_on(host)
    pool.renew()
    pool.workers[0].modules()
    assert host.did == ["log in to n1"]
    pool.renew()
    assert host.did[1:] == ["roll back"]
    assert host.shells[0].closed
    pool.workers[0].modules()
    assert host.did[2:] == ["log in to n1"]


def test_faults_are_planted_anew_after_each_roll_back(host: Host) -> None:
    pool = pool_on(host, "a", "b")
    pool.renew()
    pool.renew()
    assert host.did == ["plant a", "plant b", "roll back", "plant a", "plant b"]


def test_the_replicated_disk_has_a_replica_on_each_guest_with_its_power(host: Host) -> None:
    volume = pool_on(host).volume()
    assert (volume.resource, volume.device, volume.size) == ("r0", "/dev/drbd0", 64 << 20)
    assert [(one.node, one.power, one.backing) for one in volume.replicas] == [
        ("n1", "power of n1", "/dev/vdb"),
        ("n2", "power of n2", "/dev/vdb"),
    ]
    assert volume.link == "the wire"
    first = volume.replicas[0]
    assert first.reopen is not None
    assert first.reopen() is not first.shell
    assert host.shells[0].closed


def test_the_end_lets_go_of_every_login(host: Host) -> None:
    with hold(pool_on(host).lab, "mini", lambda kind, text: None) as pool:
        for worker in pool.workers:
            worker.modules()
    assert [shell.closed for shell in host.shells] == [True, True]
