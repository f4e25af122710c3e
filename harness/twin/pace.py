"""How the twin's time is moved: in short slices, and with a controller's failure told aloud."""

from __future__ import annotations

import asyncio
import datetime
import logging
import traceback
from collections.abc import Callable
from pathlib import Path

from harness.twin.engine import Engine

SLICE = 0.02
"""Real seconds after which an advance lets the API servers answer."""
TICK = 0.05
"""Real seconds between two moves of a clock that runs by itself."""
LATEST = 4070908800.0
"""2099-01-01T00:00:00Z: the twin's certificates end with that year."""

_LOG = logging.getLogger("harness.twin")


class WorldFailed(Exception):
    """The simulated lab failed at something; the message says at what, where and when.

    What it left undone is not known, so its time does not move any more.
    """


class Pace:
    """The only way to move the world. ``failure`` is empty as long as all went well."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.failure = ""

    def do(self, what: Callable[[], object], *, refusals: tuple[type[Exception], ...] = ()) -> None:
        """Let the world do something. Raises WorldFailed, also for what failed before.

        ``refusals`` are errors that say no and leave everything as it was: they go through.
        """
        if self.failure:
            raise WorldFailed(self.failure)
        try:
            what()
        except refusals:
            raise
        # the twin's edge: whatever its model trips over must reach whoever moved it, and the log
        except Exception as bug:
            self.failure = _told(bug, self._engine.now)
            _LOG.exception("%s", self.failure)
            raise WorldFailed(self.failure) from bug

    def move(self, until: float, *, stop: Callable[[], bool] | None = None) -> None:
        """Move time to ``until`` in one go, or to the moment at which ``stop`` is true."""
        self.do(lambda: self._engine.run_until(until, stop=stop))

    async def glide(self, until: float) -> None:
        """Move time to ``until`` and let the servers answer in between."""
        clock = asyncio.get_running_loop().time
        while True:
            self.move(until, stop=_after(SLICE, clock))
            if self._engine.now >= until:
                return
            await _turn()


def run_by_itself(pace: Pace, engine: Engine, speed: float) -> None:
    """Let ``speed`` virtual seconds pass in each real one, fewer where they do not fit in it."""
    loop = asyncio.get_running_loop()

    def tick(last: float) -> None:
        now = loop.time()
        until = min(engine.now + (now - last) * speed, LATEST)
        try:
            pace.move(until, stop=_after(TICK, loop.time))
        except WorldFailed:
            return  # told in the log and in the state; time stands still from here on
        loop.call_later(TICK, tick, now)

    loop.call_later(TICK, tick, loop.time())


def _after(seconds: float, clock: Callable[[], float]) -> Callable[[], bool]:
    ends = clock() + seconds
    return lambda: clock() >= ends


async def _turn() -> None:
    """Let everything else that is ready in the event loop have its turn."""
    loop = asyncio.get_running_loop()
    turn = loop.create_future()
    loop.call_soon(turn.set_result, None)
    await turn


def _told(bug: Exception, now: float) -> str:
    frames = list(traceback.extract_tb(bug.__traceback__))
    model = [frame for frame in frames if "/twin/world/" in frame.filename]
    last = (model or frames)[-1]
    place = f"{'/'.join(Path(last.filename).parts[-2:])}:{last.lineno} in {last.name}"
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC).isoformat(timespec="milliseconds")
    return f"the simulated lab failed at {moment}: {type(bug).__name__}: {bug} ({place})"
