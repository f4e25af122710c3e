"""Replicated disks: as they are, and what becomes of one when something goes away beneath it.

The trials are made on a volume of their own, and undone. What was written before is read after, on
both replicas: a state that says UpToDate is no proof that the bytes are there.
"""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import MachinePool, Pool, Record


@pytest.mark.claims("storage-ok")
def test_disks_are_replicated(pool: MachinePool, record: Record) -> None:
    """Every replica is UpToDate and connected to every other, and no I/O stands still."""
    statuses, disks = pool.drbd(), pool.disks()
    logs = pool.drbd_logs(statuses)
    record(judge.storage_ok(statuses, pool.replicas, pool.subject, resources=disks, logs=logs))


@pytest.mark.claims("linstor-agrees")
def test_linstor_says_what_the_kernels_say(pool: Pool, record: Record) -> None:
    """LINSTOR's view of each replica is its own kernel's; where they differ, LINSTOR's is stale."""
    looks = pool.linstor_looks()
    record(judge.linstor_agrees(looks, pool.subject, resources=pool.disks()))


@pytest.mark.claims("drbd-failover")
def test_primary_hands_over(pool: MachinePool, record: Record) -> None:
    """The Primary is demoted, the other promoted, and has what was written before; and back."""
    volume = pool.volume()
    record(judge.drbd_failover(volume.trials.failover(), volume.subject))


@pytest.mark.claims("drbd-outdated-refused")
def test_outdated_replica_is_not_promoted(pool: MachinePool, record: Record) -> None:
    """A replica that is told that it is outdated refuses to be Primary, until it has caught up."""
    volume = pool.volume()
    record(judge.drbd_outdated_refused(volume.trials.outdated(), volume.subject))


@pytest.mark.claims("drbd-replica-loss")
def test_secondary_is_switched_off(pool: MachinePool, record: Record) -> None:
    """The Primary writes on without the Secondary, which catches up to the last block."""
    volume = pool.volume()
    record(judge.drbd_replica_loss(volume.trials.replica_loss(), volume.subject))


@pytest.mark.claims("drbd-primary-loss")
def test_primary_is_switched_off(pool: MachinePool, record: Record) -> None:
    """The other is promoted without force and has all that was acknowledged; the old one rejoins
    as Secondary.
    """
    volume = pool.volume()
    record(judge.drbd_primary_loss(volume.trials.primary_loss(), volume.subject))


@pytest.mark.claims("drbd-link-loss")
def test_link_is_cut(pool: MachinePool, record: Record) -> None:
    """Cut silently, then with its carrier: both notice, the Primary writes on, both catch up."""
    volume = pool.volume()
    silent = volume.trials.link_loss(carrier=False)
    carrier = volume.trials.link_loss(carrier=True)
    record(judge.drbd_link_loss(silent, carrier, volume.subject))


@pytest.mark.claims("drbd-split-brain")
def test_split_brain_is_recognised_and_recovered(pool: MachinePool, record: Record) -> None:
    """Two sides that were both written to keep apart, and a named victim's writes are given up."""
    volume = pool.volume()
    record(judge.drbd_split_brain(volume.trials.split_brain(), volume.subject))


@pytest.mark.claims("drbd-disk-loss", "drbd-io-policy")
def test_disk_below_a_replica_goes(pool: MachinePool, record: Record) -> None:
    """Without its disk the Secondary is Diskless after the next write; the Primary reads from the
    other. An error of the disk is not passed on.
    """
    volume = pool.volume()
    secondary = volume.trials.disk_loss(under_primary=False)
    primary = volume.trials.disk_loss(under_primary=True)
    record(judge.drbd_disk_loss(secondary, primary, volume.subject))
    record(judge.drbd_io_policy(primary, volume.trials.quorum_loss(), volume.subject))


@pytest.mark.claims("drbd-verify")
def test_verify_finds_what_states_hide(pool: MachinePool, record: Record) -> None:
    """Blocks that differ under UpToDate/UpToDate are found by a verify and mended by a resync."""
    volume = pool.volume()
    record(judge.drbd_verify(volume.trials.verify(), volume.subject))


@pytest.mark.claims("drbd-quorum")
def test_minority_stands_still(pool: MachinePool, record: Record) -> None:
    """Without a majority the Primary's I/O is suspended, not failed, and goes on with one."""
    volume = pool.volume()
    record(judge.drbd_quorum(volume.trials.quorum_loss(), volume.subject))
