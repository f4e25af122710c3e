"""The claim that a pool's workers join: judged by Ready nodes, never by a HelmRelease."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.facts.fact import Unread
from harness.facts.joining import JoinTrack, Stage
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, unread

_CLAIM = "node-joins"


def node_joins(tracks: Sequence[JoinTrack] | Unread, expected: int, subject: str) -> Verdict:
    """node-joins: as many workers as expected became Ready within the budget.

    A worker that is late or, its budget spent, not Ready breaks it, and the sentence names the
    object it is stuck on and why. Unknown while there is time left, where no worker was expected
    or nothing was followed, and where the moment of becoming Ready was not seen.
    """
    if isinstance(tracks, Unread):
        return unread(_CLAIM, subject, tracks)
    facts = tuple(tracks)
    if expected < 1 or not facts:
        because = f"{counted(expected, 'worker')} expected, {len(facts)} followed: nothing to judge"
        return Verdict(_CLAIM, subject, Outcome.UNKNOWN, because, facts)
    joined = [track for track in facts if _in_time(track)]
    budget = facts[0].budget
    wanted = f"{expected} Ready within {budget:.0f} s"
    if len(joined) >= expected:
        took = ", ".join(f"{track.node} after {track.seconds:.0f} s" for track in joined)
        because = f"{counted(len(joined), 'worker')} Ready: {took}; expected {wanted}"
        return Verdict(_CLAIM, subject, Outcome.HOLDS, because, facts)
    others = "; ".join(_told(facts))
    seen = f"{len(joined)} of {wanted}"
    because = f"{seen}: {others}" if others else f"{seen}, no other worker exists"
    return Verdict(_CLAIM, subject, _outcome(facts, expected), because, facts)


def _in_time(track: JoinTrack) -> bool:
    return track.seconds is not None and track.seconds <= track.budget


def _outcome(tracks: Sequence[JoinTrack], expected: int) -> Outcome:
    """Broken once the budget is spent and too few joined, or may have joined, in time."""
    undated = [one for one in tracks if one.stage is Stage.READY and one.seconds is None]
    possible = sum(map(_in_time, tracks)) + len(undated)
    time_left = any(track.waited < track.budget for track in tracks)
    return Outcome.UNKNOWN if time_left or possible >= expected else Outcome.BROKEN


def _told(tracks: Sequence[JoinTrack]) -> Iterator[str]:
    for track in tracks:
        if _in_time(track):
            continue
        if track.stage is Stage.READY:
            when = "at an unknown time" if track.seconds is None else f"after {track.seconds:.0f} s"
            yield f"{track.node} became Ready {when}"
        else:
            who = track.machine or "no machine"
            last = f" (last event {track.events[-1]})" if track.events else ""
            yield (
                f"{who} got to {track.stage} in {track.waited:.0f} s, stuck on "
                f"{track.stuck_kind or 'nothing'} {track.stuck_name}: {track.why}{last}"
            )
