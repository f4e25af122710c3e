"""A storage node lost beneath a running worker: who stood where, what was written, what came of it.

The disk is the worker's own, so that nothing is written to it but files, by the worker itself. What
the kernels below it count of reads and writes tells whether bytes went through the disk or stayed
in a page cache (drbdsetup(8): ``status --statistics``, KiB).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from harness.facts.drbd import DrbdStatus
from harness.facts.drbdtrials import Act, DrbdTrial, Waited
from harness.facts.fact import Fact

SUSPEND, FAIL = "suspend-io", "io-error"
"""What ``DrbdOptions/auto-quorum`` of a class may ask for without a quorum (objects.md 8)."""
POLICY = "property.linstor.csi.linbit.com/DrbdOptions/auto-quorum"
"""The StorageClass' parameter of that."""
_DIGEST = re.compile(r"(?P<digest>[0-9a-f]{64}) [ *](?P<path>.+)")


@dataclass(frozen=True, slots=True)
class StorageHost:
    """A node of the management cluster. ``machines`` are the VMIs on it, "namespace/name".

    ``control`` is whether it is a control plane node, ``answers`` whether the management API is
    reached at its own address, ``tenant`` whether a pod of the tenant's control plane runs there.
    """

    name: str
    ready: bool
    control: bool
    answers: bool
    tenant: bool
    machines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StorageHosts(Fact):
    """Every node of the management cluster, by name."""

    hosts: tuple[StorageHost, ...]

    def of(self, name: str) -> StorageHost | None:
        """The node of this name, None where there is none."""
        return next((one for one in self.hosts if one.name == name), None)


@dataclass(frozen=True, slots=True)
class Counters:
    """What a storage node's kernel has counted of a disk: bytes read and written there, None where
    it does not say.
    """

    read: int | None = None
    written: int | None = None


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that the worker wrote to its disk and read back when all was over.

    ``wrote`` is the writing, which ends when the bytes are on the disk; ``digest`` the SHA-256 of
    the file just after it, ``read`` that of the file in the end, each "" where not read. ``before``
    and ``after`` are the storage node's counters around the writing, ``spanned`` the worker's own
    seconds of uptime, None where not told.
    """

    path: str
    size: int
    wrote: Act
    digest: str
    before: Counters
    after: Counters
    spanned: tuple[float | None, float | None] = (None, None)
    read: str = ""

    @property
    def took(self) -> float | None:
        """Seconds of the worker's time for the writing, None where not known."""
        began, ended = self.spanned
        return None if began is None or ended is None else ended - began


@dataclass(frozen=True, slots=True)
class NodeLoss:
    """A storage node switched off, and on again.

    ``wrote`` is the file written while it was off, ``noticed`` the wait for those that remained to
    know, ``boots`` its boot ids before and after, ``resynced`` the wait for all to be in sync.
    """

    node: str
    off: Act
    wrote: KeptFile
    noticed: Waited
    boots: tuple[str, str]
    resynced: Waited | None


@dataclass(frozen=True, slots=True)
class Freeze:
    """The worker's storage node parted from the majority with a write under way, and joined again.

    ``parted`` is what was done; ``switched_off`` names the nodes that were, none where the wires
    were cut. ``lost`` is the wait for it to know of no quorum. ``pending`` is what was known of
    the write just before the others came back, ``ended`` what came of it; ``spanned`` are the
    worker's own seconds of uptime just before and just after the write, None where not told.
    ``moved``: its VMI was another one afterwards.
    """

    parted: tuple[Act, ...]
    switched_off: tuple[str, ...]
    lost: Waited
    pending: Act
    ended: Act
    spanned: tuple[float | None, float | None]
    resynced: Waited | None
    moved: bool


@dataclass(frozen=True, slots=True)
class NotTried:
    """Something that was not done, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class DiskFailover(DrbdTrial):
    """A worker's disk put to the loss of storage nodes. ``primary`` is the one that it works on.

    ``policy`` is what its class asks for without a quorum, "" where it names nothing. ``first`` was
    written before anything else. ``reading`` are the storage node's counters just before and just
    after the files were read in the end; ``dropped`` is the dropping of the worker's page cache.
    ``boots`` are the worker's boot ids before and after.
    """

    worker: str
    policy: str
    hosts: StorageHosts
    first: KeptFile
    loss: NodeLoss
    freeze: Freeze | NotTried
    dropped: Act
    reading: tuple[Counters, Counters]
    files: tuple[KeptFile, ...]
    boots: tuple[str, str]


def counters(answer: object, resource: str) -> Counters:
    """What a node's ``drbdsetup status --json --statistics`` counts of a resource. Never raises."""
    if not isinstance(answer, DrbdStatus):
        return Counters()
    try:
        said: Any = json.loads(answer.origin.raw)
    except ValueError:
        return Counters()
    for one in said if isinstance(said, list) else ():
        if isinstance(one, dict) and one.get("name") == resource:
            devices = one.get("devices")
            device = devices[0] if isinstance(devices, list) and devices else {}
            return Counters(_bytes(device, "read"), _bytes(device, "written"))
    return Counters()


def read_digest(text: str, path: str) -> str:
    """The checksum in what ``sha256sum PATH`` printed, "" where there is none of this file."""
    for line in text.splitlines():
        found = _DIGEST.fullmatch(line.strip())
        if found is not None and found["path"] == path:
            return found["digest"]
    return ""


def read_span(text: str) -> tuple[float | None, int | None, float | None]:
    """A write's own record: uptime before it, its exit status, uptime after it; None for what it
    does not say (yet). Two lines of /proc/uptime with the status between them.
    """
    lines = text.splitlines()
    began, ended = (_uptime(lines[at]) if len(lines) > at else None for at in (0, 2))
    status = lines[1].strip() if len(lines) > 1 else ""
    return began, int(status) if status.isdecimal() else None, ended


def _uptime(line: str) -> float | None:
    found = re.fullmatch(r"(\d+(?:\.\d+)?) \d+(?:\.\d+)?", line.strip())
    return float(found[1]) if found is not None else None


def _bytes(device: Any, key: str) -> int | None:
    kib = device.get(key) if isinstance(device, dict) else None
    return kib * 1024 if isinstance(kib, int) and not isinstance(kib, bool) and kib >= 0 else None
