"""How a run stands, in words."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harness.live.standing import STALLED, Standing, clock_time


def beat(**more: Any) -> dict[str, Any]:
    fields = {
        "record": "beat", "at": 1000.0, "seen": 1000.0, "pool": "gpu", "scenario": "test_stay",
        "since": 400.0, "lab": 5000.0, "moves": True,
        "waiting": {"what": "5580 s of uptime", "since": 4000.0, "until": 8000.0},
    }  # fmt: skip
    return {**fields, **more}


def standing(*beats: dict[str, Any]) -> Standing:
    found = Standing()
    for number, one in enumerate(beats):
        found.progress(f"gw{number}", one)
    return found


def test_a_worker_says_what_it_waits_for_and_how_long_still() -> None:
    (line,) = standing(beat()).lines(1060.0)[1:]
    assert line == (
        "gpu: waits for 5580 s of uptime, at most 49 min still, last sign 60 s ago, "
        "test_stay for 11 min"
    )


def test_virtual_time_does_not_go_on_by_itself() -> None:
    (line,) = standing(beat(moves=False, seen=1999.0)).lines(2000.0)[1:]
    assert "at most 50 min still" in line


def test_a_wait_over_its_limit_is_told() -> None:
    (line,) = standing(beat(lab=8000.0)).lines(1005.0)[1:]
    assert "over its limit by 5 s" in line


def test_nothing_seen_for_long_is_a_stall() -> None:
    found = standing(beat(), beat(seen=1800.0), beat(pool=""))
    now = 1000.0 + STALLED
    assert [worker.name for worker, _ in found.stalled(now)] == ["gw0"]
    assert "STALLED: nothing seen for 15 min" in found.lines(now)[1]
    assert len(found.lines(now)) == 3


def test_a_run_is_counted() -> None:
    found = Standing()
    for scenario in ("a", "b"):
        found.ledger({"record": "planned", "scenario": scenario, "pool": "p"})
    found.ledger({"record": "verdict", "outcome": "holds"})
    found.ledger({"record": "verdict", "outcome": "broken"})
    found.ledger({"record": "end", "scenario": "a", "pool": "p"})
    assert found.head() == "1 of 2 scenarios ended, 1 broken, 1 holds"


JUNK = st.recursive(
    st.one_of(st.none(), st.booleans(), st.text(max_size=5), st.integers(), st.floats()),
    lambda inner: st.dictionaries(st.sampled_from(["what", "until", "since"]), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from(list(beat())), JUNK), st.floats(0, 1e10))
def test_any_beat_gives_lines(fields: dict[str, Any], now: float) -> None:
    found = standing({**beat(), **fields, "record": "beat"})
    assert all(isinstance(line, str) for line in found.lines(now))
    list(found.stalled(now))


def test_a_time_that_is_none_has_dashes() -> None:
    assert clock_time(3723.0) == "01:02:03Z"
    assert clock_time(1e300) == "--:--:--Z"
