"""Ctrl-C and SIGTERM: the first ends the run in order, the second leaves standing what is up.

A run that is cut short takes its pool down, which may last minutes; that is told at once, and so
is what one more would do. Processes of one run count alike, however many of them a signal
reached: a terminal sends it to all, `kill` to one, and a wrapper passes on what all had already.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from harness.clock import WallClock

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ONCE, TWICE = signal.SIGUSR1, signal.SIGUSR2
"""By these the controller tells a worker how often the run was interrupted."""
ANSWER = b"hil: taking down what was brought up; once more leaves it standing\n"
FORCED = b"hil: leaving it standing, as was asked\n"
SAME = 0.5
"""Seconds within which a second signal is the first one, come by another way."""


class Interrupts:
    """The handler of these signals in one process; ``now`` tells seconds, from anywhere."""

    def __init__(self, now: Callable[[], float] | None = None) -> None:
        self.arrived = 0
        """How many have come."""
        self.answers = True
        """Whether this process says what one more would do."""
        self._now = now or WallClock().monotonic
        self._last = 0.0

    def install(self) -> None:
        """Handle the signals from now on."""
        for number in SIGNALS:
            signal.signal(number, self._arrive)
        for number in (ONCE, TWICE):
            signal.signal(number, self._be_told)

    def ignore(self) -> None:
        """Let nothing break off what is left to do: it takes a moment and writes the reports."""
        for number in (*SIGNALS, ONCE, TWICE):
            signal.signal(number, signal.SIG_IGN)

    def _arrive(self, number: int, _: FrameType | None) -> None:
        now = self._now()
        same = self.arrived and now - self._last < SAME
        if same or (self.arrived and _connection_lost()):
            return
        self._last = now
        self._count(self.arrived + 1, number)

    def _be_told(self, number: int, _: FrameType | None) -> None:
        times = 1 if number == ONCE else 2
        if self.arrived < times:
            self._count(times, number)

    def _count(self, times: int, number: int) -> None:
        self.arrived = times
        if self.answers and times <= 2:
            # a handler may run in the middle of any write to sys.stderr
            os.write(2, ANSWER if times == 1 else FORCED)
        raise KeyboardInterrupt(signal.Signals(number).name)


def _connection_lost() -> bool:
    """Whether an xdist worker has lost its controller: execnet then sends SIGINT to its own process
    five seconds later (gateway_base, `_terminate_execution`), which nobody pressed.
    """
    for frame in sys._current_frames().values():
        at: FrameType | None = frame
        while at is not None:
            if at.f_code.co_name == "_terminate_execution":
                return True
            at = at.f_back
    return False
