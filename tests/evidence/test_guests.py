"""What machines alone can give, of guests that answer, and of one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.evidence.guests import QUESTIONS, GuestPlan
from harness.evidence.keeping import Keeper
from harness.evidence.manifest import Manifest, Status
from harness.evidence.taking import Budget, PoolEvidence
from harness.reach.errors import Unreachable
from harness.reach.nodeshell import Reply

SAYS = {
    "dmesg": b"[ 0.0] Linux version 6.12\n",
    "cat /proc/modules": b"drbd 700416 2 - Live 0x0\n",
    "cat /proc/uptime": b"100.0 90.0\n",
}


class Shell:
    def __init__(self, *, dead: bool) -> None:
        self.dead = dead

    def run(self, argv: list[str], *, timeout: float) -> Reply:
        if self.dead:
            raise Unreachable("ask", "no route to host", "see its console")
        told = SAYS.get(" ".join(argv))
        code, out, err = (0, told, b"") if told else (127, b"", b"not found")
        return Reply(tuple(argv), code, out, err, 1.0, 1.0)


class Worker:
    def __init__(self, name: str, *, dead: bool = False) -> None:
        self.name, self.shell = name, Shell(dead=dead)


class Clock:
    def now(self) -> float:
        return 1000.0

    def monotonic(self) -> float:
        return 0.0


class Pool:
    """A stand-in for a held set of guests."""

    def __init__(self, *workers: Worker) -> None:
        self.workers = workers
        self.lab = self
        self.host = self
        self.clock = Clock()

    def printed(self, guest: str, most: int) -> bytes:
        return f"{guest} login: ".encode()


def test_guests_give_console_kernel_and_modules(tmp_path: Path) -> None:
    pool: Any = Pool(Worker("n1"), Worker("n2", dead=True))
    keeper = Keeper(PoolEvidence(tmp_path, pool.clock, Budget()), GuestPlan(pool))
    manifest = Manifest("it", "pair", 1000.0, "drbd-split-brain broken", 90.0)
    keeper.take(manifest, anew=False, done=lambda _: None)
    became = {one.name: one.status for one in manifest.items}
    assert len(became) == 2 + 2 * len(QUESTIONS)
    assert became["console of n2"] is Status.TAKEN
    assert became["dmesg on n1"] is Status.TAKEN
    assert became["nvidia-smi -L on n1"] is Status.EMPTY
    assert became["dmesg on n2"] is Status.FAILED
    assert became["cat /proc/uptime on n2"] is Status.SKIPPED
    assert "drbd" in (tmp_path / "it--pair" / "machines" / "n1" / "modules.txt").read_text()
