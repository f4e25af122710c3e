"""Following a boot, against a worker whose story is told in advance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from harness.bringup.boots import AGAIN, EVERY, REBOOT_BUDGET, SETTLED, BootLog
from harness.facts.boots import BootSample
from harness.facts.fact import Origin, Unread
from harness.judge import uptime
from harness.reach.errors import Unreachable

SOAK = 5580.0


@dataclass
class Story:
    """A worker: it boots at these moments, and for a while after one its shell is away.

    It stands in for the held pool, whose waiting moves the time.
    """

    now: float = 60.0
    boots: tuple[float, ...] = (0.0,)
    away: float = 0.0
    ready: bool = True
    asked: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)

    @property
    def begun(self) -> float:
        return max(one for one in self.boots if one <= self.now)

    def ask(self) -> BootSample | Unread:
        self.asked.append(self.now)
        age = self.now - self.begun
        if self.begun and age < self.away:
            raise Unreachable("exec", "nothing", "wait")
        origin = Origin(self.now, "guest a", "")
        return BootSample(origin, "a", self.boot_id, age, "vmi", "node", self.ready)

    @property
    def boot_id(self) -> str:
        return f"boot-{self.boots.index(self.begun)}"

    # -- what BootLog needs of a pool

    @property
    def lab(self) -> Any:
        return SimpleNamespace(clock=SimpleNamespace(now=lambda: self.now))

    @property
    def watched(self) -> Any:
        node = {"status": {"nodeInfo": {"bootID": self.boot_id}}}
        return SimpleNamespace(nodes=SimpleNamespace(object=lambda _: node))

    def wait(self, look: Callable[[], bool], seconds: float, what: str) -> bool:
        self.waits.append(seconds)
        until = self.now + seconds
        for moment in sorted({*(b for b in self.boots if self.now < b < until), until}):
            self.now = moment
            if look():
                return True
        return False

    def pause(self, seconds: float, what: str) -> None:
        self.wait(lambda: False, seconds, what)

    def log(self) -> BootLog:
        pool: Any = self
        return BootLog(pool, "a", self.ask)


def outcome(samples: tuple[Any, ...]) -> str:
    return str(uptime(samples, SOAK, "node a").outcome)


def test_it_waits_for_what_is_missing_and_no_longer() -> None:
    story = Story(now=1000.0)
    samples = story.log().stay_up(SOAK)
    assert outcome(samples) == "holds"
    assert SOAK <= story.now <= SOAK + 2
    assert sum(story.waits) == pytest.approx(SOAK - 1000.0, abs=2)
    assert max(story.waits) <= EVERY


def test_a_boot_that_is_old_enough_costs_one_look() -> None:
    story = Story(now=SOAK + 1)
    assert outcome(story.log().stay_up(SOAK)) == "holds"
    assert story.waits == [] and len(story.asked) == 1


def test_a_boot_that_has_not_settled_is_no_baseline() -> None:
    """The machine boots again right after it was installed, which is normal."""
    story = Story(now=40.0, boots=(0.0, 60.0))
    log = story.log()
    log.look()
    assert log.samples == []
    samples = log.stay_up(SOAK)
    assert outcome(samples) == "holds"
    assert {one.boot_id for one in samples if isinstance(one, BootSample)} == {"boot-1"}


def test_a_node_that_is_not_ready_is_no_baseline() -> None:
    story = Story(now=1000.0, ready=False)
    log = story.log()
    log.look()
    assert log.samples == []


@pytest.mark.parametrize("away", [0.0, 100.0])
def test_a_reboot_ends_the_wait_and_is_in_the_samples(away: float) -> None:
    story = Story(now=1000.0, boots=(0.0, 3000.0), away=away)
    samples = story.log().stay_up(SOAK)
    assert outcome(samples) == "broken"
    assert 3000.0 < story.now <= 3000.0 + away + 2 * AGAIN


def test_a_shell_that_never_comes_back_is_told() -> None:
    story = Story(now=1000.0, boots=(0.0, 3000.0), away=10 * REBOOT_BUDGET)
    with pytest.raises(Unreachable):
        story.log().stay_up(SOAK)
    assert story.now == pytest.approx(3000.0 + REBOOT_BUDGET, abs=1)


def test_a_reboot_before_the_wait_is_in_the_samples_too() -> None:
    story = Story(now=1000.0, boots=(0.0, 2000.0))
    log = story.log()
    log.follow()
    story.now = 2500.0
    assert outcome(log.stay_up(SOAK)) == "broken"


def test_following_looks_till_there_is_a_baseline_and_then_now_and_then() -> None:
    story = Story(now=SETTLED - 20)
    log = story.log()
    for moment in (100.0, 110.0, 130.0, 140.0, 130.0 + EVERY, 131.0 + EVERY):
        story.now = moment
        log.follow()
    assert story.asked == [100.0, 110.0, 130.0, 130.0 + EVERY]
    assert len(log.samples) == 2


def test_an_answer_that_cannot_be_read_is_kept() -> None:
    story = Story(now=1000.0)
    unread = Unread(Origin(1000.0, "guest a", ""), "/proc/uptime", "cut short")
    pool: Any = story
    samples = BootLog(pool, "a", lambda: unread).stay_up(SOAK)
    assert samples == (unread,)
    assert outcome(samples) == "unknown"
