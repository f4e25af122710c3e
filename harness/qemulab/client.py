"""Talking to a keeper: start one, ask it, see it end."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.qemulab.errors import Unfit
from harness.qemulab.guest import KINDS
from harness.qemulab.rundir import STATE, end_processes, is_held, tidy

if TYPE_CHECKING:
    from harness.qemulab.spec import Spec

LOG = "keeper.log"
PATIENCE = 120.0
"""Real seconds for one answer: a rollback of large guests on a busy disk is the longest."""

_TRIED = "reach a running mini-lab"
_STARTING = 90.0
_ENDING = 15.0


class NoLab(Unfit):
    """No lab is up where one was looked for."""


class KeeperProcess:
    """A keeper that lives as long as this object, and ends when this process does, however."""

    def __init__(self, spec: Spec, held: int) -> None:
        self._spec = spec
        spec.save()
        with (spec.directory / LOG).open("wb") as log:
            # it keeps the directory's lock through the descriptor, and ends with its standard input
            self._child = subprocess.Popen(
                [sys.executable, "-m", "harness.qemulab", str(spec.run)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=(held,),
                start_new_session=True,  # Ctrl-C is for the run, which takes the lab down itself
            )

    def ready(self) -> None:
        """Wait until its guests are on. Raises Unfit with what it said."""
        out = self._child.stdout
        assert out is not None
        there, _, _ = select.select([out], [], [], _STARTING)
        line = out.readline() if there else b""
        try:
            told = json.loads(line or b"null")
        except ValueError:
            told = None
        if not isinstance(told, dict):
            saw = self._last_words() or f"no word from it in {_STARTING:g} s"
            raise Unfit("start the keeper of the guests", saw, f"see {self._spec.directory / LOG}")
        _check(told)

    def fileno(self) -> int:
        """Becomes readable when it ends, once `ready` has returned."""
        assert self._child.stdout is not None
        return self._child.stdout.fileno()

    @property
    def status(self) -> int | None:
        """Its exit status; None while it lives."""
        return self._child.poll()

    def close(self) -> None:
        """End it and everything of it; closing twice is fine."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        try:
            self._child.wait(_ENDING)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(_ENDING)
        if self._child.stdout is not None:
            self._child.stdout.close()
        # it does this itself unless it was killed
        end_processes(self._spec.run)
        tidy(self._spec.run, self._spec.directory)

    def _last_words(self) -> str:
        log = self._spec.directory / LOG
        said = log.read_bytes()[-400:].decode("utf-8", "replace") if log.exists() else ""
        return " ".join(said.split())


def ask(control: Path, do: str, **more: Any) -> Any:
    """Have a keeper do something; gives what it gave. One connection each, from any thread.

    Raises Unfit as the keeper says, or NoLab where none answers.
    """
    sent = json.dumps({"do": do, **more}).encode() + b"\n"
    said = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
            line.settimeout(PATIENCE)
            line.connect(str(control))
            line.sendall(sent)
            while not said.endswith(b"\n"):
                piece = line.recv(1 << 16)
                if not piece:
                    break
                said += piece
    except TimeoutError as error:
        saw = f"no answer in {PATIENCE:g} s"
        raise Unfit(f"have the lab do {do}", saw, "end it and start it anew") from error
    except OSError as error:
        raise no_lab(f"{error.strerror or error}") from error
    if not said.endswith(b"\n"):
        raise no_lab("its keeper ended in the middle of it")
    told: dict[str, Any] = json.loads(said)
    _check(told)
    return told.get("given")


def find(directory: Path) -> dict[str, Any]:
    """What the lab that is up in a directory says of itself. Raises NoLab."""
    try:
        told = json.loads((directory / STATE).read_text(encoding="utf-8"))
        os.fspath(told["control"])
    except FileNotFoundError as error:
        if is_held(directory):
            saw = f"one in {directory} that is still being made"
            do = "wait for it, or end `hil qemu up` with Ctrl-C"
            raise NoLab(_TRIED, saw, do) from error
        raise no_lab(f"none in {directory}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise no_lab(f"{directory / STATE}, which cannot be read") from error
    return dict(told)


def no_lab(saw: str) -> NoLab:
    """The error of whoever looks for a lab and finds none."""
    return NoLab(_TRIED, saw, "start one with `hil qemu up`")


def _check(told: dict[str, Any]) -> None:
    error = told.get("error")
    if error:
        kind = KINDS.get(error.get("kind", ""), Unfit)
        raise kind(error["tried"], error["saw"], error["do"])
