"""`python -m bench.live`: what it costs a run to say where it stands, and to be read while it does.

Processor time of this process over so many looks each: at oneself, with nothing new and with a line
to write each time; and the controller's, without and with a new line to read.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

from bench.figures import figure, own_cpu
from harness.clock import WallClock
from harness.live.heart import Heart, Stand
from harness.live.record import FOLDER, Pen
from harness.live.teller import Teller

LOOKS = 2000
CLOCK = WallClock()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="200 looks each, once")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    runs, looks = (1, 200) if options.quick else (options.runs, LOOKS)
    print(
        f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, load {os.getloadavg()[0]}"
    )
    for name, measured in FIGURES.items():
        print(figure(name, [measured(looks) for _ in range(runs)], "us"))


def _still(looks: int) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        heart = _heart(Path(scratch), lambda: Stand("gpu-l40s", "test_uptime", 1.0, CLOCK))
        return _each(heart.beat, looks)


def _writing(looks: int) -> float:
    """Each look finds another scenario at hand, and writes a line."""
    with tempfile.TemporaryDirectory() as scratch:
        return _each(_heart(Path(scratch), _another()).beat, looks)


def _looking(looks: int) -> float:
    """The controller's look, less what it costs to write the line that it finds."""
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch)
        heart, teller = _heart(run, _another()), Teller(run, io.StringIO())

        def both() -> None:
            heart.beat()
            teller.look()

        return _each(both, looks) - _writing(looks)


def _idle(looks: int) -> float:
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch)
        _heart(run, lambda: Stand("gpu-l40s", "test_uptime", 1.0, CLOCK)).beat()
        assert list((run / FOLDER).iterdir())
        return _each(Teller(run, io.StringIO()).look, looks)


def _another() -> Callable[[], Stand]:
    numbers = count()
    return lambda: Stand("gpu-l40s", f"test_{next(numbers)}", 1.0, CLOCK)


def _heart(run: Path, stand: Callable[[], Stand]) -> Heart:
    return Heart(Pen(run, "main"), "main", stand, controls=True)


def _each(look: Callable[[], None], looks: int) -> float:
    look()
    began = own_cpu()
    for _ in range(looks):
        look()
    return (own_cpu() - began) / looks * 1e6


FIGURES = {
    "a look at oneself, nothing new": _still,
    "a look at oneself, a line written": _writing,
    "the controller's look, nothing new": _idle,
    "the controller's look, a line read": _looking,
}

if __name__ == "__main__":
    main()
