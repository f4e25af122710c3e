"""A driver process: started, given batches of waits, read, ended."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import peers
from bench.waits.plan import Subject

SCRIPTS = Path(__file__).parent / "subjects"
STARTING = 60.0
"""Seconds that a driver may take to import its tool."""
GRACE = 7.0
"""Seconds after a limit within which an answer still is one: more than the longest interval."""


class NotThere(Exception):
    """The tool is not on this machine; one sentence that says what would bring it."""


class Broken(Exception):
    """The driver ended, or said nothing: a fault of the bench or of the environment."""


@dataclass(slots=True)
class Answers:
    """What came of a batch: a line for each wait that was answered, and what it cost.

    ``cpu`` is in seconds, ``peak_kb`` in KiB; ``whole`` is False if some waits never ended.
    """

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    cpu: float = 0.0
    peak_kb: int = 0
    whole: bool = False


class Driver:
    """One tool in a process of its own. ``versions`` are told by itself."""

    def __init__(self, subject: Subject, process: asyncio.subprocess.Process) -> None:
        self.subject = subject
        self.versions: dict[str, str] = {}
        self.import_cpu = 0.0
        self.import_kb = 0
        self._process = process
        self._batch = 0

    @classmethod
    async def start(cls, subject: Subject, folder: Path, out: Path) -> Driver:
        """Start it and wait until its tool is imported. Raises NotThere or Broken.

        ``folder`` is for what it keeps, ``out`` for what it says on standard error.
        """
        command = _command(subject, folder)
        with (out / f"{subject.name}.stderr").open("wb") as said:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=said,
                limit=1 << 20,
                start_new_session=True,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
            )
        driver = cls(subject, process)
        hello = await driver._line(STARTING)
        driver.versions = hello["hello"] or await _told_by_kubectl(command)
        driver.import_cpu, driver.import_kb = hello["cpu"], hello["peak_kb"]
        return driver

    async def ask(
        self,
        waits: Sequence[dict[str, Any]],
        *,
        at_once: int,
        cap: float = 0.0,
        apart: float = 0.0,
        answered: Callable[[], None] = lambda: None,
    ) -> Answers:
        """Have it wait, so many at once; with ``cap``, none is begun after so many seconds.
        The first ones begin so many seconds ``apart``.

        ``answered`` is called after each answer.
        """
        self._batch += 1
        told = {
            "batch": self._batch,
            "at_once": at_once,
            "cap": cap,
            "apart": apart,
            "waits": list(waits),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told).encode() + b"\n")
        answers = Answers()
        patience = max(wait["limit"] for wait in waits) + GRACE
        while not answers.whole:
            try:
                line = await self._line(patience)
            except TimeoutError:
                return answers
            if "row" in line:
                answers.rows[line["row"]] = line
                answered()
            else:
                answers.cpu, answers.peak_kb, answers.whole = line["cpu"], line["peak_kb"], True
        return answers

    async def close(self) -> None:
        """End it, and what it started: some tools' processes outlive their own limit."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 2.0)
        except TimeoutError:
            os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    async def _line(self, patience: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), patience)
        if not line:
            raise Broken(f"the driver of {self.subject.name} ended: see its .stderr in the output")
        found: dict[str, Any] = json.loads(line)
        return found


def _command(subject: Subject, folder: Path) -> list[str]:
    python: Path | None = Path(sys.executable)
    if subject.env:
        python = peers.python_of(subject.env)
        if python is None:
            raise NotThere(f"no environment {subject.env}: python -m bench.peers {subject.env}")
    command = [str(python), str(SCRIPTS / subject.script), *subject.arguments]
    if subject.name == "kubectl":
        binary = os.environ.get("HIL_KUBECTL") or shutil.which("kubectl")
        if not binary or not shutil.which(binary):
            raise NotThere("no kubectl: put one on the PATH or name it in HIL_KUBECTL")
        command += [binary, str(folder / "kubectl-cache")]
    return command


async def _told_by_kubectl(command: Sequence[str]) -> dict[str, str]:
    binary = command[2]
    process = await asyncio.create_subprocess_exec(
        binary, "version", "--client", "--output=json", stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return {"kubectl": json.loads(out)["clientVersion"]["gitVersion"]}
