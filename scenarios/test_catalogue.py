"""The platform's golden catalogue: an entry becomes a golden, and the golden outlives its entry.

Only an entry of this run's own is put in, and it is taken out again whatever comes in between.
"""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims(
    "catalogue-import", "catalogue-refused", "catalogue-kept", "golden-lost", "class-resolved"
)
def test_an_entry_becomes_a_golden_that_outlives_it(pool: Pool, record: Record) -> None:
    """A new entry is imported, a change under its golden refused, and the golden kept without it.

    Before that, entries that no pool could use are refused, one after the other, and so is a pool
    whose golden keeps failing. Goldens without a class are made and looked at. At the end class and
    golden are taken from a pool that has cloned from it.
    """
    with pool.catalogue.opened() as catalogue:
        bad, failing = catalogue.bad_entries(), catalogue.goldens.failing()
        new = catalogue.imported()
        record(
            judge.catalogue_import(
                new.entry, new.release, new.golden, new.history, new.meanwhile, pool.subject
            )
        )
        record(judge.catalogue_refused([*bad, catalogue.changed()], pool.subject))
        kept = catalogue.dropped()
        record(
            judge.catalogue_kept(
                kept.before, kept.release_before, kept.after, kept.release_after, pool.subject
            )
        )
        resolved, outlived = catalogue.classes.resolved(), catalogue.goldens.outlived()
        record(judge.golden_lost(failing, outlived.without, pool.subject))
        record(judge.class_resolved(resolved, outlived, pool.subject))
