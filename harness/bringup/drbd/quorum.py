"""The trial in which the Primary loses the majority of its peers: its I/O is to stand still.

A write that stands still can be ended by nobody, `timeout` included (lab/qemu_drbd.md, "DRBD 9 for
comparison"). So it is started in the background of the node and leaves its exit status in a file.
"""

from __future__ import annotations

from functools import partial

from harness.bringup.drbd.attempt import SOON, Attempt
from harness.bringup.drbd.conducting import Finish, cannot, conduct
from harness.bringup.drbd.losses import NOTICE_LIMIT, heal_link, read_on_both
from harness.bringup.drbd.restoring import await_sync
from harness.bringup.drbd.volume import Volume
from harness.facts.drbdlooks import Look
from harness.facts.drbdtrials import BLOCK, Act, QuorumLoss
from harness.facts.fact import Unread

STANDS_STILL = 10.0
"""Seconds for which a write is watched that is to stand still."""
WRITE_LIMIT = 60.0
"""Seconds for it to go on after the link is back."""
_WRITE = (
    'rm -f "$1"; (dd if=/dev/urandom of="$2" bs="$3" count="$4" seek="$5" oflag=direct '
    'conv=fsync; echo $? >"$1") </dev/null >/dev/null 2>&1 &'
)


def quorum_loss(volume: Volume) -> QuorumLoss | Unread:
    """Cut the Primary off from all others with a write under way, wait, and heal the link."""
    what = "loss of quorum"
    first = Attempt(volume, what)
    look = first.look()
    if first.version.startswith("8."):
        return cannot(volume, what, "DRBD 8.4 has no quorum and two nodes")
    if not any(one.quorum for one in look.views):
        return cannot(volume, what, f"no node says that it has a quorum: {look}")
    if volume.link is None:
        return cannot(volume, what, "this lab cannot cut the link")
    return conduct(volume, what, _quorum_loss)


def _quorum_loss(attempt: Attempt) -> Finish[QuorumLoss]:
    primary = attempt.primary
    before = attempt.write(primary, attempt.place(0))
    _isolate(attempt)
    status = _write_behind(attempt, attempt.place(1))

    def without(look: Look) -> bool:
        return look.of(primary).quorum is False

    lost = attempt.wait(f"{primary} to know of no quorum", without, NOTICE_LIMIT)
    attempt.volume.clock.sleep(STANDS_STILL, "the write to stand still")
    pending = _came_of(attempt, status)
    heal_link(attempt)
    await_sync(attempt)
    ended = _await_write(attempt, status)
    read_on_both(attempt, before)
    return lambda origin, course: QuorumLoss(
        origin, course, primary, attempt.secondary, lost, pending, ended
    )


def _isolate(attempt: Attempt) -> None:
    link, primary = attempt.volume.link, attempt.primary
    assert link is not None, "asked before the trial began"
    attempt.cut = True
    for other in attempt.volume.others(primary):
        attempt.do(f"cut the link to {other}", primary, partial(link.cut, primary, other))


def _write_behind(attempt: Attempt, first: int) -> str:
    """Start a write; the file in which its exit status will stand."""
    volume = attempt.volume
    file = f"/tmp/hil-write-{volume.resource}-{attempt.now:.3f}"
    numbers = [str(BLOCK), "1", str(first)]
    attempt.act(attempt.primary, ["sh", "-c", _WRITE, "sh", file, volume.device, *numbers])
    return file


def _came_of(attempt: Attempt, file: str) -> Act:
    """The write as far as is known: without an exit status while it has not ended."""
    began = attempt.now
    reply = attempt.run(attempt.primary, ["cat", file])
    text = reply.stdout.decode("ascii", "replace").strip()
    ended = int(text) if reply.exit_code == 0 and text.isdecimal() else None
    said = "" if ended is not None else "the write has not ended"
    return Act("dd", attempt.primary, began, attempt.now - began, ended, said)


def _await_write(attempt: Attempt, file: str) -> Act:
    clock = attempt.volume.clock
    deadline = clock.deadline(WRITE_LIMIT)
    came = _came_of(attempt, file)
    while came.exit_code is None and not deadline.expired:
        clock.sleep(SOON, "the write to go on")
        came = _came_of(attempt, file)
    return came
