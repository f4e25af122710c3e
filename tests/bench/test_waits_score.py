from __future__ import annotations

import pytest

from bench.waits.score import (
    FALSE_FAILURE,
    FALSE_SUCCESS,
    HUNG,
    RIGHT,
    SILENT_LOSS,
    UNDECIDED,
    VERDICTS,
    VOID,
    Row,
    lags,
    percentile,
    recall,
    verdict,
    wilson,
    worst,
)


def row(kind: str, *, at: float = 5.0, ready: float | None = 2.5, **more: float) -> Row:
    commits = () if ready is None else (("Running", ready),)
    began, limit = more.get("began", 0.0), more.get("limit", 8.0)
    return Row("ours", "fault", "none", "p", limit, kind, began, at, "", commits)


@pytest.mark.parametrize(
    ("seen", "of", "interval"),
    [
        (81, 263, (0.2553, 0.3662)),
        (15, 148, (0.0624, 0.1605)),
        (0, 20, (0.0, 0.1611)),
        (1, 29, (0.0061, 0.1718)),
    ],
)
def test_wilson_interval_is_the_published_one(
    seen: int, of: int, interval: tuple[float, float]
) -> None:
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3
    low, high = wilson(seen, of)
    assert (round(low, 4), round(high, 4)) == interval


@pytest.mark.parametrize(("seen", "of"), [(0, 100), (100, 100), (0, 1), (1, 1), (7, 30)])
def test_wilson_interval_holds_the_share_and_stays_a_share(seen: int, of: int) -> None:
    low, high = wilson(seen, of)
    assert 0.0 <= low <= seen / of <= high <= 1.0
    assert low < high


def test_wilson_interval_of_all_is_not_certainty() -> None:
    assert round(wilson(100, 100)[0], 3) == 0.963


def test_wilson_of_nothing_says_nothing() -> None:
    assert wilson(0, 0) == (0.0, 1.0)


def test_wilson_narrows_with_the_number() -> None:
    assert wilson(50, 100)[0] < wilson(500, 1000)[0]


@pytest.mark.parametrize(
    ("share", "value"), [(0.5, 5), (0.95, 10), (0.9, 9), (1.0, 10), (0.01, 1), (0.0, 1)]
)
def test_percentile_is_nearest_rank(share: float, value: float) -> None:
    assert percentile([10, 1, 9, 2, 8, 3, 7, 4, 6, 5], share) == value


def test_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def phase(kind: str, lasted: float | None, *, ready: float = 2.5) -> Row:
    commits = [("Running", ready)] + ([("Succeeded", ready + lasted)] if lasted else [])
    return Row("s", "recall", "10 ms", "p", 8.0, kind, 0.0, 8.0, "", tuple(commits))


def test_recall_counts_only_phases_that_were_written() -> None:
    rows = [phase("met", 0.01), phase("not-met", 0.01), row("not-met", ready=None)]
    assert recall(rows, 0.01) == (1, 2)


@pytest.mark.parametrize("kind", ["met", "not-met"])
def test_recall_leaves_out_a_phase_that_lasted_longer_than_meant(kind: str) -> None:
    assert recall([phase(kind, 0.022), phase(kind, 0.023)], 0.01)[1] == 1


@pytest.mark.parametrize("kind", ["met", "not-met"])
def test_recall_leaves_out_what_was_written_after_the_limit(kind: str) -> None:
    assert recall([phase(kind, 0.01, ready=8.4), phase(kind, 0.01, ready=7.4)], 0.01)[1] == 1


def test_recall_counts_a_phase_that_was_told_of_before_it_was_over() -> None:
    assert recall([phase("met", None)], 5.0) == (1, 1)


def test_lag_is_of_waits_that_were_met() -> None:
    rows = [row("met", at=2.6), row("not-met", at=9.0), row("met", at=3.0, ready=None)]
    assert lags(rows) == [pytest.approx(0.1)]


def test_lag_counts_from_the_last_commit_of_the_state() -> None:
    again = Row("s", "b", "c", "n", 8, "met", 0.0, 3.0, "", (("Running", 1.0), ("Running", 2.0)))
    assert again.lag == 1.0


def test_overshoot_is_beyond_the_limit() -> None:
    assert row("not-met", began=1.0, at=9.5).overshoot == 0.5


@pytest.mark.parametrize(
    ("truth", "kind", "found"),
    [
        ("lasts", "met", RIGHT),
        ("lasts", "not-met", FALSE_FAILURE),
        ("lasts", "error", FALSE_FAILURE),
        ("lasts", "deleted", FALSE_FAILURE),
        ("lasts", "unknown", UNDECIDED),
        ("lasts", "hung", HUNG),
        ("other", "met", FALSE_SUCCESS),
        ("other", "replaced", RIGHT),
        ("other", "deleted", RIGHT),
        ("other", "not-met", RIGHT),
        ("other", "error", FALSE_FAILURE),
        ("other", "hung", HUNG),
        ("lost", "unknown", RIGHT),
        ("lost", "not-met", SILENT_LOSS),
        ("lost", "deleted", SILENT_LOSS),
        ("lost", "error", FALSE_FAILURE),
        ("lost", "met", RIGHT),
        ("lost", "hung", HUNG),
    ],
)
def test_verdict(truth: str, kind: str, found: str) -> None:
    assert verdict(row(kind), truth) == found


@pytest.mark.parametrize(
    ("kind", "at", "ready", "found"),
    [
        ("not-met", 8.0, 9.0, VOID),  # it happened after the limit
        ("not-met", 8.0, 7.8, VOID),  # too late to be told for sure
        ("not-met", 8.0, None, VOID),  # it never happened
        ("error", 1.0, None, FALSE_FAILURE),  # it gave up before anything could
        ("not-met", 8.0, 7.0, FALSE_FAILURE),
        ("unknown", 8.0, 9.0, VOID),
        ("hung", 0.0, 9.0, HUNG),
        ("met", 9.5, 9.0, RIGHT),
    ],
)
def test_what_the_machine_was_too_slow_for_is_void(
    kind: str, at: float, ready: float | None, found: str
) -> None:
    assert verdict(row(kind, at=at, ready=ready), "lasts") == found


@pytest.mark.parametrize("truth", ["lasts", "lost"])
def test_success_before_it_was_true_is_false(truth: str) -> None:
    assert verdict(row("met", at=1.1), truth) == FALSE_SUCCESS


@pytest.mark.parametrize("truth", ["lasts", "other", "lost"])
def test_success_of_what_never_was_is_false(truth: str) -> None:
    assert verdict(row("met", ready=None), truth) == FALSE_SUCCESS


def test_the_worst_of_several_tries_counts() -> None:
    assert worst([RIGHT, FALSE_SUCCESS, FALSE_FAILURE]) == FALSE_SUCCESS
    assert worst([RIGHT, RIGHT]) == RIGHT
    assert [worst([one, VOID]) for one in VERDICTS] == list(VERDICTS)
