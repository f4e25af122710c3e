"""YAML text to plain data that remembers its lines, with what a lenient loader would let pass."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from harness.inventory.problems import Problem
from harness.inventory.secrets import HOW, secret_kind

Path = tuple[str | int, ...]

_TAGS = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """Plain scalars as YAML 1.2 reads them: `on`, `no` and `1:30` are text."""


# Replaces the inherited table, so that no rule of YAML 1.1 is left.
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]{1,18}", list("-+0123456789")),
    ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", None),
):
    _Loader.add_implicit_resolver(
        _TAGS + _tag,
        re.compile(f"^(?:{_pattern})$"),
        _first or list("-+.0123456789"),
    )

_SCALARS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": lambda text: text.lower() == "true",
}
_COLLECTIONS = (_TAGS + "map", _TAGS + "seq")


@dataclass(slots=True)
class Document:
    """What a file says.

    ``data`` is plain data without anything that looks like a secret. ``lines`` maps each path to
    its line, from 1; ``()`` is the whole file. ``settled`` are paths whose value could not be
    taken (it stands as None in ``data``): their problem is told, nothing more need be said.
    """

    file: str
    data: Any = None
    lines: dict[Path, int] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    settled: set[Path] = field(default_factory=set)

    def line(self, path: Path) -> int:
        """The line of ``path``, or of the nearest thing around it that the file has."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def problem(self, path: Path, found: str, allowed: str, line: int = 0) -> None:
        """Record that something is wrong at ``path``."""
        place = line or self.line(path)
        self.problems.append(Problem(self.file, place, written(path), found, allowed))

    def settle(self, path: Path, found: str, allowed: str) -> None:
        """Record that nothing can be made of the value at ``path``."""
        self.settled.add(path)
        self.problem(path, found, allowed)


def written(path: Path) -> str:
    """A path as people write it: ``pools.gpu-l40s.kernelModules[0].name``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def parse(file: str, text: str) -> Document:
    """The document in ``text``; what is wrong with it as YAML is among its ``problems``."""
    document = Document(file)
    last = max(1, len(text.splitlines()))
    try:
        root = yaml.compose(text, Loader=_Loader)
        if root is None:
            document.problem((), "nothing: the file is empty", "an inventory", 1)
        else:
            _Reader(document).root(root)
    except yaml.YAMLError as error:
        line = min(max(_error_line(error, text), 1), last)
        document.problem((), _error_text(error), "YAML", line)
    except RecursionError:
        document.problem((), "lists or mappings nested too deep to read", "an inventory", 1)
    return document


def _error_line(error: yaml.YAMLError, text: str) -> int:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        return mark.line + 1 if mark else 1
    position = getattr(error, "position", 0)
    return text.count("\n", 0, position) + 1


def _error_text(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        parts = [error.context, error.problem]
        said = ": ".join(part for part in parts if part) or "a syntax error"
    else:
        said = f"a character that YAML forbids ({getattr(error, 'reason', 'unreadable')})"
    return "something that looks like a secret (withheld)" if secret_kind(said) else said


class _Reader:
    """Walks composed nodes once; a node met twice came through an alias."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._seen: set[int] = set()

    def root(self, node: yaml.Node) -> None:
        self._document.lines[()] = node.start_mark.line + 1
        self._document.data = self._value(node, ())

    def _value(self, node: yaml.Node, path: Path) -> Any:
        if id(node) in self._seen:
            self._document.settle(path, "an alias", "the value itself: aliases are not followed")
            return None
        self._seen.add(id(node))
        if not isinstance(node, yaml.ScalarNode) and node.tag not in _COLLECTIONS:
            self._document.settle(path, f"the tag {node.tag}", "plain YAML without tags")
            return None
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._item(item, (*path, index)) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _item(self, node: yaml.Node, path: Path) -> Any:
        self._document.lines[path] = node.start_mark.line + 1
        return self._value(node, path)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = self._key(key_node, path, line)
            if key is None:
                continue
            if key in mapping:
                first = self._document.lines[(*path, key)]
                found = f"the key a second time (first in line {first})"
                self._document.problem((*path, key), found, "each key once", line)
                continue
            self._document.lines[(*path, key)] = line
            mapping[key] = self._value(value_node, (*path, key))
        return mapping

    def _key(self, node: yaml.Node, path: Path, line: int) -> str | None:
        if not isinstance(node, yaml.ScalarNode):
            self._document.problem(path, "a list or mapping as a key", "plain text as a key", line)
            return None
        kind = secret_kind(node.value)
        if kind:
            found = f"something that looks like {kind}, as a key (withheld)"
            self._document.problem(path, found, HOW, line)
            return None
        return str(node.value)

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        kind = secret_kind(node.value)
        tag = node.tag.removeprefix(_TAGS)
        if kind:
            self._document.settle(path, f"something that looks like {kind} (withheld)", HOW)
        elif tag == "null":
            self._document.settle(path, "no value", "a value, or no such key")
        else:
            try:
                return _SCALARS[tag](node.value)
            except (KeyError, ValueError):
                self._document.settle(path, f"the tag {node.tag}", "plain YAML without tags")
        return None
