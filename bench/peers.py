"""Environments of other clients: `python -m bench.peers [NAME ...]` makes them in `.peers/`.

Each is a virtual environment of this Python, holding what `requirements/peers/NAME.txt` pins: some
of these clients pin what others cannot live with, and none belongs among the harness's own.
One that is current is left as it is. Example: `python -m bench.peers kr8s lightkube`.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / ".peers"
PINNED = ROOT / "requirements" / "peers"
STAMP = ".made-from"
UNFIT, WRONG = 3, 2
# most of what these packages hold is never imported: what is, is compiled when it first is
QUIET = ("--quiet", "--disable-pip-version-check", "--no-compile")
INSTALL = ("install", *QUIET, "--require-hashes", "-r")


class NotMade(Exception):
    """An environment could not be made; one sentence that says why."""


def names() -> list[str]:
    """The environments that there is a list of packages for."""
    return sorted(file.stem for file in PINNED.glob("*.txt"))


def python_of(name: str) -> Path | None:
    """The Python of environment ``name``; None where it was not made, or is not current."""
    python = PEERS / name / "bin" / "python"
    return python if python.exists() and _stamp(name) == _source(name) else None


def make(name: str) -> Path:
    """Make environment ``name`` unless it is current; gives its Python. Raises NotMade."""
    if made := python_of(name):
        return made
    folder = PEERS / name
    shutil.rmtree(folder, ignore_errors=True)
    _run(name, "-m", "venv", "--without-pip", str(folder))
    python = folder / "bin" / "python"
    _run(name, "-m", "pip", "--python", str(python), *INSTALL, str(PINNED / f"{name}.txt"))
    (folder / STAMP).write_text(_source(name))
    return python


def _source(name: str) -> str:
    """What an environment is made from: the pins, and this Python."""
    pins = (PINNED / f"{name}.txt").read_bytes()
    return f"{hashlib.sha256(pins).hexdigest()} {sys.version.split()[0]}\n"


def _stamp(name: str) -> str:
    stamp = PEERS / name / STAMP
    return stamp.read_text() if stamp.exists() else ""


def _run(name: str, *argv: str) -> None:
    command = [sys.executable, *argv]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        said = (ran.stderr or ran.stdout).splitlines()
        errors = [line for line in said if line.startswith("ERROR: ")] or said
        why = errors[-1] if errors else f"{argv[1]} ended with {ran.returncode}"
        raise NotMade(f"the environment {name!r} was not made: {why}")


def main() -> int:
    """Make the environments that are named, else all. 0; 2 for a wrong name, 3 if one failed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"of {', '.join(names())}")
    wanted = parser.parse_args().names or names()
    if unknown := sorted(set(wanted) - set(names())):
        known = ", ".join(names())
        print(f"peers: no client {unknown[0]!r}; there are {known}", file=sys.stderr)
        return WRONG
    try:
        for name in wanted:
            began, current = time.monotonic(), python_of(name)
            make(name)
            took = "current" if current else f"made in {time.monotonic() - began:.0f} s"
            print(f"{PEERS.name}/{name}: {took}", flush=True)
    except NotMade as why:
        print(f"peers: {why}", file=sys.stderr)
        return UNFIT
    return 0


if __name__ == "__main__":
    sys.exit(main())
