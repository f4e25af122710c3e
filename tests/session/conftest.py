from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness.claims.catalogue import load as load_claims
from harness.clock import WallClock
from harness.reach.access import client_from_file
from harness.reach.kube import Kube
from harness.session.choice import choose

ROOT = Path(__file__).resolve().parents[2]
TWIN = ROOT / "inventory" / "twin.yaml"
HIL = (sys.executable, "-m", "harness.cli")
PYTEST = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")


def asked(pool: str, lane: str = "") -> int:
    """How many claims of the catalogue a pool of the twin is asked; each has a scenario there."""
    choice = choose(TWIN, lane, [pool], [], None)
    return sum(not choice.missing([claim], pool) for claim in load_claims().values())


LIMIT = 100.0  # seconds that a run may take before it counts as hanging


@dataclass(frozen=True)
class Ended:
    """A command that came to its end."""

    status: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err

    def assert_sentence(self, status: int, *words: str) -> None:
        """It ended with this status, said these words, and showed no traceback."""
        assert self.status == status, self.said
        for word in words:
            assert word in self.said
        for trace in ("Traceback", "INTERNALERROR", 'File "'):
            assert trace not in self.said


@dataclass
class Started:
    """A command that runs, in a process group of its own."""

    process: subprocess.Popen[str]
    heard: list[str] = field(default_factory=list)

    def hear(self, word: str) -> None:
        """Read its standard error up to the line that has this word."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.heard.append(line)
            if word in line:
                return
        raise AssertionError(f"it ended without a word of {word!r}: {''.join(self.heard)}")

    def interrupt(self, number: signal.Signals, *, group: bool) -> None:
        (os.killpg if group else os.kill)(self.process.pid, number)

    def end(self) -> Ended:
        out, err = self.process.communicate(timeout=LIMIT)
        return Ended(self.process.returncode, out, "".join(self.heard) + err)


Start = Callable[..., Started]
Run = Callable[..., Ended]


@pytest.fixture(scope="session")
def start() -> Iterator[Start]:
    """Start a command; what still runs at the end is killed, by its pid."""
    started: list[Started] = []

    def start(argv: Sequence[str], *, cwd: Path = ROOT, **env: str) -> Started:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "LAB_"))}
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env={**inherited, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(Started(process))
        return started[-1]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
        one.process.communicate()


@pytest.fixture(scope="session")
def hil(start: Start) -> Run:
    """Run `hil` to its end."""
    return lambda *argv, **options: start([*HIL, *map(str, argv)], **options).end()


@pytest.fixture(scope="session")
def plain(start: Start) -> Run:
    """Run plain pytest on the project's scenarios to its end."""
    return lambda *argv, **options: start([*PYTEST, "scenarios", *map(str, argv)], **options).end()


@pytest.fixture
def own(start: Start, tmp_path: Path) -> Run:
    """Run plain pytest on scenarios written for the test; they run in ``tmp_path``."""

    def run(text: str, *argv: Any) -> Ended:
        (tmp_path / "test_own.py").write_text(text)
        command = [*PYTEST, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
        command += ["-p", "harness.plugin", "test_own.py", "--lab", str(TWIN)]
        command += ["--out", str(tmp_path / "out"), "--run-id", "own", *map(str, argv)]
        return start(command, cwd=tmp_path).end()

    return run


def lives(pid: int) -> bool:
    """Whether a process runs; one that only waits for its parent to take note does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.fixture(scope="session")
def gone() -> Callable[[int], bool]:
    """Whether a process ends within a few seconds, by itself."""

    def gone(pid: int) -> bool:
        clock, never = WallClock(), threading.Event()
        deadline = clock.deadline(15)
        while lives(pid) and not deadline.expired:
            clock.back_off(0.02, never)
        return not lives(pid)

    return gone


@pytest.fixture(scope="session")
def left_up(start: Start) -> Callable[[Path], AbstractContextManager[Path]]:
    """A twin that `hil twin up` left running in a directory, while in the block."""

    @contextmanager
    def up(directory: Path) -> Iterator[Path]:
        twin = start([*HIL, "twin", "up", "--dir", str(directory)])
        assert twin.process.stdout is not None
        assert "the twin is up" in twin.process.stdout.readline()
        yield directory
        twin.interrupt(signal.SIGINT, group=False)
        assert twin.end().status == 0

    return up


@pytest.fixture
def kube(attached: Path) -> Kube:
    """The management cluster of the twin that a test module's ``attached`` left running."""
    client = client_from_file(attached / "kubeconfig", "management")
    return Kube("management", client, WallClock())
