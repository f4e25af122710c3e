"""A hypervisor's kernel, as far as somebody asks it: its boot, and the ring buffer of its log."""

from __future__ import annotations

import random
import uuid
from collections import deque
from collections.abc import Callable

from harness.twin.world.drbd_state import VERSION

RING_BYTES = 256 * 1024
_TICK = 0.000213  # seconds between two lines logged at one moment
GIT = "4ec72ccf603ed4a473d87ed0d4544bf52f13fc0f"
PROC_DRBD = (
    f"version: {VERSION} (api:2/proto:118-123)\n"
    f"GIT-hash: {GIT} build by @buildkitsandbox, 2026-01-15 11:20:41\n"
    f"Transports (api:21): tcp ({VERSION})\n"
)
"""/proc/drbd of DRBD 9: versions and no state (lab/captures)."""
_LOADED = (
    "drbd: loading out-of-tree module taints kernel.",
    f"drbd: initialized. Version: {VERSION} (api:2/proto:118-123)",
    f"drbd: GIT-hash: {GIT} build by @buildkitsandbox, 2026-01-15 11:20:41",
    "drbd: registered as block device major 147",
    f"drbd: registered transport class 'tcp' (version:{VERSION})",
)
_MODULES_AT = 21.4  # uptime at which the satellite's loader has loaded the module (order)


class HostKernel:
    """One hypervisor's kernel over its boots. ``boot_id`` is that of this boot."""

    def __init__(
        self, name: str, boot_id: str, clock: Callable[[], float], *, age: float, release: str
    ) -> None:
        self.name, self.boot_id, self.release = name, boot_id, release
        self._clock = clock
        self._started = clock() - age
        self._ring: deque[str] = deque()
        self._size = 0
        self._stamp = 0.0
        self._banner()

    def boot(self, rng: random.Random) -> None:
        """Start afresh: another boot id, an empty log."""
        self.boot_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        self._started = self._clock()
        self._ring.clear()
        self._size, self._stamp = 0, 0.0
        self._banner()

    @property
    def uptime(self) -> float:
        """Seconds since this boot began."""
        return self._clock() - self._started

    def log(self, text: str, *, at: float | None = None) -> None:
        """Write a line to the ring buffer, at this moment or at an uptime."""
        self._stamp = max(self.uptime if at is None else at, self._stamp + _TICK)
        line = f"[{self._stamp:12.6f}] {text}\n"
        self._ring.append(line)
        self._size += len(line)
        while self._size > RING_BYTES:
            self._size -= len(self._ring.popleft())

    def dmesg(self) -> str:
        """The ring buffer as ``dmesg`` prints it."""
        return "".join(self._ring)

    def _banner(self) -> None:
        release = self.release
        self.log(
            f"Linux version {release} (@buildkitsandbox) (gcc (GCC) 15.2.0, GNU ld (GNU Binutils) "
            "2.45) #1 SMP Thu Apr 16 09:12:44 UTC 2026",
            at=0.0,
        )
        self.log("Command line: talos.platform=metal console=ttyS0 slab_nomerge pti=on", at=0.0)
        for line in _LOADED:
            self.log(line, at=_MODULES_AT)
