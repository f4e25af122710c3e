"""A machine's power and the wire between machines, as a driver for any of them offers them.

The mini-lab's driver speaks QMP to QEMU (`harness.qemulab.lab`). A driver for a real machine has
the same face: the docstrings say which requests of Redfish (DSP2046, ComputerSystem.Reset) and IPMI
(2.0, Chassis Control; sensors, SEL and power policy are not needed) are meant, and what has to be
true when a call returns. Nothing here waits for an operating system: whoever switched a machine
on looks at its console or logs in.

Every call raises a LabError (``tried``, ``saw``, ``do``) where the machine or its manager does not
answer or refuses; none is tried twice.
"""

from __future__ import annotations

from typing import Protocol


class Power(Protocol):
    """The power of one machine. Calls return when the machine has taken the state, not before."""

    def reset(self) -> None:
        """Press the reset button: the machine starts anew without being asked.

        Redfish ``ForceRestart``, IPMI ``chassis power reset``. Memory is lost, disks keep what had
        reached them. Raises a LabError where the machine is off, as both of those refuse it.
        """

    def off(self) -> None:
        """Pull the plug: nothing is flushed, nobody is told. No error where it is off already.

        Redfish ``ForceOff`` (not ``GracefulShutdown``), IPMI ``chassis power off``. A driver polls
        the manager until it reports the machine as off.
        """

    def on(self) -> None:
        """Switch on: a cold start from the disks as they are. No error where it is on already.

        Redfish ``On``, IPMI ``chassis power on``. A driver that cannot tell whether the machine is
        on asks first, since some managers refuse a second ``On``.
        """

    def pause(self) -> None:
        """Have the machine stand still, its own clock too, with all it holds. Redfish ``Pause``.

        IPMI has nothing of the kind: such a driver raises a LabError and does nothing.
        """

    def resume(self) -> None:
        """Let a paused machine go on as if no time had passed. Redfish ``Resume``."""

    def nmi(self) -> None:
        """Inject a non-maskable interrupt; a kernel with ``unknown_nmi_panic`` panics on it.

        Redfish ``Nmi``, IPMI ``chassis power diag``. Whether it panics is the kernel's affair.
        """


class Link(Protocol):
    """The wires on which machines replicate. Machines go by the lab's names for them ("n1").

    On real hardware a driver sets a switch's ports (carrier) or filters and queueing on a machine
    in between (loss, delay); one that has neither raises a LabError.
    Effects add up until `heal`: a link may be slow and lossy at once. Giving 0 ends one of them.
    """

    def cut(self, a: str, b: str, *, carrier: bool = False) -> None:
        """Cut the wire between two machines, both ways.

        Without ``carrier`` frames vanish and neither end sees a thing. With it both ends see their
        carrier go, as with an unplugged cable; a machine's only port then loses everyone on it.
        """

    def lose(self, a: str, b: str, share: float) -> None:
        """Lose a share (0 to 1) of the frames from ``a`` to ``b``; the other way stays as it is."""

    def delay(self, a: str, b: str, seconds: float) -> None:
        """Deliver each frame from ``a`` to ``b`` that many seconds later, in order."""

    def heal(self) -> None:
        """Everything as it was, on every wire, carriers too."""
