"""The claim that a disk comes from where its pool asked, with the marks that its form calls for."""

from __future__ import annotations

from harness.facts.clones import DiskRefused, DiskSource, WantedDisk
from harness.facts.fact import Unread
from harness.facts.goldenname import GOLDENS
from harness.judge.proofs import Proofs
from harness.judge.verdict import Verdict
from harness.judge.wording import named

_CLAIM = "disk-source"


def disk_source(
    source: DiskSource | DiskRefused | Unread, wanted: WantedDisk, subject: str
) -> Verdict:
    """disk-source: source, annotations and class of the DataVolume are what osImage calls for.

    Left out or ``factory``: a URL with the pool's schematic and version, usePopulator "false", and
    neither of the golden's annotations. ``builtin``: the golden's PVC, no URL, both annotations
    with exactly the golden and exactly this pool (md0 is the beginning of md0-gpu), no
    usePopulator, and the class written down (clone_path section 1).
    """
    found = Proofs()
    if isinstance(source, DiskRefused):
        found.open.append(f"there is no disk: {source.message}")
    elif not found.unread(source) and not isinstance(source, Unread):
        asked = "left out" if wanted.form == "absent" else wanted.form
        found.shown.append(f"osImage {asked}")
        (_builtin if wanted.form == "builtin" else _download)(found, source, wanted)
        _class(found, source, wanted)
    return found.verdict(_CLAIM, subject, source)


def _builtin(found: Proofs, source: DiskSource, wanted: WantedDisk) -> None:
    golden = f"{GOLDENS}/{wanted.golden}"
    if source.forms != ("pvc",):
        found.broken.append(f"osImage builtin, and the source is {_told(source)}")
    elif source.claim != golden:
        found.broken.append(f"it is cloned from {source.claim}, the pool's golden is {golden}")
    else:
        found.shown.append(f"cloned from {golden}")
    if source.use_populator is not None:
        found.broken.append(
            f"usePopulator is {source.use_populator!r}, and a clone must not carry it"
        )
    _mark(found, "golden", source.golden, wanted.golden)
    _mark(found, "pool", source.pool, wanted.pool)


def _download(found: Proofs, source: DiskSource, wanted: WantedDisk) -> None:
    image = (wanted.schematic, wanted.version)
    if source.forms != ("http",):
        found.broken.append(f"osImage is not builtin, and the source is {_told(source)}")
    elif not source.schematic:
        found.broken.append(f"the URL {source.url!r} is none of an image factory's")
    elif (source.schematic, source.version) != image:
        found.broken.append(
            f"the URL names schematic {source.schematic} {source.version}, the pool asked for "
            f"{wanted.schematic} {wanted.version}"
        )
    else:
        found.shown.append(f"downloaded from {source.url}")
    if source.use_populator != "false":
        said = "is missing" if source.use_populator is None else f"is {source.use_populator!r}"
        found.broken.append(f'usePopulator {said}, a download carries "false"')
    else:
        found.shown.append('usePopulator "false"')
    for key, value in (("golden", source.golden), ("pool", source.pool)):
        if value is not None:
            found.broken.append(f"the annotation {key} is {value!r}, and a download has none")


def _mark(found: Proofs, key: str, value: str | None, wanted: str) -> None:
    if value == wanted:
        found.shown.append(f"annotation {key} {value}")
    else:
        said = "missing" if value is None else repr(value)
        found.broken.append(f"the annotation {key} is {said}, expected exactly {wanted!r}")


def _class(found: Proofs, source: DiskSource, wanted: WantedDisk) -> None:
    """Where the pool names no class, a download leaves it to the cluster and a clone must not."""
    written = source.storage_class
    if not wanted.storage_class:
        if wanted.form == "builtin" and not written:
            found.broken.append("no class is written, and a clone has to carry the resolved one")
        elif wanted.form != "builtin" and written:
            found.broken.append(f"the class {written} is written, and the pool names none")
    elif written != wanted.storage_class:
        found.broken.append(f"its class is {written or 'not written'}, not {wanted.storage_class}")
    else:
        found.shown.append(f"class {written}")


def _told(source: DiskSource) -> str:
    where = source.url or source.claim
    return f"{named(source.forms)} {where}".strip()
