"""Why an engine resolves a CDI device, or does not, from the files that it would have read.

The library (CDI pkg/cdi, cache.go) takes a file only if all of it is valid, a later directory
before an earlier, and drops a device that two files of one directory name, even where a third
directory has it too. Each was tried with podman 4.3.1, which has one sentence for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.facts.cdi import CdiSpec
from harness.facts.cdifiles import ENDINGS, CdiFile, CdiFiles
from harness.facts.fact import Unread
from harness.judge.wording import named

_MOST = 8
"""Device names that a sentence lists of one file."""


def unresolved(asked: Sequence[str], files: CdiFiles | Unread) -> str:
    """Why devices ("nvidia.com/gpu=0") are not resolvable: a clause, with every file named."""
    if isinstance(files, Unread):
        return f"the CDI files could not be read: {files.reason}"
    causes = {name: _cause(name, files) for name in asked}
    found = [f"{name}: {cause}" for name, cause in causes.items() if cause]
    if not found:
        return f"by its files {named(asked)} is resolvable ({_all_files(files)})"
    return "; ".join(dict.fromkeys(found))


def source_of(name: str, files: CdiFiles) -> CdiFile | None:
    """The file that an engine takes a device from, None where it resolves it from none."""
    naming = [one for one in _naming(name, files) if not _refused(one, files)]
    for directory in files.directories:
        if len([one for one in naming if one.directory == directory]) > 1:
            return None
    for directory in reversed(files.directories):
        for one in naming:
            if one.directory == directory:
                return one
    return None


def taken_from(asked: Sequence[str], files: CdiFiles | Unread) -> str:
    """A clause on the files that devices are taken from, and which others name them; "" for none.

    A file that an image or an earlier boot left in /etc/cdi stands behind the boot's own, without a
    word of the engine's.
    """
    return "" if isinstance(files, Unread) else "; ".join(_taken_from(asked, files))


def _taken_from(asked: Sequence[str], files: CdiFiles) -> Iterator[str]:
    for name in asked:
        taken = source_of(name, files)
        if taken is None:
            continue
        others = [one.path for one in _naming(name, files) if one.path != taken.path]
        if others:
            yield f"{name} is taken from {taken.path}, which passes over {named(others)}"
        elif taken.directory != files.directories[-1]:
            yield f"{name} is taken from {taken.path}, which no boot writes anew"
        else:
            yield f"{name} is taken from {taken.path}"


def _cause(name: str, files: CdiFiles) -> str:
    """Why one device is not resolvable, "" where it is."""
    if source_of(name, files) is not None:
        return ""
    if not files.files:
        return f"no file is in {' or '.join(files.directories)}"
    naming = _naming(name, files)
    usable = [one for one in naming if not _refused(one, files)]
    if usable:
        return f"{_twice(usable, files)} name it in one directory, so that neither counts"
    if naming:
        return "; ".join(f"{one.path} names it, but {_refused(one, files)}" for one in naming)
    kind, _, device = name.partition("=")
    same = [
        _offer(one.spec)
        for one in files.files
        if isinstance(one.spec, CdiSpec)
        and one.spec.device_kind == kind
        and not _refused(one, files)
    ]
    if same:
        return f"{named(same)}, and no {device}"
    return f"no file of kind {kind} counts ({_all_files(files)})"


def _naming(name: str, files: CdiFiles) -> list[CdiFile]:
    return [
        one
        for one in files.files
        if isinstance(one.spec, CdiSpec)
        and any(f"{one.spec.device_kind}={device}" == name for device in one.spec.devices)
    ]


def _refused(one: CdiFile, files: CdiFiles) -> str:
    """Why the engine takes nothing from a file, "" where it does."""
    if not one.path.endswith(ENDINGS):
        return f"its name does not end in {' or '.join(ENDINGS)}"
    if isinstance(one.spec, Unread):
        return f"it is no CDI file ({one.spec.reason})"
    if files.newest and _release(one.spec.version) > _release(files.newest):
        return f"{files.engine} takes cdiVersion {files.newest} at most, not {one.spec.version}"
    return one.spec.flaw


def _release(version: str) -> tuple[int, ...]:
    """A version to compare by; one that is none is newer than any."""
    parts = version.split(".")
    known = all(part.isascii() and part.isdigit() and len(part) < 6 for part in parts)
    return tuple(map(int, parts)) if known else (99_999,)


def _twice(usable: Sequence[CdiFile], files: CdiFiles) -> str:
    for directory in files.directories:
        there = [one.path for one in usable if one.directory == directory]
        if len(there) > 1:
            return " and ".join(there)
    return named(one.path for one in usable)


def _kind(one: CdiFile) -> str:
    return one.spec.device_kind if isinstance(one.spec, CdiSpec) else ""


def _offer(spec: CdiSpec) -> str:
    more = len(spec.devices) - _MOST
    told = f" and {more} more" if more > 0 else ""
    return f"{spec.path} names {named(spec.devices[:_MOST])}{told}"


def _all_files(files: CdiFiles) -> str:
    return named(_said_of(one, files) for one in files.files)


def _said_of(one: CdiFile, files: CdiFiles) -> str:
    refused = _refused(one, files)
    return f"{one.path}: {refused}" if refused else f"{one.path} of kind {_kind(one)}"
