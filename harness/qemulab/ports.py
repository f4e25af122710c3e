"""Free ports of the loopback for guests' SSH."""

from __future__ import annotations

import random
import socket

from harness.qemulab.errors import Unfit

FIRST, LAST = 20000, 32000
"""Below what Linux gives to outgoing connections (32768 up): those would take one at any time."""

_TRIES = 200


def is_free(port: int) -> bool:
    """Whether nobody listens on 127.0.0.1 there, at this moment."""
    with socket.socket() as line:
        try:
            line.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that is free at this moment; whoever binds it may still come too late."""
    chance = random.SystemRandom()
    for _ in range(_TRIES):
        port = chance.randint(FIRST, LAST)
        if is_free(port):
            return port
    saw = f"none free in {_TRIES} tries between {FIRST} and {LAST}"
    raise Unfit("find a port for a guest's SSH", saw, "see what listens there (ss -ltn)")
