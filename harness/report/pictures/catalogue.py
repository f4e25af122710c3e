"""Every picture that a ledger can be drawn as, in the order in which a reader wants them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.ledger import LedgerView
from harness.report.pictures import bars, boots, disks, joins, modules
from harness.report.pictures.reading import Seen, of_ledger
from harness.report.pictures.svg import Picture

__all__ = ["Picture", "drawn", "pictures"]


def pictures(view: LedgerView) -> tuple[Picture, ...]:
    """The pictures of a run: joins, disks, modules, boots, each pool by pool. What the ledger has
    no facts for has no picture. The same ledger gives the same bytes.
    """
    return drawn(of_ledger(view))


def drawn(seen: Sequence[Seen]) -> tuple[Picture, ...]:
    """The pictures of some facts, names unique."""
    found: list[Picture] = []
    for chart in [*joins.charts(seen), *disks.charts(seen)]:
        found += bars.pictures(chart)
    found += modules.draw(seen)
    for chart in boots.charts(seen):
        found += bars.pictures(chart)
    return tuple(found)
