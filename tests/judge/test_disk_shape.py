from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import claims
from harness.facts.clones import DiskRefused
from harness.facts.diskclaims import Migration
from harness.facts.goldens import GoldenAbsent
from harness.judge.disk_shape import disk_shape
from harness.judge.verdict import Verdict
from tests.judge.disk_facts import (
    AT,
    CLAIM,
    DOWNLOADED,
    GI,
    GUEST,
    IMAGE,
    MIGRATES,
    SOURCE,
    UNREAD,
    WANTED,
)

GIVEN: dict[str, Any] = {
    "source": SOURCE,
    "claim": CLAIM,
    "migration": MIGRATES,
    "guest": GUEST,
    "golden": IMAGE,
}
NO_DISK = Migration(AT, "w1", "False", "DisksNotLiveMigratable", "PVC is not shared")
CARD = Migration(AT, "w1", "False", "HostDeviceNotLiveMigratable", "VMI uses a host device")
ONCE = replace(CLAIM, access_modes=("ReadWriteOnce",))


def judged(wanted: Any = WANTED, **change: Any) -> Verdict:
    verdict = disk_shape(**{**GIVEN, **change}, wanted=wanted, subject="disk d1")
    assert (verdict.claim, verdict.subject) == ("disk-shape", "disk d1")
    assert verdict.claim in claims.load()
    return verdict


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "class replicated; ReadWriteMany Block; capacity 20Gi (21474836480 bytes)"),
        ({}, "LiveMigratable=True"),
        ({}, "the guest sees 20Gi (21474836480 bytes), grown from 6Gi (6442450944 bytes)"),
        ({"golden": None}, "the guest sees 20Gi (21474836480 bytes)"),
        ({"golden": replace(IMAGE, capacity=20 * GI)}, "as large as the golden"),
        ({"migration": CARD}, "HostDeviceNotLiveMigratable VMI uses a host device, which its card"),
        ({"migration": replace(CARD, reason="Other")}, "LiveMigratable=False Other"),
        (
            {"wanted": replace(WANTED, storage_class="")},
            "class replicated, of the cluster's choice",
        ),
        ({"claim": replace(CLAIM, capacity=21 * GI)}, "capacity 21Gi"),
        ({"claim": replace(CLAIM, access_modes=("ReadWriteOnce", "ReadWriteMany"))}, "Many Block"),
    ],
)
def test_as_asked_for(change: dict[str, Any], said: str) -> None:
    verdict = judged(**change)
    assert verdict.outcome == "holds", verdict.because
    assert said in verdict.because, verdict.because
    given = {**GIVEN, **change}
    named = [given[key] for key in GIVEN]
    assert verdict.facts == tuple(one for one in named if one is not None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"claim": replace(CLAIM, storage_class="local")}, "is of local, not of replicated"),
        ({"claim": replace(CLAIM, storage_class="")}, "is of no class, not of replicated"),
        ({"claim": ONCE}, "is ReadWriteOnce, not ReadWriteMany: the class's StorageProfile gives"),
        ({"claim": ONCE, "migration": NO_DISK}, "LiveMigratable=False DisksNotLiveMigratable PVC"),
        ({"claim": ONCE, "migration": CARD}, "is ReadWriteOnce, not ReadWriteMany"),
        ({"claim": ONCE, "migration": UNREAD}, "is ReadWriteOnce, not ReadWriteMany"),
        (
            {"claim": ONCE, "source": replace(SOURCE, access_modes=("ReadWriteOnce",))},
            "the DataVolume asks for it",
        ),
        ({"migration": NO_DISK}, "LiveMigratable=False DisksNotLiveMigratable"),
        (
            {"claim": replace(CLAIM, capacity=20 * 10**9)},
            "has 20000000000 bytes, less than 20Gi (21474836480 bytes)",
        ),
        ({"claim": replace(CLAIM, capacity=6 * GI)}, "has 6Gi (6442450944 bytes), less than 20Gi"),
        ({"claim": replace(CLAIM, requested=20 * 10**9)}, "asks for 20000000000 bytes, less than"),
        (
            {"guest": replace(GUEST, size=6 * GI)},
            "the guest sees 6Gi (6442450944 bytes) of /dev/vda, asked for were 20Gi",
        ),
        ({"guest": replace(GUEST, size=20 * GI - 512)}, "the guest sees 21474835968 bytes"),
        ({"guest": replace(GUEST, size=6 * GI), "golden": None}, "of /dev/vda"),
        ({"guest": replace(GUEST, size=6 * GI), "claim": UNREAD}, "of /dev/vda"),
    ],
)
def test_what_is_otherwise(change: dict[str, Any], said: str) -> None:
    verdict = judged(**change)
    assert verdict.outcome == "broken"
    assert said in verdict.because, verdict.because


@pytest.mark.parametrize(
    ("change", "said"),
    [
        *[({one: UNREAD}, "it could not be read") for one in ("source", "claim", "migration")],
        ({"guest": UNREAD}, "it could not be read"),
        ({"claim": replace(CLAIM, access_modes=())}, "names no access mode"),
        ({"claim": replace(CLAIM, capacity=None)}, "does not say how many bytes it has"),
        ({"claim": replace(CLAIM, requested=None)}, "does not say how many bytes it asks for"),
        ({"migration": replace(MIGRATES, status="")}, "VMI w1 does not say whether"),
        ({"golden": UNREAD}, "how large the golden is was not read"),
        ({"golden": GoldenAbsent(AT, "g", "", ())}, "how large the golden is was not read"),
        ({"golden": replace(IMAGE, capacity=None)}, "how large the golden is was not read"),
        ({"source": DiskRefused(AT, "m1", "denied")}, "there is no disk: denied"),
    ],
)
def test_what_is_not_known(change: dict[str, Any], said: str) -> None:
    verdict = judged(**change)
    assert verdict.outcome == "unknown"
    assert said in verdict.because, verdict.because


def test_20g_is_enough_where_20g_was_asked_for() -> None:
    size = 20 * 10**9
    enough = {"claim": replace(CLAIM, capacity=size, requested=size), "golden": None}
    smaller = replace(DOWNLOADED, size=size)
    assert judged(smaller, guest=replace(GUEST, size=size), **enough).outcome == "holds"


def test_a_card_is_no_fault_of_the_disk() -> None:
    assert judged(migration=CARD).outcome == "holds"
    assert "which its card does" not in judged(migration=replace(CARD, reason="X")).because


def test_the_vmis_reason_is_told_once() -> None:
    because = judged(claim=ONCE, migration=NO_DISK).because
    assert because.count("DisksNotLiveMigratable") == 1
    told = judged(claim=ONCE, migration=CARD).because
    assert "gives it; LiveMigratable=False HostDeviceNotLiveMigratable VMI uses" in told


def test_a_class_without_drbd_gives_one_host_the_disk_and_is_asked_for_no_more() -> None:
    local = replace(DOWNLOADED, storage_class="local", shared=False)
    kept = {"claim": replace(ONCE, storage_class="local"), "golden": None}
    verdict = judged(local, **kept, migration=NO_DISK)
    assert verdict.outcome == "holds", verdict.because
    assert "ReadWriteOnce Block, all that local can give" in verdict.because
    assert "DisksNotLiveMigratable" in verdict.because
    nameless = replace(kept["claim"], access_modes=())
    assert judged(local, golden=None, claim=nameless, migration=NO_DISK).outcome == "unknown"


def test_a_class_with_drbd_is_asked_to_share_whatever_else_it_says() -> None:
    verdict = judged(claim=ONCE, migration=NO_DISK)
    assert verdict.outcome == "broken"
    assert "not ReadWriteMany" in verdict.because
