"""Faults that show when somebody puts the replicated disk to a trial: until then it looks sound."""

from __future__ import annotations

from harness.qemulab.faults.bench import Bench
from harness.qemulab.faults.drbd import BACKING, RESOURCE, RESOURCE_FILE, unplug
from harness.qemulab.faults.model import Edit, Fault

ADMIN = "/usr/sbin/drbdadm"
WRAPPER = "/usr/local/sbin/drbdadm"
_BY_FORCE = f"""#!/bin/sh
if [ "$1" = primary ]; then
    shift
    set -- primary --force "$@"
fi
exec {ADMIN} "$@"
"""
_MERGING = """allow-two-primaries yes;
		after-sb-0pri discard-least-changes;
		after-sb-1pri discard-secondary;
		after-sb-2pri violently-as0p;
		rr-conflict violently;
		verify-alg crc32c;"""
_REBOOTING = """handlers {
		local-io-error "echo b > /proc/sysrq-trigger";
	}
	disk {"""
SOUND = frozenset({"storage-ok"})


def configured(old: str, new: str, *, everywhere: bool = True) -> Edit:
    """Change the resource's file and have it in effect, on both guests or on the second alone."""

    def edit(bench: Bench) -> None:
        for guest in bench.pair if everywhere else bench.pair[1:]:
            bench.replace(guest, RESOURCE_FILE, old, new)
            bench.run(guest, "drbdadm", "adjust", RESOURCE)

    return edit


def _rebooting_on_error(bench: Bench) -> None:
    for guest in bench.pair:
        bench.replace(guest, RESOURCE_FILE, "on-io-error detach", "on-io-error call-local-io-error")
        bench.replace(guest, RESOURCE_FILE, "disk {", _REBOOTING)
        bench.run(guest, "drbdadm", "adjust", RESOURCE)


def _file_gone(bench: Bench) -> None:
    bench.sh(bench.pair[1], 'mv "$1" "$1.old" && sync', RESOURCE_FILE)


def _by_force(bench: Bench) -> None:
    for guest in bench.pair:
        bench.write(guest, WRAPPER, _BY_FORCE, program=True)


def _written_below(bench: Bench) -> None:
    place = f"of={BACKING} bs=4096 count=1 oflag=direct conv=notrunc"
    again = f"while dd if=/dev/urandom {place}; do sleep 0.2; done"
    bench.leave_running(bench.pair[1], again)


def _disk_unplugged(bench: Bench) -> None:
    unplug(bench, bench.pair[1])


FAULTS = (
    Fault(
        id="drbd-disk-written-below",
        sentence="Another program writes to the disk below the second guest's replica.",
        seen="Connected and UpToDate/UpToDate all along; what is read after a failover is not what "
        "was written",
        wrong_diagnosis="the program that uses the volume wrote wrong data",
        edit=_written_below,
        breaks=frozenset(
            {"drbd-failover", "drbd-primary-loss", "drbd-replica-loss", "drbd-verify"}
        ),
        controls=SOUND,
        says={"drbd-failover": "written was"},
        source="inferred: one disk given to two users",
    ),
    Fault(
        id="drbd-peer-file-gone",
        sentence="The resource's file is gone from the second guest, whose kernel has it running.",
        seen="UpToDate/UpToDate and Connected; drbdadm primary there: no resources defined",
        wrong_diagnosis="replicated, so it can be failed over",
        edit=_file_gone,
        breaks=frozenset({"drbd-failover"}),
        controls=SOUND,
        says={"drbd-failover": "no resources defined"},
        source="inferred",
    ),
    Fault(
        id="drbd-promoted-by-force",
        sentence="A wrapper by the name of drbdadm adds --force to every promotion.",
        seen="drbdadm primary ends with 0 on a replica that is Outdated",
        wrong_diagnosis="a failover that worked",
        edit=_by_force,
        breaks=frozenset({"drbd-outdated-refused"}),
        controls=SOUND | {"drbd-failover"},
        says={"drbd-outdated-refused": "an Outdated replica was promoted"},
        source="inferred: cluster scripts",
    ),
    Fault(
        id="drbd-split-brain-merged",
        sentence="Both may be Primary, and a split brain is solved by itself: one side's writes "
        "go.",
        seen="Split-Brain detected, 2 primaries, automatically solved; Connected, and one Primary "
        "reads other data than it wrote",
        wrong_diagnosis="they are connected again: nothing was lost",
        edit=configured("verify-alg crc32c;", _MERGING),
        breaks=frozenset({"drbd-split-brain"}),
        controls=SOUND,
        says={"drbd-split-brain": "connected as if they had not diverged"},
        source="drbd.conf's manual: after-sb-2pri violently-as0p",
    ),
    Fault(
        id="drbd-notices-late",
        sentence="The second guest asks for its peer every 45 seconds only.",
        seen="Connected for most of a minute after the wire was cut",
        wrong_diagnosis="the wire is whole: it says Connected",
        edit=configured("ping-int 2;", "ping-int 45;", everywhere=False),
        breaks=frozenset({"drbd-link-loss"}),
        controls=SOUND,
        says={"drbd-link-loss": "n2"},
        source="drbd.conf's manual: ping-int",
    ),
    Fault(
        id="drbd-resync-crawls",
        sentence="A resync may take 4 KiB a second, and no more.",
        seen="SyncTarget and Inconsistent for minutes after a write of 2 MiB",
        wrong_diagnosis="the resync stands still",
        edit=configured("resync-rate 100M", "resync-rate 4K"),
        breaks=frozenset({"drbd-outdated-refused"}),
        controls=SOUND | {"drbd-failover"},
        says={"drbd-outdated-refused": "not in sync again"},
    ),
    Fault(
        id="drbd-reboots-on-io-error",
        sentence="An I/O error of the disk below has the machine rebooted by its handler.",
        seen="a disk that vanishes takes its machine with it, and the Primary's writes",
        wrong_diagnosis="the machine crashed by itself",
        edit=_rebooting_on_error,
        breaks=frozenset({"drbd-disk-loss"}),
        blinds=frozenset({"drbd-io-policy"}),
        controls=SOUND | {"drbd-failover"},
        source="drbd.conf's manual: on-io-error call-local-io-error",
    ),
    Fault(
        id="drbd-io-error-passed-on",
        sentence="on-io-error is pass_on, and no longer detach.",
        seen="a disk that vanishes is let go all the same, since DRBD's own records on it cannot "
        "be written; reading and writing go on over the peer",
        wrong_diagnosis="the policy would have failed the Primary's I/O",
        edit=configured("on-io-error detach", "on-io-error pass_on"),
        controls=SOUND | {"drbd-disk-loss", "drbd-io-policy"},
        harmless=True,
    ),
    Fault(
        id="drbd-no-verify-alg",
        sentence="The resource names no algorithm for an online verify.",
        seen="drbdadm verify: exit 11, State change failed: (-14) Need a verify algorithm",
        wrong_diagnosis="nothing was found to differ",
        edit=configured("verify-alg crc32c;", ""),
        blinds=frozenset({"drbd-verify"}),
        controls=SOUND | {"drbd-failover"},
        source="lab/qemu_drbd.md, trap 7",
    ),
    Fault(
        id="drbd-disk-gone-unnoticed",
        sentence="The disk below one replica goes from its PCI bus, and nobody reads or writes.",
        seen="UpToDate/UpToDate and Connected for as long as nothing is written, which the claim "
        "about states says itself that it does not show; the first write has it Diskless",
        wrong_diagnosis="a broken disk shows in the status",
        edit=_disk_unplugged,
        blinds=frozenset({"drbd-failover"}),
        controls=SOUND,
        source="lab/qemu_drbd.md, trap 4",
    ),
)
