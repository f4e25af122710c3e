"""Two substrates side by side: what `hil equivalence` prints, for people and for machines."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence
from typing import Any

from harness.report.equivalence import Alone, Compared, Difference, Equivalence, Side
from harness.report.records import visible
from harness.report.redact import redact_data
from harness.report.table import WORDS

SCHEMA = "hil.equivalence/1"
WIDTH = 100
_CLAIM = 30
_CELL = 18
_EACH = 4
"""Differences of one kind in one kind of fact that a terminal is shown."""


def document(found: Equivalence) -> dict[str, Any]:
    """The comparison as data, schema ``hil.equivalence/1``."""
    shown = {
        "schema": SCHEMA,
        "agree": not found.disagreements,
        "runs": [_run(side) for side in found.sides],
        "claims": [_compared(one) for one in found.compared],
        "not_compared": [dataclasses.asdict(one) for one in found.alone],
        "differences": [dataclasses.asdict(one) for one in found.differences],
        "more": [
            {"side": one.side, "other": one.other, **dataclasses.asdict(one.extra)}
            for one in found.more
        ],
        "no_longer_expected": [str(one) for one in found.stale],
    }
    result: dict[str, Any] = visible(redact_data(shown))
    return result


def page(found: Equivalence) -> str:
    """The comparison as text, no line longer than `WIDTH` but a run's name."""
    expected = [one for one in found.differences if one.reason]
    parts = [
        _runs(found.sides),
        _grid(found),
        _differences(found.disagreements, "DIFFERS"),
        _differences(expected, "expected"),
        _more(found),
        _alone(found.alone),
        _stale(found),
        _counts(found, len(expected)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _run(side: Side) -> dict[str, Any]:
    run = side.run
    return {
        "side": side.name,
        "substrate": side.substrate.value,
        "run_id": run.run_id,
        "folder": str(side.folder),
        "lab": run.lab,
        "lane": run.lane,
        "fault": run.fault,
        "unreadable": [str(line) for line in side.view.unreadable],
    }


def _compared(one: Compared) -> dict[str, Any]:
    return {
        "claim": one.claim,
        "agrees": one.agrees,
        "outcomes": {
            name: {"outcome": row.outcome.value, "pool": row.pool, "because": row.because}
            for name, row in one.rows.items()
        },
    }


def _runs(sides: Sequence[Side]) -> str:
    column = max(len(side.name) for side in sides) + 2
    lines = []
    for side in sides:
        run = side.run
        lane = f", lane {run.lane}" if run.lane else ""
        fault = f", with the fault {run.fault}" if run.fault else ""
        lines.append(visible(f"{side.name:<{column}}{run.run_id}: lab {run.lab}{lane}{fault}"))
        bad = len(side.view.unreadable)
        if bad:
            are = "line that is" if bad == 1 else "lines that are"
            lines.append(f"{'':<{column}}{bad} {are} no record; the rest is compared")
    return "\n".join(lines)


def _grid(found: Equivalence) -> str:
    if not found.compared:
        return ""
    names = [side.name for side in found.sides]
    first = min(_CLAIM, max(len(one.claim) for one in found.compared))
    lines = [f"{'claim':<{first}}  {''.join(f'{_fit(name):<{_CELL}}' for name in names)}".rstrip()]
    lines.append("-" * (first + 2 + _CELL * len(names)))
    for one in found.compared:
        rows = [one.rows.get(name) for name in names]
        cells = [WORDS[row.outcome] if row is not None else "-" for row in rows]
        mark = "" if one.agrees else "differs"
        text = f"{one.claim:<{first}}  {''.join(f'{cell:<{_CELL}}' for cell in cells)}{mark}"
        lines.append(visible(text.rstrip()))
    return "\n".join(lines)


def _fit(name: str) -> str:
    return name if len(name) < _CELL else f"{name[: _CELL - 4]}.."


def _differences(found: Sequence[Difference], word: str) -> str:
    grouped: dict[tuple[str, ...], list[Difference]] = {}
    for one in found:
        where = "" if one.what == "values" else one.where
        of = one.fact or ", ".join(one.claims)
        key = (one.what, of, where, one.reason, *one.between)
        grouped.setdefault(key, []).append(one)
    return "\n".join(_group(alike, word) for alike in grouped.values())


def _group(alike: Sequence[Difference], word: str) -> str:
    first = alike[0]
    claims = ", ".join(dict.fromkeys(claim for one in alike for claim in one.claims))
    of = f"{first.what} of {claims}" if not first.fact else f"{_of(first)}, behind {claims}"
    lines = [_wrapped(f"{word}: {of}", "", "    ")]
    if first.reason:
        lines.append(_wrapped(first.reason, "    "))
    left, right = first.between
    column = max(len(left), len(right))
    does = "says" if first.what in ("outcome", "kinds", "source") else "writes"
    told = list({(one.left, one.right): one for one in alike}.values())
    for one in told[: 1 if first.reason else _EACH]:
        lines += [
            _wrapped(said, f"    {name:<{column}} {does}  ", " " * 8)
            for name, said in ((left, one.left), (right, one.right))
        ]
    rest = len(told) - _EACH
    if rest > 0 and not first.reason:
        lines.append(f"    and {rest} more, in --json")
    return "\n".join(lines)


def _of(one: Difference) -> str:
    return f"{one.what} of {one.fact}" + (f" ({one.where})" if one.where else "")


def _more(found: Equivalence) -> str:
    lines = []
    for one in found.more:
        number = len(one.extra.forms)
        forms = "form that" if number == 1 else "forms that"
        lines.append(
            _wrapped(
                f"{one.side} also writes {number} {forms} {one.other} does not, in "
                f"{one.extra.fact} ({one.extra.where}): {one.extra.forms[0]}",
                "also  ",
                "      ",
            )
        )
    return "\n".join(lines)


def _alone(alone: Sequence[Alone]) -> str:
    """Claims that are not compared, those with one reason together."""
    grouped: dict[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], list[str]] = {}
    for one in alone:
        grouped.setdefault((one.asked, tuple(one.whys.items())), []).append(one.claim)
    lines = []
    for (asked, whys), claims in grouped.items():
        on = f"asked on {', '.join(asked)} only" if len(asked) == 1 else "judged nowhere"
        lines.append(_wrapped(f"{on}: {', '.join(claims)}", "", "    "))
        lines += [_wrapped(f"{name}: {why}", "    ", "        ") for name, why in whys]
    return "\n".join(lines)


def _stale(found: Equivalence) -> str:
    lines = [
        _wrapped(
            f"no difference any more: {one} is expected for this reason: {one.reason} Take it out "
            "of harness/report/expected.toml.",
            "",
            "    ",
        )
        for one in found.stale
    ]
    return "\n".join(lines)


def _counts(found: Equivalence, expected: int) -> str:
    claims, wrong = len(found.compared), len(found.disagreements)
    return (
        f"{claims} claim{'s' * (claims != 1)} compared, "
        f"{wrong} difference{'s' * (wrong != 1)}, {expected} expected"
    )


def _wrapped(text: str, first: str, rest: str = "    ") -> str:
    return textwrap.fill(
        " ".join(str(visible(text)).split()),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
    )
