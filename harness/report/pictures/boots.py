"""Boots per node against the window: how old each boot got, and the limit that it had to pass.

From the ledger of boots that each worker has; of a run without one, from the looks behind its
verdict of uptime.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.report.lengths import duration
from harness.report.pictures.bars import Bar, Chart, Mark, Row, spread
from harness.report.pictures.reading import Seen, by_pool, items, named, number, slug, words

_LIMITS = re.compile(r"more than (\d+) s and (\d+) s of soak")
"""How the verdict of uptime names limit and soak (`harness.judge.uptime`)."""
_JITTER = 1.0  # seconds by which the beginning of one boot may differ between two looks
_LIMIT_OF_LOOK = ("boot", "look")


@dataclass(frozen=True, slots=True)
class _Look:
    at: float
    boot_id: str
    uptime: float | None


@dataclass(frozen=True, slots=True)
class _Boot:
    """One boot: when it began (None: that was not seen), its first and last look."""

    boot_id: str
    began: float | None
    first: float
    last: float

    @property
    def start(self) -> float:
        return self.first if self.began is None else self.began


@dataclass(frozen=True, slots=True)
class _Node:
    name: str
    boots: tuple[_Boot, ...]
    marks: tuple[tuple[float, str], ...]
    limit: float | None
    soak: float | None


def charts(seen: Sequence[Seen]) -> Iterator[Chart]:
    """One chart for each pool whose workers' boots were looked at."""
    ledgers, samples = by_pool(seen, "BootLedger"), by_pool(seen, "BootSample")
    for pool in dict.fromkeys([*ledgers, *samples]):
        nodes = list(_of_ledgers(ledgers.get(pool, ())))
        known = {node.name for node in nodes}
        nodes += [node for node in _of_samples(samples.get(pool, ())) if node.name not in known]
        drawn = [node for node in nodes if node.boots]
        if drawn:
            yield _chart(pool, drawn)


def _of_ledgers(ledgers: Iterable[Seen]) -> Iterator[_Node]:
    """The last ledger of each node: one that was written later holds what the earlier did."""
    last = {
        words(one.values.get("node")) or words(one.values.get("machine")): one for one in ledgers
    }
    for name, one in last.items():
        entries = list(items(one.values.get("entries")))
        looks = [
            _Look(at, boot_id, number(entry.get("uptime")))
            for entry in entries
            if entry.get("what") in _LIMIT_OF_LOOK
            and (at := number(entry.get("at"))) is not None
            and (boot_id := words(entry.get("boot_id")))
        ]
        marks = [
            (at, f"{words(entry.get('what'))}: {words(entry.get('text'))}")
            for entry in entries
            if entry.get("what") not in _LIMIT_OF_LOOK
            and (at := number(entry.get("at"))) is not None
        ]
        limit, soak = number(one.values.get("limit")), number(one.values.get("soak"))
        yield _Node(name, _boots(looks), tuple(marks), _positive(limit), _positive(soak))


def _of_samples(samples: Iterable[Seen]) -> Iterator[_Node]:
    found: dict[str, list[_Look]] = {}
    limits: dict[str, tuple[float, float]] = {}
    for one in samples:
        node, boot_id = words(one.values.get("node")), words(one.values.get("boot_id"))
        if boot_id and one.at is not None:
            look = _Look(one.at, boot_id, number(one.values.get("uptime")))
            found.setdefault(node, []).append(look)
        told = _LIMITS.search(one.because)
        if told:
            limits[node] = (float(told[1]), float(told[2]))
    for node, looks in found.items():
        limit, soak = limits.get(node, (None, None))
        yield _Node(node, _boots(looks), (), _positive(limit), _positive(soak))


def _positive(value: float | None) -> float | None:
    return value if value is not None and value > 0 else None


def _boots(looks: Sequence[_Look]) -> tuple[_Boot, ...]:
    boots: list[_Boot] = []
    for look in sorted(looks, key=lambda one: one.at):
        began = None
        if look.uptime is not None and 0 <= look.uptime <= look.at:
            began = look.at - look.uptime
        if boots and boots[-1].boot_id == look.boot_id:
            known = boots[-1].began
            first = known if known is not None else began
            boots[-1] = _Boot(look.boot_id, first, boots[-1].first, look.at)
        else:
            boots.append(_Boot(look.boot_id, began, look.at, look.at))
    return tuple(boots)


def _chart(pool: str, nodes: Sequence[_Node]) -> Chart:
    begun = min(node.boots[0].start for node in nodes)
    start = min([begun, *(at for node in nodes for at, _ in node.marks)])
    moments = [node.boots[-1].last for node in nodes]
    moments += [at for node in nodes for at, _ in node.marks]
    for node in nodes:
        last = node.boots[-1]
        if last.began is not None:
            moments.append(last.began + max(node.limit or 0.0, node.soak or 0.0))
    again = sum(len(node.boots) - 1 for node in nodes)
    count = f"{len(nodes)} node{'s' * (len(nodes) != 1)}"
    stayed = f"{count}, each on one boot"
    says = f"{count}, {again} boot{'s' * (again != 1)} after the first" if again else stayed
    told = named([(len(node.boots) > 1, f"{node.name}: {_note(node)}") for node in nodes])
    return Chart(
        name=f"boots-{slug(pool)}",
        pool=pool,
        claims=("uptime",),
        title=f"Boots of pool {pool} against the window",
        says=f"Boots of pool {pool}: {says}. {told}.",
        rows=[_row(node, start) for node in nodes],
        length=max(moments) - start,
        legend=_legend(nodes),
        from_what="the beginning of the earliest boot" if start == begun else "what was seen first",
    )


def _legend(nodes: Sequence[_Node]) -> list[str]:
    told = ["a bar is a boot, from its beginning to the last look at it"]
    if any(len(node.boots) > 1 for node in nodes):
        told.append("dark: a boot that another followed")
    limits = sorted({node.limit for node in nodes if node.limit})
    soaks = sorted({node.soak for node in nodes if node.soak})
    if limits:
        named = " or ".join(map(duration, limits))
        told.append(
            f"dashed line: {named} of uptime, at which a boot that does not end is given up"
        )
    if soaks:
        told.append(f"and {' or '.join(map(duration, soaks))}, the lane's soak")
    if any(node.marks for node in nodes):
        told.append("triangle: something else that was seen of the worker")
    return told


def _row(node: _Node, start: float) -> Row:
    bars, marks = [], []
    for number_, boot in enumerate(node.boots, start=1):
        ended = number_ < len(node.boots)
        age = boot.last - boot.start
        known = "" if boot.began is not None else ", its beginning was not seen"
        says = f"{node.name}, boot {number_} ({boot.boot_id}): seen for {duration(age)}{known}"
        bars.append(
            Bar(
                boot.start - start,
                boot.last - start,
                says,
                "dark" if ended else "plain",
                duration(age),
            )
        )
        last = not ended
        for limit, what in ((node.limit, "limit"), (node.soak if last else None, "soak")):
            if limit is not None and boot.began is not None:
                at = boot.began + limit - start
                if last or boot.began + limit <= node.boots[number_].start + _JITTER:
                    marks.append(Mark(at, f"{what}: {duration(limit)} of uptime", limit=True))
    marks += [Mark(at - start, f"{duration(at - start)}: {said}") for at, said in node.marks]
    return Row(node.name, tuple(bars), tuple(marks), _note(node), strong=len(node.boots) > 1)


def _ended_by(node: _Node) -> list[float]:
    """By what age each boot but the last had ended: when the next one began."""
    return [
        after.start - before.start
        for before, after in pairwise(node.boots)
        if before.began is not None
    ]


def _note(node: _Node) -> str:
    last = node.boots[-1]
    if len(node.boots) > 1:
        ages = _ended_by(node)
        ended = f", ended by {spread(ages)}" if ages else ""
        return f"{len(node.boots)} boots{ended}"
    if last.began is None:
        return "one boot, age not known"
    return f"one boot, {duration(last.last - last.began)}"
