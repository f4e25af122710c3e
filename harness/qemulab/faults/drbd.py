"""Faults of the replicated disk as it stands: what is wrong before anybody puts it to a trial."""

from __future__ import annotations

from harness.qemulab.faults.bench import Bench
from harness.qemulab.faults.model import Fault

RESOURCE = "r0"
DEVICE = "/dev/drbd0"
BACKING = "/dev/vdb"
RESOURCE_FILE = "/etc/drbd.d/r0.res"
ALONE = "WFConnection"
"""How 8.4's drbdadm calls the connection of one whose peer is gone: it waits for one."""
BLOCK = 65536
BEYOND = 512
"""The first block, of 64 KiB each, of those that no trial writes to; the disk has a thousand."""

STANDS = frozenset({"modules-live"})
"""A claim of the same guests that no state of their disk touches."""


def cstate(bench: Bench, guest: str, wanted: str) -> None:
    """Wait for a connection state, as `drbdadm cstate` calls it."""
    bench.until(guest, ("drbdadm", "cstate", RESOURCE), wanted)


def write(bench: Bench, guest: str, first: int, device: str = DEVICE, count: int = 1) -> None:
    """Write random blocks. The guest has to be Primary where the device is DRBD's."""
    place = (f"bs={BLOCK}", f"count={count}", f"seek={first}", "oflag=direct", "conv=fsync")
    bench.run(guest, "dd", "if=/dev/urandom", f"of={device}", *place)


def _link_cut(bench: Bench) -> None:
    one, other = bench.pair
    bench.lab.link().cut(one, other)
    for guest in bench.pair:
        cstate(bench, guest, ALONE)


def _peer_off(bench: Bench) -> None:
    one, other = bench.pair
    bench.lab.power(other).off()
    cstate(bench, one, ALONE)


def _split_brain(bench: Bench) -> None:
    one, other = bench.pair
    _link_cut(bench)
    for guest in (one, other):
        bench.run(guest, "drbdadm", "primary", RESOURCE)
        write(bench, guest, BEYOND)
        bench.run(guest, "drbdadm", "secondary", RESOURCE)
    bench.lab.link().heal()
    for guest in (one, other):
        cstate(bench, guest, "StandAlone")


def _out_of_sync(bench: Bench) -> None:
    one, other = bench.pair
    write(bench, other, BEYOND, BACKING)
    bench.run(one, "drbdadm", "verify", RESOURCE)
    status = ("drbdsetup", "status", RESOURCE, "--verbose", "--statistics")
    bench.until(one, status, "out-of-sync:64")
    cstate(bench, one, "Connected")


def _disk_lost(bench: Bench) -> None:
    one, other = bench.pair
    bench.run(one, "drbdadm", "primary", RESOURCE)
    unplug(bench, other)
    write(bench, one, BEYOND)
    bench.until(other, ("drbdadm", "dstate", RESOURCE), "Diskless/")


def unplug(bench: Bench, guest: str) -> None:
    """Take the disk below from the guest's PCI bus."""
    bench.sh(guest, 'echo 1 >"$(readlink -f /sys/block/vdb/device)/../remove"')


def _held_open(bench: Bench) -> None:
    one = bench.pair[0]
    bench.run(one, "drbdadm", "primary", RESOURCE)
    bench.leave_running(one, f"exec sleep 86400 <{DEVICE}")
    bench.until(one, ("sh", "-c", "ls -l /proc/[0-9]*/fd 2>&1"), DEVICE)


def _one_side_missing(bench: Bench) -> None:
    bench.run(bench.pair[1], "drbdadm", "down", RESOURCE)


def _io_frozen(bench: Bench) -> None:
    bench.run(bench.pair[0], "drbdsetup", "suspend-io", "0")


FAULTS = (
    Fault(
        id="drbd-link-cut",
        sentence="The wire between the two guests loses every frame; both keep their carrier.",
        seen="drbdadm status ends with 0: disk:UpToDate, connection:Connecting, no peer-disk",
        wrong_diagnosis="UpToDate, and no error: all is well",
        edit=_link_cut,
        breaks=frozenset({"storage-ok"}),
        controls=STANDS,
        says={"storage-ok": "Connecting"},
        source="lab/qemu_drbd.md, trap 2",
    ),
    Fault(
        id="drbd-peer-off",
        sentence="The other guest is switched off.",
        seen="Connecting and UpToDate on the one that is left, which writes on",
        wrong_diagnosis="nothing: whoever asks the one that runs is told of no error",
        edit=_peer_off,
        breaks=frozenset({"storage-ok"}),
        controls=frozenset(),
        says={"storage-ok": "Connecting"},
        source="lab/qemu_drbd.md, trap 2",
    ),
    Fault(
        id="drbd-split-brain-left",
        sentence="Both guests were written to while they were cut off from each other, and stay "
        "apart.",
        seen="StandAlone on both; Split-Brain in the kernels' logs; drbdadm status shows UpToDate "
        "and no peer at all",
        wrong_diagnosis="UpToDate on both: all is well",
        edit=_split_brain,
        breaks=frozenset({"storage-ok"}),
        blinds=frozenset({"drbd-failover"}),
        controls=STANDS,
        says={"storage-ok": "StandAlone"},
        source="lab/qemu_drbd.md, trap 1",
    ),
    Fault(
        id="drbd-out-of-sync",
        sentence="A block differs between the two disks; an online verify has counted it.",
        seen="Connected, UpToDate/UpToDate on both sides, and out-of-sync:64",
        wrong_diagnosis="UpToDate/UpToDate means the same bytes",
        edit=_out_of_sync,
        breaks=frozenset({"storage-ok"}),
        controls=STANDS,
        says={"storage-ok": "out of sync by 65536"},
        source="lab/qemu_drbd.md, trap 3",
    ),
    Fault(
        id="drbd-disk-lost",
        sentence="The disk below one replica goes from its PCI bus, and one block is written.",
        seen="Diskless there, UpToDate/Diskless on the other; reading and writing go on",
        wrong_diagnosis="I/O works, so both replicas do",
        edit=_disk_lost,
        breaks=frozenset({"storage-ok"}),
        controls=STANDS,
        says={"storage-ok": "Diskless"},
        source="lab/qemu_drbd.md, trap 4",
    ),
    Fault(
        id="drbd-peer-down",
        sentence="The resource was taken down on one guest, by hand.",
        seen="no such resource there; Connecting and UpToDate on the other",
        wrong_diagnosis="the network between them",
        edit=_one_side_missing,
        breaks=frozenset({"storage-ok"}),
        controls=STANDS,
        says={"storage-ok": "no such resource"},
    ),
    Fault(
        id="drbd-io-suspended",
        sentence="I/O of one guest's disk was suspended, and nobody has resumed it.",
        seen="UpToDate/UpToDate and Connected; suspended:user; whoever writes stands still",
        wrong_diagnosis="the program that writes hangs",
        edit=_io_frozen,
        breaks=frozenset({"storage-ok"}),
        controls=STANDS,
        says={"storage-ok": "suspended"},
        source="drbdsetup's manual: suspend-io",
    ),
    Fault(
        id="drbd-held-open",
        sentence="A process holds the device open on the Primary.",
        seen="drbdadm secondary: exit 11, State change failed: (-12) Device is held open by "
        "someone",
        wrong_diagnosis="the volume cannot be failed over: it can, once that process ends",
        edit=_held_open,
        blinds=frozenset({"drbd-failover"}),
        controls=frozenset({"storage-ok"}),
        says={"drbd-failover": "held open"},
        source="lab/qemu_drbd.md, trap 7",
    ),
)
