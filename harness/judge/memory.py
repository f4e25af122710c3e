"""Memory or timer: what a worker's memory says of the end of its boots.

Page cache is no pressure: a node may use 96 % of its memory and have nearly all of it to give
(uptime_and_diagnosis section 3). Memory is out where MemAvailable comes near zero, which no sample
says that nobody took: with gaps in them, "never near zero" is not known.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from harness.facts.boots import BootSample
from harness.facts.fact import Fact, Unread
from harness.facts.memory import MemInfo, MemoryWindow, Stretch
from harness.judge.bootcauses import Reboot
from harness.judge.wording import counted, named

LEAST = 100 * 2**20
"""Bytes available below which memory is out: at 100 MiB kubelet evicts by default."""
SHARE = 0.01
"""Share of all memory that counts as near zero too; the larger of the two."""
NEAR = 10.0
"""Seconds by which a boot's ends are known at best, as its samples are."""


ENDING = 180.0
"""Seconds before a boot's end, or its last sample, within which memory that was out may have ended
it; the boot's end is known at the latest only, with going down counted in."""


class Memory(Enum):
    """How a worker's memory stood over one boot."""

    OUT = "out"
    """MemAvailable was near zero."""
    PLENTY = "plenty"
    """It was not, samples were taken all the time, and its kernel counted no kill."""
    UNKNOWN = "unknown"
    """Nobody was asked, or nothing near zero was seen with samples missing."""


def of_reboot(one: Reboot, seen: Sequence[Fact]) -> tuple[Memory, str]:
    """How memory stood in the boot that ended, and that in words."""
    ended = one.before.began + (one.age if one.ended is None else one.ended)
    return _of_boot(one.before.began, ended, seen)


def ended(one: Reboot, seen: Sequence[Fact]) -> bool:
    """Whether memory was near zero as the boot ended: an hour before that ended no boot."""
    began = one.before.began
    end = began + (one.age if one.ended is None else one.ended)
    return any(
        stretch.last < _near_zero(window) or stretch.minimum_at >= stretch.ended - ENDING
        for window in seen
        if isinstance(window, MemoryWindow)
        for stretch in window.stretches
        if _within(stretch, began, end)
        and stretch.minimum < _near_zero(window)
        and end - stretch.ended <= ENDING
    )


def of_boot(last: BootSample, seen: Sequence[Fact]) -> tuple[Memory, str]:
    """How memory stands in the boot that goes on, up to the last look at it, and in words."""
    return _of_boot(last.began, None, seen)


def beside(found: Sequence[Reboot], seen: Sequence[Fact]) -> str:
    """What memory says beside the cause of the first of these reboots; "" where nothing was looked
    at. It names memory where that was out, and says that it was not where samples show it.
    """
    if not found or not seen:
        return ""
    if _only_now(seen):
        return _all_now(seen)
    state, said = of_reboot(found[0], seen)
    lead = {
        Memory.OUT: "memory was out",
        Memory.PLENTY: "not for want of memory",
        Memory.UNKNOWN: "memory is not established",
    }[state]
    return f"{lead}: {said}"


def meanwhile(last: BootSample, seen: Sequence[Fact]) -> str:
    """The same of a boot that goes on; "" where nothing was looked at."""
    if not seen:
        return ""
    if _only_now(seen):
        return _all_now(seen)
    state, said = of_boot(last, seen)
    lead = {
        Memory.OUT: "in it memory was out, which is no reboot",
        Memory.PLENTY: "memory was never near zero in it",
        Memory.UNKNOWN: "whether memory was ever near zero in it is not established",
    }[state]
    return f"{lead}: {said}"


def _of_boot(began: float, end: float | None, seen: Sequence[Fact]) -> tuple[Memory, str]:
    """``end`` in epoch seconds, None for a boot that goes on."""
    windows = [one for one in seen if isinstance(one, MemoryWindow)]
    doubts: list[str] = []
    for window in windows:
        ended = window.until if end is None else end
        ours = [one for one in window.stretches if _within(one, began, ended)]
        if not ours:
            doubts.append("no sample of that boot")
            continue
        lowest = min(ours, key=lambda one: one.minimum)
        if lowest.minimum < _near_zero(window):
            return Memory.OUT, _was_out(window, lowest, ended)
        # before its first sample a boot may lack them for so long, after it never
        first = min(max(began, window.since) + _BOOTING, ours[0].began)
        missing = window.gaps(first, ended)
        kills = max(one.kills or 0 for one in ours)
        if missing or window.since > began + _BOOTING:
            doubts.append(_missing(window, ours, missing, began))
        elif kills:
            doubts.append(_counted(window, ours, kills))
        else:
            return Memory.PLENTY, _plenty(window, ours)
    doubts += [one.reason for one in seen if isinstance(one, Unread)]
    now = [_now(one) for one in seen if isinstance(one, MemInfo)]
    return Memory.UNKNOWN, "; ".join([*dict.fromkeys(doubts), *now]) or "nobody looked"


_BOOTING = 180.0
"""Seconds of a boot until its exporter has to be there: pulled images and a settled CNI."""


def _within(one: Stretch, began: float, ended: float) -> bool:
    return one.began >= began - NEAR and one.ended <= ended + NEAR


def _near_zero(window: MemoryWindow) -> float:
    return max(LEAST, SHARE * (window.total or 0))


def _was_out(window: MemoryWindow, lowest: Stretch, ended: float) -> str:
    before = max(0.0, ended - lowest.minimum_at)
    kills = f", kills counted: {lowest.kills}" if lowest.kills else ""
    return f"MemAvailable was {_of(lowest.minimum, window)} {before:.0f} s before the end{kills}"


def _plenty(window: MemoryWindow, ours: Sequence[Stretch]) -> str:
    least = min(one.minimum for one in ours)
    count = sum(one.samples for one in ours)
    told = f"MemAvailable was at least {_of(least, window)} in {count} samples without a gap"
    return f"{told}{_page_cache(window, ours[-1])}"


def _counted(window: MemoryWindow, ours: Sequence[Stretch], kills: int) -> str:
    """Kills that no sample shows: at a container's limit, or in a shortage between two."""
    least = _of(min(one.minimum for one in ours), window)
    told = f"MemAvailable was at least {least} in each sample, and its kernel counted"
    return f"{told} {counted(kills, 'kill')} for want of memory, a container's or the machine's"


def _page_cache(window: MemoryWindow, last: Stretch) -> str:
    """What makes a node look full, where it did."""
    if not window.total or last.free is None or last.cached is None:
        return ""
    used, cached = 1 - last.free / window.total, last.cached / window.total
    return f"; {used:.0%} in use at its last, {cached:.0%} of it all page cache"


def _missing(
    window: MemoryWindow,
    ours: Sequence[Stretch],
    missing: Sequence[tuple[float, float]],
    began: float,
) -> str:
    least = _of(min(one.minimum for one in ours), window)
    gaps = [f"{b - a:.0f} s from {a - began:.0f} s of uptime" for a, b in missing]
    if not gaps:
        gaps = [f"the {window.since - began:.0f} s before it was asked about"]
    return f"MemAvailable was at least {least} where it was sampled, no sample for {named(gaps)}"


def _now(one: MemInfo) -> str:
    return f"{one.available / 2**20:.0f} MiB of {one.total / 2**20:.0f} are available now"


def _only_now(seen: Sequence[Fact]) -> bool:
    """Whether nothing scrapes the machine, and its kernel alone was asked."""
    return all(isinstance(one, MemInfo) for one in seen)


def _all_now(seen: Sequence[Fact]) -> str:
    return "; ".join(_now(one) for one in seen if isinstance(one, MemInfo))


def _of(size: int, window: MemoryWindow) -> str:
    whole = f" of {window.total / 2**20:.0f} MiB" if window.total else " MiB"
    return f"{size / 2**20:.0f}{whole}"
