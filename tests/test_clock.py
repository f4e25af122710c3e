"""The clock: who may move time, when a look counts, and what happens when nothing moves."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from harness.clock import ClockStuck, Moment, VirtualClock, WallClock


@dataclass
class Lab:
    """A lab whose revision grows at given moments; records what was asked of it."""

    changes: list[float] = field(default_factory=list)
    now: float = 0.0
    revision: int = 0
    asked: list[str] = field(default_factory=list)

    def settle(self) -> Moment:
        self.asked.append("settle")
        return Moment(self.now, self.revision)

    def advance(self, until: float) -> Moment:
        self.asked.append(f"advance {until:g}")
        due = [c for c in self.changes if self.now < c <= until]
        self.now = due[0] if due else until
        self.revision += bool(due)
        return Moment(self.now, self.revision)


@dataclass
class Watcher:
    name: str = "pods"
    at: int = 0

    def position(self) -> int:
        return self.at


class Follower(Watcher):
    """Sees every revision the moment it exists."""

    def position(self) -> int:
        return 10**9


def test_a_wait_settles_before_it_moves_time() -> None:
    lab = Lab()
    clock = VirtualClock(lab)
    lab.asked.clear()
    assert not clock.wait(lambda: False, clock.deadline(5), "nothing")
    assert lab.asked == ["settle", "advance 5"]


def test_what_already_holds_costs_no_time() -> None:
    lab = Lab(changes=[1.0])
    clock = VirtualClock(lab)
    assert clock.wait(lambda: True, clock.deadline(5), "something")
    assert clock.now() == 0.0


def test_time_stops_at_the_first_visible_change() -> None:
    lab = Lab(changes=[2.0, 4.0])
    clock = VirtualClock(lab)
    seen: list[float] = []

    def look() -> bool:
        seen.append(clock.now())
        return clock.now() >= 4.0

    assert clock.wait(look, clock.deadline(60), "the second change")
    assert clock.now() == 4.0
    assert 2.0 in seen


def test_a_deadline_gets_one_look_at_the_limit() -> None:
    clock = VirtualClock(Lab())
    assert clock.wait(lambda: clock.now() >= 5.0, clock.deadline(5), "the limit itself")
    assert not clock.wait(lambda: clock.now() >= 10.1, clock.deadline(5), "just past it")
    assert clock.now() == 10.0


def test_a_watcher_that_never_catches_up_is_named() -> None:
    lab = Lab(changes=[1.0])
    clock = VirtualClock(lab, patience=0.05)
    clock.follow(Watcher("machines", at=0))
    with pytest.raises(ClockStuck, match=r"machines is at revision 0"):
        clock.sleep(5)


def test_a_watcher_that_left_is_not_waited_for() -> None:
    lab = Lab(changes=[1.0])
    clock = VirtualClock(lab, patience=0.05)
    leave = clock.follow(Watcher("machines", at=0))
    leave()
    clock.sleep(5)
    assert clock.now() == 5.0


def test_time_does_not_move_while_an_actor_computes() -> None:
    lab = Lab()
    clock = VirtualClock(lab)
    clock.follow(Follower())
    go, inside = threading.Event(), threading.Event()
    slept: list[float] = []

    def computes() -> None:
        with clock.actor("computes"):
            inside.set()
            assert go.wait(5)
            slept.append(clock.now())

    thread = threading.Thread(target=computes)
    thread.start()
    assert inside.wait(5)
    other = threading.Thread(target=lambda: clock.sleep(7))
    other.start()
    other.join(0.05)
    assert other.is_alive()
    go.set()
    thread.join(5)
    other.join(5)
    assert slept == [0.0]
    assert clock.now() == 7.0


def test_many_actors_one_outcome() -> None:
    def run() -> list[tuple[float, str]]:
        clock = VirtualClock(Lab())
        told: list[tuple[float, str]] = []
        ready = threading.Barrier(3)

        def act(name: str, step: float) -> None:
            with clock.actor(name):
                ready.wait(5)
                for _ in range(5):
                    clock.sleep(step)
                    told.append((clock.now(), name))

        threads = [threading.Thread(target=act, args=(f"a{s}", s)) for s in (1.0, 1.7, 2.3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        return sorted(told)

    outcomes = [run() for _ in range(10)]
    assert len(outcomes[0]) == 15
    assert all(outcome == outcomes[0] for outcome in outcomes)


def test_a_wall_wait_wakes_at_an_arrival_and_not_by_polling() -> None:
    clock = WallClock()
    looks: list[int] = []
    there = threading.Event()

    def look() -> bool:
        looks.append(1)
        return there.is_set()

    def arrive() -> None:
        there.set()
        clock.notify()

    timer = threading.Timer(0.05, arrive)
    timer.start()
    assert clock.wait(look, clock.deadline(10), "an arrival")
    assert len(looks) <= 3


def test_a_wall_wait_ends_at_its_limit() -> None:
    clock = WallClock()
    began = clock.monotonic()
    assert not clock.wait(lambda: False, clock.deadline(0.05), "nothing")
    assert 0.04 < clock.monotonic() - began < 0.6
