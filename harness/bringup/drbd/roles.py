"""Trials of who may be Primary: a planned failover, and a promotion that has to be refused."""

from __future__ import annotations

from harness.bringup.drbd.attempt import Attempt
from harness.bringup.drbd.conducting import Finish, conduct
from harness.bringup.drbd.restoring import await_sync, exchange_roles
from harness.bringup.drbd.volume import Volume
from harness.facts.drbd import STANDALONE
from harness.facts.drbdlooks import Look
from harness.facts.drbdtrials import OutdatedRefused, PlannedFailover
from harness.facts.fact import Unread

STATE_LIMIT = 60.0
"""Seconds for a state that an administrator's command asks for."""


def planned_failover(volume: Volume) -> PlannedFailover | Unread:
    """Write, demote the Primary, promote the other, read, write, and all of it back again."""
    return conduct(volume, "planned failover", _failover)


def outdated_refused(volume: Volume) -> OutdatedRefused | Unread:
    """Disconnect the Secondary, tell it that it is outdated, try to promote it, reconnect it."""
    return conduct(volume, "promotion of an outdated replica", _outdated)


def _failover(attempt: Attempt) -> Finish[PlannedFailover]:
    old, new = attempt.primary, attempt.secondary
    written = attempt.write(old, attempt.place(0))
    demoted = attempt.drbdadm(old, "secondary")
    promoted = attempt.drbdadm(new, "primary")
    moved = attempt.look()
    attempt.read_back(written, new)
    there = attempt.write(new, attempt.place(1))
    exchange_roles(attempt, new, old)
    for extent in (written, there):
        attempt.read_back(extent, old)
    return lambda origin, course: PlannedFailover(
        origin, course, old, new, demoted, promoted, moved
    )


def _outdated(attempt: Attempt) -> Finish[OutdatedRefused]:
    primary, behind = attempt.primary, attempt.secondary
    attempt.write(primary, attempt.place(0))
    attempt.drbdadm(behind, "disconnect")

    def apart(look: Look) -> bool:
        peers = look.of(behind).peers
        return bool(peers) and all(one.connection == STANDALONE for one in peers)

    attempt.wait(f"{behind} to stand alone", apart, STATE_LIMIT)
    attempt.drbdadm(behind, "outdate")
    newer = attempt.write(primary, attempt.place(1))
    outdated = attempt.look()
    promoted = attempt.drbdadm(behind, "primary")
    refused = attempt.look()
    if promoted.done:
        attempt.drbdadm(behind, "secondary")
        attempt.victim = behind
    attempt.drbdadm(behind, "connect")
    await_sync(attempt)
    exchange_roles(attempt, primary, behind)
    attempt.read_back(newer, behind)
    exchange_roles(attempt, behind, primary)
    return lambda origin, course: OutdatedRefused(
        origin, course, primary, behind, outdated, promoted, refused
    )
