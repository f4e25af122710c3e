"""What was seen of a machine that was made to boot anew: its boot ids, its uptime, its console.

The boot id changes with every boot and with nothing else; "Linux version" on a console comes again
whenever somebody prints the kernel's log (lab/qemu_drbd.md, Console and Reboots).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.facts.boots import BootLook
from harness.facts.fact import Fact, Unread


class RebootKind(StrEnum):
    """How a machine is made to boot anew."""

    INSIDE = "inside"
    """Its own system is told to."""
    RESET = "reset"
    """The reset button: nothing in it is asked."""
    SYSRQ = "sysrq"
    """Its kernel is told to at once: ``b`` to /proc/sysrq-trigger."""
    PANIC = "panic"
    """Its kernel panics and boots after ``kernel.panic`` seconds: ``c`` to the same file."""
    NMI = "nmi"
    """Its kernel panics on an interrupt from outside."""


@dataclass(frozen=True, slots=True)
class ConsoleHeard:
    """What a console carried between two moments.

    ``attached``: one and the same connection held from before the first to after the second, and
    ``ended`` says how it ended where it did not. ``size`` in bytes; ``banners`` counts the lines
    with which a kernel begins, ``banner_after`` the seconds to the first of them, None without any.
    ``lost``: it ended while the machine ran on: another client took it, or the way was cut. What
    was printed since is not known, and says nothing of the machine.
    """

    attached: bool
    ended: str
    size: int
    banners: int
    banner_after: float | None
    lost: bool = False


@dataclass(frozen=True, slots=True)
class RebootTrial(Fact):
    """One reboot that was ordered, and what was seen of it.

    ``ordered`` is the moment, in epoch seconds, and ``order_said`` what came back, and why no other
    boot was seen where none was. ``looks`` are
    the boots seen, in their order: the last before it, the last at the old boot after it where
    there was one, the first at another boot, and one more a little later. ``seconds`` from the
    order until the shell told of another boot, None where it never did in ``waited`` seconds.
    """

    how: RebootKind
    ordered: float
    looks: tuple[BootLook, ...]
    console: ConsoleHeard
    seconds: float | None
    waited: float
    order_said: str

    @property
    def boot_ids(self) -> tuple[str, ...]:
        """The boot ids seen, in their order; one that comes back comes twice."""
        ids: list[str] = []
        for look in self.looks:
            if not ids or ids[-1] != look.boot_id:
                ids.append(look.boot_id)
        return tuple(ids)


@dataclass(frozen=True, slots=True)
class RebootNotRun(Fact):
    """A kind of reboot that this lab has no way to bring about, and why."""

    how: RebootKind
    why: str


@dataclass(frozen=True, slots=True)
class BannerDecoy(Fact):
    """The kernel's log was printed on the console while nothing was rebooted.

    ``looks`` are before and after it; ``printed`` is whether the command ended well.
    """

    looks: tuple[BootLook, ...]
    console: ConsoleHeard
    printed: bool
    said: str


@dataclass(frozen=True, slots=True)
class Reboots:
    """All that was tried on one machine."""

    decoy: BannerDecoy | Unread
    trials: tuple[RebootTrial | RebootNotRun | Unread, ...]
