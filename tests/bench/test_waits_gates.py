from __future__ import annotations

from bench.waits.gates import gates
from bench.waits.measure import Cost, Found
from bench.waits.score import Row

TRUTHS = {"none": "lasts", "forgotten": "lost"}


def row(subject: str, batch: str, cell: str, kind: str, lag: float = 0.001) -> Row:
    commits = (("Running", 2.0),)
    return Row(subject, batch, cell, "p", 8.0, kind, 0.0, 2.0 + lag, "", commits)


def held(found: Found) -> dict[str, bool]:
    return {gate.sentence.split(",")[0]: gate.holds for gate in gates(found, TRUTHS)}


def test_nothing_measured_nothing_judged() -> None:
    assert gates(Found(), TRUTHS) == []


def test_a_silent_loss_of_ours_misses_its_gate_and_no_other() -> None:
    rows = [row("ours", "fault", "none", "met"), row("ours", "fault", "forgotten", "not-met", 6.0)]
    assert held(Found(rows=rows)) == {
        "no false success under any fault": True,
        "no silent loss under any fault": False,
        "no false failure under any fault": True,
        "no wait hangs under any fault": True,
    }


def test_what_others_do_wrong_is_none_of_our_gates() -> None:
    rows = [row("ours", "fault", "none", "met"), row("kr8s", "fault", "none", "met", -1.0)]
    assert all(held(Found(rows=rows)).values())


def test_one_phase_that_was_not_seen_misses() -> None:
    rows = [row("ours", "recall", "10 ms", "met"), row("ours", "recall", "10 ms", "not-met", 6.0)]
    assert held(Found(rows=rows)) == {"every phase of 10 ms and more is seen": False}


def test_the_lag_is_compared_with_the_floor_at_the_same_number_of_waits() -> None:
    def lag(ours: float) -> dict[str, bool]:
        rows = [row("ours", "lag 50", "lasting", "met", ours)]
        rows += [row("bare", "lag 50", "lasting", "met", 0.002)]
        rows += [row("bare", "lag 500", "lasting", "met", 9.0)]
        return held(Found(rows=rows))

    assert list(lag(0.006).values()) == [True]
    assert list(lag(0.008).values()) == [False]


def test_a_limit_overshot_misses() -> None:
    rows = [row("ours", "limits", "never", "not-met", 6.01)]
    assert held(Found(rows=rows)) == {"a limit is overshot by 50 ms at most": True}
    rows = [row("ours", "limits", "never", "not-met", 6.06)]
    assert held(Found(rows=rows)) == {"a limit is overshot by 50 ms at most": False}


def test_requests_are_those_of_the_most_waits() -> None:
    def costs(many: int) -> Found:
        return Found(
            costs=[
                Cost("ours", "lag 50", 50, 9, 1, 1000, 0.1, 50.0),
                Cost("ours", "lag 500", 500, many, 1, 1000, 0.1, 50.0),
            ]
        )

    assert list(held(costs(2)).values()) == [True]
    assert list(held(costs(3)).values()) == [False]


def test_a_lag_on_a_busy_machine_is_said_and_not_judged() -> None:
    rows = [row("ours", "lag 50", "lasting", "met", 0.9)]
    rows += [row("bare", "lag 50", "lasting", "met", 0.002)]
    (gate,) = gates(Found(rows=rows), TRUTHS, busy=True)
    assert (gate.holds, gate.judged) == (False, False)
    (gate,) = gates(Found(rows=rows), TRUTHS, busy=False)
    assert (gate.holds, gate.judged) == (False, True)
