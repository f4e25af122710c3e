"""Bytes that arrive by themselves, kept with the lab's time of their arrival, and how they ended.

One thread fills a capture; any number read it and wait on it, through the clock. A capture that is
over says how it ended: "nothing more came" and "nobody was listening any more" are not the same.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from harness.clock import Clock, Deadline

KEEP = 4 * 1024 * 1024
"""Bytes that a capture keeps unless told otherwise; older ones are dropped, and counted."""

WINDOW = 64 * 1024
"""The longest match, in bytes, that `Capture.wait` finds for certain."""


class How(StrEnum):
    """How a capture ended."""

    OURS = "ours"
    """We closed it."""
    DEADLINE = "deadline"
    """The time allowed for it was over."""
    FINISHED = "finished"
    """What was captured came to its own end: the container ended."""
    GONE = "gone"
    """What was captured is no more, or is another now under its name."""
    MOVED = "moved"
    """What was captured goes on elsewhere, where it may be attached to anew: it was migrated."""
    TAKEN = "taken"
    """Another client has it now. Inferred; see where it is said."""
    CLOSED = "closed"
    """The server ended it in good order, though what was captured goes on."""
    BROKE = "broke"
    """The connection broke, or fell silent."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a capture ended: ``told`` in a sentence, ``at`` the lab's time, ``size`` bytes in all."""

    how: How
    told: str
    at: float
    size: int

    @property
    def early(self) -> bool:
        """Whether more may have come that was not captured, for a reason other than ours."""
        return self.how in (How.MOVED, How.TAKEN, How.CLOSED, How.BROKE)


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes that arrived together. ``offset`` counts from the first byte of the capture."""

    at: float
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Found:
    """A match: where it stands, and the lab's time at which its last byte arrived."""

    start: int
    end: int
    text: bytes
    groups: tuple[bytes | None, ...]
    at: float


class Capture:
    """What has arrived. ``name`` is how messages speak of it, ``keep`` the most bytes kept.

    ``settle`` is called before each look at what has arrived; give one where there is a way to
    know that everything written up to now is here. Without it, on virtual time, a look may come
    before the bytes of its own moment.
    """

    def __init__(
        self,
        clock: Clock,
        name: str,
        *,
        keep: int = KEEP,
        settle: Callable[[], object] = lambda: None,
    ) -> None:
        self.name = name
        self._clock = clock
        self._keep = keep
        self._settle = settle
        self._lock = threading.Lock()
        self._pieces: deque[Piece] = deque()
        self._size = 0
        self._ending: Ending | None = None

    # -- filling

    def add(self, data: bytes) -> None:
        """Take in what has just arrived."""
        if not data:
            return
        with self._clock.held():
            at = self._clock.now()
            with self._lock:
                self._pieces.append(Piece(at, self._size, data))
                self._size += len(data)
                while len(self._pieces) > 1 and self._size - self._after_first() >= self._keep:
                    self._pieces.popleft()
        self._clock.notify()

    def end(self, how: How, told: str) -> None:
        """Nothing more comes. Only the first end counts."""
        with self._lock:
            if self._ending is None:
                self._ending = Ending(how, told, self._clock.now(), self._size)
        self._clock.notify()

    def _after_first(self) -> int:
        return self._pieces[0].offset + len(self._pieces[0].data)

    # -- reading

    @property
    def ending(self) -> Ending | None:
        """How it ended; None as long as it goes on."""
        with self._lock:
            return self._ending

    @property
    def size(self) -> int:
        """How many bytes have arrived in all, dropped ones included."""
        with self._lock:
            return self._size

    @property
    def dropped(self) -> int:
        """How many bytes, the oldest, are no longer kept."""
        with self._lock:
            return self._first()

    def pieces(self) -> tuple[Piece, ...]:
        """What is kept, oldest first."""
        with self._lock:
            return tuple(self._pieces)

    def settle(self) -> None:
        """Have everything in that was printed up to now, where there is a way to know that.

        A wait on something else calls this in its look, so that what is printed meanwhile gets the
        time of its moment.
        """
        self._settle()

    def text(self, since: int = 0) -> bytes:
        """What is kept from an offset on. What was dropped is missing: compare ``dropped``."""
        with self._lock:
            return self._text(since)[1]

    def text_from(self, since: int) -> tuple[int, bytes]:
        """The same with the offset at which it begins, both of one moment: past ``since`` where
        what lay between was dropped."""
        with self._lock:
            return self._text(since)

    def read(self, since: int, most: int) -> bytes:
        """Up to ``most`` bytes from an offset on. IndexError where that is no longer kept."""
        with self._lock:
            first, text = self._text(since, most)
        if first > since:
            raise IndexError(f"{self.name}: bytes {since} to {first} were dropped")
        return text[:most]

    def wait(
        self, pattern: bytes | re.Pattern[bytes], deadline: Deadline, *, since: int = 0
    ) -> Found | None:
        """Wait for a match at or after an offset; bytes are sought as they stand.

        None at the deadline, and where the capture ended without it: see ``ending``.
        """
        search = _Search(self, _compiled(pattern), since)

        def look() -> bool:
            if search.found() is not None:
                return True
            self._settle()
            ended = self.ending is not None  # asked first: what came before the end is searched
            return search.found() is not None or ended

        self._clock.wait(look, deadline, f"{search.pattern.pattern!r} on {self.name}")
        return search.match

    def wait_for_more(self, since: int, seconds: float) -> bool:
        """Wait up to ``seconds`` for bytes after an offset; False without any, also at the end."""

        def look() -> bool:
            if self.size > since:
                return True
            self._settle()
            return self.ending is not None or self.size > since

        self._clock.wait(look, self._clock.deadline(seconds), f"more on {self.name}")
        return self.size > since

    def wait_for_end(self, deadline: Deadline) -> Ending | None:
        """Wait until it is over; None at the deadline."""

        def look() -> bool:
            self._settle()
            return self.ending is not None

        self._clock.wait(look, deadline, f"the end of {self.name}")
        return self.ending

    def arrival(self, offset: int) -> float:
        """The lab's time at which the byte at an offset arrived; of a dropped one, the earliest
        that is kept. IndexError for one that has not arrived."""
        with self._lock:
            if not 0 <= offset < self._size:
                raise IndexError(f"{self.name}: no byte {offset} of {self._size}")
            place = bisect_right(self._pieces, offset, key=lambda piece: piece.offset)
            return self._pieces[max(place - 1, 0)].at

    def _first(self) -> int:
        return self._pieces[0].offset if self._pieces else 0

    def _text(self, since: int, most: int | None = None) -> tuple[int, bytes]:
        """The offset at which the text begins, and the text; at least ``most`` where given."""
        first = max(since, self._first())
        if first >= self._size:
            return first, b""
        place = max(bisect_right(self._pieces, first, key=lambda piece: piece.offset) - 1, 0)
        parts, size = [], 0
        for index in range(place, len(self._pieces)):
            piece = self._pieces[index]
            parts.append(piece.data[max(first - piece.offset, 0) :])
            size += len(parts[-1])
            if most is not None and size >= most:
                break
        return first, b"".join(parts)


class _Search:
    """A search that does not read again what it has read, but for the length of a match."""

    def __init__(self, capture: Capture, pattern: re.Pattern[bytes], since: int) -> None:
        self.pattern = pattern
        self.match: Found | None = None
        self._capture = capture
        self._since = since
        self._read = since

    def found(self) -> Found | None:
        """The first match, once it is there."""
        if self.match is None and self._capture.size > self._read:
            first, text = self._capture.text_from(max(self._since, self._read - WINDOW))
            self._read = first + len(text)
            match = self.pattern.search(text)
            if match is not None:
                end = first + match.end()
                at = self._capture.arrival(max(end - 1, first))
                self.match = Found(first + match.start(), end, match[0], match.groups(), at)
        return self.match


def _compiled(pattern: bytes | re.Pattern[bytes]) -> re.Pattern[bytes]:
    return re.compile(re.escape(pattern)) if isinstance(pattern, bytes) else pattern
