"""Bars along time, a row for each thing: the one form that boots, disks and joins are drawn in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.report.lengths import duration
from harness.report.pictures.svg import (
    INK,
    LETTER,
    SMALL,
    SOFT,
    WIDTH,
    Picture,
    cut,
    fitted,
    text,
    ticks,
    titled,
    whole,
)

Style = Literal["plain", "dark", "open"]
"""``plain`` is light, ``dark`` stands out, ``open`` is hatched: it had not ended."""

ROWS = 30
"""Rows of one picture: with more it would not fit on a page."""
_LABEL, _PLOT, _TOP, _ROW = 224.0, 330.0, 40.0, 19.0
_NOTE = _LABEL + _PLOT + 8
_LEAST = 1.5
"""Units below which a bar is drawn as a tick: it would not be seen, and must not be widened."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A stretch of time, in seconds from the picture's beginning, with what it says of itself.

    ``text`` is written into it where there is room.
    """

    start: float
    end: float
    says: str
    style: Style = "plain"
    text: str = ""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment; ``limit`` ones are drawn as a line across the row, others as a small triangle."""

    at: float
    says: str
    limit: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One line: a label, its bars and marks, and a note at its end. ``strong`` ones are bold."""

    label: str
    bars: tuple[Bar, ...] = ()
    marks: tuple[Mark, ...] = ()
    note: str = ""
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Chart:
    """All the rows of one kind on one pool. ``length`` is the axis's in seconds, ``legend`` says
    in words what the forms mean, ``from_what`` what 0 is.
    """

    name: str
    pool: str
    claims: tuple[str, ...]
    title: str
    says: str
    rows: Sequence[Row]
    length: float
    legend: Sequence[str] = field(default_factory=tuple)
    from_what: str = ""


def pictures(chart: Chart) -> tuple[Picture, ...]:
    """The chart, in as many pictures as its rows need, all with the same axis."""
    pieces = [chart.rows[at : at + ROWS] for at in range(0, len(chart.rows), ROWS)]
    return tuple(_picture(chart, rows, number, len(pieces)) for number, rows in enumerate(pieces))


def _picture(chart: Chart, rows: Sequence[Row], number: int, pieces: int) -> Picture:
    part = f", {number + 1} of {pieces}" if pieces > 1 else ""
    name = f"{chart.name}-{number + 1}" if pieces > 1 else chart.name
    bottom = _TOP + _ROW * len(rows)
    legend = list(_wrapped(chart.legend))
    height = bottom + 20 + 13 * len(legend) + 4
    parts = [
        *_axis(chart, bottom),
        *(part for at, row in enumerate(rows) for part in _row(row, _TOP + at * _ROW, chart, name)),
        *(text(4, bottom + 29 + 13 * at, one, size=9.5) for at, one in enumerate(legend)),
    ]
    title = chart.title + part
    svg = whole(name, title, chart.says, height, parts)
    return Picture(name, chart.pool, chart.claims, title, chart.says, svg)


def _wrapped(sentences: Sequence[str]) -> Iterator[str]:
    most, line = int((WIDTH - 8) / SMALL), ""
    for word in " · ".join(sentences).split(" "):
        if line and len(line) + 1 + len(word) > most:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    if line:
        yield line


def _x(at: float, chart: Chart) -> float:
    share = at / chart.length if chart.length > 0 else 0.0
    return _LABEL + min(1.0, max(0.0, share)) * _PLOT


def _axis(chart: Chart, bottom: float) -> Iterator[str]:
    for at, label in ticks(chart.length):
        x = _x(at, chart)
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP:.0f}" y2="{bottom:.0f}" stroke="{SOFT}"/>'
        )
        yield text(x, bottom + 13, label, size=9.5, more='text-anchor="middle"')
    if chart.from_what:
        yield text(_LABEL, _TOP - 6, f"time from {chart.from_what}", size=9.5, more='fill="#444"')


def _row(row: Row, y: float, chart: Chart, name: str) -> Iterator[str]:
    weight = 'font-weight="bold"' if row.strong else ""
    label = fitted(row.label, _LABEL - 16, LETTER * (1.08 if row.strong else 1))
    anchored = f'text-anchor="end" {weight}'.strip()
    yield titled(row.label, [text(_LABEL - 8, y + 13.5, label, more=anchored)])
    yield (
        f'<line x1="{_LABEL:.0f}" x2="{_LABEL + _PLOT:.0f}" y1="{y + _ROW:.0f}" '
        f'y2="{y + _ROW:.0f}" stroke="#eee"/>'
    )
    for bar in row.bars:
        yield titled(bar.says, _bar(bar, y, chart, name))
    for mark in row.marks:
        yield titled(mark.says, [_mark(mark, y, chart)])
    if row.note:
        note = cut(row.note, WIDTH - _NOTE - 2, SMALL * (1.1 if row.strong else 1))
        yield titled(row.note, [text(_NOTE, y + 13, note, size=9.5, more=weight)])


def _bar(bar: Bar, y: float, chart: Chart, name: str) -> Iterator[str]:
    start, end = _x(bar.start, chart), _x(bar.end, chart)
    fill = {"plain": "#c6d4e6", "dark": "#23395b", "open": f"url(#{name}-h)"}[bar.style]
    if end - start < _LEAST:
        yield (
            f'<line class="bar" x1="{start:.2f}" x2="{start:.2f}" y1="{y + 2:.1f}" '
            f'y2="{y + _ROW - 2:.1f}" stroke="{INK}" stroke-width="1.2"/>'
        )
        return
    edge = "#fff" if bar.style == "dark" else INK
    yield (
        f'<rect class="bar" x="{start:.2f}" y="{y + 3.5:.1f}" width="{end - start:.2f}" '
        f'height="{_ROW - 7:.1f}" fill="{fill}" stroke="{edge}" stroke-width="0.7"/>'
    )
    if bar.text and len(bar.text) * SMALL + 4 <= end - start and bar.style != "open":
        colour = "#fff" if bar.style == "dark" else INK
        middle = f'text-anchor="middle" fill="{colour}"'
        yield text((start + end) / 2, y + 13, bar.text, size=9.5, more=middle)


def _mark(mark: Mark, y: float, chart: Chart) -> str:
    x = _x(mark.at, chart)
    if mark.limit:
        return (
            f'<line class="limit" x1="{x:.2f}" x2="{x:.2f}" y1="{y:.1f}" y2="{y + _ROW:.1f}" '
            f'stroke="{INK}" stroke-width="1.6" stroke-dasharray="3 2"/>'
        )
    return (
        f'<path class="mark" d="M{x - 3.5:.2f} {y + 1:.1f} h7 l-3.5 6 z" fill="{INK}" '
        f'stroke="#fff" stroke-width="0.6"/>'
    )


def spread(lengths: Sequence[float]) -> str:
    """The shortest and the longest of some lengths, in words."""
    shortest, longest = duration(min(lengths)), duration(max(lengths))
    return longest if shortest == longest else f"{shortest} to {longest}"
