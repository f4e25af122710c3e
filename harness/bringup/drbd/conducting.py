"""How every trial goes: see that the volume is fit for it, do it, keep the records, undo it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from harness.bringup.drbd.attempt import Attempt
from harness.bringup.drbd.records import Records
from harness.bringup.drbd.restoring import RESYNC_LIMIT, restore, undo_now
from harness.bringup.drbd.volume import Volume
from harness.facts.drbdlooks import Look
from harness.facts.drbdtrials import BLOCK, Course, DrbdTrial
from harness.facts.fact import Origin, Unread
from harness.reach.errors import LabError

PLACES = 4
"""How many places a trial writes to at most (`Attempt.place`)."""

_T = TypeVar("_T", bound=DrbdTrial)
Finish = Callable[[Origin, Course], _T]
"""Makes the fact of what the trial saw, once the rest is known."""
Body = Callable[[Attempt], Finish[_T]]
"""The trial itself: from a volume in sync with one Primary to wherever it ends."""


def conduct(volume: Volume, what: str, body: Body[_T]) -> _T | Unread:
    """Make one trial and undo it, whatever happens in between.

    Unread where the volume is not fit for it, and where the lab failed on the way; what could not
    be undone then stands in the reason. What interrupts it is raised again, with that in its notes.
    """
    attempt = Attempt(volume, what)
    began = attempt.now
    found = _begin(attempt)
    if isinstance(found, Unread):
        return found
    records = Records(attempt)
    attempt.booted = records.begin
    try:
        before = _take_roles(attempt, found)
        nodes = (attempt.primary, attempt.secondary)
        attempt.each(nodes, records.begin)
        finish = body(attempt)
        kept = tuple(attempt.each(nodes, records.collect))
    except LabError as error:
        _, left = restore(attempt, found)
        return _unread(attempt, "; ".join((str(error), *left)))
    except BaseException as cut:
        for one in _undo_now(attempt):
            cut.add_note(one)
        raise
    after, left = restore(attempt, found)
    course = Course(
        volume.resource,
        attempt.version,
        before,
        after,
        tuple(attempt.acts),
        tuple(attempt.written),
        tuple(attempt.read),
        attempt.resynced,
        kept,
        attempt.now - began,
        left,
    )
    return finish(_origin(attempt), course)


def _undo_now(attempt: Attempt) -> tuple[str, ...]:
    """What could not be undone; the undoing itself may be broken off."""
    try:
        return undo_now(attempt)
    except KeyboardInterrupt as again:
        nodes = ", ".join(one.node for one in attempt.volume.replicas)
        again.add_note(f"see that {nodes} are on and connected: {attempt.what} was not undone")
        raise


def cannot(volume: Volume, what: str, why: str) -> Unread:
    """A trial that this lab or this volume does not allow."""
    return _unread(Attempt(volume, what), why)


def _begin(attempt: Attempt) -> Look | Unread:
    """The volume in sync with at most one Primary, or why not."""
    volume = attempt.volume
    needed = PLACES * attempt.place(1) * BLOCK
    if volume.size < needed:
        return _unread(attempt, f"{volume.subject} has {volume.size} bytes, {needed} are needed")
    ready = attempt.wait("all replicas to be in sync", lambda look: look.in_sync, RESYNC_LIMIT)
    if not ready.came:
        return _unread(attempt, f"the volume was not in sync before it: {ready.last}")
    if sum(not one.client for one in ready.last.views) < 2:
        return _unread(attempt, f"there is no second replica with a disk: {ready.last}")
    if len(ready.last.primaries) > 1:
        return _unread(attempt, f"it has more than one Primary: {ready.last}")
    return ready.last


def _take_roles(attempt: Attempt, found: Look) -> Look:
    """Name Primary and Secondary; where nobody is Primary, the first replica becomes it."""
    nodes = [one.node for one in found.views if not one.client]
    attempt.primary = found.primaries[0] if found.primaries else nodes[0]
    attempt.secondary = next(one for one in nodes if one != attempt.primary)
    if found.primaries:
        return found
    attempt.drbdadm(attempt.primary, "primary")
    return attempt.look()


def _unread(attempt: Attempt, why: str) -> Unread:
    return Unread(_origin(attempt), f"a trial of {attempt.volume.subject} ({attempt.what})", why)


def _origin(attempt: Attempt) -> Origin:
    source = f"{attempt.volume.subject}: {attempt.what}"
    return Origin(attempt.now, source, "\n".join(attempt.said))
