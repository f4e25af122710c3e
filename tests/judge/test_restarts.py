"""What restart counts tell beside a boot id, through the verdict that says it."""

from __future__ import annotations

from typing import Any

import pytest

from harness.facts.bootledger import PodRestarts, PodStay, Restart
from harness.facts.boots import BootSample
from harness.facts.fact import Origin
from harness.judge.uptime import uptime
from harness.judge.verdict import Verdict

SOAK, LIMIT = 600.0, 300.0
T = 10_000.0
"""When the first boot began; the second did so at T + 200."""


def sample(at: float, boot: str, up: float) -> BootSample:
    return BootSample(Origin(at, "guest w1", ""), "w1", boot, up, "v", "n", True)


REBOOTED = (sample(T + 50, "b1", 50.0), sample(T + 260, "b2", 60.0))
STAYED = (sample(T + 50, "b1", 50.0), sample(T + 900, "b1", 900.0))


def pods(
    *restarts: tuple[str, float] | tuple[str, float, int],
    there: str = "abc",
    stays: tuple[PodStay, ...] = (),
    container: str = "main",
) -> PodRestarts:
    """Pods that are there all along, and their restarts: pod, seconds after T, by how many."""
    found = tuple(
        Restart(T + one[1], one[0], container, 9, one[2] if len(one) > 2 else 1) for one in restarts
    )
    lasting = tuple(PodStay(name, T) for name in there)
    return PodRestarts(Origin(T + 900, "tenant Pods", ""), "w1", (*lasting, *stays), found)


def judged(samples: Any, found: PodRestarts | None) -> Verdict:
    return uptime(samples, SOAK, "w1", limit=LIMIT, restarts=found)


ALL = (("a", 215), ("b", 216), ("c", 230))


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (pods(*ALL), "the counts of all its 3 pods went up with it, by one each"),
        (pods(("a", 215, 2), ("b", 216), ("c", 230)), "all its 3 pods went up with it, not alike"),
        (pods(("a", 50), ("b", 800), ("c", 100)), "all its 3 pods went up with it, by one each"),
        (pods(("a", 215), ("b", 216)), "2 of its 3 pods had been started again with it so far"),
        (pods(("a", 215), there="a"), "1 of its 1 pod had been started again with it so far"),
        (pods(("a", 215), ("b", 49), ("c", 801)), "1 of its 3 pods had been started again"),
        # what came after the reboot, or went before it was over, need not have been started again
        (pods(*ALL, stays=(PodStay("late", T + 50),)), "all its 3 pods"),
        (pods(*ALL, stays=(PodStay("early", T + 49),)), "3 of its 4 pods"),
        (pods(*ALL, stays=(PodStay("gone", T, T + 800),)), "all its 3 pods"),
        (pods(*ALL, stays=(PodStay("stays", T, T + 801),)), "3 of its 4 pods"),
        # restarts of a pod that was not there all along say nothing of the others
        (pods(("x", 215), *ALL, stays=(PodStay("x", T + 60),)), "all its 3 pods"),
    ],
)
def test_beside_a_reboot_the_counts_show_whether_all_went_down(
    found: PodRestarts, said: str
) -> None:
    verdict = judged(REBOOTED, found)
    assert verdict.outcome == "broken"
    assert said in verdict.because
    assert verdict.facts == (*REBOOTED, found)


@pytest.mark.parametrize(
    ("samples", "found", "end"),
    [
        (
            REBOOTED,
            pods(("a", 215), ("b", 216)),
            "; 2 of its 3 pods had been started again with it so far",
        ),
        (
            REBOOTED,
            pods(("a", 215), ("b", 216), there="ab"),
            "; the counts of all its 2 pods went up with it, by one each",
        ),
        (
            REBOOTED,
            pods(("a", 215), ("b", 216, 3), there="ab"),
            "; the counts of all its 2 pods went up with it, not alike",
        ),
        (
            STAYED,
            pods(("a", 100)),
            "; started again on this boot: a 1 time; that is a pod's own loop and no reboot",
        ),
        (
            STAYED,
            pods(("a", 100), ("b", 101), there="ab"),
            "; all its 2 pods were started again at once, under one boot id",
        ),
    ],
)
def test_they_stand_at_the_end_of_what_is_said(samples: Any, found: PodRestarts, end: str) -> None:
    assert judged(samples, found).because.endswith(end)


@pytest.mark.parametrize("found", [None, pods(), pods(("a", 1000)), pods(there="")])
def test_where_no_count_went_up_with_it_nothing_is_said_of_pods(found: PodRestarts | None) -> None:
    assert judged(REBOOTED, found).because == judged(REBOOTED, None).because


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (pods(("a", 100)), "; started again on this boot: a 1 time; that is a pod's own loop"),
        (pods(("a", 100), ("a", 200, 2)), "on this boot: a 3 times; that is"),
        (pods(("a", 100), ("b", 400)), "on this boot: a 1 time, b 1 time; that is"),
        (pods(("a", 50), ("a", 900)), "a 2 times"),
        (pods(("a", 49), ("a", 901)), ""),
        (
            pods(*((name, 100.0 + 200 * n) for n, name in enumerate("abcd")), there="abcde"),
            "on this boot: a 1 time, b 1 time, c 1 time, 1 more pod; that is",
        ),
        (
            pods(*((name, 100.0 + 200 * n) for n, name in enumerate("abc")), there="abcd"),
            "on this boot: a 1 time, b 1 time, c 1 time; that is a pod's own loop and no reboot",
        ),
        (pods(("a", 100), there="a"), "a 1 time; that is a pod's own loop and no reboot"),
        (pods(), ""),
        (None, ""),
    ],
)
def test_on_one_boot_a_pod_that_restarts_is_in_a_loop_of_its_own(
    found: PodRestarts | None, said: str
) -> None:
    verdict = judged(STAYED, found)
    assert verdict.outcome == "holds"
    assert said in verdict.because
    if not said:
        assert verdict.because == judged(STAYED, None).because


def test_the_containers_of_one_pod_are_not_added_up() -> None:
    two = pods(("a", 100), ("a", 110)).restarts + pods(("a", 100), container="side").restarts
    found = PodRestarts(Origin(T, "", ""), "w1", pods().pods, two)
    assert "a 2 times" in judged(STAYED, found).because


@pytest.mark.parametrize(
    ("found", "odd"),
    [
        (pods(("a", 100), ("b", 150), ("c", 220)), True),
        (pods(("a", 100), ("b", 150), ("c", 221)), False),
        (pods(("a", 60), ("a", 300), ("b", 310), ("c", 320)), True),
        (pods(("a", 100), ("b", 150)), False),
        (pods(("a", 100), ("b", 150), ("c", 160), stays=(PodStay("new", T + 101),)), True),
        (pods(("a", 100), ("b", 150), ("c", 160), stays=(PodStay("old", T + 99),)), False),
        (pods(("a", 100), ("b", 150), ("c", 160), stays=(PodStay("gone", T, T + 150),)), True),
        (pods(("a", 40), ("b", 41), ("c", 42)), False),
    ],
)
def test_all_pods_at_once_under_one_boot_id_are_at_odds_with_it(
    found: PodRestarts, *, odd: bool
) -> None:
    verdict = judged(STAYED, found)
    assert verdict.outcome == ("unknown" if odd else "holds")
    said = "all its 3 pods were started again at once, under one boot id"
    assert (said in verdict.because) is odd
    assert ("a pod's own loop" in verdict.because) is (
        not odd and any(T + 50 <= one.at <= T + 900 for one in found.restarts)
    )
