"""Files that a trial has a worker write to its own disk, and read back.

They are on Talos' EPHEMERAL partition, /var, which the shell's pod reaches below its mount of the
host's root. A write ends when its bytes are on the disk (``conv=fsync``). One that may stand still
for long is left behind in the worker, with its exit status in memory, /dev/shm: what is frozen can
be written to by nobody, and no signal ends a program that waits for it (lab/qemu_drbd.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.bringup.drbd.attempt import DATA_LIMIT, SOON, Attempt
from harness.facts.diskfailover import Counters, KeptFile, counters, read_digest, read_span
from harness.facts.drbdtrials import BLOCK, Act
from harness.facts.guest import Uptime
from harness.observe.guest import uptime
from harness.reach.errors import LabError
from harness.reach.nodeshell import NodeShell, Reply

BLOCKS = 16
"""Blocks of a file: 1 MiB, enough to stand out from what a worker writes meanwhile."""
SIZE = BLOCKS * BLOCK
GO_ON_LIMIT = 60.0
"""Seconds for a write that stood still to go on once the majority is back."""
STATUS = "/dev/shm/hil-failover"
ASK_LIMIT = 15.0
"""Seconds of the runner's time for a question to a worker whose disk may stand still."""
_DROP = "echo 3 > /proc/sys/vm/drop_caches"
_WRITE = (
    'rm -f "$1"; (cat /proc/uptime >"$1"; '
    'dd if=/dev/urandom of="$2" bs="$3" count="$4" conv=fsync; '
    'echo $? >>"$1"; cat /proc/uptime >>"$1") </dev/null >/dev/null 2>&1 &'
)


class GuestFiles:
    """The files of one trial on one worker. What it asks is kept in the trial's own text."""

    def __init__(self, attempt: Attempt, worker: str, shell: NodeShell) -> None:
        self._attempt, self._worker, self._shell = attempt, worker, shell
        self._paths: list[str] = []
        self._waiting: KeptFile | None = None

    def write(self) -> KeptFile:
        """Write a file of random bytes to the disk; what it holds is read just after it."""
        path, before, began = self._next(), self.counters(), self._uptime()
        argv = ["dd", "if=/dev/urandom", f"of={path}", f"bs={BLOCK}", f"count={BLOCKS}"]
        wrote = self.act([*argv, "conv=fsync"], timeout=DATA_LIMIT)
        spanned = (began, self._uptime())
        digest = self._digest(path) if wrote.done else ""
        return KeptFile(path, SIZE, wrote, digest, before, self.counters(), spanned)

    def begin(self) -> Act:
        """Start a write and leave it to itself."""
        path = self._next()
        argv = ["sh", "-c", _WRITE, "sh", STATUS, path, str(BLOCK), str(BLOCKS)]
        begun = self.act(argv)
        self._waiting = KeptFile(path, SIZE, begun, "", Counters(), Counters())
        return begun

    def came_of(self) -> tuple[Act, tuple[float | None, float | None]]:
        """The write that was begun, as far as is known: without an exit status while it has none;
        and the worker's uptime before and after it.
        """
        began = self._attempt.now
        reply = self.run(["cat", STATUS], timeout=ASK_LIMIT)
        told = reply.stdout.decode("ascii", "replace") if reply.exit_code == 0 else ""
        before, code, after = read_span(told)
        said = "" if code is not None else (reply.problem or "the write has not ended")
        took = self._attempt.now - began
        return Act("dd", self._worker, began, took, code, said), (before, after)

    def await_end(self) -> tuple[Act, tuple[float | None, float | None]]:
        """The same once it has ended, or its time is over."""
        clock = self._attempt.volume.clock
        deadline = clock.deadline(GO_ON_LIMIT)
        came = self.came_of()
        while came[0].exit_code is None and not deadline.expired:
            clock.sleep(SOON, "the worker's write to go on")
            came = self.came_of()
        return came

    def finished(self, ended: Act) -> KeptFile | None:
        """The file whose write was begun and has ended well, with what it holds."""
        if self._waiting is None or not ended.done:
            return None
        digest = self._digest(self._waiting.path)
        return replace(self._waiting, wrote=ended, digest=digest)

    def drop(self) -> Act:
        """Have the worker forget what it holds of its disk in memory."""
        self.act(["sync"], timeout=DATA_LIMIT)
        return self.act(["sh", "-c", _DROP], timeout=DATA_LIMIT)

    def read(self, file: KeptFile) -> KeptFile:
        """A file with what it holds now."""
        return replace(file, read=self._digest(file.path))

    def clear(self) -> None:
        """Remove all of them."""
        if self._paths:
            self.run(["rm", "-f", STATUS, *self._paths], timeout=ASK_LIMIT)

    def counters(self) -> Counters:
        """What the kernel of the storage node that the worker works on counts."""
        found = self._attempt.answer(self._attempt.primary)
        return counters(found, self._attempt.volume.resource)

    def act(self, argv: Sequence[str], *, timeout: float = ASK_LIMIT) -> Act:
        """Run a command on the worker and keep it among the trial's acts."""
        reply = self.run(argv, timeout=timeout)
        told = (reply.stdout + reply.stderr).decode("utf-8", "backslashreplace")
        said = reply.problem if reply.exit_code is None else told.strip()
        seconds = reply.ended - reply.started
        act = Act(" ".join(argv), self._worker, reply.started, seconds, reply.exit_code, said)
        self._attempt.acts.append(act)
        return act

    def run(self, argv: Sequence[str], *, timeout: float = ASK_LIMIT) -> Reply:
        """Run a command on the worker; never raises LabError: the reply's problem tells."""
        started = self._attempt.now
        try:
            reply = self._shell.run(argv, timeout=timeout)
        except LabError as error:
            now = self._attempt.now
            reply = Reply(tuple(argv), None, b"", b"", started, now, str(error))
        out = (reply.stdout + reply.stderr).decode("utf-8", "backslashreplace")
        ended = reply.problem if reply.exit_code is None else reply.exit_code
        line = f"{self._worker}# {' '.join(argv)}\n{out}[exit {ended}]\n"
        self._attempt.said.append(line)
        return reply

    def _next(self) -> str:
        path = f"{self._shell.root}/var/hil-failover-{len(self._paths) + 1}"
        self._paths.append(path)
        return path

    def _uptime(self) -> float | None:
        try:
            found = uptime(self._shell)
        except LabError:
            return None
        return found.seconds if isinstance(found, Uptime) else None

    def _digest(self, path: str) -> str:
        reply = self.run(["sha256sum", path], timeout=DATA_LIMIT)
        text = reply.stdout.decode("utf-8", "backslashreplace")
        return read_digest(text, path) if reply.exit_code == 0 else ""
