"""One process's share in telling how its run stands: its heart; in the controller the teller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from harness.clock import WallClock
from harness.live.heart import Heart, Stand
from harness.live.record import Pen

if TYPE_CHECKING:
    from harness.live.teller import Teller
    from harness.session.pools import Pools

LIVE = "hil_live"
"""Under this key the controller tells its workers that it prints what they say."""


class Live:
    """What this process tells while its run goes on."""

    def __init__(self) -> None:
        self.relays = False
        """Whether what is said goes to the controller's teller, by way of the progress file."""
        self._heart: Heart | None = None
        self._teller: Teller | None = None
        self._scenario = ""
        self._since: float | None = None
        self._wall = WallClock()

    def start(self, run: Path, worker: str, pools: Pools, *, controls: bool) -> None:
        """Beat from now on: ``worker`` is the process's name, ``pools`` what it holds."""

        def stand() -> Stand:
            return Stand(pools.held, self._scenario, self._since, pools.clock)

        self._heart = Heart(Pen(run, worker), worker, stand, controls=controls)
        self._heart.start()

    def tell_on(self, stream: TextIO, run: Path) -> None:
        """Tell on a stream what the run's processes say and where they stand."""
        from harness.live.teller import Teller

        self._teller = Teller(run, stream)
        self._teller.start()
        self.relays = True

    @property
    def tells(self) -> bool:
        """Whether this process prints what the others say."""
        return self._teller is not None

    @contextmanager
    def at_hand(self, scenario: str) -> Iterator[None]:
        """A scenario runs in here."""
        self._scenario, self._since = scenario, self._wall.now()
        try:
            yield
        finally:
            self._scenario, self._since = "", None

    def say(self, at: float, text: str) -> None:
        """Pass a sentence on to the teller; ``at`` is the lab's time of it."""
        if self._heart is not None:
            self._heart.say(at, text)

    def announce(self, line: str) -> bool:
        """Tell a line of the controller's own; False where nobody tells."""
        if self._teller is not None:
            self._teller.say(line)
        return self._teller is not None

    def stop(self) -> None:
        """Be silent from now on, once all is told."""
        heart, self._heart = self._heart, None
        teller, self._teller = self._teller, None
        self.relays = False
        if heart is not None:
            heart.stop()
        if teller is not None:
            teller.stop()
