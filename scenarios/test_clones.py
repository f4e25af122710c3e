"""Where a worker's system disk comes from: downloaded, or cloned from the platform's golden image.

A disk that was copied over the pod network ends like one that the storage cloned, and leaves the
tenant's namespace as empty. So every disk is followed from before its pool is asked for, phase by
phase, together with whatever CDI runs for it in any namespace.
"""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("golden-ready")
def test_golden_image_is_ready(pool: Pool, record: Record) -> None:
    """The golden of the pool's image is imported, shared, kept, and of the pool's class."""
    clones = pool.clones
    record(judge.golden_ready(clones.golden(), clones.wanted, f"golden {clones.wanted.golden}"))


@pytest.mark.claims("disk-source")
def test_disk_comes_from_where_the_pool_asked(pool: Pool, record: Record) -> None:
    """Source, annotations and class are those that osImage calls for, or its absence."""
    clones = pool.clones
    for disk in clones.disks:
        record(judge.disk_source(disk.source(), clones.wanted, disk.subject))


@pytest.mark.claims("csi-clone")
def test_disk_was_cloned_by_the_storage(pool: Pool, record: Record) -> None:
    """CDI says csi-clone and nothing else, and no pod of any namespace carried the bytes."""
    clones = pool.clones
    for disk in clones.disks:
        record(
            judge.csi_clone(
                disk.source(),
                disk.history(),
                disk.claim(),
                disk.volume(),
                disk.helpers(),
                disk.leftovers(),
                clones.wanted,
                disk.subject,
            )
        )


@pytest.mark.claims("disk-phases")
def test_disk_went_through_every_phase(pool: Pool, record: Record) -> None:
    """Each phase of the disk's path was seen, in order, however short."""
    for disk in pool.clones.disks:
        record(
            judge.disk_phases(
                disk.source(), disk.history(), disk.claim(), disk.storage_class(), disk.subject
            )
        )


@pytest.mark.claims("disk-shape")
def test_disk_is_as_asked_for_and_has_grown(pool: Pool, record: Record) -> None:
    """Class, access mode and size are as asked for, and the guest sees all of it."""
    clones = pool.clones
    for disk in clones.disks:
        record(
            judge.disk_shape(
                disk.source(),
                disk.claim(),
                disk.migration(),
                disk.guest_disk(),
                clones.grown_from(),
                clones.wanted,
                disk.subject,
            )
        )
