"""The parts of an SVG picture: texts that fit and are escaped, durations in words, an axis's ticks.

Whatever is drawn can be read in grey: light, dark, hatched and outlined differ without colour.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from harness.report.records import visible
from harness.report.redact import redact

WIDTH = 760
LETTER = 6.7
"""Width of a letter of 11 units, on the wide side of what the usual fonts have."""
SMALL = 5.9
"""The same of a letter of 9.5 units."""
INK, FAINT, SOFT = "#111", "#999", "#ddd"

_STEPS = (
    *(unit * 10**power for power in range(-6, 1) for unit in (1, 2, 5)),
    *(10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200),
    *(86400 * days for days in (1, 2, 5, 10, 30, 100, 365, 1000, 3650, 10000, 36500, 365000)),
)


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture. ``name`` is unique among a run's and fit for a file; ``claims`` are those whose
    facts it shows; ``title`` is for people; ``says`` is what it shows, a sentence for who cannot
    see it; ``svg`` is the whole element.
    """

    name: str
    pool: str
    claims: tuple[str, ...]
    title: str
    says: str
    svg: str


def told(text: str) -> str:
    """A text of a ledger as a picture may hold it: no secret, no control codes, escaped."""
    kept = redact(text).replace("\n", " ").replace("\t", " ")
    return escape(str(visible(kept.encode("utf-8", "replace").decode("utf-8"))))


def fitted(text: str, room: float, letter: float = LETTER) -> str:
    """``text`` in at most so many units; of a longer one the end is kept, where names differ."""
    most = max(1, int(room / letter))
    if len(text) <= most:
        return text
    tail = max(1, (most - 1) * 2 // 3)
    head = max(0, most - 1 - tail)
    return f"{text[:head]}…{text[-tail:]}"


def cut(text: str, room: float, letter: float = SMALL) -> str:
    """``text`` in at most so many units; of a longer one the beginning is kept."""
    most = max(1, int(room / letter))
    return text if len(text) <= most else f"{text[: most - 1]}…"


def ticks(length: float, most: int = 7) -> list[tuple[float, str]]:
    """Round moments of an axis of ``length`` seconds from 0, each with its label."""
    step = next((one for one in _STEPS if length / one <= most), length or 1.0)
    count = int(length / step + 1e-9)
    return [(number * step, _tick(number * step, step)) for number in range(count + 1)]


def _tick(at: float, step: float) -> str:
    if at == 0:
        return "0"
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if step >= size and math.isclose(step % size, 0, abs_tol=1e-9):
            return f"{at / size:.0f} {unit}"
    return f"{at * 1000:g} ms" if step < 0.1 else f"{at:.1f} s"


def text(x: float, y: float, words: str, *, size: float = 11, more: str = "") -> str:
    """A text at a place; ``words`` are escaped here."""
    extra = f" {more}" if more else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}"{extra}>{told(words)}</text>'


def titled(says: str, parts: Iterable[str]) -> str:
    """Parts with what is shown when a pointer rests on them."""
    return f"<g><title>{told(says)}</title>{''.join(parts)}</g>"


def whole(name: str, title: str, says: str, height: float, parts: Sequence[str]) -> str:
    """The element: a picture with a title and a description, for readers of screens too."""
    known = told(name)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        f'role="img" aria-labelledby="{known}-t {known}-d" '
        'font-family="DejaVu Sans, Arial, sans-serif" fill="#111">'
        f'<title id="{known}-t">{told(title)}</title><desc id="{known}-d">{told(says)}</desc>'
        f"{_patterns(known)}"
        f'<rect x="0" y="0" width="{WIDTH}" height="{height:.0f}" fill="#fff"/>'
        f"{text(4, 15, fitted(title, WIDTH - 8, 7.6), size=12.5, more=_BOLD)}"
        f"{''.join(parts)}</svg>"
    )


_BOLD = 'font-weight="bold"'


def _patterns(name: str) -> str:
    """Hatchings of this picture's own: a page may hold several, and hide some."""
    return (
        f'<defs><pattern id="{name}-h" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="6" height="6" fill="#fff"/>'
        '<line x1="0" y1="0" x2="0" y2="6" stroke="#444" stroke-width="2.4"/></pattern></defs>'
    )
