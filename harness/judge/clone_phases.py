"""The claim that a disk went through the phases of its path, in their order, each seen.

The paths are those of clone_path section 4 (CDI v1.64.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.facts.clones import SUCCEEDED, DiskHistory, DiskRefused, DiskSource, PhaseSpan
from harness.facts.diskclaims import DiskClaim, DiskClass
from harness.facts.fact import Unread
from harness.judge.proofs import Proofs
from harness.judge.verdict import Verdict
from harness.judge.wording import counted, named

_CLAIM = "disk-phases"
_IMPORT = ("ImportScheduled", "ImportInProgress")
_WAITS = "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True)
class Path:
    """A way to fill a disk: its phases in their order, and those that it need not have."""

    name: str
    phases: tuple[str, ...]
    optional: frozenset[str] = frozenset()

    @property
    def due(self) -> tuple[str, ...]:
        """The phases that it has to have."""
        return tuple(one for one in self.phases if one not in self.optional)


HTTP = Path("an HTTP import", ("Pending", "PVCBound", *_IMPORT, SUCCEEDED))
HTTP_WAITING = Path(
    "an HTTP import on a class that waits for a consumer",
    (_WAITS, "Pending", "PVCBound", *_IMPORT, SUCCEEDED),
    frozenset({"Pending"}),
)
HTTP_POPULATOR = Path(
    "an HTTP import with a populator",
    ("Pending", "PendingPopulation", *_IMPORT, SUCCEEDED),
    frozenset({"PendingPopulation"}),
)
_PREPARED = ("PrepClaimInProgress", "RebindInProgress", SUCCEEDED)
_FREE = frozenset({"Pending", "PendingPopulation", "PrepClaimInProgress"})
_BEGUN = ("Pending", "PendingPopulation", "CloneScheduled")
CLONES = {
    "csi-clone": Path("a CSI clone", (*_BEGUN, "CSICloneInProgress", *_PREPARED), _FREE),
    "snapshot": Path(
        "a clone through a snapshot",
        (
            *_BEGUN,
            "SnapshotForSmartCloneInProgress",
            "CloneFromSnapshotSourceInProgress",
            *_PREPARED,
        ),
        _FREE,
    ),
    "copy": Path(
        "a host-assisted clone",
        (*_BEGUN, "CloneInProgress", "RebindInProgress", SUCCEEDED),
        _FREE,
    ),
}
COPY_WITHOUT_POPULATOR = Path(
    "a host-assisted clone without populator",
    ("Pending", "CloneScheduled", "CloneInProgress", SUCCEEDED),
    frozenset({"Pending"}),
)


def disk_phases(
    source: DiskSource | DiskRefused | Unread,
    history: DiskHistory | Unread,
    claim: DiskClaim | Unread,
    storage_class: DiskClass | Unread,
    subject: str,
) -> Verdict:
    """disk-phases: every phase of the disk's path was seen, in the path's order, without a gap.

    The path is told by what is written elsewhere than in the phases: the source, usePopulator, and
    for a clone the PVC's cloneType (which of them it should have been is another claim's business).
    A phase that the path does not have, or one out of its order, breaks the claim whatever was
    missed. One that is due and was not seen breaks it where the history is whole, for then CDI
    never wrote it: only who polls can miss a short one. Not due are PendingPopulation, which comes
    only where a consumer is waited for; PrepClaimInProgress, whose work is bind and resize where
    there is any; and Pending before a clone, which no source rules out. A restarted import may
    step back from ImportInProgress to ImportScheduled; the count is told.

    An import that has not ended is broken with restarts and an Error in its Running condition,
    for a broken one never becomes Failed; else unknown, as is a history with a gap.
    """
    facts = (source, history, claim, storage_class)
    found = Proofs()
    if isinstance(source, DiskRefused):
        found.open.append(f"there is no disk: {source.message}")
        return found.verdict(_CLAIM, subject, *facts)
    if found.unread(source, history) or isinstance(source, Unread) or isinstance(history, Unread):
        return found.verdict(_CLAIM, subject, *facts)
    path = _path(found, source, claim, storage_class)
    if path is not None:
        _compare(found, path, history)
    _ending(found, history)
    if history.doubt:
        found.open.append(f"a phase may have been missed: {history.doubt}")
    if path is not None:
        found.shown.append(f"{path.name}: {_spans(history.phases)}")
    if history.restarted:
        found.aside.append(f"restarted {counted(history.restarted, 'time')}")
    return found.verdict(_CLAIM, subject, *facts)


def _path(
    found: Proofs, source: DiskSource, claim: DiskClaim | Unread, storage_class: DiskClass | Unread
) -> Path | None:
    """The way that source and PVC name; None where they name none, which stays open."""
    populated = source.use_populator != "false"
    if source.forms == ("http",):
        return _import_path(found, storage_class, populated=populated)
    if source.forms != ("pvc",):
        found.open.append(f"its source is {named(source.forms)}, of which no path is known")
        return None
    if found.unread(claim) or isinstance(claim, Unread):
        return None
    if claim.clone_type == "copy" and not populated:
        return COPY_WITHOUT_POPULATOR
    path = CLONES.get(claim.clone_type)
    if path is None:
        said = claim.clone_type or "not there"
        found.open.append(f"the PVC's cloneType is {said}, so its path is not known")
    return path


def _import_path(
    found: Proofs, storage_class: DiskClass | Unread, *, populated: bool
) -> Path | None:
    if populated:
        return HTTP_POPULATOR
    if found.unread(storage_class) or isinstance(storage_class, Unread):
        return None
    return HTTP_WAITING if storage_class.waits_for_consumer else HTTP


def _compare(found: Proofs, path: Path, history: DiskHistory) -> None:
    seen = [one.phase for one in history.phases]
    for phase in dict.fromkeys(one for one in seen if one not in path.phases):
        found.broken.append(f"{phase} is no phase of {path.name}: {_arrows(seen)}")
    known = [one for one in seen if one in path.phases]
    for before, after in pairwise(known):
        back = path.phases.index(after) < path.phases.index(before)
        if back and not _restarted(before, after, history):
            found.broken.append(f"{after} came after {before}, against the order of {path.name}")
    if seen and seen[-1] == SUCCEEDED and not history.doubt:
        missing = [one for one in path.due if one not in seen]
        if missing:
            found.broken.append(
                f"{path.name} has {named(missing)}, which never was, and nothing was missed: "
                f"{_arrows(seen)}"
            )


def _restarted(before: str, after: str, history: DiskHistory) -> bool:
    """Whether a step back is an importer that began anew."""
    return bool(history.restarted) and (before, after) == (_IMPORT[1], _IMPORT[0])


def _ending(found: Proofs, history: DiskHistory) -> None:
    if history.phase == SUCCEEDED:
        return
    last = history.phases[-1] if history.phases else None
    stands = f"{last.phase} for {last.seconds:.0f} s" if last else "no phase at all"
    said = history.said("Running")
    if last is not None and last.phase == "Failed":
        found.broken.append(f"it Failed: {said or 'no condition Running'}")
    elif (
        history.restarted and said is not None and (said.status, said.reason) == ("False", "Error")
    ):
        times = counted(history.restarted, "restart")
        event = history.event("ErrImportFailed", "Error")
        told = f" (Event {event})" if event else ""
        found.broken.append(f"it stands at {stands} after {times}, never Failed: {said}{told}")
    else:
        why = f", {counted(history.restarted, 'restart')}" if history.restarted else ""
        found.open.append(f"it has not ended: {stands}{why}" + (f", {said}" if said else ""))


def _spans(spans: Sequence[PhaseSpan]) -> str:
    return " → ".join(_each(spans))


def _each(spans: Sequence[PhaseSpan]) -> Iterator[str]:
    for one in spans[:-1]:
        yield f"{one.phase} {one.seconds:.3g} s"
    if spans:
        yield spans[-1].phase


def _arrows(phases: Sequence[str]) -> str:
    return " → ".join(phases)
