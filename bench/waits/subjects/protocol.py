"""What the drivers have in common: batches of waits on standard input, answers on standard output.

Both are NDJSON. In: ``{"batch": 1, "at_once": 50, "cap": 0, "apart": 0.01, "waits": [...]}``: so
many at once, the first ones begun so many seconds apart, none after ``cap`` seconds if that is set.
Out: one line a wait with the kind of answer and the moment of it on CLOCK_MONOTONIC, which all
processes of a machine share; then ``{"done": 1, ...}`` with what the batch cost. Standard library
only.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import resource
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

MET, NOT_MET, UNKNOWN, ERROR = "met", "not-met", "unknown", "error"
GONE, REPLACED = "deleted", "replaced"
_pause = threading.Event()
_SAID = 160  # characters kept of what a tool said


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait: until a pod's ``want`` comes true, for ``limit`` seconds.

    ``want`` is "phase" (status.phase is ``value``), "ready" (condition Ready is True; where the
    predicate is the user's, of the current generation) or "misspelt" (a predicate with a
    programmer's slip in it).
    """

    name: str
    namespace: str
    kubeconfig: str
    limit: int
    want: str = "phase"
    value: str = "Running"


class TimedOut(Exception):
    """The tool says that it waited for the whole limit in vain."""


class Told(Exception):
    """The tool gave another typed answer: ``kind``."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(said)
        self.kind = kind


class Wire:
    """Standard output, kept for the protocol: whatever else the process prints goes to stderr."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        self._lock = threading.Lock()
        os.dup2(2, 1)

    def send(self, document: dict[str, Any]) -> None:
        """One line."""
        line = json.dumps(document) + "\n"
        with self._lock:
            self._out.write(line)
            self._out.flush()


def serve(answer: Callable[[Wait], None], *packages: str) -> None:
    """Drive a tool that blocks: a thread for each wait under way, until standard input ends.

    ``answer`` returns when the tool says that the wait is met, and raises what the tool raises.
    ``packages`` are the distributions whose versions are told.
    """
    wire = _hello(packages)
    for batch in _batches():
        before = _spent()
        todo: queue.SimpleQueue[Wait] = queue.SimpleQueue()
        for wait in batch.waits:
            todo.put(wait)
        threads = [
            threading.Thread(target=_work, args=(answer, todo, batch.until, wire), daemon=True)
            for _ in range(min(batch.at_once, len(batch.waits)))
        ]
        for thread in threads:
            thread.start()
            _pause.wait(batch.apart)
        for thread in threads:
            thread.join()
        _done(wire, batch.number, before)


def serve_async(answer: Callable[[Wait], Awaitable[None]], *packages: str) -> None:
    """The same for a tool on asyncio: one loop, a task for each wait under way."""
    wire = _hello(packages)
    loop = asyncio.new_event_loop()
    for batch in _batches():
        before = _spent()
        loop.run_until_complete(_all(answer, batch, wire))
        _done(wire, batch.number, before)


@dataclass(frozen=True, slots=True)
class _Batch:
    number: int
    at_once: int
    until: float  # no wait is begun after this moment
    apart: float  # seconds between the first ones' beginnings: they are not to trample each other
    waits: list[Wait]


def _batches() -> Iterator[_Batch]:
    for line in sys.stdin:
        told = json.loads(line)
        until = time.monotonic() + told["cap"] if told["cap"] else float("inf")
        waits = [Wait(**wait) for wait in told["waits"]]
        yield _Batch(told["batch"], told["at_once"], until, told["apart"], waits)


def _work(
    answer: Callable[[Wait], None], todo: queue.SimpleQueue[Wait], until: float, wire: Wire
) -> None:
    while time.monotonic() < until:
        try:
            wait = todo.get_nowait()
        except queue.Empty:
            return
        began = time.monotonic()
        kind, said = MET, ""
        try:
            answer(wait)
        except Exception as raised:  # noqa: BLE001 - whatever a tool raises is its answer
            kind, said = _read(raised)
        wire.send(_row(wait, began, kind, said))


async def _all(answer: Callable[[Wait], Awaitable[None]], batch: _Batch, wire: Wire) -> None:
    todo = iter(batch.waits)

    async def work() -> None:
        for wait in todo:
            if time.monotonic() >= batch.until:
                return
            began = time.monotonic()
            kind, said = MET, ""
            try:
                await answer(wait)
            except Exception as raised:  # noqa: BLE001 - whatever a tool raises is its answer
                kind, said = _read(raised)
            wire.send(_row(wait, began, kind, said))

    async def begin(place: int) -> None:
        begun = asyncio.Event()
        asyncio.get_running_loop().call_later(place * batch.apart, begun.set)
        await begun.wait()
        await work()

    await asyncio.gather(*(begin(n) for n in range(min(batch.at_once, len(batch.waits)))))


def _row(wait: Wait, began: float, kind: str, said: str) -> dict[str, Any]:
    at = time.monotonic()
    return {"row": wait.name, "began": began, "at": at, "kind": kind, "said": said[:_SAID]}


def _read(raised: Exception) -> tuple[str, str]:
    said = " ".join(str(raised).split())
    if isinstance(raised, Told):
        return raised.kind, said
    if isinstance(raised, TimedOut | TimeoutError):
        return NOT_MET, said
    return ERROR, f"{type(raised).__name__}: {said}"


def _hello(packages: tuple[str, ...]) -> Wire:
    wire = Wire()
    versions = {package: version(package) for package in packages}
    wire.send({"hello": versions, "cpu": _spent(), "peak_kb": _peak_kb()})
    return wire


def _done(wire: Wire, number: int, before: float) -> None:
    wire.send({"done": number, "cpu": _spent() - before, "peak_kb": _peak_kb()})


def _spent() -> float:
    """CPU seconds of this process and of those it has started and seen the end of."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _peak_kb() -> int:
    """The most memory this process, or one it started, ever had resident, in KiB.

    Its own from /proc: ru_maxrss would also count the process that started it, up to its exec.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    own = int(status.partition("VmHWM:")[2].split()[0])
    return max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
