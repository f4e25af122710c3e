"""The phases of each worker's DataVolume, as its watch saw them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.report.lengths import duration
from harness.report.pictures.bars import Bar, Chart, Mark, Row, Style
from harness.report.pictures.reading import Seen, by_pool, items, named, number, slug, words

_DONE = "Succeeded"
MOST_IN_FULL = 4
"""Disks up to which each phase has a row; of more each disk has one."""


@dataclass(frozen=True, slots=True)
class _Phase:
    name: str
    since: float
    seconds: float


@dataclass(frozen=True, slots=True)
class _Disk:
    name: str
    phases: tuple[_Phase, ...]
    doubt: str

    @property
    def done(self) -> bool:
        return self.phases[-1].name == _DONE

    @property
    def working(self) -> tuple[_Phase, ...]:
        """What took time: all but the end."""
        return tuple(one for one in self.phases if one.name != _DONE)

    @property
    def longest(self) -> _Phase | None:
        return max(self.working, key=lambda one: one.seconds, default=None)

    @property
    def ended(self) -> float:
        last = self.phases[-1]
        return last.since if self.done else last.since + last.seconds


def charts(seen: Sequence[Seen]) -> Iterator[Chart]:
    """One chart for each pool whose disks were followed."""
    for pool, found in by_pool(seen, "DiskHistory").items():
        disks = [disk for one in found if (disk := _disk(one)) is not None]
        unique = list({disk.name: disk for disk in disks}.values())
        if unique:
            yield _chart(pool, unique)


def _disk(seen: Seen) -> _Disk | None:
    phases = [
        _Phase(name, since, seconds)
        for one in items(seen.values.get("phases"))
        if (name := words(one.get("phase")))
        and (since := number(one.get("since"))) is not None
        and (seconds := number(one.get("seconds"))) is not None
        and seconds >= 0
    ]
    if not phases:
        return None
    name, doubt = words(seen.values.get("disk")), words(seen.values.get("doubt"))
    return _Disk(name, tuple(sorted(phases, key=lambda one: one.since)), doubt)


def _chart(pool: str, disks: Sequence[_Disk]) -> Chart:
    full = len(disks) <= MOST_IN_FULL
    length = max(disk.ended - disk.phases[0].since for disk in disks)
    told = named([(not disk.done, f"{disk.name} {_note(disk)}") for disk in disks])
    legend = ["a bar is a phase, a thin line one too short to have a width"]
    legend += ["dark: the longest phase of its disk", "triangle: Succeeded"]
    if any(not disk.done for disk in disks):
        legend.append("hatched: the phase it stood in when it was last looked at")
    if any(disk.doubt for disk in disks):
        legend.append("?: a phase may have been missed")
    return Chart(
        name=f"disks-{slug(pool)}",
        pool=pool,
        claims=("disk-phases", "csi-clone"),
        title=f"DataVolume phases of pool {pool}",
        says=f"{len(disks)} disk{'s' * (len(disks) != 1)} of pool {pool}: {told}.",
        rows=[row for disk in disks for row in (_in_full(disk) if full else [_in_one(disk)])],
        length=length,
        legend=legend,
        from_what="each disk's own first phase",
    )


def _note(disk: _Disk) -> str:
    took = duration(disk.ended - disk.phases[0].since)
    doubt = " ?" if disk.doubt else ""
    if disk.done:
        return f"{_DONE} after {took}{doubt}"
    return f"in {disk.phases[-1].name} after {took}{doubt}"


def _style(disk: _Disk, phase: _Phase) -> Style:
    if not disk.done and phase is disk.phases[-1]:
        return "open"
    return "dark" if phase is disk.longest else "plain"


def _bar(disk: _Disk, phase: _Phase, text: str = "") -> Bar:
    start = phase.since - disk.phases[0].since
    says = f"{disk.name}: {phase.name} for {duration(phase.seconds)}"
    return Bar(start, start + phase.seconds, says, _style(disk, phase), text)


def _ends(disk: _Disk) -> tuple[Mark, ...]:
    if not disk.done:
        return ()
    at = disk.ended - disk.phases[0].since
    return (Mark(at, f"{disk.name}: {_note(disk)}"),)


def _in_full(disk: _Disk) -> Iterator[Row]:
    yield Row(disk.name, (), _ends(disk), _note(disk), strong=True)
    for phase in disk.working:
        note = duration(phase.seconds)
        yield Row(phase.name, (_bar(disk, phase),), (), note, strong=phase is disk.longest)


def _in_one(disk: _Disk) -> Row:
    bars = tuple(_bar(disk, phase, phase.name) for phase in disk.working)
    return Row(disk.name, bars, _ends(disk), _note(disk), strong=not disk.done)
