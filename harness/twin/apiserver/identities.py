"""Numbers and names a cluster hands out: revisions, UIDs, generated suffixes. All reproducible."""

from __future__ import annotations

import random
import uuid
from typing import Final

# Letters that a generated name may hold: no vowels and no 0, 1, 3, so that no words arise.
ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"


class Revisions:
    """The counter behind resourceVersion. Several stores may share one."""

    def __init__(self, start: int = 0) -> None:
        self.current = start

    def next(self) -> int:
        """The next revision; it becomes the current one."""
        self.current += 1
        return self.current


class Identities:
    """UIDs and name suffixes from a seed: the same seed gives the same names."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def uid(self) -> str:
        """A UID in the form of a version 4 UUID."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def suffix(self, n: int = 5) -> str:
        """``n`` characters such as ``generateName`` appends."""
        return "".join(self._random.choices(ALPHABET, k=n))
