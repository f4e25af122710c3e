"""One trial under way: does things on the volume's nodes, and keeps what they answered.

Nothing here decides. A machine that does not answer is a fact like any other: what was asked of it
comes back without an exit status, and what it would have shown is missing from the look.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from harness.bringup.drbd.volume import Volume
from harness.facts.drbdlooks import Answer, Look, View, changed, view_of
from harness.facts.drbdtrials import BLOCK, Act, Extent, Waited
from harness.facts.fact import Origin, Unread
from harness.observe.drbd import drbd_status
from harness.reach.errors import LabError
from harness.reach.nodeshell import Reply

SOON, SLOWER = 0.5, 1.5
"""Seconds of the lab's time between the first two looks of a wait, and by how much each pause is
longer than the last. DRBD's states cannot be watched through a command that ends; what comes and
goes in between is in the records (`drbd.records`)."""
SELDOM, SELDOM_VIRTUAL = 1.0, 5.0
"""The longest pause in seconds; where time waits for the looks they are what a wait costs."""
AMOUNT = 8
"""Blocks that a trial writes at once (512 KiB): enough to be resynced, little to be read back."""
ADMIN_LIMIT = 60.0
"""Seconds of the runner's time for a drbdadm command; some wait for the peer."""
DATA_LIMIT = 120.0
"""Seconds of the runner's time for a dd: one towards a peer that has just gone stands still until
DRBD gives it up, which takes 10 s and more with stock timeouts."""

_T = TypeVar("_T")


@dataclass(slots=True)
class Attempt:
    """One trial of a volume. ``primary`` and ``secondary`` are set when it begins.

    ``off`` are the nodes whose machines are off: nobody asks them. ``victim`` is the node whose
    writes go where two sides diverged, "" where none is named. ``booted`` is called with the node
    of a machine that came back.
    """

    volume: Volume
    what: str
    primary: str = ""
    secondary: str = ""
    victim: str = ""
    cut: bool = False
    off: set[str] = field(default_factory=set)
    acts: list[Act] = field(default_factory=list)
    written: list[Extent] = field(default_factory=list)
    read: list[Extent] = field(default_factory=list)
    resynced: Waited | None = None
    version: str = ""
    said: list[str] = field(default_factory=list)
    booted: Callable[[str], object] = lambda node: None  # noqa: ARG005 - nobody listens

    @property
    def now(self) -> float:
        """The lab's time."""
        return self.volume.clock.now()

    def place(self, number: int) -> int:
        """The first block of the trial's place of this number; no two places overlap."""
        return number * AMOUNT

    # -- doing

    def run(self, node: str, argv: Sequence[str], *, timeout: float = ADMIN_LIMIT) -> Reply:
        """Run a command beside a replica; never raises LabError: the reply's problem tells."""
        replica = self.volume.replica(node)
        started = self.now
        try:
            reply = replica.shell.run(argv, timeout=timeout)
        except LabError as error:
            reply = Reply(tuple(argv), None, b"", b"", started, self.now, str(error))
        self._write_down(node, reply)
        return reply

    def act(self, node: str, argv: Sequence[str], *, timeout: float = ADMIN_LIMIT) -> Act:
        """Run a command and keep it among the trial's acts."""
        return self._keep(_act_of(node, self.run(node, argv, timeout=timeout)))

    def drbdadm(self, node: str, *words: str) -> Act:
        """``drbdadm WORDS... RESOURCE``, kept among the acts."""
        return self.act(node, ["drbdadm", *words, self.volume.resource])

    def do(self, what: str, node: str, call: Callable[[], object]) -> Act:
        """Something that is no command: a machine's power, the link. Raises as ``call`` does."""
        began = self.now
        call()
        self.said.append(f"{node}: {what}\n")
        return self._keep(Act(what, node, began, self.now - began, 0, ""))

    # -- its bytes

    def write(self, node: str, first: int, count: int = AMOUNT) -> Extent:
        """Write random blocks through the volume, and read there what they are."""
        act = self.overwrite(node, self.volume.device, first, count)
        digest = self._digest(node, first, count) if act.done else ""
        extent = Extent(node, first, count, digest, act)
        self.written.append(extent)
        return extent

    def overwrite(self, node: str, device: str, first: int, count: int) -> Act:
        """Write random blocks to any device of a node; done when they are on the disk."""
        argv = ["dd", "if=/dev/urandom", f"of={device}", f"bs={BLOCK}", f"count={count}"]
        argv += [f"seek={first}", "oflag=direct", "conv=fsync"]
        return self.act(node, argv, timeout=DATA_LIMIT)

    def read_back(self, extent: Extent, node: str) -> Extent:
        """Read the blocks of an extent on a node, which has to be Primary for it."""
        reply = self._dd(node, extent.first, extent.count)
        digest = _digest(reply, extent.count)
        seen = Extent(node, extent.first, extent.count, digest, self._keep(_act_of(node, reply)))
        self.read.append(seen)
        return seen

    def _digest(self, node: str, first: int, count: int) -> str:
        return _digest(self._dd(node, first, count), count)

    def _dd(self, node: str, first: int, count: int) -> Reply:
        argv = ["dd", f"if={self.volume.device}", f"bs={BLOCK}", f"count={count}"]
        return self.run(node, [*argv, f"skip={first}", "iflag=direct"], timeout=DATA_LIMIT)

    # -- looking

    def look(self) -> Look:
        """Ask every replica."""
        views = self.each([one.node for one in self.volume.replicas], self._view)
        return Look(self.now, tuple(views))

    def each(self, nodes: Sequence[str], ask: Callable[[str], _T]) -> list[_T]:
        """Ask some nodes, all at the same time; one after the other on a lab whose time waits for
        them, where that is as quick and comes out the same each time.
        """
        if self.volume.clock.follows:
            return [ask(node) for node in nodes]
        with ThreadPoolExecutor(len(nodes)) as pool:
            return list(pool.map(ask, nodes))

    def wait(self, what: str, came: Callable[[Look], bool], limit: float) -> Waited:
        """Look again and again until a look has what is waited for, or for ``limit`` seconds."""
        clock = self.volume.clock
        began, deadline, pause = clock.now(), clock.deadline(limit), SOON
        longest = SELDOM_VIRTUAL if clock.follows else SELDOM
        looks = [self.look()]
        while not came(looks[-1]) and not deadline.expired:
            clock.sleep(min(pause, deadline.remaining()), what)
            pause = min(pause * SLOWER, longest)
            self.volume.renew()
            looks.append(self.look())
        kept = tuple(changed(looks))
        return Waited(what, began, looks[-1].at - began, limit, came(looks[-1]), kept)

    def answer(self, node: str) -> Answer:
        """What a node says of the resource, as a fact; Unread where it cannot be asked."""
        replica, resource = self.volume.replica(node), self.volume.resource
        try:
            found = drbd_status(replica.shell, resource, node=node)
        except LabError as error:
            asked = f"drbdsetup status {resource}"
            return Unread(Origin(self.now, node, ""), asked, str(error))
        self.said.append(f"{node}# drbdsetup status {resource}\n{found.origin.raw}\n")
        return found

    def _view(self, node: str) -> View:
        if node in self.off:
            return View(node, missing="switched off")
        found = self.answer(node)
        if not isinstance(found, Unread):
            self.version = self.version or found.version
        return view_of(found, node, self.volume.resource)

    # -- keeping

    def _keep(self, act: Act) -> Act:
        self.acts.append(act)
        return act

    def _write_down(self, node: str, reply: Reply) -> None:
        binary = reply.argv[:2] == ("dd", f"if={self.volume.device}")
        out = f"({len(reply.stdout)} bytes)\n" if binary else _text(reply.stdout)
        ended = reply.problem if reply.exit_code is None else reply.exit_code
        line = f"{node}# {' '.join(reply.argv)}\n{out}{_text(reply.stderr)}[exit {ended}]\n"
        self.said.append(line)


def _act_of(node: str, reply: Reply) -> Act:
    binary = reply.argv[0] == "dd"
    told = reply.stderr if binary else reply.stdout + reply.stderr
    said = reply.problem if reply.exit_code is None else _text(told).strip()
    seconds = reply.ended - reply.started
    return Act(" ".join(reply.argv), node, reply.started, seconds, reply.exit_code, said)


def _digest(reply: Reply, count: int) -> str:
    """The checksum of what was read, "" where that is not the whole of it."""
    whole = reply.exit_code == 0 and len(reply.stdout) == count * BLOCK
    return hashlib.sha256(reply.stdout).hexdigest() if whole else ""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
