"""A person's terminal on a guest's console."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from harness.reach.terminal import Looking, look

if TYPE_CHECKING:
    from harness.clock import Clock
    from harness.reach.serial import SerialConsole


def attach(console: SerialConsole, clock: Clock) -> int:
    """Pass keys and output both ways until the escape key, or until the guest's end; 0."""
    keys, screen = sys.stdin.fileno(), sys.stdout.fileno()
    told = f"attached to the console of {console.name}; Ctrl-] lets go (Enter shows a prompt)\r\n"
    os.write(screen, told.encode())
    try:
        look(console, clock, Looking(screen, keys))
    finally:
        console.close()
    ending = console.ending
    os.write(screen, f"\nlet go: {ending.told if ending else 'it goes on'}\n".encode())
    return 0
