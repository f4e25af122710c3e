"""The end of a run on a terminal or in a CI log: claims by pools, and why where one fails."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.report.chain import Chain, chains
from harness.report.outcome import Row, Standing, Summary
from harness.report.records import visible
from harness.report.substrate import IN_WORDS, Substrate

WORDS: Mapping[Standing, str] = {
    Standing.BROKEN: "BROKEN",
    Standing.UNKNOWN: "unknown",
    Standing.NOT_RUN: "not run",
    Standing.NOT_ESTABLISHED: "not established",
    Standing.HOLDS: "holds",
}
_COLOURS = {
    Standing.BROKEN: "31;1",
    Standing.UNKNOWN: "33",
    Standing.NOT_RUN: "33",
    Standing.NOT_ESTABLISHED: "36",
    Standing.HOLDS: "32",
}
_TOLD = {
    "matched": "known issue",
    "expired": "known issue that has expired",
    "differs": "another failure than the known issue",
}
_CELL = 16
_WIDEST_CELL = 26
_WIDEST_CLAIM = 30
_LINK = 2
"""Lines of a link's reason that a terminal is shown."""


def render(
    summary: Summary,
    *,
    width: int = 100,
    reports: Mapping[str, Path | str] | None = None,
    limits: Sequence[str] = (),
    diagnoses: Sequence[str] = (),
    substrate: Substrate | None = None,
    colour: bool = False,
) -> str:
    """The table as ASCII-framed text, no line longer than ``width`` but a report's path.

    ``reports`` is label to path ("Sign-off" to ``signoff.html``). Of a reference run (`chain`) the
    chain stands there link by link, and ``limits``: what the run cannot show by its nature.
    ``diagnoses`` has a line for each pool of what its failures come from, as far as is known.
    ``substrate`` is what all of it was seen on. Colour is never the only sign.
    """
    found = chains(summary)
    parts = [
        _grid(summary, width, colour=colour),
        *(_chain(one, width, colour=colour) for one in found),
        _reasons(summary, width, colour=colour),
        _diagnoses(diagnoses, width),
        _obsolete(summary, width),
        _not_shown(limits, width) if found else "",
        _counts(summary, substrate),
    ]
    if reports:
        longest = max(len(label) for label in reports)
        parts.append("\n".join(f"{label:<{longest}}  {path}" for label, path in reports.items()))
    return "\n\n".join(part for part in parts if part) + "\n"


def _grid(summary: Summary, width: int, *, colour: bool) -> str:
    if not summary.rows:
        return "No claim was planned and none was reported."
    first = min(_WIDEST_CLAIM, max(len(claim) for claim in (*summary.claims, "claim")))
    pools = _columns(summary)
    names = [name for pool in pools for name in pool]
    cell = min(_WIDEST_CELL, max(_CELL, *(len(name) + 1 for name in names)))
    fit = max(1, (width - first - 2) // cell)
    blocks = [
        _block(summary, pools[start : start + fit], first, cell, colour=colour)
        for start in range(0, len(pools), fit)
    ]
    return "\n\n".join(blocks)


def _columns(summary: Summary) -> Sequence[tuple[str, str]]:
    """Pools and their hardware. What no pool can establish stands under every pool, without a
    column of its own unless there is no other.
    """
    named = [pool for pool in summary.pools if pool[0]]
    return named or [("no pool", "")]


def _block(
    summary: Summary, pools: Sequence[tuple[str, str]], first: int, cell: int, *, colour: bool
) -> str:
    lines = [_line("claim", [pool for pool, _ in pools], first, cell)]
    if any(hardware for _, hardware in pools):
        lines.append(_line("", [hardware for _, hardware in pools], first, cell))
    lines.append("-" * (first + 2 + cell * len(pools)))
    for claim in summary.claims:
        rows = [summary.row(claim, pool) or summary.row(claim, "") for pool, _ in pools]
        cells = [_word(row, cell, colour=colour) for row in rows]
        lines.append(f"{_fit(claim, first):<{first}}  {''.join(cells)}".rstrip())
    return "\n".join(lines)


def _line(head: str, cells: Sequence[str], first: int, cell: int) -> str:
    text = "".join(f"{_fit(item, cell - 1):<{cell}}" for item in cells)
    return f"{head:<{first}}  {text}".rstrip()


def _word(row: Row | None, cell: int, *, colour: bool) -> str:
    if row is None:
        return f"{'-':<{cell}}"
    word = WORDS[row.outcome] + _mark(row)
    return _paint(word, row.outcome, colour=colour) + " " * (cell - len(word))


def _mark(row: Row) -> str:
    """Whose a failure is, where it is not simply the product's: in words that fit a cell."""
    if row.is_known:
        return " known"
    return " (lab)" if row.environment else ""


def _paint(word: str, standing: Standing, *, colour: bool) -> str:
    return f"\033[{_COLOURS[standing]}m{word}\033[0m" if colour else word


def _fit(text: str, width: int) -> str:
    text = visible(text)
    return text if len(text) <= width else f"{text[: width - 2]}.."


def _reasons(summary: Summary, width: int, *, colour: bool) -> str:
    order = {standing: place for place, standing in enumerate(Standing)}
    rows = [row for row in summary.rows if row.outcome is not Standing.HOLDS]
    grouped: dict[tuple[Standing, str], list[Row]] = {}
    for row in sorted(rows, key=lambda item: order[item.outcome]):
        grouped.setdefault((row.outcome, row.because), []).append(row)
    lines = []
    for (outcome, because), alike in grouped.items():
        word = _paint(WORDS[outcome], outcome, colour=colour)
        lines += [f"{word}  {visible(f'{row.claim}{_where(row)}')}" for row in alike]
        lines.append(_wrapped(because, width))
        lines += [_wrapped(text, width) for text in dict.fromkeys(_whose(alike))]
    unjudged = [lost for lost in summary.missing if not lost.claims]
    for lost in unjudged:
        lines.append(f"judged nothing  {visible(f'{lost.scenario} on {lost.pool}')}")
        lines.append(_wrapped(lost.why, width))
    for line in summary.unreadable:
        lines.append("unreadable line of the ledger")
        lines.append(_wrapped(str(line), width))
    return "\n".join(lines)


def _whose(rows: Sequence[Row]) -> Iterator[str]:
    """What is known of failures: the entry that has them, or the lab."""
    for row in rows:
        if row.environment:
            yield f"the lab's, not the product's: {row.environment}"
        for one in row.known:
            yield f"{_TOLD.get(one.state, one.state)}: {one.owner}, {one.link}, till {one.expires}"


def _obsolete(summary: Summary, width: int) -> str:
    """Known issues whose claim holds now."""
    lines = [
        f"{row.claim}{_where(row)} holds: its known issue ({one.owner}, {one.link}) is to be taken "
        "out of the file"
        for row in summary.rows
        for one in row.known
        if one.state == "obsolete"
    ]
    return "\n".join(_wrapped(line, width, mark="") for line in lines)


def _chain(found: Chain, width: int, *, colour: bool) -> str:
    """A pool's chain; a reason is cut after two lines, the sign-off has all of it."""
    lines = [
        visible(
            f"The chain on {found.pool} ({found.hardware}); each proof is of its own link alone"
        )
    ]
    for row in found.links:
        word = _paint(WORDS[row.outcome], row.outcome, colour=colour)
        lines += [f"{word}  {visible(row.claim)}", _wrapped(row.because, width, most=_LINK)]
    return "\n".join(lines)


def _diagnoses(diagnoses: Sequence[str], width: int) -> str:
    if not diagnoses:
        return ""
    lines = [_wrapped(text, width, mark="  - ") for text in diagnoses]
    return "\n".join(["Diagnosis of what failed, which changes no verdict:", *lines])


def _not_shown(limits: Sequence[str], width: int) -> str:
    if not limits:
        return ""
    lines = ["Not shown by this run, by its nature:"]
    return "\n".join([*lines, *(_wrapped(text, width, mark="  - ") for text in limits)])


def _where(row: Row) -> str:
    if not row.pool:
        return ""
    return f" on {row.pool} ({row.hardware})" if row.hardware else f" on {row.pool}"


def _wrapped(text: str, width: int, *, mark: str = "    ", most: int | None = None) -> str:
    return textwrap.fill(
        " ".join(visible(text).split()),
        width,
        initial_indent=mark,
        subsequent_indent="    ",
        max_lines=most,
        placeholder=" ..",
        break_on_hyphens=False,
    )


def _counts(summary: Summary, substrate: Substrate | None) -> str:
    told = [f"{number} {WORDS[one].lower()}" for one, number in summary.counts.items() if number]
    absent = summary.planned - summary.reported
    scenarios = f"Scenarios: {summary.planned} planned, {summary.reported} reported"
    lines = [f"{scenarios}, {absent} missing"]
    known = sum(row.is_known for row in summary.rows)
    lab = sum(bool(row.environment) for row in summary.rows)
    marks = [(known, "known issues"), (lab, "the lab's")]
    told += [f"of these {number} {what}" for number, what in marks if number]
    if told:
        lines.insert(0, f"Claims: {', '.join(told)}")
    if substrate is not None:
        lines.append(f"Substrate: {substrate} ({IN_WORDS[substrate]})")
    return "\n".join(lines)
