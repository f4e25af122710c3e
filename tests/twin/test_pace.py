from __future__ import annotations

import asyncio
import logging
from typing import Any

import aiohttp
import pytest

from harness.twin.admin import Admin
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.engine import EPOCH, Engine
from harness.twin.faults.catalogue import UnknownFault
from harness.twin.pace import LATEST, Pace, WorldFailed, run_by_itself


def stumble() -> None:
    """A controller that reckons with what is not there."""
    {}["no such key"]


def asked(engine: Engine, pace: Pace, *asks: str, patience: float = 60, **parts: Any) -> list[Any]:
    """What an admin port answers, one (status, text) for each "VERB path"."""

    async def talk() -> list[Any]:
        admin = Admin(
            engine,
            [],
            pace=pace,
            revision=lambda: 7,
            describe=lambda: {"failure": pace.failure},
            plant=parts.get("plant", lambda name: None),
            requests=RequestLog(),
        )
        await admin.start()
        told = []
        try:
            async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(patience)) as session:
                for ask in asks:
                    verb, path = ask.split()
                    async with session.request(verb, admin.url + path) as answer:
                        told.append((answer.status, await answer.text()))
        finally:
            await admin.close()
        return told

    return asyncio.run(talk())


def test_a_failure_is_told_logged_and_lasting(caplog: pytest.LogCaptureFixture) -> None:
    engine = Engine()
    pace, later = Pace(engine), []
    engine.after(5, stumble, "stumble")
    engine.after(9, lambda: later.append(1), "later")
    with caplog.at_level(logging.ERROR), pytest.raises(WorldFailed) as failed:
        pace.move(EPOCH + 60)
    assert str(failed.value) == pace.failure
    assert "failed at 2026-01-01T00:00:05.000+00:00: KeyError: 'no such key'" in pace.failure
    assert "in stumble" in pace.failure
    assert pace.failure in caplog.text
    assert "Traceback" in caplog.text
    with pytest.raises(WorldFailed, match="no such key"):
        pace.move(EPOCH + 60)
    assert (engine.now, later) == (EPOCH + 5, [])


def test_the_admin_port_answers_500_with_the_reason() -> None:
    engine = Engine()
    engine.after(5, stumble, "stumble")
    advance = f"/clock/advance?until={EPOCH + 60}"
    asks = (f"POST {advance}", f"POST {advance}&run=all", "POST /clock/settle", "GET /state")
    *refused, state = asked(engine, Pace(engine), *asks)
    assert [status for status, _ in refused] == [500, 500, 500]
    assert all("KeyError: 'no such key'" in text for _, text in refused)
    assert state[0] == 200
    assert "no such key" in state[1]


@pytest.mark.parametrize("until", ["nan", "inf", "x", "", str(LATEST + 1)])
def test_moments_that_make_no_sense(until: str) -> None:
    engine = Engine()
    for run in ("", "&run=all"):
        ((status, text),) = asked(engine, Pace(engine), f"POST /clock/advance?until={until}{run}")
        assert status == 400
        assert "until=EPOCH" in text
    assert engine.now == EPOCH


@pytest.mark.parametrize(
    ("trouble", "status"), [(UnknownFault("x"), 404), (ApiError(404, "no such object"), 409)]
)
def test_a_fault_that_cannot_be_planted_leaves_the_lab_well(
    trouble: Exception, status: int
) -> None:
    engine = Engine()
    pace = Pace(engine)

    def plant(name: str) -> None:
        raise trouble

    guarded = lambda name: pace.do(lambda: plant(name), refusals=(UnknownFault, ApiError))  # noqa: E731
    ((told, _),) = asked(engine, pace, "POST /faults/x", plant=guarded)
    assert told == status
    assert pace.failure == ""


def busy() -> None:
    clock = asyncio.get_running_loop().time
    ends = clock() + 0.005
    while clock() < ends:
        pass


def test_who_gives_up_waiting_ends_the_advance() -> None:
    engine = Engine()
    engine.every(1, busy, "busy")
    advance = f"POST /clock/advance?run=all&until={EPOCH + 1e6}"
    with pytest.raises(TimeoutError):
        asked(engine, Pace(engine), advance, patience=1.0)
    assert EPOCH < engine.now < EPOCH + 1e6


def test_others_have_their_turn_while_time_glides() -> None:
    engine = Engine()
    pace, seen = Pace(engine), set[float]()
    engine.every(1, busy, "busy")

    async def look() -> None:
        gliding = asyncio.ensure_future(pace.glide(EPOCH + 60))
        turn = asyncio.Event()
        while not gliding.done():
            seen.add(engine.now)
            asyncio.get_running_loop().call_soon(turn.set)
            await turn.wait()
            turn.clear()
        await gliding

    asyncio.run(look())
    assert engine.now == EPOCH + 60
    assert len(seen) > 5


def test_a_clock_that_runs_by_itself_goes_as_fast_as_told() -> None:
    engine = Engine()
    pace, done = Pace(engine), []
    engine.after(100, lambda: done.append(engine.now), "reached")

    async def watch() -> float:
        loop = asyncio.get_running_loop()
        begun, reached = loop.time(), loop.create_future()
        engine.after(100, lambda: reached.set_result(loop.time()), "reached")
        run_by_itself(pace, engine, 1000)
        return float(await reached) - begun

    real = asyncio.run(watch())
    assert real >= 0.1  # 100 s at a thousand a second; later on a machine with other things to do
    assert done == [EPOCH + 100]


def test_a_clock_that_runs_by_itself_stands_still_after_a_failure() -> None:
    engine = Engine()
    pace = Pace(engine)

    async def watch() -> None:
        failed = asyncio.get_running_loop().create_future()
        engine.after(1, lambda: failed.set_result(None), "about to fail")
        engine.after(1, stumble, "stumble")
        engine.after(2, lambda: pytest.fail("time went on"), "later")
        run_by_itself(pace, engine, 100)
        await failed

    asyncio.run(watch())
    assert "no such key" in pace.failure
