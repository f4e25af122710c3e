"""Several processes at one clock: time moves when everybody who has a seat asks for it.

A process that drives a pool takes a seat before it looks at the time, and has it as long as its
connection lasts: one that is killed leaves it. While it computes, time stands still for all. What
one of them writes the others see before time moves on: whoever has not seen the latest revision is
answered with time where it was, and asks again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from harness.twin.pace import WorldFailed

HOLD = 10.0
"""Real seconds after which who asks is answered although time has not moved, and asks again."""
STUCK = 600.0
"""Real seconds without a word of anybody that computes after which who asks is refused."""


class NoSuchSeat(Exception):
    """Somebody asks from a seat that nobody has: its connection broke."""


class TimeStandsStill(Exception):
    """Somebody with a seat has not been heard of for long; the message says who."""


@dataclass(slots=True, eq=False)
class _Asked:
    until: float
    seen: int
    answer: asyncio.Future[None]


@dataclass(slots=True, eq=False)
class _Seat:
    name: str
    heard: float
    asked: _Asked | None = None

    def answer(self, failure: WorldFailed | None = None) -> None:
        """Let the one who asks go on."""
        asked, self.asked = self.asked, None
        if asked is None or asked.answer.done():
            return
        if failure is None:
            asked.answer.set_result(None)
        else:
            asked.answer.set_exception(failure)


class Seats:
    """Who has a say in when time moves. ``move`` moves it, to the epoch second that it is given at
    the latest, or raises WorldFailed; ``revision`` is that of the last write.
    """

    def __init__(self, move: Callable[[float], None], revision: Callable[[], int]) -> None:
        self._move = move
        self._revision = revision
        self._seats: dict[str, _Seat] = {}
        self._taken = 0

    def take(self, name: str) -> str:
        """A seat for who calls itself so; returns what it asks with."""
        self._taken += 1
        ident = str(self._taken)
        self._seats[ident] = _Seat(name, _now())
        return ident

    def leave(self, ident: str) -> None:
        """Give a seat up: the others need not wait for it any more."""
        gone = self._seats.pop(ident, None)
        if gone is not None:
            gone.answer()
        self._move_if_all_ask()

    def heard(self, ident: str) -> None:
        """Somebody gave a sign of life; nobody in particular, where it has no seat."""
        seat = self._seats.get(ident)
        if seat is not None:
            seat.heard = _now()

    def names(self) -> list[str]:
        """Who has a seat, in the order in which they came."""
        return [one.name for one in self._seats.values()]

    async def ask(self, ident: str, until: float, seen: int) -> None:
        """Return when time has moved, or may not before who asks has looked again.

        ``seen``: the revision that it has seen. Raises NoSuchSeat, TimeStandsStill, WorldFailed.
        """
        seat = self._seats.get(ident)
        if seat is None:
            raise NoSuchSeat(f"nobody has seat {ident} at the clock: its connection broke")
        seat.heard = _now()
        if seen != self._revision():
            return
        answer = asyncio.get_running_loop().create_future()
        seat.asked = _Asked(until, seen, answer)
        try:
            self._move_if_all_ask()
            await asyncio.wait([answer], timeout=HOLD)
            if answer.done():
                answer.result()
            else:
                self._refuse_if_stuck()
        finally:
            seat.asked = None
            seat.heard = _now()

    def look_again(self) -> None:
        """Answer everybody who has not seen the latest revision."""
        latest = self._revision()
        for seat in self._seats.values():
            if seat.asked is not None and seat.asked.seen != latest:
                seat.answer()

    def _move_if_all_ask(self) -> None:
        asked = [one.asked for one in self._seats.values() if one.asked is not None]
        if not asked or len(asked) < len(self._seats):
            return
        latest = self._revision()
        if any(one.seen != latest for one in asked):
            self.look_again()
            return
        failure: WorldFailed | None = None
        try:
            self._move(min(one.until for one in asked))
        except WorldFailed as failed:
            failure = failed  # each who asked is told in its own answer
        for seat in self._seats.values():
            seat.answer(failure)

    def _refuse_if_stuck(self) -> None:
        late = [one for one in self._seats.values() if one.asked is None]
        if late and all(_now() - one.heard > STUCK for one in late):
            names = ", ".join(one.name for one in late)
            raise TimeStandsStill(f"time stands still: {names} computes for {STUCK:.0f} real s")


def _now() -> float:
    return asyncio.get_running_loop().time()
