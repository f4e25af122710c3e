"""The facts behind a claim on two substrates, compared by shape and not by what they say."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.report.fingerprint import (
    CUT,
    EMPTY,
    TEXT,
    Form,
    excerpt,
    form_of,
    source_pattern,
    type_of,
    what_was_asked,
)
from harness.report.records import Record

NOTHING = "nothing of the kind"
"""What a side writes that lacks a form."""
UNREAD = "Unread"
_NULL = type_of(None)
_LEFT_OUT = " bytes left out ...]"
_PROMPT = re.compile(r"^(?P<node>[\w.-]+)# (?P<command>.+)$", re.MULTILINE)
_EXIT = re.compile(r"^\[exit .*\]$", re.MULTILINE)
_SESSION = 2
"""Commands that make a text a transcript."""


@dataclass(frozen=True, slots=True)
class Slip:
    """One way in which the facts of two sides differ in shape.

    ``what`` is kinds, source, values, style or text; ``fact`` the kind of fact; ``where`` its
    source or the value. ``left`` and ``right`` are excerpts of what each side writes.
    """

    what: str
    fact: str
    where: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class Extra:
    """Forms of a text that only one side writes, and not each time: none that the other lacks."""

    fact: str
    where: str
    forms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """A fact, or one that another holds (``EarlyPod.smi``), or one command of a transcript."""

    kind: str
    source: str
    raw: str
    values: Mapping[str, Any]


@dataclass(slots=True)
class Evidence:
    """The facts of one side by kind. ``simulated``: whatever is written there has to be proved."""

    simulated: bool
    kinds: dict[str, list[Seen]] = field(default_factory=dict)
    _taken: set[tuple[str, int]] = field(default_factory=set)

    def take(self, facts: Iterable[Record]) -> None:
        """Add the facts of one claim, each once, with those that they hold."""
        for fact in facts:
            place = fact.shard, fact.line
            if place not in self._taken:
                self._taken.add(place)
                raw = "" if fact.text("raw_note") else fact.text("raw")
                whole = Seen(fact.text("kind"), fact.text("source"), raw, fact.data["values"])
                for one in _seen(whole):
                    self.kinds.setdefault(one.kind, []).append(one)

    def by_source(self, kind: str) -> dict[str, list[Seen]]:
        """The facts of a kind, by where they are from, whosoever it is."""
        found: dict[str, list[Seen]] = {}
        for one in self.kinds.get(kind, ()):
            found.setdefault(source_pattern(one.source), []).append(one)
        return found

    def by_question(self, kind: str) -> dict[str, list[Seen]]:
        """The facts of a kind by the file or command, through whatever it was asked."""
        found: dict[str, list[Seen]] = {}
        for source, facts in self.by_source(kind).items():
            found.setdefault(what_was_asked(source), []).extend(facts)
        return found


def _seen(fact: Seen) -> Iterator[Seen]:
    """A fact, its transcript command by command, and every fact among its values."""
    sections = list(_sections(fact))
    yield replace(fact, raw="") if sections else fact
    yield from sections
    for name, value in fact.values.items():
        yield from _held(f"{fact.kind}.{name}", value)


def _held(kind: str, value: Any) -> Iterator[Seen]:
    if isinstance(value, list):
        for item in value:
            yield from _held(kind, item)
    elif isinstance(value, dict):
        origin = value.get("origin")
        if isinstance(origin, dict) and {"source", "raw"} <= origin.keys():
            raw = "" if _LEFT_OUT in origin["raw"] else origin["raw"]
            rest = {name: item for name, item in value.items() if name != "origin"}
            yield from _seen(Seen(kind, origin["source"], raw, rest))
        else:
            for name, item in value.items():
                yield from _held(f"{kind}.{name}", item)


def _sections(fact: Seen) -> Iterator[Seen]:
    """A transcript (``n1# drbdadm status r0``, what it said, ``[exit 0]``) by its commands."""
    marks = list(_PROMPT.finditer(fact.raw))
    if len(marks) < _SESSION:
        return
    ends = [*(mark.start() for mark in marks[1:]), len(fact.raw)]
    for mark, end in zip(marks, ends, strict=True):
        text = _EXIT.sub("", fact.raw[mark.end() : end])
        yield Seen(f"{fact.kind}.transcript", f"guest {mark['node']}:{mark['command']}", text, {})


def kinds_apart(left: Sequence[Record], right: Sequence[Record]) -> Iterator[Slip]:
    """Kinds of fact that a claim rests on at one side only."""
    names = [dict.fromkeys(fact.text("kind") for fact in facts) for facts in (left, right)]
    for kind in dict.fromkeys((*names[0], *names[1])):
        if kind not in names[0] or kind not in names[1]:
            told = [_first(facts, kind) for facts in (left, right)]
            yield Slip("kinds", kind, "", *told)


def slips(left: Evidence, right: Evidence) -> Iterator[Slip]:
    """All differences in shape between facts of the kinds that both sides have."""
    for kind in left.kinds:
        if kind in right.kinds and UNREAD not in kind:
            yield from _values(kind, left.kinds[kind], right.kinds[kind])
            yield from _sources(kind, left, right)
            for where, ours, theirs in _pairs(kind, left, right):
                yield from _texts(kind, where, ours, theirs, left, right)


def extras(left: Evidence, right: Evidence) -> Iterator[tuple[bool, Extra]]:
    """What only one side writes and not each time; True where it is the left one."""
    for kind in left.kinds:
        if kind in right.kinds and UNREAD not in kind:
            for where, ours, theirs in _pairs(kind, left, right):
                for style, a, b in _common(ours, theirs):
                    yield from _extras(kind, f"{where}, {style}", a, b, left, right)


def _first(facts: Sequence[Record], kind: str) -> str:
    for fact in facts:
        if fact.text("kind") == kind:
            values = fact.data["values"]
            reason = values.get("reason") or values.get("why")
            told = f"{fact.text('source')}: {reason}" if reason else fact.text("source")
            return excerpt(told)
    return NOTHING


def _values(kind: str, left: Sequence[Seen], right: Sequence[Seen]) -> Iterator[Slip]:
    """Values of one name that have no type in common, or that one side alone has.

    Null stands for any type.
    """
    ours, theirs = _types(left), _types(right)
    for name in dict.fromkeys((*ours, *theirs)):
        a, b = ours.get(name, {}), theirs.get(name, {})
        apart = not a.keys() & b.keys() and _NULL not in (*a, *b)
        if apart:
            yield Slip("values", kind, name, _typed(name, a), _typed(name, b))


def _types(facts: Sequence[Seen]) -> dict[str, dict[str, str]]:
    """Of each value the types it had, with the first of each."""
    found: dict[str, dict[str, str]] = {}
    for fact in facts:
        for name, value in fact.values.items():
            found.setdefault(name, {}).setdefault(
                type_of(value), excerpt(f"{name} = {json.dumps(value)}")
            )
    return found


def _typed(name: str, types: Mapping[str, str]) -> str:
    if not types:
        return f"no {name}"
    return "; ".join(f"{told} ({kind})" for kind, told in types.items())


def _sources(kind: str, left: Evidence, right: Evidence) -> Iterator[Slip]:
    """Where facts of a kind are from, if the two sides have no place in common."""
    ours, theirs = left.by_source(kind), right.by_source(kind)
    if not ours.keys() & theirs.keys():
        yield Slip("source", kind, "", "; ".join(ours), "; ".join(theirs))


def _pairs(
    kind: str, left: Evidence, right: Evidence
) -> Iterator[tuple[str, dict[str, Form], dict[str, Form]]]:
    """The texts to compare, by what was asked: what another program wrote has another form."""
    ours, theirs = left.by_question(kind), right.by_question(kind)
    for where in ours:
        if where in theirs:
            yield where, _forms(ours[where]), _forms(theirs[where])


def _forms(facts: Sequence[Seen]) -> dict[str, Form]:
    found = form_of(fact.raw for fact in facts)
    return {style: form for style, form in found.items() if style not in (EMPTY, CUT)}


def _texts(
    kind: str,
    where: str,
    ours: Mapping[str, Form],
    theirs: Mapping[str, Form],
    left: Evidence,
    right: Evidence,
) -> Iterator[Slip]:
    if ours and theirs and not ours.keys() & theirs.keys():
        yield Slip("style", kind, where, _sample(ours), _sample(theirs))
    for _, a, b in _common(ours, theirs):
        for part in _wrong(a, b, left, right):
            yield Slip("text", kind, where, _like(part, a), _like(part, b))


def _common(
    ours: Mapping[str, Form], theirs: Mapping[str, Form]
) -> Iterator[tuple[str, Form, Form]]:
    for style in ours:
        if style in theirs:
            a, b = ours[style], theirs[style]
            prose = style == TEXT and (a.free or b.free)
            yield (style, a.heads(), b.heads()) if prose else (style, a, b)


def _wrong(a: Form, b: Form, left: Evidence, right: Evidence) -> list[str]:
    """The forms that one side has and should not, or lacks and should not.

    A simulated side may write nothing that the real one never wrote, and has to write what the
    real one wrote each time. Of two alike, each has to have what the other wrote each time.
    """
    only_a = [part for part in a.parts if part not in b.parts]
    only_b = [part for part in b.parts if part not in a.parts]
    if left.simulated != right.simulated:
        invented, real = (only_a, b) if left.simulated else (only_b, a)
        lacking = only_b if left.simulated else only_a
        return invented + [part for part in lacking if part in real.always]
    return [p for p in only_a if p in a.always] + [p for p in only_b if p in b.always]


def _extras(
    kind: str, where: str, a: Form, b: Form, left: Evidence, right: Evidence
) -> Iterator[tuple[bool, Extra]]:
    told = set(_wrong(a, b, left, right))
    for ours, form, other in ((True, a, b), (False, b, a)):
        known = told | other.parts.keys()
        only = tuple(text for part, text in form.parts.items() if part not in known)
        if only:
            yield ours, Extra(kind, where, only)


def _like(part: str, form: Form) -> str:
    """The excerpt of a form, or of the one most like it."""
    if part in form.parts:
        return form.parts[part]
    near = difflib.get_close_matches(part, list(form.parts), n=1, cutoff=0.5)
    return form.parts[near[0]] if near else NOTHING


def _sample(forms: Mapping[str, Form]) -> str:
    firsts = (next(iter(form.parts.values()), "") for form in forms.values())
    return "; ".join(f"{style}: {first}" for style, first in zip(forms, firsts, strict=True))
