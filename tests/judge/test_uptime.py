from __future__ import annotations

from typing import Any

import pytest

from harness.facts.boots import BootSample
from harness.facts.fact import Origin, Unread
from harness.judge.uptime import LIMIT, missing_uptime, uptime

SOAK = 5580.0  # 93 minutes


def sample(up: float, boot: str = "b1", at: float | None = None, **more: Any) -> BootSample:
    given: dict[str, Any] = {"vmi_uid": "v", "node_uid": "n", "node_ready": True, **more}
    moment = 1000.0 + up if at is None else at
    return BootSample(Origin(moment, "guest w1", ""), "w1", boot, up, **given)


LOST = Unread(Origin(1.0, "guest w1", ""), "/proc/uptime", "the reason")


@pytest.mark.parametrize(
    ("samples", "soak", "outcome", "said"),
    [
        ((sample(130), sample(5580)), SOAK, "holds", "boot b1 is 5580 s old, watched since 130 s"),
        ((sample(5600),), SOAK, "holds", "watched since 5600 s"),
        ((sample(130), LOST, sample(5581)), SOAK, "holds", "5581 s old"),
        ((sample(130), sample(4201)), 4201.0, "holds", "4201 s old"),
        ((sample(130), sample(4201)), 0.0, "holds", "expected more than 4200 s"),
        ((sample(5580), sample(5580)), SOAK, "holds", "5580 s old"),
        ((sample(130), sample(5580, node_ready=False)), SOAK, "holds", "5580 s old"),
        ((sample(130), sample(5579)), SOAK, "unknown", "too short: expected more than 4200 s"),
        ((sample(130), sample(LIMIT)), 600.0, "unknown", "too short"),
        ((sample(130), sample(LIMIT)), LIMIT, "unknown", "too short"),
        ((sample(130),), SOAK, "unknown", "too short"),
        ((sample(130), sample(60, "b2", 5400.0)), SOAK, "broken", "boot b1 became b2"),
        (
            (sample(130), sample(6000, "b2"), sample(7000, "b2")),
            SOAK,
            "broken",
            "VMI and Node are the same: the guest rebooted",
        ),
        (
            (sample(130), sample(6000, "b2"), LOST),
            SOAK,
            "broken",
            "became b2",
        ),
        ((sample(5600), sample(5590)), SOAK, "broken", "the uptime fell from 5600 s to 5590 s"),
        (
            (sample(130), sample(60, "b2", vmi_uid="other", node_uid="more")),
            SOAK,
            "broken",
            "the worker was replaced (VMI, Node of another UID)",
        ),
        (
            (sample(130), sample(60, "b2", vmi_uid="other")),
            SOAK,
            "broken",
            "the worker was replaced (VMI of another UID)",
        ),
        ((sample(130), sample(60, "b2", vmi_uid="")), SOAK, "broken", "the guest rebooted"),
        ((sample(130, vmi_uid=""), sample(60, "b2")), SOAK, "broken", "the guest rebooted"),
        ((sample(130), LOST), SOAK, "unknown", "the reason"),
        ((sample(5600), LOST), SOAK, "unknown", "the reason"),
        ((LOST, sample(5600)), SOAK, "unknown", "the reason"),
        ((LOST,), SOAK, "unknown", "the reason"),
        ((), SOAK, "unknown", "nobody looked at the node's boot"),
    ],
)
def test_uptime(samples: Any, soak: float, outcome: str, said: str) -> None:
    verdict = uptime(samples, soak, "node w1")
    assert (verdict.claim, verdict.subject) == ("uptime", "node w1")
    assert verdict.outcome == outcome, verdict.because
    assert said in verdict.because
    assert verdict.facts == samples


@pytest.mark.parametrize(
    ("before", "after", "end", "timer"),
    [
        (sample(4190, at=10_000.0), sample(30, "b2", at=10_050.0), 4210, True),
        (sample(4000, at=10_000.0), sample(30, "b2", at=10_236.0), 4206, True),
        (sample(4000, at=10_000.0), sample(30, "b2", at=10_199.0), 4169, False),
        (sample(4000, at=10_000.0), sample(30, "b2", at=10_327.0), 4297, False),
        (sample(4000, at=10_000.0), sample(30, "b2", at=10_326.0), 4296, True),
        (sample(4000, at=10_000.0), sample(30, "b2", at=10_200.0), 4170, True),
        (sample(4280, at=10_000.0), sample(30, "b2", at=9_900.0), 4280, True),
        (sample(4300, at=10_000.0), sample(30, "b2", at=10_000.0), 4300, False),
        (sample(900, at=10_000.0), sample(30, "b2", at=10_050.0), 920, False),
    ],
)
def test_when_the_boot_ended(
    before: BootSample, after: BootSample, end: int, *, timer: bool
) -> None:
    verdict = uptime((before, after), SOAK, "node w1")
    assert f"at an uptime of at most {end} s" in verdict.because
    assert ("where a boot that does not end is given up" in verdict.because) is timer


@pytest.mark.parametrize(("up", "missing"), [(130, 5450.0), (5580, 0.0), (6000, 0.0)])
def test_how_long_is_still_to_wait(up: float, missing: float) -> None:
    assert missing_uptime(sample(up), SOAK) == missing
