"""Which of a chart's guards speaks in a refusal: by fragments, told apart from each other.

The fragments are those of clone_path 3 (S-OSI), with the released chart's words for the two guards
that stand there without any (CZ packages/apps/kubernetes-nodes/templates/_helpers.tpl), and those
of the catalogue's chart (clone_path 2; CZ packages/system/kubernetes-worker-image/templates/dv.yaml
). Helm, a terminal or a log may wrap a message anywhere, so white space is not compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from harness.facts.refusals import chart_text

Fragments = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard: what it says, in any of ``ways``; ``field`` are the words that name its field."""

    row: str
    about: str
    ways: tuple[Fragments, ...]
    field: Fragments = ()


class Said(Enum):
    """What a message says, when one guard's refusal is expected of it."""

    EXPECTED = "by its own words"
    UNNAMED = "by its own words, without the field or the value"
    OTHER = "by another guard's words"
    FOREIGN = "by none of the chart's guards"
    CUT = "by a text that is cut before it says which"


def _guard(row: str, about: str, *ways: str | Fragments, field: Fragments = ()) -> Guard:
    return Guard(row, about, tuple((way,) if isinstance(way, str) else way for way in ways), field)


_GOLDEN_MISSING = "osImage.builtin requested golden DataVolume"
_ALL = (
    _guard("R1", "both forms of osImage", "set only one of osImage.builtin or osImage.factory"),
    _guard(
        "R2",
        "a schematic that is no identifier",
        "is not a plain lowercase alphanumeric identifier",
        field=("schematicID",),
    ),
    _guard(
        "R3",
        "a Talos version that is no release",
        "is not a vMAJOR.MINOR.PATCH release",
        field=("version",),
    ),
    _guard(
        "R4",
        "an image factory that is no URL",
        "is not a plain http(s) URL",
        field=("imageFactoryURL",),
    ),
    _guard(
        "R5",
        "a golden that is not there",
        (_GOLDEN_MISSING, "not found in cozy-public"),
        (_GOLDEN_MISSING, "neither", "cozy-public"),
        field=("osImage.builtin", "kubernetes-worker-image"),
    ),
    _guard("R6", "a golden that failed", "failed to import (phase Failed)"),
    _guard(
        "R7", "a golden that keeps failing", ("keeps failing to import (", "importer restarts)")
    ),
    _guard(
        "R8",
        "another class than the golden's",
        ("differs from golden image", "Neither side can be moved in place"),
        field=("storageClass",),
    ),
    _guard(
        "R9", "a disk smaller than the golden", "is smaller than golden image", field=("diskSize",)
    ),
    _guard(
        "R10",
        "Kubernetes that Talos does not support",
        ("is not supported by Talos", "Supported versions:"),
        field=("Kubernetes", "Talos"),
    ),
    _guard(
        "R11",
        "Kubernetes ahead of its parent",
        "is ahead of parent cluster",
        "parent-version guard",
        field=("version",),
    ),
    _guard(
        "R12",
        "a pool of another release",
        "is already managed by release",
        "foreign-pool guard",
        field=("MachineDeployment",),
    ),
    _guard(
        "duplicate",
        "an entry that is there twice",
        ("two images[] entries", "resolve to the same golden"),
        "duplicate",
        field=("images",),
    ),
    _guard(
        "schematic",
        "an entry's schematic that no pool can name",
        "is not a plain lowercase alphanumeric identifier",
        field=("schematicID",),
    ),
    _guard(
        "version",
        "an entry's version that no pool can name",
        "is not a vMAJOR.MINOR.PATCH",
        field=("version",),
    ),
    _guard(
        "url",
        "an entry's factory that is no URL",
        "is not a plain http(s) URL",
        field=("imageFactoryURL",),
    ),
    _guard(
        "changed",
        "an entry that was changed under its golden",
        ("changed after its golden DataVolume", "was created"),
    ),
)
GUARDS: Mapping[str, Guard] = MappingProxyType({one.row: one for one in _ALL})
"""Every guard by its row: R1 to R12 of a pool, the others of the catalogue."""
OF_CATALOGUE = ("duplicate", "schematic", "version", "url", "changed")


def said(message: str, row: str, wrong: Sequence[str]) -> Said:
    """What a message says where the guard of ``row`` is to speak and name all of ``wrong``.

    The guard whose words come first is the one that speaks: a later one is quoted, in a list of
    what was tried before or in a hint. A message that is cut is blamed for nothing.
    """
    found = chart_text(message)
    text = _squeezed(found.text)
    guard, rivals = GUARDS[row], _rivals(row)
    mine = min((place for way in guard.ways if (place := _place(text, way)) >= 0), default=-1)
    theirs = [place for one in rivals for way in one.ways if (place := _place(text, way)) >= 0]
    if theirs and (mine < 0 or min(theirs) < mine):
        return Said.OTHER
    if mine >= 0:
        named = all(map(text.__contains__, map(_squeezed, guard.field)))
        if named and all(any(form in text for form in forms(value)) for value in wrong):
            return Said.EXPECTED
        return Said.CUT if found.cut else Said.UNNAMED
    cut = found.cut and not _YAML.search(found.text)
    return Said.CUT if cut or _breaks_off(text, guard) else Said.FOREIGN


def speaker(message: str) -> str:
    """The row of the guard of pools that speaks in a message, "" for none of them."""
    text = _squeezed(chart_text(message).text)
    places = [
        (place, one.row)
        for one in _ALL
        if one.row not in OF_CATALOGUE
        for way in one.ways
        if (place := _place(text, way)) >= 0
    ]
    return min(places)[1] if places else ""


def forms(value: str) -> tuple[str, ...]:
    """A value as a message may show it: as it is, or quoted as Go and JSON do; without blanks."""
    quoted = json.dumps(value, ensure_ascii=False)
    inner = (value, quoted[1:-1], json.dumps(value)[1:-1])
    return tuple(dict.fromkeys(map(_squeezed, inner if value else ('""', "''"))))


def _rivals(row: str) -> list[Guard]:
    """The other guards of the same chart."""
    catalogue = row in OF_CATALOGUE
    return [one for one in _ALL if (one.row in OF_CATALOGUE) == catalogue and one.row != row]


def _place(text: str, way: Fragments) -> int:
    """Where a way of speaking begins in a text, all its fragments in their order; -1 where not."""
    first, at = -1, 0
    for fragment in map(_squeezed, way):
        found = text.find(fragment, at)
        if found < 0:
            return -1
        first, at = (found if first < 0 else first), found + len(fragment)
    return first


_YAML = re.compile(r"yaml\s*:|cannot\s+unmarshal|parse\s+error", re.IGNORECASE)
"""How a parser complains, which shows that a value got as far as that."""
_ENOUGH = 8
"""Characters of a fragment at a text's very end that show that it was going on with it."""


def _breaks_off(text: str, guard: Guard) -> bool:
    """Whether a text ends in the middle of what the guard says."""
    for way in guard.ways:
        words = [_squeezed(one) for one in way]
        begun = [n for n in range(len(words)) if _place(text, way[: n + 1]) >= 0]
        rest = words[len(begun)] if len(begun) < len(words) else ""
        tails = range(_ENOUGH, len(rest))
        if any(text.endswith(rest[:size]) for size in tails):
            return True
    return False


def _squeezed(text: str) -> str:
    return "".join(text.split())
