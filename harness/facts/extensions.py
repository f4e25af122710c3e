"""Which system extensions, and of which schematic, a Talos machine runs.

Talos writes what its image was made of into /etc/extensions.yaml (TAL pkg/machinery/constants,
ExtensionsRuntimeConfigFile); the image factory adds a pseudo-extension `schematic` whose version is
the schematic's id (uptime_and_diagnosis section 5). `talosctl get extensions` shows the same, and
needs apid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from harness.facts.fact import Fact, Unread
from harness.facts.reply import Output, no_such_file, quote, unfinished

ASKED = "/etc/extensions.yaml"
_SCHEMATIC = "schematic"


@dataclass(frozen=True, slots=True)
class Extensions(Fact):
    """What a machine runs: its schematic, "" where it names none, and the other extensions."""

    node: str
    schematic: str
    names: tuple[str, ...]


def read_extensions(node: str, output: Output, *, at: float, source: str) -> Extensions | Unread:
    """Read the reply of ``cat /etc/extensions.yaml``; an image without any has no such file."""
    origin = output.origin(at, source)
    if output.exit_code and no_such_file(ASKED, output.stderr):
        return Extensions(origin, node, "", ())
    refused = unfinished(output, ASKED, origin)
    if refused is not None:
        return refused
    if not output.stdout.endswith("\n"):
        return Unread(origin, ASKED, f"it is cut: {quote(output.stdout)}")
    try:
        document = yaml.safe_load(output.stdout)
        layers = list(_layers(document))
    except (yaml.YAMLError, KeyError, TypeError) as wrong:
        return Unread(origin, ASKED, f"no list of layers ({wrong!r:.80}): {quote(output.stdout)}")
    schematic = next((version for name, version in layers if name == _SCHEMATIC), "")
    names = tuple(name for name, _ in layers if name != _SCHEMATIC)
    return Extensions(origin, node, schematic, names)


def _layers(document: object) -> Iterator[tuple[str, str]]:
    if not isinstance(document, dict):
        raise TypeError("no mapping")
    for layer in document["layers"]:
        metadata = layer["metadata"]
        yield str(metadata["name"]), str(metadata["version"])
