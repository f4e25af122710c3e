"""Rows of ``kubectl get`` as objects that hold what the row shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from harness.diagnose.reading.columns import Layout, known_of, layout_of
from harness.diagnose.reading.kinds import Known, by_word
from harness.diagnose.reading.objects import Shown
from harness.diagnose.reading.tables import Row, Table

Obj = dict[str, Any]

ROW = "hil.row"
"""The key of an object under which the row stands as printed, by column."""

_NAME = re.compile(r"[a-z0-9A-Z][\w.:+-]*")
_DEFAULT = re.compile(r" \(default\)$")
_COUNTED = re.compile(r"\(x(?P<count>\d{1,9}) over ")
_POD = re.compile(r"(?:\S+\s+)?\S+\s+\d+/\d+\s+[A-Z]\S+\s+\d+(?: \([^)]*\))?\s+\d+[smhdy]\S*")


def objects_of(
    table: Table, asked: tuple[Known, ...], namespace: str, name: str
) -> Iterator[tuple[int, Obj, Shown]]:
    """The objects of a table, each with its line and what it is known to be whole of.

    ``asked`` are the kinds that the command names, ``namespace`` the one that it names, ``name``
    what the source is called: Events have no name in a table and get one from where they stand.
    """
    for row in table.rows:
        known, plain = _named(row.cells.get("NAME", ""))
        layout = layout_of(table.columns, (known,) if known else asked)
        if layout is not None and layout.kind == "Event":
            plain = row.cells.get("NAME") or f"{name}:{row.line}"
            yield row.line, *_object(row, layout, plain, row.cells.get("NAMESPACE") or namespace)
        elif layout is not None and _NAME.fullmatch(plain):
            yield row.line, *_object(row, layout, plain, row.cells.get("NAMESPACE") or namespace)
        elif (known or len(asked) == 1) and _NAME.fullmatch(plain):
            bare = Layout((known or asked[0]).kind, (), {})
            yield row.line, *_object(row, bare, plain, row.cells.get("NAMESPACE") or namespace)


def _named(cell: str) -> tuple[Known | None, str]:
    """A name, and its kind where it is written ``pod/name``."""
    word, slash, name = _DEFAULT.sub("", cell).partition("/")
    return (by_word(word), name) if slash else (None, word)


def _object(row: Row, layout: Layout, name: str, namespace: str) -> tuple[Obj, Shown]:
    known = known_of(layout)
    metadata: Obj = {"name": name}
    if known.namespaced and namespace:
        metadata["namespace"] = namespace
    obj: Obj = {"apiVersion": known.api_version, "kind": known.kind, "metadata": metadata}
    shown = [("metadata", "name"), ("kind",)]
    for column, fill in layout.fills.items():
        if column in row.cells:
            shown += fill(row.cells[column], obj)
    labels = row.cells.get("LABELS", "")
    if labels and "=" in labels:
        metadata["labels"] = dict(pair.partition("=")[::2] for pair in labels.split(","))
        shown.append(("metadata", "labels"))
    if known.kind == "Event":
        _event(obj, row, namespace)
    obj[ROW] = dict(row.cells)
    return obj, frozenset(shown)


def _event(obj: Obj, row: Row, namespace: str) -> None:
    if namespace and "involvedObject" in obj:
        obj["involvedObject"]["namespace"] = namespace
    counted = _COUNTED.search(row.cells.get("LAST SEEN", ""))
    if counted:
        obj["count"] = int(counted["count"])


def headless(text: str) -> tuple[str, ...]:
    """The columns of a text that holds nothing but pods' lines without their heading."""
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines or not all(_POD.fullmatch(line.rstrip()) for line in lines):
        return ()
    plain = ("NAME", "READY", "STATUS", "RESTARTS", "AGE")
    ready = [re.split(r"\s+", line)[1] for line in lines]
    return plain if all("/" in cell for cell in ready) else ("NAMESPACE", *plain)
