"""One entry in the catalogue's list of images, in somebody else's Package: put in, and taken out.

The Package is the administrator's. It is only patched (RFC 6902), each patch tests what it builds
on, and a note on the Package says what this project put in: whoever finds the note later takes out
exactly that. Nothing else of the Package is written, so that others' edits stay.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from harness.facts.objects import Obj, at_path, listed, mapped, text_at
from harness.reach.errors import ApiRefused, LabError
from harness.reach.kube import Kube

API, KIND, NAME = "cozystack.io/v1alpha1", "Package", "cozystack.cozystack-platform"
IMAGES = ("spec", "components", "platform", "values", "kubernetesWorkerImage", "images")
"""Where the list stands (clone_path 2)."""
NOTE = "hil.dev/catalogue"
"""Annotation that says what this project put into the list."""
LEFT = (
    f"the platform's catalogue may not be as it was: annotation {NOTE} on Package {NAME} says what "
    "was put in, and the next run that opens the catalogue takes it out"
)
PATCH = "application/json-patch+json"
TRIES = 3
"""Times that a patch is made anew because somebody else's edit came in between."""


class NotRestored(LabError):
    """What was put into a Package could not be taken out again."""


@dataclass(frozen=True, slots=True)
class Note:
    """What this project put into the list: ``entry``, None once it is out again, at ``place`` where
    a part above it had to be made (a path into the Package, empty for an entry in a list that was
    there), and ``golden``, the DataVolume that may have come of it, "" where none can."""

    entry: Obj | None
    place: tuple[str, ...]
    golden: str

    def text(self) -> str:
        """The note as the annotation holds it."""
        kept = {"entry": self.entry, "place": list(self.place), "golden": self.golden}
        return json.dumps(kept, sort_keys=True)


@dataclass(frozen=True, slots=True)
class PackageImages:
    """The list of images in the platform's Package. Every method raises LabError."""

    kube: Kube

    def package(self) -> Obj:
        """The Package, {} where there is none."""
        return self.kube.get(API, KIND, "", NAME) or {}

    def note(self) -> Note | None:
        """What this project put in and did not take out. Raises NotRestored where it is garbled."""
        return _note(self.package())

    def add(self, entry: Obj, *, golden: str, standing: list[Obj]) -> None:
        """Put an entry in. ``standing``: what the list is made to hold where it is not written.

        Raises ApiRefused, also where others' edits came in between TRIES times.
        """
        self._patched(lambda package: _adding(package, entry, golden, standing))

    def change(self, entry: Obj) -> None:
        """Make another entry of the one that was put in."""
        self._patched(lambda package: _changing(package, entry))

    def take_out(self) -> None:
        """Take out the entry that the note tells of; without a note nothing is done.

        The note goes with it where no golden can have come of it, and else stays for `forget`.
        """
        self._patched(_taking_out)

    def forget(self) -> None:
        """Take out the note, when nothing is left of what it tells."""
        self._patched(lambda package: _unnoting(package) if _note(package) else [])

    def _patched(self, make: Any) -> None:
        for left in reversed(range(TRIES)):
            operations = make(self.package())
            if not operations:
                return
            path = f"{self.kube.path_of(API, KIND, '')}/{NAME}"
            try:
                self.kube.request("patch", "PATCH", path, {}, operations, PATCH)
            except ApiRefused as refused:
                if refused.code not in (409, 422, 400) or not left:
                    raise
            else:
                return


def _adding(package: Obj, entry: Obj, golden: str, standing: list[Obj]) -> list[Obj]:
    found = at_path(package, *IMAGES)
    if isinstance(found, list):
        return [
            _test(IMAGES, found),
            {"op": "add", "path": f"{_pointer(IMAGES)}/-", "value": entry},
            *_noting(package, Note(entry, (), golden)),
        ]
    depth = next(n for n in range(1, len(IMAGES) + 1) if at_path(package, *IMAGES[:n]) is None)
    place, above = IMAGES[:depth], IMAGES[: depth - 1]
    value: Any = [*standing, entry]
    for key in reversed(IMAGES[depth:]):
        value = {key: value}
    return [
        _test(above, at_path(package, *above)),
        {"op": "add", "path": _pointer(place), "value": value},
        *_noting(package, Note(entry, place, golden)),
    ]


def _changing(package: Obj, entry: Obj) -> list[Obj]:
    note = _note(package)
    if note is None or note.entry is None:
        return []
    index = _index(package, note.entry)
    path = f"{_pointer(IMAGES)}/{index}"
    return [
        {"op": "test", "path": path, "value": note.entry},
        {"op": "replace", "path": path, "value": entry},
        *_noting(package, Note(entry, note.place, note.golden)),
    ]


def _taking_out(package: Obj) -> list[Obj]:
    note = _note(package)
    if note is None or note.entry is None:
        return []
    out = Note(None, (), note.golden)
    mark = _noting(package, out) if note.golden else _unnoting(package)
    index = _index(package, note.entry, missing=-1)
    if index < 0:  # somebody took it out already, or made it theirs
        return mark
    whole = note.place and _is_only_ours(package, note, listed(package, *IMAGES))
    where = note.place if whole else (*IMAGES, str(index))
    value = at_path(package, *note.place) if whole else note.entry
    return [_test(where, value), {"op": "remove", "path": _pointer(where)}, *mark]


def _is_only_ours(package: Obj, note: Note, images: list[Any]) -> bool:
    """Whether all that stands where a part was made is what was made there."""
    above, entry = at_path(package, *note.place), note.entry or {}
    for key in IMAGES[len(note.place) :]:
        if not isinstance(above, dict) or set(above) != {key}:
            return False
        above = above[key]
    return above == images and images.count(entry) == 1 and images[-1] == entry


def _index(package: Obj, entry: Obj, *, missing: int | None = None) -> int:
    """Where an entry stands; the last of several alike, which is where it was put."""
    images = listed(package, *IMAGES)
    found = [number for number, one in enumerate(images) if one == entry]
    if not found and missing is None:
        do = "look at the Package's images by hand"
        raise NotRestored(f"find {entry} in Package {NAME}", "it is not there any more", do)
    return found[-1] if found else int(missing or 0)


def _noting(package: Obj, note: Note) -> list[Obj]:
    marks = at_path(package, "metadata", "annotations")
    if isinstance(marks, dict):
        path = _pointer(("metadata", "annotations", NOTE))
        return [{"op": "add", "path": path, "value": note.text()}]
    return [{"op": "add", "path": "/metadata/annotations", "value": {NOTE: note.text()}}]


def _unnoting(package: Obj) -> list[Obj]:
    marks = mapped(package, "metadata", "annotations")
    alone = (
        ("metadata", "annotations") if set(marks) == {NOTE} else ("metadata", "annotations", NOTE)
    )
    return [_test(alone, at_path(package, *alone)), {"op": "remove", "path": _pointer(alone)}]


def _test(path: tuple[str, ...], value: Any) -> Obj:
    return {"op": "test", "path": _pointer(path), "value": value}


def _note(package: Obj) -> Note | None:
    written = mapped(package, "metadata", "annotations").get(NOTE)
    if written is None:
        return None
    try:
        found = json.loads(str(written))
    except ValueError:
        found = None
    entry = at_path(found, "entry")
    if not isinstance(entry, dict) and not (isinstance(found, dict) and "entry" in found):
        saw, do = f"the note {written!r}", f"take the entry out and remove annotation {NOTE}"
        raise NotRestored(f"read what was put into Package {NAME}", saw, do)
    place = tuple(str(one) for one in listed(found, "place"))
    return Note(entry if isinstance(entry, dict) else None, place, text_at(found, "golden"))


def _pointer(path: tuple[str, ...]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in path)
