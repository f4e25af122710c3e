"""What a Talos machine configuration asks for, read at exact paths, never by searching its text.

``modules`` one level too far out is still valid YAML and loads nothing (gpu_path 1.1), so a list
found anywhere but at machine.kernel.modules is told as misplaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.objects import at_path
from harness.facts.reply import quote

MODULES = "machine.kernel.modules"
IMAGE = "machine.install.image"
LABELS = "machine.nodeLabels"

_IMAGE = re.compile(r"(?P<repository>[^\s@]+)/(?P<schematic>[^\s/:@]+):(?P<version>[^\s/:@]+)")


@dataclass(frozen=True, slots=True)
class DeclaredModule:
    """A module as declared: its name and its parameters ("NVreg_NvLinkDisable=1"), in order."""

    name: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RenderedModules(Fact):
    """The kernel modules of a machine configuration.

    ``present_block`` tells whether the machine section has a ``kernel`` key, whatever it holds;
    ``modules`` is the list at machine.kernel.modules, in its order; ``misplaced`` are the dotted
    paths of lists named ``modules`` anywhere else; ``extra_keys`` what its entries hold beside
    ``name`` and ``parameters``, which the chart never writes (S-KM).
    """

    present_block: bool
    modules: tuple[DeclaredModule, ...]
    misplaced: tuple[str, ...] = ()
    extra_keys: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The declared names in their order."""
        return tuple(module.name for module in self.modules)


@dataclass(frozen=True, slots=True)
class InstallImage(Fact):
    """machine.install.image, which is ``<repository>/<schematic>:<version>``."""

    schematic: str
    version: str
    repository: str


@dataclass(frozen=True, slots=True)
class NodeLabels(Fact):
    """machine.nodeLabels: what the worker's Node is labelled with by its own configuration."""

    labels: dict[str, str] = field(hash=False)


class _Shape(ValueError):
    """The configuration is not of the shape that Talos reads; the message says where."""


def rendered_modules(text: str, *, at: float, source: str) -> RenderedModules | Unread:
    """Read the module list of a machine configuration (YAML, one or more documents)."""
    origin = Origin(at, source, text)
    try:
        documents = _documents(text)
        machine = _machine(documents)
        declared = _declared(machine)
    except _Shape as wrong:
        return Unread(origin, MODULES, str(wrong))
    right_one = at_path(machine, "kernel", "modules")
    misplaced = tuple(path for path, found in _lists(documents) if found is not right_one)
    extra = tuple(dict.fromkeys(_extra_keys(right_one)))
    return RenderedModules(origin, "kernel" in machine, declared, misplaced, extra)


def install_image(text: str, *, at: float, source: str) -> InstallImage | Unread:
    """Read the installer image of a machine configuration; a digest behind it is let pass."""
    origin = Origin(at, source, text)
    try:
        image = _mapping(_machine(_documents(text)), "install").get("image")
    except _Shape as wrong:
        return Unread(origin, IMAGE, str(wrong))
    found = _IMAGE.fullmatch(image.partition("@")[0]) if isinstance(image, str) else None
    if found is None:
        return Unread(origin, IMAGE, f"no <repository>/<schematic>:<version>: {quote(str(image))}")
    return InstallImage(origin, found["schematic"], found["version"], found["repository"])


def node_labels(text: str, *, at: float, source: str) -> NodeLabels | Unread:
    """Read the labels that a machine configuration gives its node."""
    origin = Origin(at, source, text)
    try:
        found = _mapping(_machine(_documents(text)), "nodeLabels")
    except _Shape as wrong:
        return Unread(origin, LABELS, str(wrong))
    if not all(isinstance(one, str) for one in (*found, *found.values())):
        return Unread(origin, LABELS, f"a label is no text: {quote(repr(found))}")
    return NodeLabels(origin, dict(found))


_NULLS = ("~", "null", "Null", "NULL")
"""YAML 1.2's spellings of no value, which the loader below leaves as text."""


class _Loader(yaml.BaseLoader):
    """Leaves every scalar the text it is, and refuses a key given twice, as Talos does."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001 - the library's signature
    ) -> dict[Any, Any]:
        made: dict[Any, Any] = super().construct_mapping(node, deep=deep)
        if len(made) != len(node.value):
            raise yaml.constructor.ConstructorError(
                None, None, "a key stands twice in one mapping", node.start_mark
            )
        return made


def _documents(text: str) -> list[Any]:
    try:
        return list(yaml.load_all(text, Loader=_Loader))
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # the last two: an escape that names no character
        raise _Shape(f"not YAML: {' '.join(str(error).split())}: {quote(text)}") from error
    except RecursionError as error:
        raise _Shape(f"nested too deep: {quote(text)}") from error


def _machine(documents: list[Any]) -> dict[str, Any]:
    """The machine section of the one document that has one."""
    holding = [one for one in documents if isinstance(one, dict) and "machine" in one]
    if len(holding) != 1:
        raise _Shape(f"{len(holding)} of {len(documents)} documents have a machine section, not 1")
    machine = _mapping(holding[0], "machine")
    if not machine:
        raise _Shape("the machine section is empty")
    return machine


def _mapping(parent: dict[str, Any], key: str) -> dict[str, Any]:
    value = parent.get(key) or {}
    if value in _NULLS:  # written without a value: Talos takes it as left out
        return {}
    if not isinstance(value, dict):
        raise _Shape(f"{key} is no mapping: {quote(repr(value))}")
    return value


def _declared(machine: dict[str, Any]) -> tuple[DeclaredModule, ...]:
    listed = _mapping(machine, "kernel").get("modules") or []
    listed = [] if listed in _NULLS else listed
    if not isinstance(listed, list):
        raise _Shape(f"{MODULES} is no list: {quote(repr(listed))}")
    return tuple(declared_module(item) for item in listed)


def declared_module(item: Any) -> DeclaredModule:
    """One entry of a module list, as configuration and pool values spell it.

    Keys beside ``name`` and ``parameters`` are let pass: the chart drops them. Raises ValueError
    with the entry quoted.
    """
    name = item.get("name") if isinstance(item, dict) else None
    parameters = (item.get("parameters") or []) if isinstance(item, dict) else None
    if not isinstance(name, str) or not name or not isinstance(parameters, list):
        raise _Shape(f"this entry declares no module: {quote(repr(item))}")
    if not all(isinstance(one, str) for one in parameters):
        raise _Shape(f"a parameter of {name} is no text: {quote(repr(parameters))}")
    return DeclaredModule(name, tuple(parameters))


def _extra_keys(listed: Any) -> Iterator[str]:
    for item in listed if isinstance(listed, list) else []:
        yield from (str(key) for key in item if key not in ("name", "parameters"))


def _lists(documents: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """All lists under a key ``modules``, with their dotted paths."""
    waiting = [("", document) for document in reversed(documents)]
    seen: set[int] = set()  # one anchor may be met on ever so many paths
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, list) and path.rsplit(".", 1)[-1] == "modules":
            yield path, value
        if not isinstance(value, (dict, list)) or id(value) in seen:
            continue
        seen.add(id(value))
        waiting += reversed([(f"{path}{step}".lstrip("."), item) for step, item in _steps(value)])


def _steps(value: dict[Any, Any] | list[Any]) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(f".{key}", item) for key, item in value.items()]
    return [(f"[{index}]", item) for index, item in enumerate(value)]
