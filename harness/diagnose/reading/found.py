"""What was found in the files, before it is known of which cluster it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.diagnose.case import Text, Unused
from harness.diagnose.reading.objects import Shown

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one command printed, or one file holds: all of one cluster.

    ``file`` is where, ``folder`` the folder of that; ``place`` the kubeconfig or context that a
    command named; ``number`` tells batches apart.
    """

    number: int
    file: str
    place: str = ""

    @property
    def folder(self) -> str:
        """The folder, "" for the topmost."""
        return self.file.replace(":", "/").rpartition("/")[0]


@dataclass(frozen=True, slots=True)
class Seen:
    """One object with where it was seen; ``shown`` as in Thing."""

    obj: Obj
    line: int
    batch: Batch
    shown: Shown = None

    @property
    def source(self) -> str:
        """File and line."""
        return f"{self.batch.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Whole:
    """A kind that was listed whole: as in Listing, of the cluster that its batch is of."""

    kind: str
    group: str
    namespace: str
    batch: Batch
    line: int


@dataclass(slots=True)
class Found:
    """All that was found, in the order in which it was read."""

    objects: list[Seen] = field(default_factory=list)
    texts: list[tuple[Text, Batch]] = field(default_factory=list)
    wholes: list[Whole] = field(default_factory=list)
    unused: list[Unused] = field(default_factory=list)
    batches: int = 0

    def batch(self, file: str, place: str) -> Batch:
        """A batch of its own number."""
        self.batches += 1
        return Batch(self.batches, file, place)

    def tell(self, source: str, why: str) -> None:
        """Something that is not used, in one line."""
        self.unused.append(Unused(source, " ".join(why.split())))
