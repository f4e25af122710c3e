"""A person's terminal on a guest's console."""

from __future__ import annotations

import os
import select
import sys
import termios
import tty
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.reach.serial import SerialConsole

ESCAPE = b"\x1d"
"""Ctrl-], as in telnet and virsh."""

_LOOK = 0.02  # seconds between two looks at what the guest has printed
_PIECE = 16 * 1024


def attach(console: SerialConsole) -> int:
    """Pass keys and output both ways until the escape key, or until the guest's end; 0."""
    keys, screen = sys.stdin.fileno(), sys.stdout.fileno()
    told = f"attached to the console of {console.name}; Ctrl-] lets go (Enter shows a prompt)\r\n"
    os.write(screen, told.encode())
    before = termios.tcgetattr(keys)
    try:
        tty.setraw(keys)
        _pass(console, keys, screen)
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)
        console.close()
    ending = console.ending
    os.write(screen, f"\nlet go: {ending.told if ending else 'it goes on'}\n".encode())
    return 0


def _pass(console: SerialConsole, keys: int, screen: int) -> None:
    shown = console.capture.size
    while True:
        ended = console.ending is not None
        # the drain thread empties the line, so that a stopped terminal holds up no guest
        text = console.capture.text(shown)
        shown = max(shown, console.capture.dropped) + len(text)
        if text:
            os.write(screen, text)
        if ended:
            return
        ready, _, _ = select.select([keys], [], [], _LOOK)
        if not ready:
            continue
        typed = os.read(keys, _PIECE)
        before, escape, _ = typed.partition(ESCAPE)
        if before and console.ending is None:
            console.send(before)
        if escape or not typed:
            return
