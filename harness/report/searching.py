"""Regular expressions of a file searched in texts, none for longer than it may take.

Python's `re` goes back over a text as often as an expression lets it: `(a+)+$` takes twice as long
for each letter more. No such expression is told from a good one by its looks alone, so each that
could is searched in a process of its own, by processor time. This file is that process' program as
well, and knows nothing of the rest.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

SECONDS = 0.5
"""Processor time that one expression may take in one text."""
_ALL = 120.0
"""Seconds for all of them together, however busy the machine is."""
_SHORT = 10_000
"""Letters up to which an expression that repeats one thing, and has neither choices nor a group
that comes again, is quick: its time grows with the square of the text's length.
"""
_REPEATS = re.compile(r"[*+?{]")
_SLOWER = re.compile(r"\||\\[1-9]")


class _TooLong(Exception):
    """An expression had its time."""


def search(pairs: Sequence[tuple[str, str]]) -> list[bool | None]:
    """Whether each expression is found in its text; None where it takes too long, or no process
    could be had to try it in. One that took too long once is not tried again. The expressions are
    known to be some.
    """
    found: list[bool | None] = [
        re.search(pattern, text) is not None if _is_quick(pattern, text) else None
        for pattern, text in pairs
    ]
    slow = [number for number, pair in enumerate(pairs) if not _is_quick(*pair)]
    if slow:
        told = _beside([pairs[number] for number in slow])
        for number, one in zip(slow, told, strict=False):
            found[number] = one
    return found


def _is_quick(pattern: str, text: str) -> bool:
    simple = len(_REPEATS.findall(pattern)) <= 1 and not _SLOWER.search(pattern)
    return simple and len(text) <= _SHORT


def _beside(pairs: Sequence[tuple[str, str]]) -> list[bool | None]:
    """The answers of the other process, as many as came: it may not begin, where Python does not
    know its own program or no more processes are allowed, and it may be killed.
    """
    program = [sys.executable or "python3", "-I", str(Path(__file__).resolve())]
    given = json.dumps([list(pair) for pair in pairs]).encode("ascii")
    try:
        told = subprocess.run(
            program, input=given, stdout=subprocess.PIPE, timeout=_ALL, check=False
        ).stdout
    except subprocess.TimeoutExpired as late:
        told = late.stdout or b""
    except OSError:
        told = b""
    words = {b"found": True, b"absent": False}
    return [words.get(line) for line in told.splitlines()]


def _main() -> None:
    signal.signal(signal.SIGVTALRM, _over)
    given_up: set[str] = set()
    for pattern, text in json.loads(sys.stdin.buffer.read()):
        answer = "too long"
        if pattern not in given_up:
            signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
            try:
                answer = "found" if re.search(pattern, text) else "absent"
            except _TooLong:
                given_up.add(pattern)
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _over(_: int, __: FrameType | None) -> None:
    raise _TooLong


if __name__ == "__main__":
    _main()
