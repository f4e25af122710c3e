"""Ctrl-C and SIGTERM: the first ends the run in order, the second is answered, the third obeyed.

A run that is cut short takes its pool down, which may last minutes: nobody should break that off
by being impatient once, and anybody must be able to.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
ANSWER = b"hil: taking down what was brought up; once more leaves it standing\n"


class Interrupts:
    """The handler of both signals in one process."""

    def __init__(self) -> None:
        self.arrived = 0
        """How many have come."""

    def install(self) -> None:
        """Handle both signals from now on."""
        for number in SIGNALS:
            signal.signal(number, self._arrive)

    def ignore(self) -> None:
        """Let nothing break off what is left to do: it takes a moment and writes the reports."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    def _arrive(self, number: int, _: FrameType | None) -> None:
        self.arrived += 1
        if self.arrived == 2:
            os.write(2, ANSWER)  # a handler may run in the middle of any write to sys.stderr
            return
        raise KeyboardInterrupt(signal.Signals(number).name)
