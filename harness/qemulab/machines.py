"""The guests and their wire as one thing: power, link, and joint snapshots of all of it.

A snapshot holds every guest's memory and disks and what was done to the wire. On the way back
nothing of the abandoned future may arrive: a late frame could be taken for a part of a connection
that the snapshot knows. So the guests are deafened and the switch is hushed until every frame sent
has been swallowed, before any state is loaded.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.qemulab.errors import Misnamed, Unfit
from harness.qemulab.guest import Guest
from harness.qemulab.switch import Port, Switch, Way

if TYPE_CHECKING:
    from harness.clock import Clock
    from harness.qemulab.spec import Spec

_SWALLOWED = 1.0  # seconds within which a QEMU takes in what was sent to it
_LOOK = 0.002
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
PRISTINE = "pristine"
"""The snapshot that a lab has from its beginning."""

_TAG = "hil-"
"""Before a snapshot's name in QEMU, which numbers them as well and takes "1" for the first one's
number: the disks then go back to another snapshot than the one named, without a word."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What QEMU does not keep in a snapshot: the wire, the carriers, who was running."""

    at: float
    ways: dict[tuple[str, str], Way]
    carriers: dict[str, bool]
    running: frozenset[str]


class Machines:
    """Everything a keeper keeps. For one thread; it must be the one that started it."""

    def __init__(self, spec: Spec, clock: Clock) -> None:
        self.guests = {one.name: Guest(spec, one, clock) for one in spec.guests}
        self.snapshots: dict[str, Snapshot] = {}
        ports = [
            Port(g.name, g.switch_side, g.guest_side, bytes.fromhex(g.mac.replace(":", "")))
            for g in spec.guests
        ]
        self.switch = Switch(ports, clock)
        self._clock = clock

    def start(self) -> None:
        """Switch all of them on, at once. Raises Unfit."""
        self.switch.start()
        for guest in self.guests.values():
            guest.spawn()
        for guest in self.guests.values():
            guest.greet()
        for guest in self.guests.values():
            guest.go()

    def end(self) -> None:
        """End all of it."""
        for guest in self.guests.values():
            guest.kill("the lab has ended")
        self.switch.close()

    def find(self, name: str) -> Guest:
        """A guest by name. Raises Unfit."""
        if name not in self.guests:
            known = ", ".join(self.guests)
            raise Misnamed(f"find a guest {name!r}", f"the guests {known}", "name one of them")
        return self.guests[name]

    # -- power

    def power(self, name: str, what: str) -> None:
        """``off``, ``on``, ``reset``, ``pause``, ``resume``, ``nmi``; see `harness.reach.power`."""
        guest = self.find(name)
        if what == "off":
            guest.kill("it was switched off")
        elif what == "on":
            self._on(guest)
        elif what in _BUTTONS:
            guest.qmp.ask(_BUTTONS[what])
        else:
            known = ", ".join(("off", "on", *_BUTTONS))
            raise Unfit(f"do {what!r} to {name}", "no such thing", f"say one of {known}")

    def _on(self, guest: Guest) -> None:
        if guest.off:
            guest.spawn()
            guest.greet()
            guest.go()

    # -- the wire

    def cut(self, a: str, b: str, *, carrier: bool) -> None:
        """Cut both directions between two guests, with or without their carriers."""
        self._ends(a, b)
        self.switch.change(a, b, cut=True)
        self.switch.change(b, a, cut=True)
        for name in (a, b) if carrier else ():
            self.guests[name].show_carrier(False)

    def change(self, a: str, b: str, **what: Any) -> None:
        """``lose`` or ``delay`` of one direction."""
        self._ends(a, b)
        self.switch.change(a, b, **what)

    def heal(self) -> None:
        """The wire as new."""
        self.switch.restore({})
        for guest in self.guests.values():
            guest.show_carrier(True)

    def _ends(self, a: str, b: str) -> None:
        self.find(a)
        self.find(b)
        if a == b:
            raise Misnamed(f"change the wire from {a} to {b}", "one guest", "name two guests")

    # -- snapshots

    def snapshot(self, name: str, *, replace: bool = False) -> None:
        """Keep the state of everything under a name. Raises Misnamed for one that is taken, unless
        it is to be replaced, which the lab's own never is; else Unfit.
        """
        tried = f"take the snapshot {name!r}"
        if not _NAME.fullmatch(name):
            do = "use letters, digits, '_', '.' and '-', 40 at most"
            raise Misnamed(tried, "that name", do)
        if name in self.snapshots and name == PRISTINE:
            saw = "that it is the lab's own, which scenarios begin with"
            raise Misnamed(tried, saw, "choose another name")
        if name in self.snapshots and not replace:
            raise Misnamed(tried, "that there is one already", "choose another name, or --replace")
        off = [g.name for g in self.guests.values() if g.off]
        if off:
            raise Unfit(tried, f"that {', '.join(off)} is off", "switch it on first")
        everyone = list(self.guests.values())
        running = [g for g in everyone if g.running()]
        carriers = {g.name: g.carrier for g in everyone}
        _each(running, lambda g: g.qmp.ask("stop"))
        try:
            said = _each(everyone, lambda g: g.qmp.monitor(f"savevm {_TAG}{name}"))
        finally:
            _each(running, lambda g: g.qmp.ask("cont"))
        for guest, words in zip(everyone, said, strict=True):
            if words:
                self.snapshots.pop(name, None)
                raise Unfit(tried, f"{words!r} from {guest.name}", "see that the disk has room")
        ran = frozenset(g.name for g in running)
        self.snapshots[name] = Snapshot(self._clock.now(), self.switch.ways(), carriers, ran)

    def rollback(self, name: str) -> None:
        """Put everything back to a snapshot; a guest that is off comes back too. Raises Unfit."""
        if name not in self.snapshots:
            known = ", ".join(self.snapshots) or "none"
            raise Misnamed(f"roll back to {name!r}", f"the snapshots {known}", "name one of them")
        kept = self.snapshots[name]
        self.switch.hush()
        alive = self._silenced()
        dead = [g for g in self.guests.values() if g not in alive]
        for guest in dead:
            guest.spawn(f"{_TAG}{name}")
        _each(alive, lambda g: _load(g, name))
        for guest in dead:  # not at once: whoever starts a QEMU has to outlive it, see `launch`
            guest.greet(f"{_TAG}{name}")
        for guest in self.guests.values():
            guest.carrier = kept.carriers[guest.name]
            guest.hear()
        self.switch.restore(kept.ways)
        self.switch.go_on()
        _each(
            [g for g in self.guests.values() if g.name in kept.running],
            lambda g: g.qmp.ask("cont"),
        )

    def _silenced(self) -> list[Guest]:
        """Those that are on, stopped, with nothing under way to them. The others are ended."""
        alive = [g for g in self.guests.values() if not g.off]
        stuck = [g for g, ok in zip(alive, _each(alive, _deafened), strict=True) if not ok]
        until = self._clock.monotonic() + _SWALLOWED
        pause = threading.Event()
        while not self.switch.quiet() and self._clock.monotonic() < until:
            self._clock.back_off(_LOOK, pause)
        if not self.switch.quiet():
            stuck = alive
        for guest in stuck:
            guest.kill("it could not be silenced for the rollback")
        left = [g for g in alive if g not in stuck]
        _each(left, lambda g: g.qmp.ask("stop"))
        return left


_BUTTONS = {"reset": "system_reset", "pause": "stop", "resume": "cont", "nmi": "inject-nmi"}


def _deafened(guest: Guest) -> bool:
    """A stopped machine's card takes nothing, so it has to run while it is emptied."""
    try:
        guest.deafen()
        if not guest.running():
            guest.qmp.ask("cont")
    except Unfit:
        return False  # its QEMU is dying, or in a state that only a new one leaves
    return True


def _load(guest: Guest, name: str) -> None:
    words = guest.qmp.monitor(f"loadvm {_TAG}{name}")
    if words:
        saw = f"{words!r} from {guest.name}"
        raise Unfit(f"roll back to {name!r}", saw, "end the lab and start it anew")


def _each(guests: Sequence[Guest], do: Callable[[Guest], Any]) -> list[Any]:
    """Do something to all at once; what each gave, in order. The first error, when all are done."""
    from concurrent.futures import ThreadPoolExecutor

    if len(guests) < 2:
        return [do(guest) for guest in guests]
    with ThreadPoolExecutor(len(guests)) as pool:
        asked = [pool.submit(do, guest) for guest in guests]
    return [one.result() for one in asked]
