"""The keeper: a process that owns a lab's QEMUs and their switch, and does what it is asked.

It lives as long as its standard input is open, so that a parent that dies, however it dies, leaves
nothing running. Its QEMUs are tied to it in the same way by the kernel (`harness.qemulab.guest`).
Requests are JSON, a line each, over a unix socket, one request a connection; it does one at a time.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.clock import WallClock
from harness.qemulab.errors import Unfit
from harness.qemulab.guest import KINDS, Guest, tether
from harness.qemulab.machines import Machines
from harness.qemulab.rundir import KEEPER, STATE, pid_file, tidy, write_whole
from harness.qemulab.spec import Spec

if TYPE_CHECKING:
    from harness.clock import Clock

_LONGEST = 64 * 1024  # bytes of a request
_STDIN = 0


class Keeper:
    """A lab being kept. `serve` returns when it is to end; `close` then leaves nothing."""

    def __init__(self, spec: Spec, clock: Clock) -> None:
        self.spec = spec
        self.machines = Machines(spec, clock)
        self._clock = clock
        self._started = clock.now()
        self._notes: dict[str, Any] = {}
        self._asking: dict[int, tuple[socket.socket, bytes]] = {}
        self._ended = False
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(spec.control))
        self._verbs: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
            "status": lambda _: self.status(),
            "power": lambda r: self.machines.power(r["guest"], r["what"]),
            "cut": lambda r: self.machines.cut(r["a"], r["b"], carrier=bool(r["carrier"])),
            "lose": lambda r: self.machines.change(r["a"], r["b"], lose=float(r["share"])),
            "delay": lambda r: self.machines.change(r["a"], r["b"], delay=float(r["seconds"])),
            "heal": lambda _: self.machines.heal(),
            "snapshot": lambda r: self.machines.snapshot(r["name"], replace=bool(r.get("replace"))),
            "rollback": lambda r: self.machines.rollback(r["name"]),
            "console": lambda r: self.machines.find(r["guest"]).console_taken(),
            "note": lambda r: self._notes.update(r["notes"]),
            "end": lambda _: self._end(),
        }

    def start(self) -> None:
        """Switch everything on and say in the directory where it is. Raises Unfit."""
        pid_file(self.spec.run, KEEPER).write_text(str(os.getpid()), encoding="ascii")
        self.machines.start()
        write_whole(self.spec.directory / STATE, self._told())
        self._listening.listen()

    def serve(self) -> None:
        """Do what is asked until standard input ends, or until somebody asks for the end."""
        while not self._ended:
            for fd in self._ready():
                if fd == _STDIN:
                    if not os.read(_STDIN, 4096):
                        return
                elif fd == self._listening.fileno():
                    line, _ = self._listening.accept()
                    line.setblocking(False)
                    self._asking[line.fileno()] = (line, b"")
                elif fd in self._asking:
                    self._hear(fd)
                else:
                    self._look_after(fd)

    def close(self) -> None:
        """End the guests and remove what was theirs."""
        self.machines.end()
        for line, _ in self._asking.values():
            line.close()
        self._listening.close()
        tidy(self.spec.run, self.spec.directory)

    def status(self) -> dict[str, Any]:
        """What `hil qemu status` shows: plain data."""
        machines = self.machines
        counts, ways = machines.switch.counts(), machines.switch.ways()
        links = [
            {"from": a, "to": b, **asdict(way), "frames": counts[a, b]}
            for (a, b), way in ways.items()
        ]
        return {
            "keeper": os.getpid(),
            "tethered": bool(tether()),
            "up": self._clock.now() - self._started,
            "guests": [_told_guest(guest) for guest in machines.guests.values()],
            "links": links,
            "snapshots": {name: one.at for name, one in machines.snapshots.items()},
            "notes": self._notes,
            "about": dict(self.spec.about),
        }

    def _told(self) -> dict[str, Any]:
        """What the directory's file says: enough to find the keeper and log in to the guests."""
        guests = [
            {
                "name": guest.name,
                "port": guest.port,
                "console": str(guest.spec.console),
                "log": str(guest.spec.log),
            }
            for guest in self.machines.guests.values()
        ]
        where = {"run": str(self.spec.run), "control": str(self.spec.control)}
        return {"keeper": os.getpid(), **where, "guests": guests, "about": dict(self.spec.about)}

    def _ready(self) -> list[int]:
        poll = select.poll()
        lives = [guest.life for guest in self.machines.guests.values() if guest.life is not None]
        monitors = [guest.qmp.fileno() for guest in self.machines.guests.values() if not guest.off]
        # lives first: a guest is found dead before its monitor's end is read
        for fd in (*lives, *monitors, _STDIN, self._listening.fileno(), *self._asking):
            poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll()}
        return [fd for fd in (*lives, *monitors, *self._asking, _STDIN) if fd in ready] + [
            fd for fd in (self._listening.fileno(),) if fd in ready
        ]

    def _look_after(self, fd: int) -> None:
        """Something of a guest's: its end, or an event."""
        for guest in self.machines.guests.values():
            if guest.life == fd:
                guest.bury()
            elif not guest.off and guest.qmp.fileno() == fd:
                try:
                    guest.qmp.take_events()
                except Unfit:
                    guest.bury()

    def _hear(self, fd: int) -> None:
        line, before = self._asking[fd]
        try:
            piece = line.recv(_LONGEST)
        except OSError:
            piece = b""
        said = before + piece
        if b"\n" not in said and piece and len(said) < _LONGEST:
            self._asking[fd] = (line, said)
            return
        del self._asking[fd]
        with line:
            if b"\n" in said:
                answer = json.dumps(self._answer(said.partition(b"\n")[0])) + "\n"
                line.setblocking(True)
                line.settimeout(5.0)
                try:
                    line.sendall(answer.encode())
                except OSError:
                    return  # whoever asked has gone; it is done all the same

    def _answer(self, said: bytes) -> dict[str, Any]:
        for guest in self.machines.guests.values():
            if guest.has_died():
                guest.bury()
        try:
            request = json.loads(said)
            given = self._verbs[request["do"]](request)
        except Unfit as error:
            return {"error": told_error(error)}
        except (ValueError, KeyError, TypeError) as error:
            saw = f"{type(error).__name__}: {error}"
            return {"error": {"tried": "understand a request", "saw": saw, "do": "ask otherwise"}}
        return {"given": given}

    def _end(self) -> None:
        # the answer is the proof that nothing is left
        self._ended = True
        self.machines.end()


def told_error(error: Unfit) -> dict[str, str]:
    """An error as an answer has it; ``kind`` where the asker acts on it."""
    told = {"tried": error.tried, "saw": error.saw, "do": error.do}
    kinds = [name for name, kind in KINDS.items() if isinstance(error, kind)]
    return {**told, "kind": kinds[0]} if kinds else told


def _told_guest(guest: Guest) -> dict[str, Any]:
    running = guest.running()
    return {
        "name": guest.name,
        "power": "off" if guest.off else "on" if running else "paused",
        "why": guest.off,
        "pid": guest.pid,
        "port": guest.port,
        "carrier": guest.carrier,
        "started": guest.started,
        "console": str(guest.spec.console),
        "console_taken": not guest.off and guest.console_taken(),
        "log": str(guest.spec.log),
        "notes": guest.notes,
    }


def run(directory: Path) -> int:
    """Keep the lab whose spec is in a run's directory; 3 where it could not be started.

    The first line of standard output is JSON: ``{}`` once it is up, else the ``error``.
    """
    clock = WallClock()
    keeper = None
    try:
        spec = Spec.load(directory / "spec.json")
        keeper = Keeper(spec, clock)
        keeper.start()
        _say({})
        keeper.serve()
    except Unfit as error:
        _say({"error": told_error(error)})
        return 3
    except KeyboardInterrupt:
        return 0  # told to end
    finally:
        if keeper is not None:
            keeper.close()
    return 0


def _say(told: Mapping[str, Any]) -> None:
    try:
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        return  # nobody waits for it any more; standard input says the same
