"""Clocks that tests of reaching hold still."""

from __future__ import annotations


class Counted:
    """The lab's time stands; the runner's goes on by a second with each look."""

    def __init__(self) -> None:
        self.looked = 0.0

    def now(self) -> float:
        return 1767225600.0

    def monotonic(self) -> float:
        self.looked += 1.0
        return self.looked
