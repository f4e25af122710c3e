"""What a Talos machine reads out of its machine configuration, at the exact paths it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml


class MachineConfigError(ValueError):
    """The text is not a machine configuration; the machine stays in maintenance mode."""


@dataclass(frozen=True, slots=True)
class ModuleSpec:
    """One entry of ``machine.kernel.modules``: a name and parameters as written."""

    name: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineConfig:
    """The parts of a machine configuration that this guest acts on.

    ``kernel_modules`` keeps the written order; what is written anywhere but at
    ``machine.kernel.modules`` is not there (S-KM: one level out is valid YAML and loads nothing).
    """

    kernel_modules: tuple[ModuleSpec, ...]
    install_image: str
    install_disk: str
    node_labels: Mapping[str, str]


# what Talos' decoder takes as nothing; the loader keeps a plain null as its text
_EMPTY = (None, "", "~", "null", "Null", "NULL")


def parse(text: str) -> MachineConfig:
    """Read a machine configuration (YAML, one or more documents). Raises MachineConfigError."""
    machine = _section(_v1alpha1(text), "machine", required=True)
    install = _section(machine, "install")
    kernel = _section(machine, "kernel")
    return MachineConfig(
        kernel_modules=_modules(kernel.get("modules")),
        install_image=_text(install.get("image"), "machine.install.image"),
        install_disk=_text(install.get("disk"), "machine.install.disk"),
        node_labels=_labels(_section(machine, "nodeLabels")),
    )


def _v1alpha1(text: str) -> Mapping[str, Any]:
    # The base loader keeps every scalar as the text it is: `on` and `0600` stay what was written.
    try:
        documents = list(yaml.load_all(text, Loader=yaml.BaseLoader))
    except yaml.YAMLError as error:
        raise MachineConfigError(f"not YAML: {error}") from error
    for document in documents:
        if isinstance(document, dict) and "kind" not in document and "machine" in document:
            return document
    raise MachineConfigError("no v1alpha1 document with a machine section")


def _section(parent: Mapping[str, Any], key: str, *, required: bool = False) -> Mapping[str, Any]:
    value = parent.get(key)
    if value in _EMPTY and not required:
        return {}
    if not isinstance(value, dict):
        raise MachineConfigError(f"{key}: expected a mapping, got {value!r}")
    return value


def _text(value: Any, path: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MachineConfigError(f"{path}: expected a string, got {value!r}")
    return value


def _labels(section: Mapping[str, Any]) -> dict[str, str]:
    return {key: _text(value, f"machine.nodeLabels.{key}") for key, value in section.items()}


def _modules(value: Any) -> tuple[ModuleSpec, ...]:
    if value in _EMPTY:
        return ()
    if not isinstance(value, list):
        raise MachineConfigError(f"machine.kernel.modules: expected a list, got {value!r}")
    return tuple(_module(item) for item in value)


def _module(item: Any) -> ModuleSpec:
    name = item.get("name") if isinstance(item, dict) else None
    if not isinstance(name, str) or not name:
        raise MachineConfigError(f"machine.kernel.modules: entry without a name: {item!r}")
    parameters = item.get("parameters") or []
    if not isinstance(parameters, list) or not all(isinstance(p, str) for p in parameters):
        raise MachineConfigError(f"machine.kernel.modules: {name}: parameters {parameters!r}")
    return ModuleSpec(name, tuple(parameters))
