"""Claims about what was accepted and what is in use: that they are one and the same.

An object of this API is a view of its release's values, so an edit is accepted whatever the release
is up to; while it fails, the edit is applied nowhere (clone_path 10; faults accepted-not-applied).
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.facts.applied import AppliedPool, PoolShape
from harness.facts.fact import Unread
from harness.facts.quantity import bytes_of
from harness.facts.refusals import REFUSED, RefusalTrial, chart_text
from harness.judge.guards import Said, said
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import named, unread

_FIELDS = {
    "instanceType": "instance_type",
    "storageClass": "storage_class",
    "minReplicas": "minimum",
    "maxReplicas": "maximum",
    "schematic": "schematic",
    "version": "version",
    "source of the disk": "form",
}
_OF_SOURCE = ("schematic", "version", "form")
CLAIM = "spec-applied"


def spec_applied(seen: AppliedPool | Unread, subject: str) -> Verdict:
    """spec-applied: what the pool's object says is what its release applied and its templates have.

    Broken where the release failed on what the object says now ("accepted, applied nowhere"), and
    where a template in use has another value, its release Ready or not. Unknown while the release
    has no verdict on the object's generation, where it failed before its chart was rendered, and
    where no template can be read.
    """
    if isinstance(seen, Unread):
        return unread(CLAIM, subject, seen)
    state, because = _standing(seen)
    return Verdict(CLAIM, subject, state, because, (seen,))


def spec_applied_while_refused(
    valid: AppliedPool | Unread,
    refused: RefusalTrial | Unread,
    edited: RefusalTrial | Unread,
    shown: AppliedPool | Unread,
    mended: AppliedPool | Unread,
    old: str,
    new: str,
    subject: str,
) -> Verdict:
    """spec-applied, on a pool that is edited while its release fails.

    Holds where the refused edit and a later, unrelated one are both in object and values, neither
    is in any template, the release says that it failed, and both are applied once the refused one
    is mended: accepted and applied nowhere is told for what it is. ``old`` and ``new`` are the
    sizes of the later edit. Broken where the API's word is all there is of it: the release is Ready
    with another spec in use, or what failed was applied in part, or is not applied when mended.
    """
    facts = (valid, refused, edited, shown, mended)
    if isinstance(valid, Unread) or isinstance(shown, Unread) or isinstance(mended, Unread):
        return unread(CLAIM, subject, *facts)
    if isinstance(refused, Unread) or isinstance(edited, Unread):
        return unread(CLAIM, subject, *facts)
    begun, why = _standing(valid)
    if begun is not Outcome.HOLDS:
        return Verdict(CLAIM, subject, begun, f"before any edit: {why}", facts)
    wrong = [*_in_part(refused, edited), *_untold(refused, shown, old, new), *_unmended(mended)]
    doubts = list(_unseen(refused, edited, shown, mended, new))
    if doubts and not wrong:
        return Verdict(CLAIM, subject, Outcome.UNKNOWN, "; ".join(doubts), facts)
    if wrong:
        return Verdict(CLAIM, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    because = (
        f"accepted, applied nowhere while version {named(refused.wrong)} was refused: diskSize "
        f"{new} stood in object and values, {old} in {shown.machine_template}, and the release "
        f"said {shown.reason}; mended, {mended.machine_template} has {new}"
    )
    return Verdict(CLAIM, subject, Outcome.HOLDS, because, facts)


def differences(seen: AppliedPool) -> list[str]:
    """Each value that the object gives and a template in use does not have.

    Of a disk whose source cannot be read nothing is said that the source would tell.
    """
    if seen.rendered is None:
        return []
    asked, has = seen.asked, seen.rendered
    lines = [
        f"{name} is {_of(asked, key)} in the object, {_of(has, key) or 'not there'} in use"
        for name, key in _FIELDS.items()
        if _of(asked, key) and _of(asked, key) != _of(has, key)
        if has.form or key not in _OF_SOURCE
    ]
    if asked.disk_size and bytes_of(asked.disk_size) != bytes_of(has.disk_size):
        found = has.disk_size or "not there"
        lines.append(f"diskSize is {asked.disk_size} in the object, {found} in use")
    wanted = f"{asked.schematic}:{asked.version}"
    if asked.schematic and asked.version and seen.installer and seen.installer != wanted:
        lines.append(f"the installer is {seen.installer}, the object says {wanted}")
    return lines


def _standing(seen: AppliedPool) -> tuple[Outcome, str]:
    """How a pool's object and what is in use agree, and in which words."""
    differ = differences(seen)
    if seen.unequal:
        because = f"object and release differ in {named(seen.unequal)}"
        return Outcome.BROKEN, because
    if not seen.settled:
        because = (
            f"the release has no verdict on generation {seen.generation} (looked at "
            f"{seen.observed}; {seen.reason or 'no condition Ready'})"
        )
        return Outcome.UNKNOWN, because
    if seen.ready == "False":
        return _failed(seen, differ)
    if seen.released != "True":
        return Outcome.BROKEN, f"the release is Ready and Released is {seen.released or 'not told'}"
    latest = seen.history[0] if seen.history else ""
    if latest and not latest.endswith(" deployed"):
        return Outcome.BROKEN, f"the release is Ready, its newest revision is {latest}"
    if seen.rendered is None or not seen.installer or not latest:
        lacks = "history" if not latest else "template in use that could be read"
        return Outcome.UNKNOWN, f"the release is Ready and has no {lacks}"
    if differ:
        return Outcome.BROKEN, f"the release is Ready, and {'; '.join(differ)}"
    if not seen.rendered.form:
        return Outcome.UNKNOWN, f"{seen.machine_template} does not say where its disk comes from"
    return Outcome.HOLDS, _agreed(seen)


def _failed(seen: AppliedPool, differ: list[str]) -> tuple[Outcome, str]:
    told = f"{seen.reason} ({chart_text(seen.message).text})"
    if seen.reason not in REFUSED:
        return Outcome.UNKNOWN, f"the release failed before its chart was rendered: {told}"
    what = "; ".join(differ) if differ else "what is in use is of an earlier one"
    if seen.rendered is None:
        what = "nothing is rendered for it"
    because = f"accepted, applied nowhere: the release failed on what the object says now: {told}"
    return Outcome.BROKEN, f"{because}; {what}"


def _agreed(seen: AppliedPool) -> str:
    asked = seen.asked
    told = [f"{name} {_of(asked, key)}" for name, key in _FIELDS.items() if _of(asked, key)]
    told.append(f"diskSize {asked.disk_size}")
    before = [one for one in seen.history[1:] if not one.endswith((" superseded", " deployed"))]
    besides = f"; earlier revisions: {named(before)}" if before else ""
    return (
        f"revision {seen.history[0]} of generation {seen.generation} is in use by "
        f"{seen.machine_template} and {seen.bootstrap_template}: {named(told)}{besides}"
    )


def _in_part(*trials: RefusalTrial) -> Iterator[str]:
    for trial in trials:
        if trial.changes and trial.ready == "False":
            yield f"{trial.asked} was refused, and {named(trial.changes)}"


def _untold(refused: RefusalTrial, shown: AppliedPool, old: str, new: str) -> Iterator[str]:
    """What of an edit under a failing release is not told for what it is."""
    if refused.altered:
        return
    if refused.ready == "True":
        yield f"{refused.asked} was not refused"
        return
    if refused.reason in REFUSED and said(refused.message, "R3", refused.wrong) in (
        Said.OTHER,
        Said.FOREIGN,
        Said.UNNAMED,
    ):
        yield f"{refused.asked} was refused by another text: {chart_text(refused.message).text}"
    if shown.unequal:
        yield f"object and release differ in {named(shown.unequal)}"
    has = shown.rendered.disk_size if shown.rendered else ""
    if shown.ready == "True" and bytes_of(has) != bytes_of(new):
        yield f"the release is Ready with diskSize {has or 'none'} in use and {new} in the object"
    elif shown.ready == "False" and bytes_of(has) != bytes_of(old):
        yield f"the release failed, and diskSize {has or 'none'} is in use, before {old}"


def _unmended(mended: AppliedPool) -> Iterator[str]:
    state, why = _standing(mended)
    if state is Outcome.BROKEN:
        yield f"mended: {why}"


def _unseen(
    refused: RefusalTrial,
    edited: RefusalTrial,
    shown: AppliedPool,
    mended: AppliedPool,
    new: str,
) -> Iterator[str]:
    """Why what was done shows nothing."""
    for trial in (refused, edited):
        if trial.api:
            yield f"the API would not have {trial.asked}: {trial.api}"
        elif trial.altered:
            yield f"the release was told another {named(trial.altered)} than {trial.asked}"
        elif not trial.settled or trial.reason not in (*REFUSED, "UpgradeSucceeded"):
            yield f"{trial.asked} has not come to an end ({trial.reason or 'no condition Ready'})"
        elif said(trial.message, "R3", refused.wrong) is Said.CUT:
            yield f"{trial.asked} was refused by a text that is cut: {trial.message}"
    if not shown.settled:
        yield f"the release has no verdict on generation {shown.generation}"
    if bytes_of(shown.asked.disk_size) != bytes_of(new):
        yield f"the object says diskSize {shown.asked.disk_size}, {new} was written"
    state, why = _standing(mended)
    if state is Outcome.UNKNOWN or bytes_of(mended.asked.disk_size) != bytes_of(new):
        yield f"mended: {why}"


def _of(shape: PoolShape, key: str) -> str:
    return str(getattr(shape, key))
