"""A VMI's console that goes on when the VMI is replaced: one capture, with a seam in it.

A console's socket ends with the VMI, and with its migration (uptime_and_diagnosis.md section 4).
The one that takes its place under the same name (a VM that was restarted, a launcher that crashed)
has another UID and a console of its own; one that was migrated has a console on another host. What
it printed before it was attached to is nowhere. So the seam stands in the capture as text, and in
`LastingConsole.seams`.

A console that somebody else took is not taken back: a person may sit there. Its capture ends.

The successor is taken up by whoever looks (`Capture.wait`, `Capture.settle`), never by a thread of
its own accord: on virtual time that makes the moment the same in each run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.reach.capture import KEEP, Capture, Ending, How
from harness.reach.console import Console, host_of
from harness.reach.errors import LabError

if TYPE_CHECKING:
    from harness.reach.kube import Kube

EVERY = 2.0
"""The shortest time between two looks for a successor, in seconds of the lab's time."""
_GOES_ON = (How.GONE, How.MOVED)
_API, _KIND = "kubevirt.io/v1", "VirtualMachineInstance"


@dataclass(frozen=True, slots=True)
class Seam:
    """Where one VMI's output ends and its successor's begins.

    Both are one where it was migrated. ``offset`` is where the seam's own text begins in the
    capture; ``ended`` and ``at`` are the lab's time of the end of the one and of attaching to the
    other.
    """

    before: str
    after: str
    offset: int
    ended: float
    at: float

    def __str__(self) -> str:
        after = f"{self.at - self.ended:.0f} s later; what it printed until then is not here]"
        if self.before == self.after:
            return f"[console: VMI {self.before} was migrated; attached to it anew {after}"
        became = f"VMI {self.before} went; attached to {self.after}, which took its place,"
        return f"[console: {became} {after}"


class LastingConsole:
    """An attached console, over all VMIs of one name. Made by `attach`.

    ``capture`` holds what they printed. ``ending`` is None while one is attached, and while none is
    there to attach to; it is set where somebody took the console or the way to it broke.
    """

    def __init__(self, kube: Kube, namespace: str, name: str, keep: int) -> None:
        self.namespace = namespace
        self.name = name
        self.seams: list[Seam] = []
        called = f"console {namespace}/{name}"
        self.capture = Capture(kube.clock, called, keep=keep, settle=self.settle)
        self._kube = kube
        self._console = self._attach()
        self._looked = kube.clock.now()

    @classmethod
    def attach(cls, kube: Kube, namespace: str, name: str, *, keep: int = KEEP) -> LastingConsole:
        """Attach to a running VMI. Raises as `harness.reach.console.Console.attach` does."""
        return cls(kube, namespace, name, keep)

    @property
    def uid(self) -> str:
        """UID of the VMI that is, or was last, attached to."""
        return self._console.uid

    @property
    def ending(self) -> Ending | None:
        """How it ended; None as long as it goes on."""
        return self.capture.ending

    def send(self, data: bytes) -> None:
        """Type something. Raises Unreachable where none is attached now."""
        self._console.send(data)

    def settle(self) -> None:
        """Have everything in that was printed up to now; take a successor up that is there."""
        ending = self._console.ending
        if ending is None:
            if self._kube.clock.follows:
                self._console.settle()
            ending = self._console.ending
        if ending is not None and ending.how in _GOES_ON and self.ending is None:
            self._take_up(ending)

    def close(self) -> None:
        """Detach; the capture stays. Closing twice is fine."""
        self._console.close()
        ending = self._console.ending
        if ending is not None:
            self.capture.end(ending.how, ending.told)

    def _attach(self) -> Console:
        part = _Part(self._kube, self.capture)
        return Console.attach(self._kube, self.namespace, self.name, capture=part)

    def _take_up(self, ending: Ending) -> None:
        now = self._kube.clock.now()
        if now - self._looked < EVERY:
            return
        self._looked = now
        try:
            if not self._is_succeeded():
                return
            before, self._console = self._console.uid, self._attach()
        except LabError:
            return  # it is not there yet, or not yet to be reached: the next look tries again
        seam = Seam(before, self._console.uid, self.capture.size, ending.at, now)
        self.seams.append(seam)
        self.capture.add(f"\r\n{seam}\r\n".encode())

    def _is_succeeded(self) -> bool:
        """Whether another VMI runs under the name, or the same on another host. Raises LabError."""
        found = self._kube.get(_API, _KIND, self.namespace, self.name) or {}
        metadata, status = found.get("metadata") or {}, found.get("status") or {}
        another = metadata.get("uid") not in (None, self._console.uid)
        moved = host_of(found) not in ("", self._console.host)
        return (another or moved) and status.get("phase") == "Running"


class _Part(Capture):
    """What one VMI prints: handed on to the whole, which its going does not end."""

    def __init__(self, kube: Kube, whole: Capture) -> None:
        super().__init__(kube.clock, whole.name, keep=1)
        self._whole = whole

    def add(self, data: bytes) -> None:
        """Take in what has just arrived."""
        self._whole.add(data)

    def end(self, how: How, told: str) -> None:
        """This VMI's console is over; where others took it or it broke, so is the whole."""
        super().end(how, told)
        ending = self.ending
        if ending is not None and ending.early and ending.how not in _GOES_ON:
            self._whole.end(ending.how, ending.told)
