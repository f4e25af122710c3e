"""The claim that the golden image is there to be cloned from, judged without waiting for Failed."""

from __future__ import annotations

from harness.facts.clones import SUCCEEDED, WantedDisk
from harness.facts.fact import Unread
from harness.facts.goldens import (
    BIND,
    KEEP,
    POPULATOR,
    SCHEMATIC,
    VERSION,
    Golden,
    GoldenAbsent,
)
from harness.facts.quantity import told
from harness.judge.proofs import Proofs
from harness.judge.verdict import Verdict
from harness.judge.wording import counted, named

_CLAIM = "golden-ready"
IMPORT_BUDGET = 720.0
"""Seconds: upstream's own tests wait 10 to 12 minutes for a golden (clone_path section 6)."""
_SHARED = "ReadWriteMany"
_TROUBLE = ("ErrImportFailed", "ErrClaimNotValid", "ErrExceededQuota")
"""Reasons of Events about an import that fails, or that never gets a claim to begin with."""


def golden_ready(
    golden: Golden | GoldenAbsent | Unread, wanted: WantedDisk, subject: str
) -> Verdict:
    """golden-ready: the pool's golden is imported, of the pool's class, shared, kept, and marked.

    An import that is broken does not become Failed; its importer restarts, and that is what breaks
    the claim while it has not Succeeded, with the count and what CDI said. Without a restart an
    import that goes on is unknown for as long as upstream's own tests would wait, and broken past
    that: one that is stuck, on a class that is not there for one, has no restarts at all.
    Unknown where only the PVC is left of it: the newest chart takes that, and how it came about is
    not told any more.
    """
    found = Proofs()
    if isinstance(golden, GoldenAbsent):
        _absent(found, golden)
    elif not found.unread(golden) and not isinstance(golden, Unread):
        if golden.leaving:
            found.broken.append("it is being deleted")
        _imported(found, golden)
        _stored(found, golden, wanted)
        _marked(found, golden, wanted)
    return found.verdict(_CLAIM, subject, golden)


def _absent(found: Proofs, golden: GoldenAbsent) -> None:
    others = f"the catalogue has {named(golden.others)}"
    if golden.claim:
        found.open.append(f"of {golden.golden} only the PVC is there, no DataVolume; {others}")
    else:
        found.broken.append(
            f"there is no golden {golden.golden}: it is not being imported either, nobody asked "
            f"for it; {others}"
        )


def _imported(found: Proofs, golden: Golden) -> None:
    if golden.phase == SUCCEEDED:
        if golden.running == ("False", "Completed", "Import Complete"):
            found.shown.append("Succeeded, Import Complete")
        else:
            found.open.append(f"it Succeeded, and does not say how: {golden.said}")
        return
    failed = [one for one in golden.events if one.reason in _TROUBLE]
    event = f" (Event {failed[-1]})" if failed else ""
    stands = f"{golden.phase or 'without a phase'} {golden.progress}".strip()
    if golden.restarts or golden.phase == "Failed":
        times = counted(golden.restarts, "restart")
        found.broken.append(
            f"the import stands at {stands} after {times} of its importer, {golden.said}{event}; "
            "waiting for Failed would be waiting for nothing"
        )
    elif golden.age is None or golden.age <= IMPORT_BUDGET:
        age = "an unknown time" if golden.age is None else f"{golden.age:.0f} s"
        found.open.append(f"the import goes on: {stands} after {age}, {golden.said}{event}")
    else:
        found.broken.append(
            f"the import is stuck at {stands} after {golden.age:.0f} s, more than "
            f"{IMPORT_BUDGET:.0f} s, without a restart: {golden.said}{event}"
        )


def _stored(found: Proofs, golden: Golden, wanted: WantedDisk) -> None:
    if not golden.claim:
        found.open.append("it has no PVC yet")
        return
    if golden.bound != "Bound":
        # on its way until the import ends; only then is it a contradiction
        late = found.broken if golden.phase == SUCCEEDED else found.open
        late.append(f"its PVC is {golden.bound or 'in no phase'}, not Bound")
    if wanted.storage_class and golden.storage_class != wanted.storage_class:
        has = golden.storage_class or "no class"
        found.broken.append(
            f"its PVC is of {has}, the pool's class is {wanted.storage_class}: neither can be moved"
        )
    else:
        found.shown.append(f"class {golden.storage_class}")
    _access(found, golden)
    _size(found, golden, wanted)


def _access(found: Proofs, golden: Golden) -> None:
    if _SHARED in golden.access_modes:
        found.shown.append(_SHARED)
    elif golden.access_modes:
        found.broken.append(f"its PVC is {named(golden.access_modes)}, not {_SHARED}")
    else:
        found.open.append("its PVC names no access mode")


def _size(found: Proofs, golden: Golden, wanted: WantedDisk) -> None:
    """At least as large as was asked for, and no larger than what is to be cloned from it."""
    if golden.capacity is None or golden.asked is None:
        if golden.bound == "Bound":
            found.open.append("how large it is, or was to be, is not told")
    elif golden.capacity < golden.asked:
        asked = told(golden.asked)
        found.broken.append(f"its PVC has {told(golden.capacity)}, less than the {asked} asked for")
    elif golden.capacity > wanted.size:
        found.broken.append(
            f"it is {told(golden.capacity)}, the pool's disks are {told(wanted.size)}: a clone "
            "cannot be smaller than its source"
        )
    else:
        found.shown.append(f"{told(golden.capacity)}")


def _marked(found: Proofs, golden: Golden, wanted: WantedDisk) -> None:
    due = dict((KEEP, BIND, POPULATOR))
    due[SCHEMATIC], due[VERSION] = wanted.schematic, wanted.version
    for key, value in due.items():
        if golden.marks.get(key) != value:
            has = golden.marks.get(key)
            said = "missing" if has is None else repr(has)
            found.broken.append(f"its annotation {key} is {said}, not {value!r}")
    if golden.content_type not in ("", "kubevirt"):  # CDI's default where it is left out
        found.broken.append(f"its contentType is {golden.content_type}, not kubevirt")
    image = f"/image/{wanted.schematic}/{wanted.version}/openstack-amd64.raw.xz"
    if not golden.url.endswith(image):
        found.broken.append(f"its source is {golden.url or 'no URL'}, not of {image}")
    else:
        found.shown.append("kept, and marked with schematic and version")
