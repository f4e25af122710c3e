"""A machine's console while it is attached, whatever carries it."""

from __future__ import annotations

from typing import Protocol

from harness.reach.capture import Capture, Ending


class AttachedConsole(Protocol):
    """KubeVirt's console and a serial socket's both are one; see `harness.reach`."""

    capture: Capture
    """What it has printed since it was attached."""

    @property
    def ending(self) -> Ending | None:
        """How it ended, None while it is attached."""

    def close(self) -> None:
        """Detach; what was captured stays."""
