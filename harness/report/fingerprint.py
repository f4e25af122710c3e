"""The form of a text, without its content: what two programs must have in common to be one.

A line of text becomes its pattern: times, numbers, hexadecimal, names, states and paths by their
class, punctuation as it stands. A line of ``key:value`` becomes its keys, each with the class of
its value, for which of them a program writes depends on what there is to say; a line of a kernel's
log becomes its stamp. JSON becomes the paths to its leaves, each with the leaf's type. Two texts of
one program have one form, whatever they say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

JSON, TEXT, CUT, EMPTY = "JSON", "text", "JSON that is cut", "nothing"
LONGEST = 120
"""Characters of an excerpt."""
_FREE_LINES = 8
_FREE_SHARE = 0.6
"""A text of so many lines of which so many have a pattern of their own is prose, as a log is."""
_HEAD = 2
"""Tokens of a line of prose that are compared."""
_STAMP = re.compile(r"\s*(?P<level><\d+>)?\[\s*\d+\.\d+\]")
_WORDS = ("<name>", "<state>")
_KEYED = 2
"""Keys that make a line one of ``key:value``."""

_TOKEN = re.compile(
    r"""
      (?P<time>\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?
        | \b\d\d:\d\d:\d\d(?:\.\d+)?\b)
    | (?P<hex>0[xX][0-9a-fA-F]+
        | [0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}
        | \b[0-9a-fA-F]{2,8}(?::[0-9a-fA-F]{2,4})+(?:\.[0-9a-fA-F])?\b
        | \b(?=[0-9a-fA-F]*[0-9])(?=[0-9]*[a-fA-F])[0-9a-fA-F]{8,}\b)
    | (?P<number>-?\b\d+(?:[.:/-]\d+)*(?:\.\d+)*(?:%|[KMGTP]?i?B\b|[smh]\b|ms\b)?)
    | (?P<key>[A-Za-z][\w'./-]*[:=](?=[^\s:=/]))
    | (?P<path>(?<![\w.])/[\w.+-]+(?:/[\w.+:-]+)*)
    | (?P<state>\b(?:[A-Z][A-Za-z]*|yes|no|on|off|true|false)\b(?![\w.-]|\s*[:=]))
    | (?P<name>[A-Za-z_][\w.+-]*(?:,[A-Za-z_][\w.+-]*)*,?|-+(?=\s|$))
    | (?P<mark>\S)
    """,
    re.VERBOSE,
)
_KEY = re.compile(r"[A-Za-z][\w'./-]*[:=]\S")
_SOURCE_NAME = re.compile(r"^(?P<where>guest|host|node|machine) [^\s:]+:")
_DYNAMIC = re.compile(r"[./]|^f:|^\d+$")
"""Keys of objects that are data: an annotation's, a managed field's, a number."""


@dataclass(frozen=True, slots=True)
class Form:
    """What texts of one style consist of.

    ``parts`` has each pattern or path, with the first excerpt of it; ``always`` are those that
    every text had. ``lines`` counts those that have a pattern as a whole.
    """

    style: str
    parts: Mapping[str, str] = field(default_factory=dict)
    always: Set[str] = frozenset()
    lines: int = 0

    @property
    def free(self) -> bool:
        """Whether it is prose: nearly every line has a pattern that no other has."""
        whole = [part for part in self.parts if not _KEY.match(part)]
        return self.lines >= _FREE_LINES and len(whole) > _FREE_SHARE * self.lines

    def heads(self) -> Form:
        """The same by the beginnings of its lines alone."""
        cut: dict[str, str] = {}
        for pattern, told in self.parts.items():
            cut.setdefault(_head(pattern), told)
        return Form(self.style, cut, frozenset(map(_head, self.always)), self.lines)

    def joined(self, other: Form) -> Form:
        """The form of the texts of both."""
        parts = {**other.parts, **self.parts}
        return Form(self.style, parts, self.always & other.always, self.lines + other.lines)


def form_of(texts: Iterable[str]) -> dict[str, Form]:
    """The forms of several texts of one program, by style."""
    found: dict[str, Form] = {}
    for text in dict.fromkeys(texts):
        one = _form(text)
        found[one.style] = found[one.style].joined(one) if one.style in found else one
    return found


def pattern_of(line: str) -> str:
    """A line of text as its tokens' classes."""
    words: list[str] = []
    for token in _TOKEN.finditer(line):
        kind = token.lastgroup or "mark"
        word = token[0] if kind in ("key", "mark") else f"<{kind}>"
        if words and not line[token.start() - 1].isspace():
            words[-1] += word
        else:
            words.append(word)
    return " ".join(_without_runs(words))


def _patterns(line: str) -> list[str]:
    """What a line adds to a form: its pattern, or its keys one by one, or its stamp."""
    stamp = _STAMP.match(line)
    if stamp:
        return [f"{'<level>' if stamp['level'] else ''}[<stamp>]"]
    pattern = pattern_of(line)
    keyed = [word for word in pattern.split(" ") if _KEY.match(word)]
    return keyed if len(keyed) >= _KEYED else [pattern]


def _head(pattern: str) -> str:
    return " ".join(pattern.split(" ")[:_HEAD])


def source_pattern(source: str) -> str:
    """Where a fact comes from, without whose it is: ``guest <name>:/proc/modules``."""
    known = _SOURCE_NAME.sub(lambda match: f"{match['where']} <name>:", source)
    return " ".join(_of_nobody(word) for word in known.split(" "))


def what_was_asked(pattern: str) -> str:
    """The file or the command of a source, whichever way to the machine it took; else all of it."""
    _, _, asked = pattern.partition(":")
    return asked.strip() or pattern


def _of_nobody(word: str) -> str:
    if word.startswith(("<", "-", "/")) or ":/" in word:
        return word
    if "=" in word:
        return f"{word.partition('=')[0]}=<value>"
    if "/" in word:
        _, colon, asked = word.partition(":")
        return f"<namespace>/<name>{colon}{asked}"
    if ":" in word:
        _, colon, asked = word.partition(":")
        return f"<name>{colon}{asked}"
    has_digits = any(letter.isdigit() for letter in word)
    return "<name>" if has_digits or word.count("-") > 1 else word


def excerpt(text: str) -> str:
    """One line of at most `LONGEST` characters."""
    line = text.rstrip()
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} .."


def _form(text: str) -> Form:
    stripped = text.strip()
    if not stripped:
        return Form(EMPTY)
    if stripped[0] not in "{[":
        return _lines(text)
    try:
        value = json.loads(stripped)
    except (ValueError, RecursionError):
        return _lines(text) if stripped[0] == "[" else Form(CUT)
    leaves: dict[str, str] = {}
    for path, told in _leaves(value, ""):
        leaves.setdefault(path, excerpt(told))
    return Form(JSON, leaves, frozenset(leaves), len(leaves))


def _lines(text: str) -> Form:
    lines = [line for line in text.splitlines() if line.strip()]
    parts: dict[str, str] = {}
    whole = 0
    for line in lines:
        patterns = _patterns(line)
        whole += not _KEY.match(patterns[0])
        for pattern in patterns:
            parts.setdefault(pattern, excerpt(line.strip()))
    return Form(TEXT, parts, frozenset(parts), whole)


def _without_runs(words: list[str]) -> Iterator[str]:
    """Names in a row are words of a sentence, and what follows a capital a product's name ("NVIDIA
    RTX PRO 6000 Server Edition"): how many words there are says nothing.
    """
    before = ""
    for place, word in enumerate(words):
        after = words[place + 1] if place + 1 < len(words) else ""
        is_word = word in _WORDS or (word == "<number>" and after in _WORDS)
        in_run = (before == "<state>" and is_word) or (word == before == "<name>")
        if not in_run:
            yield word
            before = word


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Paths to what is not a container; null has no type and tells nothing."""
    if isinstance(value, dict):
        for key, item in value.items():
            name = "<key>" if _DYNAMIC.search(key) else key
            yield from _leaves(item, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, f"{path}[]")
    elif value is not None:
        yield f"{path}: {type_of(value)}", f"{path} = {json.dumps(value)}"


def type_of(value: Any) -> str:
    """JSON's name for a value's type."""
    if isinstance(value, bool):
        return "truth"
    names = {int: "number", float: "number", str: "text", dict: "object", list: "list"}
    return names.get(type(value), "null")
