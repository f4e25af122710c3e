"""What is below DRBD: a disk's bytes, and sets of its blocks (4 KiB, one bit of a bitmap)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

BLOCK = 4096
KIB = 1024
BLOCK_KIB = BLOCK // KIB
_ZEROES = bytes(BLOCK)
Interval = tuple[int, int]


class Disk:
    """A backing device: zeroes where nothing was written. Blocks of equal origin share memory."""

    def __init__(self) -> None:
        self._blocks: dict[int, bytes] = {}

    def read(self, offset: int, length: int) -> bytes:
        """The bytes of a range."""
        first, last = offset // BLOCK, -(-(offset + length) // BLOCK)
        whole = b"".join(self._blocks.get(number, _ZEROES) for number in range(first, last))
        start = offset - first * BLOCK
        return whole[start : start + length]

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes at an offset."""
        first, last = offset // BLOCK, -(-(offset + len(data)) // BLOCK)
        if offset % BLOCK or len(data) % BLOCK:
            held = bytearray(self.read(first * BLOCK, (last - first) * BLOCK))
            at = offset - first * BLOCK
            held[at : at + len(data)] = data
            data = bytes(held)
        for index, number in enumerate(range(first, last)):
            self._blocks[number] = data[index * BLOCK : (index + 1) * BLOCK]

    def copy(self, source: Disk, intervals: Iterable[Interval]) -> None:
        """Take over what another disk holds in some blocks."""
        for start, end in intervals:
            for number in self._written(start, end) | source._written(start, end):
                block = source._blocks.get(number)
                if block is None:
                    self._blocks.pop(number, None)
                else:
                    self._blocks[number] = block

    def differs(self, other: Disk) -> list[int]:
        """The blocks that do not hold the same, in order."""
        numbers = self._blocks.keys() | other._blocks.keys()
        return sorted(
            number
            for number in numbers
            if self._blocks.get(number, _ZEROES) != other._blocks.get(number, _ZEROES)
        )

    def _written(self, start: int, end: int) -> set[int]:
        if end - start < len(self._blocks):
            return {number for number in range(start, end) if number in self._blocks}
        return {number for number in self._blocks if start <= number < end}


class Bits:
    """A set of block numbers, as sorted intervals that do not touch: [start, end)."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __len__(self) -> int:
        return sum(end - start for start, end in self)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __iter__(self) -> Iterator[Interval]:
        return iter(zip(self._starts, self._ends, strict=True))

    def set(self, start: int, end: int) -> None:
        """Add the blocks from ``start`` to before ``end``."""
        if start >= end:
            return
        low, high = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if low < high:
            start, end = min(start, self._starts[low]), max(end, self._ends[high - 1])
        self._starts[low:high], self._ends[low:high] = [start], [end]

    def clear(self, start: int, end: int) -> None:
        """Take the blocks from ``start`` to before ``end`` out."""
        low, high = bisect_right(self._ends, start), bisect_left(self._starts, end)
        kept: list[Interval] = []
        for one in range(low, high):
            first, last = self._starts[one], self._ends[one]
            kept += [(first, start)] if first < start else []
            kept += [(end, last)] if end < last else []
        if low < high:
            self._starts[low:high] = [first for first, _ in kept]
            self._ends[low:high] = [last for _, last in kept]

    def empty(self) -> None:
        """Take everything out."""
        self._starts, self._ends = [], []

    def first(self, count: int) -> list[Interval]:
        """The first ``count`` blocks, as intervals."""
        found: list[Interval] = []
        for start, end in self:
            if count <= 0:
                break
            found.append((start, min(end, start + count)))
            count -= end - start
        return found

    def add(self, other: Iterable[Interval]) -> None:
        """Add another set."""
        for start, end in list(other):
            self.set(start, end)
