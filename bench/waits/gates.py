"""What this project's own waiting must be worth: checked after every run, exit status 1 if not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.waits.measure import FAULT, LAG, LIMITS, RECALL, Found
from bench.waits.plan import BARE, OURS
from bench.waits.score import (
    FALSE_FAILURE,
    FALSE_SUCCESS,
    HUNG,
    SILENT_LOSS,
    Row,
    lags,
    percentile,
    recall,
    verdict,
)
from bench.waits.timelines import LENGTHS

SLOWER = 0.005
"""Seconds by which the 95th percentile of the lag may lie above the floor's."""
OVER = 0.050
"""Seconds by which a limit may be overshot."""
REQUESTS = 2
"""For one kind in one namespace, whatever the number of waits: a list and a watch."""


@dataclass(frozen=True, slots=True)
class Gate:
    """One requirement. ``measured`` says what was found, also when it holds.

    ``judged`` is False where the machine was too busy for what was found to say anything.
    """

    sentence: str
    holds: bool
    measured: str
    judged: bool = True


def gates(found: Found, truths: Mapping[str, str], *, busy: bool = False) -> list[Gate]:
    """Those that can be judged by what was measured; ``truths`` are the faults'.

    ``busy``: others keep the machine's processors, so that a lag may be theirs.
    """
    ours = [row for row in found.rows if row.subject == OURS]
    return [
        *_faults([row for row in ours if row.batch == FAULT], truths),
        *_recall([row for row in ours if row.batch == RECALL]),
        *_lags(found.rows, busy=busy),
        *_limits([row for row in ours if row.batch == LIMITS]),
        *_requests(found),
    ]


def _faults(rows: Sequence[Row], truths: Mapping[str, str]) -> list[Gate]:
    if not rows:
        return []
    verdicts = [(row.cell, verdict(row, truths[row.cell])) for row in rows]
    made = []
    for bad in (FALSE_SUCCESS, SILENT_LOSS, FALSE_FAILURE, HUNG):
        under = sorted({cell for cell, told in verdicts if told == bad})
        said = f"{sum(told == bad for _, told in verdicts)} of {len(rows)} waits"
        sentence = f"no {bad} under any fault" if bad != HUNG else "no wait hangs under any fault"
        made.append(Gate(sentence, not under, ", ".join([said, *under])))
    return made


def _recall(rows: Sequence[Row]) -> list[Gate]:
    if not rows:
        return []
    by_cell = [
        recall([row for row in rows if row.cell == cell], seconds)
        for cell, seconds in LENGTHS.items()
    ]
    seen, of = sum(one[0] for one in by_cell), sum(one[1] for one in by_cell)
    return [Gate("every phase of 10 ms and more is seen", seen == of, f"{seen} of {of}")]


def _lags(rows: Sequence[Row], *, busy: bool) -> list[Gate]:
    made = []
    for batch in sorted({row.batch for row in rows if row.batch.startswith(LAG)}, key=len):
        here = [row for row in rows if row.batch == batch]
        ours = lags(row for row in here if row.subject == OURS)
        floor = lags(row for row in here if row.subject == BARE)
        if not ours or not floor:
            continue
        one, other = percentile(ours, 0.95), percentile(floor, 0.95)
        waits = batch.removeprefix(LAG).strip()
        sentence = f"p95 of the lag within {SLOWER * 1000:g} ms of the floor's, {waits} at once"
        measured = f"{one * 1000:.1f} ms, the floor {other * 1000:.1f} ms"
        holds = one <= other + SLOWER
        made.append(Gate(sentence, holds, measured, judged=holds or not busy))
    return made


def _limits(rows: Sequence[Row]) -> list[Gate]:
    if not rows:
        return []
    most = max(row.overshoot for row in rows)
    sentence = f"a limit is overshot by {OVER * 1000:g} ms at most"
    return [Gate(sentence, most <= OVER, f"{most * 1000:.1f} ms")]


def _requests(found: Found) -> list[Gate]:
    batches = [c for c in found.costs if c.subject == OURS and c.batch.startswith(LAG)]
    if not batches:
        return []
    largest = max(batches, key=lambda cost: cost.waits)
    most = max(cost.requests for cost in batches if cost.waits == largest.waits)
    sentence = f"{REQUESTS} requests at most for a kind and namespace, {largest.waits} waits"
    return [Gate(sentence, most <= REQUESTS, f"{most}")]
