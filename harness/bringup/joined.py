"""How far a pool's workers got, for a pool that is to be handed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.facts.joining import JoinTrack, Stage


def why_not(tracks: Sequence[JoinTrack], replicas: int) -> str:
    """Why not all of the workers that were asked for are Ready, naming what each is stuck at."""
    stuck = [
        f"{track.machine or 'no Machine'} stands at {track.stuck_kind} {track.stuck_name}: "
        f"{track.why}"
        for track in tracks
        if track.stage is not Stage.READY
    ]
    joined = len(tracks) - len(stuck)
    some = f"{joined} of {replicas} workers" if joined else "no worker"
    return f"{some} joined: " + ("; ".join(stuck) or "the others have no Machine")


def undated(track: JoinTrack) -> JoinTrack:
    """A track whose Ready is not dated where the date is no proof of a join in time."""
    in_time = track.seconds is not None and track.seconds <= track.budget
    return track if in_time else replace(track, seconds=None)
