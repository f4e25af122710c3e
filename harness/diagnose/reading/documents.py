"""Kubernetes objects in YAML or JSON: one, a List, several documents, run together, cut anywhere.

What is not proven whole is not given as whole. JSON proves it by its brackets. YAML does not: what
ends a file may have been followed by more. The last document of a text that nothing follows is
therefore given with what is proven: all but its last open branch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from harness.diagnose.reading import jsontext
from harness.diagnose.reading.objects import Shown, Unfit, copied, shown_of, slim

Obj = dict[str, Any]

_YAML_BEGIN = re.compile(r"^(?:- )?(?:apiVersion|kind|items|metadata):(?:\s|$)", re.MULTILINE)
_SEPARATOR = re.compile(r"(?:---|\.\.\.)(?:\s.*)?")
_ALIAS = re.compile(r"(?:^|[\s\[,{])\*\w")
_BLOCK = re.compile(r"[|>][-+\d]*$|[&!]\S*$")
_FOLDED = 70
"""A line shorter than this ends its scalar: what folds long ones does so from 80 columns on."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object. ``line`` is where it begins; ``shown`` as in Thing."""

    obj: Obj
    line: int
    shown: Shown = None


@dataclass(slots=True)
class Documents:
    """What was found in a text.

    ``lists`` are the kinds of Lists that are proven whole, in which nothing was left out ("List",
    "PodList"). ``troubles`` are lines and why something there is not used. ``others`` is JSON that
    is no Kubernetes object, ``rest`` the text before the first document and after the last.
    """

    found: list[Document] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    troubles: list[tuple[int, str]] = field(default_factory=list)
    others: list[jsontext.Value] = field(default_factory=list)
    rest: str = ""

    def add(self, value: Any, line: int, shown: Shown = None) -> bool:
        """Take a value that may be an object; whether it is one."""
        try:
            obj = slim(value)
        except Unfit as unfit:
            self.troubles.append((line, str(unfit)))
            return False
        self.found.append(Document(obj, line, shown_of(obj, shown)))
        return True


def is_yaml(text: str) -> bool:
    """Whether a text has the beginning of an object in YAML, not far from its own."""
    return bool(_YAML_BEGIN.search(text[:4096]))


def yaml_documents(text: str, *, closed: bool, line: int = 1) -> Documents:
    """The objects of a text in YAML. ``closed``: its end is known to be where it ended."""
    result = Documents()
    chunks = list(_chunks(text, line))
    for number, (start, chunk) in enumerate(chunks):
        last = number == len(chunks) - 1
        _document(chunk, start, result, closed=closed or not last)
    return result


def _chunks(text: str, line: int) -> Iterator[tuple[int, str]]:
    """The documents' texts, each with the number of its first line."""
    lines: list[str] = []
    start, has_version = line, False
    for number, one in enumerate(text.split("\n"), start=line):
        separator = _SEPARATOR.fullmatch(one)
        again = one.startswith("apiVersion:") and has_version
        if separator or again:
            yield start, "\n".join(lines) + "\n"
            lines, start, has_version = [], number + bool(separator), False
        if not separator:
            lines.append(one)
            has_version = has_version or one.startswith("apiVersion:")
    yield start, "\n".join(lines)


def _document(chunk: str, line: int, result: Documents, *, closed: bool) -> None:
    begin = _YAML_BEGIN.search(chunk)
    if begin is None:
        result.rest += chunk
        return
    result.rest += chunk[: begin.start()]
    line += chunk.count("\n", 0, begin.start())
    chunk = chunk[begin.start() :]
    if re.search(r"^items:", chunk, re.MULTILINE) or chunk.startswith("- "):
        _List(chunk, line, result, closed=closed).read()
    elif closed:
        _closed(chunk, line, result)
    else:
        _open(chunk, line, result)


def _closed(chunk: str, line: int, result: Documents) -> bool:
    try:
        return result.add(_load(chunk), line)
    except Unfit as unfit:
        result.troubles.append((line, str(unfit)))
        return False


def _open(chunk: str, line: int, result: Documents) -> None:
    """A document at the end of a text, which may have been cut."""
    text, ended, tail = chunk.rpartition("\n")
    if tail.strip():
        cut = line + chunk.count("\n")
        result.troubles.append((cut, "ends inside a line, which may be cut: it is left out"))
    try:
        value = _load(text + ended)
    except Unfit as unfit:
        result.troubles.append((line, f"cut: {unfit}"))
        return
    if isinstance(value, dict):
        result.add(value, line, frozenset(_closed_paths(value, text.rstrip().rpartition("\n")[2])))
    else:
        result.troubles.append((line, "cut before it says what it is"))


def _closed_paths(value: Obj, final: str) -> Iterator[tuple[str, ...]]:
    """The paths that are whole though the text may go on after its ``final`` line. What may not be
    whole at its end, a scalar or the last item of a list, is taken out."""
    path: tuple[str, ...] = ()
    while value:
        *before, last = value
        yield from ((*path, str(key)) for key in before)
        inner = value[last]
        if isinstance(inner, dict):
            path, value = (*path, str(last)), inner
            continue
        if isinstance(inner, list):
            if inner and not (_plain(inner[-1]) and _ended(final, "-")):
                inner.pop()
            if not inner:
                del value[last]
        elif _plain(inner) and _ended(final, f"{last}:"):
            yield (*path, str(last))
        else:
            del value[last]
        return


def _plain(value: Any) -> bool:
    return value is not None and not isinstance(value, (dict, list))


def _ended(final: str, begin: str) -> bool:
    """Whether a scalar stands whole on the last line: beside its key, unfolded, and no block."""
    said = final.strip().removeprefix("- ") if begin != "-" else final.strip()
    return said.startswith(begin) and len(final) < _FOLDED and not _BLOCK.search(said)


class _List:
    """A List in YAML, item by item: each is whole where something follows it."""

    def __init__(self, chunk: str, line: int, result: Documents, *, closed: bool) -> None:
        self._lines = chunk.split("\n")
        self._line = line
        self._result = result
        self._closed = closed
        self._envelope: list[str] = []
        self._whole = True

    def read(self) -> None:
        for line, item, whole in self._items():
            if whole:
                self._whole &= self._item(line, item)
            else:
                self._whole = False
                self._result.troubles.append((line, "cut inside this object: it is not used"))
        ended = any(line.startswith("kind:") for line in self._envelope)
        if self._whole and ended and self._after_items:
            kind = next(line for line in self._envelope if line.startswith("kind:"))
            self._result.lists.append(kind.partition(":")[2].strip())

    _after_items = False

    def _items(self) -> Iterator[tuple[int, str, bool]]:
        item: list[str] = []
        start, indent, inside = self._line, "", self._lines[0].startswith("- ")
        for number, line in enumerate(self._lines, start=self._line):
            if line.startswith("items:") and not inside:
                inside = True
                self._after_items = line.partition(":")[2].strip() == "[]"
                continue
            opened = re.match(r"( {0,4})- ", line) if inside else None
            if opened and (not item or opened[1] == indent):
                if item:
                    yield start, "\n".join(item) + "\n", True
                item, start, indent = [line], number, opened[1]
            elif inside and line and not line.startswith((" ", "#")):
                self._after_items = True
                if item:
                    yield start, "\n".join(item) + "\n", True
                item, inside = [], False
                self._envelope.append(line)
            elif inside and item:
                item.append(line)
            elif line.strip():
                self._envelope.append(line)
        if item:
            yield start, "\n".join(item) + "\n", self._closed

    def _item(self, line: int, text: str) -> bool:
        try:
            value = _load(text)
        except Unfit as unfit:
            self._result.troubles.append((line, str(unfit)))
            return False
        one = value[0] if isinstance(value, list) and len(value) == 1 else value
        return self._result.add(_typed(one, self._envelope), line)


def _typed(value: Any, envelope: list[str]) -> Any:
    """An item of a PodList, which does not say itself that it is a Pod."""
    said = {key: rest.strip() for key, _, rest in (line.partition(":") for line in envelope)}
    kind = said.get("kind", "")
    if isinstance(value, dict) and "kind" not in value and kind.endswith("List") and kind != "List":
        return {"apiVersion": said.get("apiVersion", ""), "kind": kind[:-4], **value}
    return value


def json_documents(text: str, line: int = 1) -> Documents:
    """The objects of a text in JSON, with what else there is."""
    result = Documents()
    for value in jsontext.values(text, line):
        if value.trouble:
            result.troubles.append((value.line, value.trouble))
        elif isinstance(value.value, dict) and jsontext.looks_like_object(value.value):
            if value.listed:
                result.lists.append(value.value["kind"])
            elif not jsontext.is_list(value.value):
                result.add(value.value, value.line)
        elif value.text:
            result.rest += value.text
        else:
            result.others.append(value)
    return result


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes writes it: no dates, no octal or sexagesimal numbers, no merge keys."""

    yaml_implicit_resolvers: dict[Any, Any] = {}


for _tag, _pattern, _first in (
    ("null", r"~|null|", ["~", "n", ""]),
    ("bool", r"true|false", ["t", "f"]),
    ("int", r"-?(?:0|[1-9]\d{0,18})", list("-0123456789")),
    ("float", r"-?(?:0|[1-9]\d*)(?:\.\d+)(?:[eE][-+]?\d+)?", list("-0123456789")),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), _first
    )


def _load(text: str) -> Any:
    try:
        value = yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        problem = getattr(error, "problem", None) or str(error) or type(error).__name__
        raise Unfit(f"it is no YAML: {str(problem)[:120]}") from error
    # an alias may make much of few bytes, or a value that holds itself
    return copied(value) if _ALIAS.search(text) else value
