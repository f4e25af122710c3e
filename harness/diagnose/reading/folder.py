"""A folder of captures, an archive of them or one file, as a Case."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from harness.diagnose.case import OWN, Case, Unused
from harness.diagnose.reading import placing
from harness.diagnose.reading.asking import place_chosen
from harness.diagnose.reading.cleaning import cleaned
from harness.diagnose.reading.found import Found
from harness.diagnose.reading.limits import DEFAULT, Limits
from harness.diagnose.reading.parts import Context, hint_of, holds_objects, read_part, read_text
from harness.diagnose.reading.sources import Piece, pieces
from harness.diagnose.reading.transcript import Part, parts_of
from harness.diagnose.reading.window import Taken, take


def read_folder(path: Path, limits: Limits = DEFAULT) -> Case:
    """Read what is at a path: a folder, a .tar, .tar.gz or .zip, or one file.

    Raises NotReadable where nothing is there. What is there and cannot be used is in the Case's
    ``unused``, each with why; it never makes anything absent. The same files give the same Case.
    """
    found = Found()
    room = _Room(limits)
    for piece in pieces(path, limits, found.tell):
        _file(piece, room, found)
    return placing.placed(found)


def _file(piece: Piece, room: _Room, found: Found) -> None:
    taken = take(piece.stream, room.limits)
    if taken.unfit:
        found.tell(piece.name, taken.unfit)
        return
    if taken.note:
        found.tell(piece.name, taken.note)
    text = cleaned(taken.data)
    if not text.strip():
        found.tell(piece.name, "empty")
        return
    if text.startswith(OWN):
        found.tell(piece.name, "made from captures, and none itself")
        return
    before = (len(found.objects), len(found.texts))
    _parts(piece.name, text, taken, found)
    room.keep(piece.name, found, before, len(taken.data))


def _parts(name: str, text: str, taken: Taken, found: Found) -> None:
    parts = parts_of(text)
    hint, place = hint_of(name), ""
    for part in parts[:-1]:
        place = place_chosen(part.command) or place
        read_part(part, Context(name, hint, place=place), found)
    for part in parts[-1:]:
        context = Context(name, hint, not taken.ended, place_chosen(part.command) or place)
        rest = cleaned(taken.rest)
        if rest and not holds_objects(part):
            read_text(replace(part, text=part.text + rest), context, found)
            continue
        read_part(part, context, found)
        if rest:
            read_text(Part(rest, part.line + part.text.count("\n")), context, found)


class _Room:
    """What may still be kept of all files together."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._objects = limits.objects
        self._texts = limits.texts

    def keep(self, name: str, found: Found, before: tuple[int, int], size: int) -> None:
        """Count what a file of so many bytes added; texts without room are given up, and told."""
        objects, texts = before
        if len(found.objects) > objects:
            self._objects = max(self._objects - size, 0)
            structured = min(self.limits.structured, self._objects)
            self.limits = replace(self.limits, structured=structured)
        added = sum(sys.getsizeof(text.text) for text, _ in found.texts[texts:])
        if added > self._texts:
            del found.texts[texts:]
            found.tell(name, "there is no room left for its text")
        else:
            self._texts -= added


def describe_unused(case: Case) -> list[str]:
    """What was not used and why, a line each; of many places in one file the first."""
    return [f"{one.source}: {one.why}" for one in _together(case.unused)]


def _together(unused: tuple[Unused, ...]) -> Iterator[Unused]:
    alike: dict[tuple[str, str], list[Unused]] = {}
    for one in unused:
        file, _, line = one.source.rpartition(":")
        place = file if file and line.isdecimal() else one.source
        alike.setdefault((place, one.why.partition(":")[0]), []).append(one)
    for first, *others in alike.values():
        more = f" (and {len(others)} more in this file)" if others else ""
        yield Unused(first.source, first.why + more)
