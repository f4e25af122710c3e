"""The claim that a disk has the class, the access mode and the size that were asked for, also to
the guest."""

from __future__ import annotations

from harness.facts.clones import DiskRefused, DiskSource, WantedDisk
from harness.facts.diskclaims import DiskClaim, Migration
from harness.facts.fact import Unread
from harness.facts.goldens import Golden, GoldenAbsent
from harness.facts.guestdisk import GuestDisk
from harness.facts.quantity import told
from harness.judge.proofs import Proofs
from harness.judge.verdict import Verdict
from harness.judge.wording import named

_CLAIM = "disk-shape"
_SHARED = "ReadWriteMany"
_DISK = "DisksNotLiveMigratable"
_CARD = "HostDeviceNotLiveMigratable"


def disk_shape(
    source: DiskSource | DiskRefused | Unread,
    claim: DiskClaim | Unread,
    migration: Migration | Unread,
    guest: GuestDisk | Unread,
    golden: Golden | GoldenAbsent | Unread | None,
    wanted: WantedDisk,
    subject: str,
) -> Verdict:
    """disk-shape: class, ReadWriteMany, at least as many bytes as asked for, in the guest too.

    On a class without DRBD no disk can be ReadWriteMany, and none is asked to be.

    Sizes are compared in bytes (20G is less than 20Gi). A claim's capacity is not what the guest
    has: /dev/vda must be as large. Where the disk is a clone, ``golden`` is what it grew from, None
    for a download. ReadWriteOnce is judged by the PVC; the VMI's reason is told with it, and only
    DisksNotLiveMigratable is the disk's: HostDeviceNotLiveMigratable comes with a card
    (clone_path section 8).
    """
    facts = [source, claim, migration, guest, *([golden] if golden is not None else [])]
    found = Proofs()
    if isinstance(source, DiskRefused):
        found.open.append(f"there is no disk: {source.message}")
        return found.verdict(_CLAIM, subject, *facts)
    found.unread(source, claim, migration, guest)
    if not isinstance(claim, Unread):
        _class(found, claim, wanted)
        _access(found, claim, source, migration, wanted)
        _capacity(found, claim, wanted)
    if not isinstance(migration, Unread):
        _migration(found, migration, wanted)
    if not isinstance(guest, Unread):
        _guest(found, guest, wanted, golden)
    return found.verdict(_CLAIM, subject, *facts)


def _class(found: Proofs, claim: DiskClaim, wanted: WantedDisk) -> None:
    if not wanted.storage_class:
        found.aside.append(f"class {claim.storage_class or 'none'}, of the cluster's choice")
    elif claim.storage_class != wanted.storage_class:
        has = claim.storage_class or "no class"
        found.broken.append(f"PVC {claim.claim} is of {has}, not of {wanted.storage_class}")
    else:
        found.shown.append(f"class {claim.storage_class}")


def _access(
    found: Proofs,
    claim: DiskClaim,
    source: DiskSource | Unread,
    migration: Migration | Unread,
    wanted: WantedDisk,
) -> None:
    if _SHARED in claim.access_modes or (claim.access_modes and not wanted.shared):
        modes = named(claim.access_modes)
        one = "" if _SHARED in claim.access_modes else f", all that {wanted.storage_class} can give"
        found.shown.append(f"{modes} {claim.volume_mode}".strip() + one)
        return
    if not claim.access_modes:
        found.open.append(f"PVC {claim.claim} names no access mode")
        return
    asked = isinstance(source, DiskSource) and source.access_modes
    cause = "the DataVolume asks for it" if asked else "the class's StorageProfile gives it"
    says = ""
    if isinstance(migration, Migration) and migration.reason != _DISK:  # else it is told anyway
        says = f"; {_says(migration)}"
    modes = named(claim.access_modes)
    found.broken.append(f"PVC {claim.claim} is {modes}, not {_SHARED}: {cause}{says}")


def _migration(found: Proofs, migration: Migration, wanted: WantedDisk) -> None:
    if not migration.status:
        found.open.append(f"VMI {migration.vmi} does not say whether it is live-migratable")
    elif migration.status == "True":
        found.shown.append("LiveMigratable=True")
    elif migration.reason == _DISK and wanted.shared:
        found.broken.append(_says(migration))
    else:
        why = ", which its card does and no disk" if migration.reason == _CARD else ""
        found.aside.append(f"{_says(migration)}{why}")


def _says(migration: Migration) -> str:
    status, why = migration.status or "not told", f"{migration.reason} {migration.message}".strip()
    return f"LiveMigratable={status} {why}".strip()


def _capacity(found: Proofs, claim: DiskClaim, wanted: WantedDisk) -> None:
    for what, amount in (("asks for", claim.requested), ("has", claim.capacity)):
        if amount is None:
            found.open.append(f"PVC {claim.claim} does not say how many bytes it {what}")
        elif amount < wanted.size:
            found.broken.append(
                f"PVC {claim.claim} {what} {told(amount)}, less than {told(wanted.size)}"
            )
    if claim.capacity is not None and claim.capacity >= wanted.size:
        found.shown.append(f"capacity {told(claim.capacity)}")


def _guest(
    found: Proofs,
    guest: GuestDisk,
    wanted: WantedDisk,
    golden: Golden | GoldenAbsent | Unread | None,
) -> None:
    if guest.size < wanted.size:
        found.broken.append(
            f"the guest sees {told(guest.size)} of /dev/vda, asked for were {told(wanted.size)}"
        )
        return
    from_size = golden.capacity if isinstance(golden, Golden) else None
    if golden is None:
        found.shown.append(f"the guest sees {told(guest.size)}")
    elif from_size is None:
        found.open.append("how large the golden is was not read, so no growth is shown")
    elif from_size < guest.size:
        found.shown.append(f"the guest sees {told(guest.size)}, grown from {told(from_size)}")
    else:
        found.shown.append(f"the guest sees {told(guest.size)}, as large as the golden")
