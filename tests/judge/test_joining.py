from __future__ import annotations

import pytest

from harness import claims
from harness.facts.fact import Origin, Unread
from harness.facts.joining import JoinTrack, Stage
from harness.judge.joining import node_joins

AT = Origin(1.0, "management", "")
UNREAD = Unread(AT, "Machines", "it is not there")


def ready(seconds: float | None, waited: float = 2000.0, name: str = "w1") -> JoinTrack:
    return JoinTrack(AT, "m1", name, Stage.READY, "", "", "", (), seconds, waited, 1740.0)


def stuck(waited: float = 2000.0, *events: str, machine: str = "m1") -> JoinTrack:
    return JoinTrack(
        AT,
        machine,
        "",
        Stage.CREATED,
        "DataVolume",
        "d1",
        "phase ImportInProgress",
        events,
        None,
        waited,
        1740.0,
    )


NOWHERE = JoinTrack(AT, "", "", Stage.REQUESTED, "", "", "no release", (), None, 1740.0, 1740.0)


@pytest.mark.parametrize(
    ("tracks", "expected", "outcome", "said"),
    [
        ([ready(90.0)], 1, "holds", "Ready: w1 after 90 s; expected 1 Ready within 1740 s"),
        ([ready(1740.0)], 1, "holds", "w1 after 1740 s"),
        ([ready(90.0, waited=91.0)], 1, "holds", "w1 after 90 s"),
        ([ready(0.0)], 1, "holds", "w1 after 0 s"),
        ([ready(90.0), ready(95.0, name="w2")], 2, "holds", "w1 after 90 s, w2 after 95 s"),
        ([ready(90.0), stuck()], 1, "holds", "1 worker Ready"),
        ([ready(1740.5)], 1, "broken", "w1 became Ready after 1740 s"),
        ([ready(1900.0)], 1, "broken", "0 of 1 Ready within 1740 s: w1 became Ready after 1900 s"),
        ([stuck()], 1, "broken", "stuck on DataVolume d1: phase ImportInProgress"),
        ([stuck(1740.0)], 1, "broken", "m1 got to created in 1740 s"),
        ([stuck(2000.0, "a: b", "c: d")], 1, "broken", "(last event c: d)"),
        ([ready(90.0), stuck()], 2, "broken", "1 of 2 Ready within 1740 s: m1 got to created"),
        ([ready(90.0)], 2, "broken", "1 of 2 Ready within 1740 s, no other worker exists"),
        ([NOWHERE], 1, "broken", "machine got to requested in 1740 s, stuck on nothing : no"),
        ([ready(None), stuck()], 2, "broken", "w1 became Ready at an unknown time; m1 got to"),
        ([stuck(1739.0)], 1, "unknown", "stuck on DataVolume d1"),
        ([ready(90.0, 1739.0), stuck(1739.0)], 2, "unknown", "1 of 2 Ready"),
        ([ready(90.0, 1739.0)], 2, "unknown", "1 of 2 Ready"),
        ([ready(None)], 1, "unknown", "w1 became Ready at an unknown time"),
        ([ready(None), ready(90.0)], 2, "unknown", "at an unknown time"),
        ([], 1, "unknown", "1 worker expected, 0 followed"),
        ([ready(90.0)], 0, "unknown", "0 workers expected, 1 followed"),
        (UNREAD, 1, "unknown", "Machines could not be read: it is not there"),
    ],
)
def test_node_joins(
    tracks: list[JoinTrack] | Unread, expected: int, outcome: str, said: str
) -> None:
    verdict = node_joins(tracks, expected, "pool gpu")
    assert (verdict.claim, verdict.subject) == ("node-joins", "pool gpu")
    assert verdict.claim in claims.load()
    assert verdict.outcome == outcome
    assert said in verdict.because, verdict.because
    assert verdict.facts == ((tracks,) if isinstance(tracks, Unread) else tuple(tracks))


def test_a_worker_in_time_is_not_among_the_culprits() -> None:
    assert "w1" not in node_joins([ready(90.0), stuck()], 2, "pool gpu").because
