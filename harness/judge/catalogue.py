"""Claims about the platform's golden catalogue: an entry becomes a golden, and outlives the entry.

What a golden has to carry is that of clone_path 2 (S-OSI). A label that Helm writes over on live
objects is not among it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.facts.applied import Allowed, AppliedPool
from harness.facts.catalogue import CatalogueRelease, Entry, GoldenImport, GoldenVolume
from harness.facts.fact import Fact, Unread
from harness.facts.quantity import bytes_of
from harness.facts.refusals import REFUSED, RefusalTrial, chart_text
from harness.judge.refusals import not_allowed, refused, unseen
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import named, unread

ROWS = ("duplicate", "schematic", "version", "url", "changed")
_MARKS = {
    "helm.sh/resource-policy": "keep",
    "cdi.kubevirt.io/storage.bind.immediate.requested": "true",
    "cdi.kubevirt.io/storage.usePopulator": "true",
}
_SCHEMATIC = "kubernetes-worker-image.cozystack.io/schematic-id"
_VERSION = "kubernetes-worker-image.cozystack.io/talos-version"


def catalogue_import(
    entry: Entry | Unread,
    release: CatalogueRelease | Unread,
    golden: GoldenVolume | Unread,
    history: GoldenImport | Unread,
    meanwhile: Allowed | Unread,
    subject: str,
) -> Verdict:
    """catalogue-import: a new entry becomes a golden with all its marks, imported to Succeeded.

    Broken where the release refuses it, no golden comes about, one lacks a mark or has another
    source, class or size, the import does not come to Succeeded, or a pool that asks for it in the
    middle is refused. An import that failed and was begun anew counts its restarts; Failed is
    never waited for. Unknown where no entry could be made, where the release has no verdict, and
    where no pool could ask in the middle.
    """
    claim = "catalogue-import"
    seen = meanwhile.seen if isinstance(meanwhile, Allowed) else meanwhile
    facts: tuple[Fact, ...] = tuple(
        one for one in (release, golden, history, seen) if isinstance(one, Fact)
    )
    if isinstance(entry, Unread) or isinstance(release, Unread) or isinstance(history, Unread):
        lost = [one for one in (entry, release, history) if isinstance(one, Unread)]
        return unread(claim, subject, *lost)
    wrong = [*_turned_down(release, entry), *_imported(golden, history, entry)]
    wrong += not_allowed(meanwhile) if isinstance(meanwhile, Allowed) else []
    if wrong:
        return Verdict(claim, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    doubts = []
    if entry.golden not in release.images or release.ready != "True":
        doubts.append(f"the catalogue's release has no verdict on the entry ({release.reason})")
    if isinstance(seen, Unread):
        doubts.append(f"no pool asked for it meanwhile: {seen.asked}: {seen.reason}")
    elif seen.ready != "True" or seen.rendered is None:
        doubts.append(f"the pool that asked for it meanwhile came to no end ({seen.reason})")
    if doubts or isinstance(seen, Unread):
        return Verdict(claim, subject, Outcome.UNKNOWN, "; ".join(doubts), facts)
    return Verdict(claim, subject, Outcome.HOLDS, _told(entry, history, seen), facts)


def catalogue_refused(trials: Sequence[RefusalTrial | Unread], subject: str) -> Verdict:
    """catalogue-refused: an entry that is there twice, one that no pool could name, a factory that
    is no URL, and a change under a golden that is there, are refused by those words, and not a
    golden is made or changed. As `os_image_refused` otherwise.
    """
    return refused("catalogue-refused", trials, ROWS, subject)


def catalogue_kept(
    before: GoldenVolume | Unread,
    release_before: CatalogueRelease | Unread,
    after: GoldenVolume | Unread,
    release_after: CatalogueRelease | Unread,
    subject: str,
) -> Verdict:
    """catalogue-kept: with its entry gone from an applied release, the golden is the very same.

    Broken where it is gone, going, another, or has another content or phase. Unknown where no
    golden was there, or the release has not applied a list without it.
    """
    claim = "catalogue-kept"
    facts = (before, release_before, after, release_after)
    if (
        isinstance(before, Unread)
        or isinstance(release_before, Unread)
        or isinstance(release_after, Unread)
    ):
        return unread(claim, subject, *facts)
    doubts = list(_not_dropped(before, release_before, release_after))
    if isinstance(after, Unread):
        gone = f"golden {before.name} went with its entry: {after.reason}"
        state = Outcome.UNKNOWN if doubts else Outcome.BROKEN
        return Verdict(claim, subject, state, "; ".join([gone, *doubts]), facts)
    wrong = list(_not_kept(before, after))
    if wrong or doubts:
        state = Outcome.UNKNOWN if doubts else Outcome.BROKEN
        return Verdict(claim, subject, state, "; ".join([*wrong, *doubts]), facts)
    because = (
        f"revision {release_after.revision} of the release names {named(release_after.images)}, "
        f"and golden {after.name} is {after.phase} under the same UID, its content unchanged"
    )
    return Verdict(claim, subject, Outcome.HOLDS, because, facts)


def golden_lost(
    failing: RefusalTrial | Unread, outlived: Allowed | Unread, subject: str
) -> Verdict:
    """golden-lost: a pool whose golden keeps failing to import is refused in those words (R7), and
    one that has cloned before is rendered though its golden is gone.

    Broken where the first is accepted or refused by other words, and where the second is refused or
    gets another disk. Unknown where either was not tried or came to no end.
    """
    claim = "golden-lost"
    told = refused(claim, [failing], ("R7",), subject)
    seen = outlived.seen if isinstance(outlived, Allowed) else outlived
    facts = (failing, seen)
    wrong = [told.because] if told.outcome is Outcome.BROKEN else []
    wrong += not_allowed(outlived) if isinstance(outlived, Allowed) else []
    if wrong:
        return Verdict(claim, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    doubts = [told.because] if told.outcome is Outcome.UNKNOWN else []
    if isinstance(outlived, Allowed):
        doubts += unseen(outlived)
    else:
        doubts.append(f"not tried: {outlived.asked}, because {outlived.reason}")
    if doubts or not isinstance(outlived, Allowed):
        return Verdict(claim, subject, Outcome.UNKNOWN, "; ".join(doubts), facts)
    because = f"{told.because}; rendered as due: {outlived.what}"
    return Verdict(claim, subject, Outcome.HOLDS, because, facts)


def _turned_down(release: CatalogueRelease, entry: Entry) -> Iterator[str]:
    refused = release.ready == "False" and release.reason in REFUSED
    if refused and entry.golden in release.images:
        yield f"the entry failed the release: {chart_text(release.message).text}"


def _imported(golden: GoldenVolume | Unread, history: GoldenImport, entry: Entry) -> Iterator[str]:
    """What is wrong with a golden and how it came about."""
    if isinstance(golden, Unread):
        yield f"no golden {entry.golden} came about in {history.waited:.0f} s: {golden.reason}"
        return
    if golden.name != entry.golden:
        yield f"the golden is named {golden.name}, its entry calls for {entry.golden}"
    if golden.phase != "Succeeded":
        yield (
            f"golden {golden.name} is {golden.phase or 'in no phase'} after {history.waited:.0f} s "
            f"with {history.restarts} importer restarts (Running {golden.running or 'not told'})"
        )
    yield from _unmarked(golden, entry)


def _unmarked(golden: GoldenVolume, entry: Entry) -> Iterator[str]:
    wanted = {**_MARKS, _SCHEMATIC: entry.schematic, _VERSION: entry.version}
    for key, value in wanted.items():
        if golden.marks.get(key) != value:
            yield f"annotation {key} is {golden.marks.get(key)!r}, due is {value!r}"
    if golden.content_type != "kubevirt":
        yield f"contentType is {golden.content_type!r}, due is 'kubevirt'"
    if golden.storage_class != entry.storage_class:
        yield f"its class is {golden.storage_class or 'not told'}, due is {entry.storage_class}"
    if bytes_of(golden.storage) != bytes_of(entry.storage):
        yield f"its size is {golden.storage or 'not told'}, due is {entry.storage}"
    if entry.url and golden.url != entry.url:
        yield f"it comes from {golden.url or 'nowhere'}, due is {entry.url}"


def _told(entry: Entry, history: GoldenImport, seen: AppliedPool) -> str:
    phases = " -> ".join(f"{one.phase} ({one.after:.0f} s)" for one in history.phases)
    between = f"a pool that asked for it meanwhile was rendered ({seen.origin.source})"
    missed = f" (phases may be missing: {history.doubt})" if history.doubt else ""
    return (
        f"golden {entry.golden} has {entry.storage} on {entry.storage_class}, all its marks, and "
        f"went {phases} with {history.restarts} importer restarts{missed}; {between}"
    )


def _not_dropped(
    golden: GoldenVolume, before: CatalogueRelease, after: CatalogueRelease
) -> Iterator[str]:
    """Why the release did not apply a list without the golden."""
    if golden.name not in before.images:
        yield f"{golden.name} was in no list of the release before"
    if golden.name in after.images:
        yield f"{golden.name} is still in the release's list"
    if after.ready != "True":
        yield f"the release without it is not Ready ({after.reason}: {after.message})"
    if after.revision <= before.revision:
        yield f"the release is at revision {after.revision}, as before"


def _not_kept(before: GoldenVolume, after: GoldenVolume) -> Iterator[str]:
    if after.uid != before.uid:
        yield f"golden {after.name} was made anew"
    if after.leaving:
        yield f"golden {after.name} is being deleted"
    if after.content != before.content:
        yield f"golden {after.name} has another content"
    if after.phase != before.phase:
        yield f"golden {after.name} is {after.phase}, was {before.phase}"
