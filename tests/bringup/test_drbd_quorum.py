"""The trial of a quorum, on three machines with DRBD 9 on made-up time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness import judge
from harness.bringup.drbd.volume import Replica, Volume
from harness.facts.drbdtrials import QuorumLoss
from harness.facts.fact import Unread
from harness.reach.nodeshell import Reply
from tests.bringup.drbd_pair import BLOCK, Time

NODES = ("n1", "n2", "n3")


@dataclass
class Trio:
    """Three replicas with a majority to lose. ``policy`` is what becomes of I/O without one."""

    policy: str = "suspend"
    quorum: bool = True
    time: Time = field(default_factory=Time)
    primary: str = ""
    cut: set[frozenset[str]] = field(default_factory=set)
    data: dict[int, int] = field(default_factory=dict)
    files: dict[str, int | None] = field(default_factory=dict)
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)

    def volume(self, **more: Any) -> Volume:
        clock: Any = self.time
        replicas = [Replica(name, Shell(self, name)) for name in NODES]
        given: dict[str, Any] = {"link": Wire(self), "size": 64 << 20, **more}
        return Volume("pvc-1", "/dev/drbd1000", replicas, clock, **given)

    def apart(self, node: str) -> list[str]:
        return [one for one in NODES if frozenset((one, node)) in self.cut]

    def has_quorum(self, node: str) -> bool:
        return len(self.apart(node)) < 2 or self.policy == "no quorum seen"

    def status(self, node: str) -> list[dict[str, Any]]:
        lost = self.quorum and not self.has_quorum(node)
        halted = lost and self.policy in ("suspend", "never again")
        return [
            {
                "name": "pvc-1",
                "node-id": NODES.index(node),
                "role": "Primary" if node == self.primary else "Secondary",
                "suspended": halted,
                "suspended-user": False,
                "suspended-no-data": False,
                "suspended-fencing": False,
                "suspended-quorum": halted,
                "force-io-failures": False,
                "write-ordering": "flush",
                "devices": [
                    {
                        "volume": 0,
                        "minor": 1000,
                        "disk-state": "UpToDate",
                        "client": False,
                        "quorum": not lost,
                        "size": 65496,
                    }
                ],
                "connections": [self.connection(node, one) for one in NODES if one != node],
            }
        ]

    def connection(self, node: str, peer: str) -> dict[str, Any]:
        away = peer in self.apart(node)
        role = "Primary" if peer == self.primary else "Secondary"
        return {
            "peer-node-id": NODES.index(peer),
            "name": peer,
            "connection-state": "Connecting" if away else "Connected",
            "congested": False,
            "peer-role": "Unknown" if away else role,
            "peer_devices": [
                {
                    "volume": 0,
                    "replication-state": "Off" if away else "Established",
                    "peer-disk-state": "DUnknown" if away else "UpToDate",
                    "peer-client": False,
                    "resync-suspended": "no",
                    "out-of-sync": 0,
                }
            ],
        }

    def run(self, node: str, argv: Sequence[str]) -> tuple[int, bytes, str]:
        self.time.at += 0.1
        self.asked.append((node, tuple(argv)))
        match list(argv):
            case ["cat", "/proc/drbd"]:
                return 0, b"version: 9.2.14 (api:2/proto:118-123)\n", ""
            case ["drbdsetup", "status", *_]:
                return 0, json.dumps(self.status(node)).encode(), ""
            case ["cat", file] if file.startswith("/tmp/hil-write"):
                code = self.files.get(file)
                return (
                    (1, b"", "cat: no such file") if code is None else (0, f"{code}\n".encode(), "")
                )
            case ["sh", "-c", _, "sh", file, device, size, count, _]:
                assert (device, size, count) == ("/dev/drbd1000", str(BLOCK), "1")
                self.files[file] = self.write_behind(node, file)
                return 0, b"", ""
            case ["dd", "if=/dev/urandom", *_, seek, _, _]:
                self.data[int(seek.partition("=")[2])] = len(self.asked)
                return 0, b"", ""
            case ["dd", _, _, _, skip, _]:
                token = self.data.get(int(skip.partition("=")[2]), 0)
                return 0, token.to_bytes(8, "big") * (8 * BLOCK // 8), ""
            case ["drbdadm", "primary", "pvc-1"]:
                self.primary = node
                return 0, b"", ""
            case ["drbdadm", "secondary", "pvc-1"]:
                self.primary = "" if self.primary == node else self.primary
                return 0, b"", ""
        return 1, b"", "not here"

    def write_behind(self, node: str, file: str) -> int | None:
        if self.has_quorum(node) or self.policy == "goes on":
            return 0
        if self.policy == "fails":
            return 1
        self.waiting.append(file)
        return None

    def heal(self) -> None:
        self.cut.clear()
        for file in self.waiting:
            self.files[file] = None if self.policy == "never again" else 0


@dataclass
class Shell:
    trio: Trio
    name: str
    root: str = ""

    @property
    def where(self) -> str:
        return f"satellite {self.name}"

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        started = self.trio.time.at
        code, out, err = self.trio.run(self.name, argv)
        return Reply(tuple(argv), code, out, err.encode(), started, self.trio.time.at)

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        return self.run(argv, timeout=timeout)


@dataclass
class Wire:
    trio: Trio

    def cut(self, a: str, b: str, *, carrier: bool = False) -> None:
        self.trio.cut.add(frozenset((a, b)))

    def heal(self) -> None:
        self.trio.heal()

    def lose(self, a: str, b: str, share: float) -> None:
        raise NotImplementedError

    def delay(self, a: str, b: str, seconds: float) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("policy", "outcome", "said"),
    [
        ("suspend", "holds", "without the majority a write on n1 stood still, and it went on"),
        ("fails", "broken", "a write without a majority failed: dd on n1: exit status 1"),
        ("goes on", "broken", "a write was acknowledged without a majority"),
        ("no quorum seen", "broken", "cut off from the majority, and it has a quorum"),
        ("never again", "unknown", "the write was not seen to go on"),
    ],
)
def test_what_becomes_of_a_write_without_a_majority(policy: str, outcome: str, said: str) -> None:
    trio = Trio(policy)
    trial = trio.volume().trials.quorum_loss()
    assert isinstance(trial, QuorumLoss)
    verdict = judge.drbd_quorum(trial, "volume pvc-1")
    assert verdict.outcome == outcome, verdict.because
    assert said in verdict.because
    assert trio.cut == set() and trio.primary == ""
    assert trial.course.version == "9.2.14"


def test_the_primary_is_cut_off_from_everybody_and_the_write_given_its_time() -> None:
    trio = Trio()
    trial = trio.volume().trials.quorum_loss()
    assert isinstance(trial, QuorumLoss)
    cuts = [one.what for one in trial.course.acts if one.what.startswith("cut")]
    assert cuts == ["cut the link to n2", "cut the link to n3"]
    assert trial.pending.at >= trial.lost.began + 10.0
    assert trial.lost.last.of("n1").suspended == ("quorum",)


@pytest.mark.parametrize(
    ("trio", "more", "said"),
    [
        (Trio(), {"link": None}, "this lab cannot cut the link"),
        (Trio(), {"size": 1}, "has 1 bytes, 2097152 are needed"),
    ],
)
def test_a_lab_that_lacks_something(trio: Trio, more: Any, said: str) -> None:
    trial = trio.volume(**more).trials.quorum_loss()
    assert isinstance(trial, Unread)
    assert said in trial.reason


def test_without_a_quorum_none_can_be_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    trio = Trio()
    monkeypatch.setattr(Trio, "status", lambda self, node: [])
    trial = trio.volume().trials.quorum_loss()
    assert isinstance(trial, Unread)
    assert "no node says that it has a quorum" in trial.reason


def test_three_replicas_can_be_put_to_the_other_trials() -> None:
    verdict = judge.drbd_failover(Trio().volume().trials.failover(), "volume pvc-1")
    assert verdict.outcome == "holds", verdict.because
