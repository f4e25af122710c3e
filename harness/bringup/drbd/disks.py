"""Trials of the disk below a replica: one that vanishes, and one that holds other blocks."""

from __future__ import annotations

import re

from harness.bringup.drbd.attempt import SOON, Attempt
from harness.bringup.drbd.conducting import Finish, cannot, conduct
from harness.bringup.drbd.losses import read_on_both, switch_off
from harness.bringup.drbd.restoring import await_sync, bring_up, power_on
from harness.bringup.drbd.volume import Volume
from harness.facts.drbd import DISKLESS
from harness.facts.drbdlooks import VERIFYING, Look
from harness.facts.drbdtrials import Act, DiskLoss, Extent, VerifyFound, Waited
from harness.facts.fact import Unread

FAIL_LIMIT = 30.0
"""Seconds after an I/O for a disk that is gone to be told as gone."""
DISK_LIMIT = 10.0
"""Seconds for a disk that was put back to be there."""
VERIFY_LIMIT = 300.0
"""Seconds for an online verify: 2 for 64 MiB in the mini-lab (lab/qemu_drbd.md)."""
VERIFY_STARTS = 5.0
"""Seconds after which a verify that was not seen to run is taken to be over."""
DAMAGED = 1
"""Blocks that are overwritten on the disk below."""

_OWN_FUNCTION = re.compile(
    r"(/sys/devices/pci\S*/[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])/virtio"
)
_SET = 'echo 1 >"$1"'  # a file of sysfs has to be written to, and NodeShell gives no input


def disk_loss(volume: Volume, *, under_primary: bool) -> DiskLoss | Unread:
    """Have the disk below one replica vanish, go on with I/O, and put it back.

    A virtio disk is taken from the machine's PCI bus; any other is detached by force, for more
    than this volume may be on it.
    """
    whose = "the Primary's" if under_primary else "the Secondary's"
    return conduct(
        volume,
        f"loss of {whose} disk",
        lambda attempt: _disk_loss(attempt, under_primary=under_primary),
    )


def verify_found(volume: Volume) -> VerifyFound | Unread:
    """Overwrite blocks below the Secondary, have a verify find them, and a resync mend them."""
    what = "online verify"
    if not all(one.backing for one in volume.replicas):
        return cannot(volume, what, "the disks below the replicas are not to be written to")
    return conduct(volume, what, _verify_found)


def _disk_loss(attempt: Attempt, *, under_primary: bool) -> Finish[DiskLoss]:
    primary, secondary = attempt.primary, attempt.secondary
    node = primary if under_primary else secondary
    before = attempt.write(primary, attempt.place(0))
    function = _pci_function(attempt, node)
    gone = _take(attempt, node, function)
    quiet = attempt.look()
    io = [attempt.read_back(before, primary)] if under_primary else []
    during = attempt.write(primary, attempt.place(1))
    io.append(during)
    failed = attempt.wait(
        f"the disk of {node} to be told as gone",
        lambda look: look.of(node).disk == DISKLESS,
        FAIL_LIMIT,
    )
    _put_back(attempt, node, function)
    await_sync(attempt)
    read_on_both(attempt, before, during)
    return lambda origin, course: DiskLoss(
        origin, course, primary, secondary, node, bool(function), gone, quiet, tuple(io), failed
    )


def _pci_function(attempt: Attempt, node: str) -> str:
    """The PCI function that is nothing but the disk below, "" where there is none."""
    backing = attempt.volume.replica(node).backing
    if not backing:
        return ""
    reply = attempt.run(node, ["readlink", "-f", f"/sys/class/block/{backing.rpartition('/')[2]}"])
    found = _OWN_FUNCTION.match(reply.stdout.decode("utf-8", "replace"))
    return found.group(1) if found and reply.exit_code == 0 else ""


def _take(attempt: Attempt, node: str, function: str) -> Act:
    if not function:
        return attempt.drbdadm(node, "detach", "--force")
    return attempt.act(node, ["sh", "-c", _SET, "sh", f"{function}/remove"])


def _put_back(attempt: Attempt, node: str, function: str) -> None:
    """The disk in its place and attached; where it comes back no more, by a cold start."""
    if function:
        attempt.act(node, ["sh", "-c", _SET, "sh", "/sys/bus/pci/rescan"])
        _await_disk(attempt, node)
    if attempt.drbdadm(node, "attach").done or attempt.volume.replica(node).power is None:
        return
    switch_off(attempt, node)
    if power_on(attempt, node):
        bring_up(attempt, node)


def _await_disk(attempt: Attempt, node: str) -> None:
    clock = attempt.volume.clock
    deadline = clock.deadline(DISK_LIMIT)
    backing = attempt.volume.replica(node).backing
    while attempt.run(node, ["ls", backing]).exit_code != 0 and not deadline.expired:
        clock.sleep(SOON, f"{backing} of {node} to be there")


def _verify_found(attempt: Attempt) -> Finish[VerifyFound]:
    primary, secondary = attempt.primary, attempt.secondary
    sound = attempt.write(primary, attempt.place(0))
    damaged = _damage(attempt, sound)
    quiet = attempt.look()
    first = _verify(attempt)
    found = attempt.look()
    attempt.drbdadm(secondary, "disconnect")
    attempt.drbdadm(secondary, "connect")
    await_sync(attempt)
    second = _verify(attempt)
    clean = attempt.look()
    read_on_both(attempt, sound)
    return lambda origin, course: VerifyFound(
        origin, course, primary, secondary, damaged, sound, quiet, (first, second), found, clean
    )


def _damage(attempt: Attempt, sound: Extent) -> Act:
    """Overwrite the first blocks of an extent below the Secondary, while DRBD is not looking.

    The metadata stands at the disk's end, so that a block has the same number below and above.
    """
    node = attempt.secondary
    attempt.drbdadm(node, "down")
    below = attempt.volume.replica(node).backing
    damaged = attempt.overwrite(node, below, sound.first, DAMAGED)
    attempt.drbdadm(node, "up")
    await_sync(attempt)
    return damaged


def _verify(attempt: Attempt) -> Waited:
    """Have the Primary compare all blocks with the Secondary's; the wait for the end of it."""
    attempt.drbdadm(attempt.primary, "verify")
    until = attempt.volume.clock.deadline(VERIFY_STARTS)
    ran = False

    def over(look: Look) -> bool:
        nonlocal ran
        states = {peer.replication for view in look.views for peer in view.peers}
        running = bool(states & set(VERIFYING))
        ran = ran or running
        return not running and (ran or until.expired)

    return attempt.wait("the verify to end", over, VERIFY_LIMIT)
