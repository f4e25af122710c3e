"""Several processes at one clock: nobody's time moves while somebody computes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from harness.twin import seats as module
from harness.twin.admin import Admin
from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.engine import EPOCH, Engine
from harness.twin.pace import Pace, WorldFailed
from harness.twin.seats import NoSuchSeat, Seats, TimeStandsStill


class World:
    """Whose time is moved, and in which something may be written."""

    def __init__(self) -> None:
        self.moved: list[float] = []
        self.revision = 7
        self.fails = False
        self.seats = Seats(self.move, lambda: self.revision)

    def move(self, until: float) -> None:
        if self.fails:
            raise WorldFailed("it stumbled")
        self.moved.append(until)
        self.revision += 1

    def ask(self, seat: str, until: float, seen: int | None = None) -> asyncio.Task[None]:
        seen = self.revision if seen is None else seen
        return asyncio.ensure_future(self.seats.ask(seat, until, seen))


def run(play: Callable[[World], Awaitable[None]]) -> World:
    world = World()

    async def all_of_it() -> None:
        await play(world)

    asyncio.run(all_of_it())
    return world


async def rest() -> None:
    """Let everything that is ready have its turn."""
    loop = asyncio.get_running_loop()
    for _ in range(5):
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


def test_time_moves_to_the_earliest_when_all_ask() -> None:
    async def play(world: World) -> None:
        first, second = world.seats.take("a"), world.seats.take("b")
        early = world.ask(first, 20.0)
        await rest()
        assert world.moved == [] and not early.done()
        await asyncio.gather(early, world.ask(second, 10.0))

    assert run(play).moved == [10.0]


def test_who_is_alone_waits_for_nobody() -> None:
    async def play(world: World) -> None:
        await world.ask(world.seats.take("a"), 5.0)
        await world.ask("1", 6.0)

    assert run(play).moved == [5.0, 6.0]


def test_what_one_writes_the_others_see_before_time_moves() -> None:
    async def play(world: World) -> None:
        first, second = world.seats.take("a"), world.seats.take("b")
        waits = world.ask(first, 20.0)
        await rest()
        world.revision += 1  # b writes
        world.seats.look_again()  # and settles
        await waits
        assert world.moved == []
        late = world.ask(second, 20.0)
        await rest()
        assert not late.done()
        stale = world.ask(first, 20.0, seen=world.revision - 1)
        await stale
        assert world.moved == [] and not late.done()
        await asyncio.gather(late, world.ask(first, 20.0))

    assert run(play).moved == [20.0]


def test_nobody_moves_past_a_write_that_was_not_followed_by_a_settling() -> None:
    async def play(world: World) -> None:
        first, second = world.seats.take("a"), world.seats.take("b")
        waits = world.ask(first, 20.0)
        await rest()
        world.revision += 1
        other = world.ask(second, 20.0)
        await waits
        await rest()
        assert world.moved == [] and not other.done()
        other.cancel()

    run(play)


def test_a_seat_that_is_left_is_not_waited_for() -> None:
    async def play(world: World) -> None:
        first, second = world.seats.take("a"), world.seats.take("b")
        waits = world.ask(first, 20.0)
        await rest()
        world.seats.leave(second)
        await waits
        with pytest.raises(NoSuchSeat):
            await world.ask(second, 20.0)

    assert run(play).moved == [20.0]


def test_who_breaks_off_computes() -> None:
    async def play(world: World) -> None:
        first, second = world.seats.take("a"), world.seats.take("b")
        broken = world.ask(first, 20.0)
        await rest()
        broken.cancel()
        await rest()
        waits = world.ask(second, 10.0)
        await rest()
        assert world.moved == [] and not waits.done()
        waits.cancel()

    run(play)


def test_a_failure_of_the_lab_is_told_to_all() -> None:
    async def play(world: World) -> None:
        world.fails = True
        asked = [world.ask(world.seats.take(name), 20.0) for name in ("a", "b")]
        told = await asyncio.gather(*asked, return_exceptions=True)
        assert [str(one) for one in told] == ["it stumbled"] * 2

    run(play)


def test_who_asks_for_long_is_answered_and_after_very_long_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HOLD", 0.01)

    async def play(world: World) -> None:
        first, _ = world.seats.take("a"), world.seats.take("pool b of run r")
        await world.ask(first, 20.0)
        monkeypatch.setattr(module, "STUCK", 0.0)
        with pytest.raises(TimeStandsStill, match="pool b of run r computes"):
            await world.ask(first, 20.0)

    assert run(play).moved == []


def test_a_seat_is_had_over_http_as_long_as_its_connection_lasts() -> None:
    async def talk() -> None:
        engine = Engine()
        pace = Pace(engine)
        admin = Admin(
            engine,
            [],
            pace=pace,
            revision=lambda: 7,
            describe=dict,
            plant=lambda _: None,
            requests=RequestLog(),
        )
        await admin.start()
        async with aiohttp.ClientSession() as session:

            async def advance(seat: str, until: float, seen: str = "&seen=7") -> Any:
                path = f"/clock/advance?until={EPOCH + until}&seat={seat}{seen}"
                async with session.post(admin.url + path) as answer:
                    return answer.status, await answer.text()

            first = await session.get(admin.url + "/clock/seat?name=a")
            second = await session.get(admin.url + "/clock/seat?name=b")
            told = [await one.content.readline() for one in (first, second)]
            assert told[0] == b'{"seat": "1", "now": 1767225600.0, "revision": 7}\n'
            waits = asyncio.ensure_future(advance("1", 20))
            async with session.post(admin.url + "/clock/settle?seat=2") as settled:
                assert settled.status == 200
            assert not waits.done() and engine.now == EPOCH
            second.close()
            status, text = await waits
            assert (status, text) == (200, f'{{"now": {EPOCH + 20}, "revision": 7}}')
            assert (await advance("2", 30))[0] == 404
            assert await advance("1", 30, "") == (
                400,
                "who asks from a seat says what it has seen: seen=REVISION",
            )
            first.close()
        await admin.close()

    asyncio.run(talk())
