"""Tables as kubectl, talosctl and linstor print them: columns by where their headings begin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_GAP = re.compile(r"\s{2,}|\t+")
_HEADING = re.compile(r"[A-Z0-9][A-Z0-9()/._% -]*")
_FIRST = ("NAME", "NAMESPACE", "LAST SEEN", "NODE")
_ERROR = re.compile(r"(?:Error from server|error:|Unable to |No resources found|E\d{4} ).*")


_BEGIN = re.compile(r"^\s*(?:NAME|NAMESPACE|LAST SEEN|NODE)\s", re.MULTILINE)
_NARROWEST, _PIECES = 40, 12
"""Columns of a terminal that may have wrapped a table, and the lines that it made of one row."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: ``line`` is its number, ``cells`` its texts by column, "" for none."""

    line: int
    cells: dict[str, str]
    said: str


@dataclass(frozen=True, slots=True)
class Table:
    """``columns`` in their order; ``line`` is that of the heading.

    ``strange`` are lines inside it that fit no column; ``ended`` says that something else follows,
    so that its last row is the last.
    """

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    line: int
    strange: tuple[str, ...] = ()
    ended: bool = False


def headings(line: str) -> tuple[str, ...]:
    """The columns that a heading names, none where the line is no heading of kubectl's or
    talosctl's."""
    if not _BEGIN.match(line):
        return ()
    names = tuple(_GAP.split(line.strip()))
    if len(names) < 2 or names[0] not in _FIRST or len(set(names)) < len(names) - 1:
        return ()
    return names if all(_HEADING.fullmatch(name) for name in names) else ()


def tables_of(
    text: str, line: int, columns: Sequence[str] = ()
) -> tuple[list[Table], list[tuple[int, str]]]:
    """The tables of a text and the lines outside of them, each with its number.

    ``columns`` are those of a table without a heading. Lines that a terminal wrapped are joined
    where only then every row fits.
    """
    lines = list(enumerate(text.split("\n"), start=line))
    if not columns and not _BEGIN.search(text):
        return [], [(at, said) for at, said in lines if said.strip()]
    plain = _read(lines, tuple(columns))
    if any(table.strange for table in plain[0]) or not plain[0]:
        joined = _read(unwrapped(lines), tuple(columns))
        if joined[0] and not any(table.strange for table in joined[0]):
            return joined
    return plain


_Lines = list[tuple[int, str]]


def unwrapped(lines: _Lines) -> _Lines:
    """Lines with those joined that a terminal of the longest line's width broke, each with the
    number of its first piece."""
    width = max((len(line) for _, line in lines), default=0)
    if width < _NARROWEST:
        return lines
    result: _Lines = []
    pieces: _Lines = []
    for number, line in lines:
        pieces.append((number, line))
        if len(line) < width or len(pieces) == _PIECES:
            result.append((pieces[0][0], "".join(piece for _, piece in pieces)))
            pieces = []
    return [*result, *pieces]


def _read(lines: _Lines, columns: tuple[str, ...]) -> tuple[list[Table], _Lines]:
    tables: list[Table] = []
    outside: _Lines = []
    at = 0
    while at < len(lines):
        number, line = lines[at]
        names = headings(line)
        if names or (columns and not tables and line.strip()):
            table, at = _table(lines, at, names, columns)
            tables.append(table)
            continue
        if line.strip():
            outside.append((number, line))
        at += 1
    return tables, outside


def _table(
    lines: _Lines, at: int, names: tuple[str, ...], columns: tuple[str, ...]
) -> tuple[Table, int]:
    first, heading = lines[at]
    at += bool(names)
    rows: list[Row] = []
    strange: list[str] = []
    while at < len(lines):
        number, line = lines[at]
        if not line.strip() or headings(line) or _ERROR.fullmatch(line):
            break
        cells = _cells(line, heading, names) if names else _split(line, columns)
        if cells is None:
            strange.append(line)
        else:
            rows.append(Row(number, cells, line.rstrip()))
        at += 1
    more = any(line.strip() for _, line in lines[at:])
    return Table(names or columns, tuple(rows), first, tuple(strange), more), at


def _cells(line: str, heading: str, names: tuple[str, ...]) -> dict[str, str] | None:
    """The cells under the headings; by the gaps where the line keeps to no column (``--watch``)."""
    starts = list(_starts(heading, names))
    if _keeps(line, starts):
        ends = [*starts[1:], None]
        pieces = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        cells = dict(zip(names, pieces, strict=True))
        whole = pieces[0] and cells.get("NAME", "-") and sum(map(bool, pieces)) > 1
        return cells if whole else None
    return _split(line, names)


def _starts(heading: str, names: tuple[str, ...]) -> Iterator[int]:
    at = 0
    for name in names:
        at = heading.index(name, at)
        yield at
        at += len(name)


def _keeps(line: str, starts: list[int]) -> bool:
    return "\t" not in line and all(
        start == 0 or start >= len(line) or line[start - 1] == " " for start in starts
    )


def _split(line: str, names: tuple[str, ...]) -> dict[str, str] | None:
    pieces = _GAP.split(line.strip())
    return dict(zip(names, pieces, strict=True)) if len(pieces) == len(names) else None


_BOX = re.compile(r"^\s*(?:\+[-=]{3}|[╭┌]|[|┊│] )", re.MULTILINE)


def boxed(text: str) -> Iterator[tuple[tuple[str, ...], list[tuple[str, ...]], bool]]:
    """The tables that linstor draws, in ASCII or with lines of Unicode: headings, rows, and
    whether the last line that closes the box is there."""
    names: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = []
    for line in text.split("\n") if _BOX.search(text) else ():
        bare = line.strip()
        if re.fullmatch(r"[+|\-=╭╮╰╯┌┐└┘├┤┬┴┼─═╞╡╪┊┄]{4,}", bare):
            if names and rows and bare[0] in "+╰└":
                yield names, rows, True
                names, rows = (), []
            continue
        cells = re.split(r"[|┊│]", bare)
        if len(cells) < 4 or cells[0] or cells[-1]:
            continue
        row = tuple(cell.strip() for cell in cells[1:-1])
        if not names:
            names = row
        elif len(row) == len(names):
            rows.append(row)
    if names and rows:
        yield names, rows, False
