"""Bringing a volume back to where a trial found it: connected, in sync, the same replica Primary.

It is done after every trial, also one that was interrupted or failed half way, and it never raises
a LabError: what could not be undone is told in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from harness.bringup.drbd.attempt import Attempt
from harness.facts.drbd import DISKLESS, PRIMARY, STANDALONE
from harness.facts.drbdlooks import Look, View
from harness.facts.drbdtrials import Waited
from harness.reach.errors import LabError
from harness.reach.nodeshell import NodeShell

BOOT_LIMIT = 300.0
"""Seconds for a machine that was switched on to be asked again."""
RESYNC_LIMIT = 120.0
"""Seconds for a resync of what a trial wrote."""
RETURN_EVERY, RETURN_VIRTUAL = 1.0, 5.0
"""Seconds between two tries to log in to a machine that boots; the longer where time waits for the
tries, and each costs."""
UP_LIMIT = 10.0
"""Seconds in which a machine that booted may bring its resources up by itself."""


def power_on(attempt: Attempt, node: str) -> bool:
    """Switch a machine on, wait until it can be asked, and have it take part again.

    False where it was not back in time. Raises LabError where it cannot be switched on.
    """
    power = attempt.volume.replica(node).power
    if power is None:
        return False
    attempt.do("switch on", node, power.on)
    return await_shell(attempt, node)


def await_shell(attempt: Attempt, node: str) -> bool:
    """Wait for a machine that is on to answer; False where it did not."""
    clock, replica = attempt.volume.clock, attempt.volume.replica(node)
    deadline = clock.deadline(BOOT_LIMIT)
    while not deadline.expired:
        shell = _reopened(replica.reopen) if replica.reopen else replica.shell
        if shell is not None and _answers(shell):
            replica.shell = shell
            attempt.off.discard(node)
            attempt.booted(node)
            return True
        clock.sleep(RETURN_VIRTUAL if clock.follows else RETURN_EVERY, f"{node} to be back")
        attempt.volume.renew()
    return False


def bring_up(attempt: Attempt, node: str) -> None:
    """Have a machine that has booted take part again: by itself, else by ``drbdadm up``."""

    def there(look: Look) -> bool:
        return not look.of(node).missing

    if there(attempt.look()):
        return
    attempt.drbdadm(node, "up")
    attempt.wait(f"{node} to have the resource", there, UP_LIMIT)


def await_sync(attempt: Attempt, what: str = "all replicas to be in sync") -> Waited:
    """Wait until every replica is connected and in sync; kept as the trial's resync."""
    attempt.resynced = attempt.wait(what, lambda look: look.in_sync, RESYNC_LIMIT)
    return attempt.resynced


def exchange_roles(attempt: Attempt, old: str, new: str) -> None:
    """Demote one replica and promote the other; what is refused shows in the acts."""
    attempt.drbdadm(old, "secondary")
    attempt.drbdadm(new, "primary")


def undo_now(attempt: Attempt) -> tuple[str, ...]:
    """The link healed, machines on, replicas told to connect, without waiting for any of it: for a
    run that ends. What could not be undone.
    """
    left = tuple(_undone(attempt))
    _rejoin(attempt, attempt.look())
    return left


def restore(attempt: Attempt, found: Look) -> tuple[Look, tuple[str, ...]]:
    """Undo all that is left; the last look, and what could not be undone."""
    left = list(_undone(attempt))
    for node in tuple(attempt.off):
        if not await_shell(attempt, node):
            left.append(f"{node} did not come back within {BOOT_LIMIT:.0f} s")
    look = attempt.look()
    if not look.in_sync:
        look = _mend(attempt, look)
    if look.primaries != found.primaries:
        look = _give_roles_back(attempt, look, found)
    left += _differences(look, found)
    return look, tuple(left)


def _undone(attempt: Attempt) -> Iterator[str]:
    link = attempt.volume.link
    if attempt.cut and link is not None:
        yield from _tried("heal the link", link.heal)
        attempt.cut = False
    for node in sorted(attempt.off):
        power = attempt.volume.replica(node).power
        if power is not None:
            yield from _tried(f"switch {node} on", power.on)


def _tried(what: str, call: Callable[[], object]) -> Iterator[str]:
    try:
        call()
    except LabError as error:
        yield f"could not {what}: {error}"


def _mend(attempt: Attempt, look: Look) -> Look:
    """The volume once nothing keeps the replicas apart."""
    _rejoin(attempt, look)
    what = "all replicas to be in sync again"
    return attempt.wait(what, lambda one: one.in_sync, RESYNC_LIMIT).last


def _rejoin(attempt: Attempt, look: Look) -> None:
    for view in look.views:
        if view.node not in attempt.off:
            _mend_one(attempt, view)
    if attempt.victim:
        _reunite(attempt)


def _give_roles_back(attempt: Attempt, look: Look, found: Look) -> Look:
    for node in look.primaries:
        if node not in found.primaries:
            attempt.drbdadm(node, "secondary")
    for node in found.primaries:
        if node not in look.primaries:
            attempt.drbdadm(node, "primary")
    return attempt.look()


def _mend_one(attempt: Attempt, view: View) -> None:
    if view.missing:
        attempt.drbdadm(view.node, "up")
    elif view.disk == DISKLESS and not view.client:
        attempt.drbdadm(view.node, "attach")
    if _stands_alone(view) and not attempt.victim:
        attempt.drbdadm(view.node, "connect")


def _stands_alone(view: View) -> bool:
    return not view.peers or any(one.connection == STANDALONE for one in view.peers)


def _reunite(attempt: Attempt) -> None:
    """Two sides that diverged: the victim's writes go."""
    look = attempt.look()
    if all(one.connected for one in look.views):
        return
    if look.of(attempt.victim).role == PRIMARY:
        attempt.drbdadm(attempt.victim, "secondary")
    if not _stands_alone(look.of(attempt.victim)):
        attempt.drbdadm(attempt.victim, "disconnect")
    attempt.drbdadm(attempt.victim, "connect", "--discard-my-data")
    for node in attempt.volume.others(attempt.victim):
        if _stands_alone(look.of(node)):
            attempt.drbdadm(node, "connect")


def _differences(look: Look, found: Look) -> Iterator[str]:
    if not look.in_sync:
        yield f"the replicas are not in sync again: {look}"
    if look.primaries != found.primaries:
        was, now = " ".join(found.primaries), " ".join(look.primaries)
        yield f"Primary is {now or 'nobody'}, was {was or 'nobody'}"


def _reopened(reopen: Callable[[], NodeShell]) -> NodeShell | None:
    try:
        return reopen()
    except LabError:
        return None


def _answers(shell: NodeShell) -> bool:
    try:
        return shell.run(["true"]).exit_code == 0
    except LabError:
        return False
