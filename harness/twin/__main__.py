"""``python -m harness.twin``: a twin for a parent process (people use ``hil twin up``)."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from harness.twin.lab import Options, serve


def main() -> None:
    """Parse the command line and serve until told to end."""
    parser = argparse.ArgumentParser(prog="python -m harness.twin")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", action="append", default=[])
    parser.add_argument("--speed", type=float, default=0.0)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--until-stdin-closes", action="store_true")
    chosen = parser.parse_args()
    options = Options(
        directory=chosen.dir,
        seed=chosen.seed,
        faults=tuple(chosen.fault),
        speed=chosen.speed,
        port=chosen.port,
        until_stdin_closes=chosen.until_stdin_closes,
    )
    asyncio.run(serve(options))


if __name__ == "__main__":
    main()
