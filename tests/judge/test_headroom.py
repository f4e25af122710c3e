from __future__ import annotations

from dataclasses import replace

import pytest

from harness import claims
from harness.facts.fact import Unread
from harness.facts.headroom import ClassPlacement, Headroom, Quota
from harness.judge.headroom import headroom as judged
from tests.facts.headroom_facts import AT, GIB, demand, free, headroom, quota, quotas
from tests.facts.linstor_texts import node, nodes, pool, pools

HOLDS, BROKEN, UNKNOWN = "holds", "broken", "unknown"
UNREAD = Unread(AT, "/v1/view/storage-pools", "HTTP 500: out of memory")
CLONE = demand("cloned", clone=True, golden=6 * GIB)
SUM = "2 x 20 GiB disks + 2 x 21 GiB scratch spaces = 82 GiB on each of 3 nodes at most"
FREE = "free in storage pool data: n1 200 GiB, n2 200 GiB, n3 200 GiB"


def judge(found: Headroom) -> tuple[str, str]:
    verdict = judged(found, "pool plain")
    assert (verdict.claim, verdict.subject) == ("headroom", "pool plain")
    assert verdict.claim in claims.load()
    assert verdict.facts == found.facts
    return verdict.outcome.value, verdict.because


CASES: dict[str, tuple[Headroom, str, str]] = {
    "room": (headroom(), HOLDS, f"{SUM}; {FREE}; no quota limits storage in tenant-hil"),
    "clone": (
        headroom(CLONE),
        HOLDS,
        "2 x 20 GiB disks + 2 x 6 GiB temporary clones = 52 GiB on each of 3 nodes at most",
    ),
    "roll": (
        headroom(demand(surge=2)),
        HOLDS,
        "2 x 20 GiB disks + 2 x 20 GiB disks more during a roll + 2 x 21 GiB scratch spaces"
        " = 122 GiB",
    ),
    "one node is too full": (
        headroom(there=free(200, 80.5, 200)),
        BROKEN,
        f"{SUM}; free in storage pool data: n1 200 GiB, n2 80.5 GiB, n3 200 GiB: n2 lacks 1.5 GiB",
    ),
    "a hair too full": (
        headroom(there=free(82, 82, 82 - 1 / 2**20)),
        BROKEN,
        "n3 81.99 GiB: n3 lacks 1 KiB",
    ),
    "too few nodes": (
        headroom(there=free(200, 200)),
        BROKEN,
        ": 3 copies need 3 nodes, and 2 could take one",
    ),
    "no node": (
        headroom(there=pools(), known=nodes(node("n1"))),
        BROKEN,
        "free in storage pool data: on no node: 3 copies need 3 nodes, and 0 could take one",
    ),
    "no satellite": (
        headroom(there=pools(), known=replace(nodes(), nodes=())),
        BROKEN,
        "on no node, for LINSTOR has none: no satellite ever registered: 3 copies need 3 nodes",
    ),
    "offline is neither zero nor plenty": (
        headroom(known=nodes(node("n1"), node("n2"), node("n3", "OFFLINE"))),
        UNKNOWN,
        "n3 unknown (it is OFFLINE): not known",
    ),
    "missing is neither zero nor plenty": (
        headroom(there=free(200, 200, None)),
        UNKNOWN,
        "n3 unknown (no figure is said): not known",
    ),
    "depends on where it goes": (
        headroom(
            there=free(200, 200, 41, 41),
            known=nodes(*(node(f"n{one}") for one in range(1, 5))),
        ),
        UNKNOWN,
        ": it may fit or not",
    ),
    "several pools": (
        headroom(demand(), CLONE, there=free(134, 134, 134)),
        HOLDS,
        "pool plain (2 x 20 GiB disks + 2 x 21 GiB scratch spaces) + pool cloned (2 x 20 GiB disks"
        " + 2 x 6 GiB temporary clones) = 134 GiB",
    ),
    "several pools too many": (
        headroom(demand(), CLONE, there=free(133, 200, 200)),
        BROKEN,
        "n1 lacks 1 GiB",
    ),
    "standing pool without a roll": (
        headroom(demand(standing=2), there=free(0, 0, 0)),
        HOLDS,
        "nothing = 0 GiB",
    ),
    "as many claims as there may be": (
        headroom(limits=quotas(Quota("limits", "", 10, 6, number=True))),
        HOLDS,
        "; 4 claims; quota limits leaves 4 of 10",
    ),
    "one claim too many": (
        headroom(limits=quotas(Quota("limits", "", 10, 7, number=True))),
        BROKEN,
        "; 4 claims; quota limits leaves 3 of 10: 1 short",
    ),
    "a quota that is exceeded already": (
        headroom(CLONE, limits=quotas(Quota("limits", "replicated", 1, 3, number=True))),
        BROKEN,
        "; 2 claims; quota limits for class replicated leaves 0 of 1: 4 short",
    ),
    "more claims than a quota has at all": (
        headroom(limits=quotas(Quota("limits", "", 3, None, number=True))),
        BROKEN,
        "4 claims; quota limits leaves 3 of 3: 1 short",
    ),
    "more than a quota has at all": (
        headroom(limits=quotas(quota(81, None))),
        BROKEN,
        "quota limits leaves 81 GiB of 81 GiB: 1 GiB short",
    ),
    "how many claims there are is not said": (
        headroom(limits=quotas(Quota("limits", "", 10, None, number=True))),
        UNKNOWN,
        "4 claims; how many claims quota limits leaves is not said",
    ),
    "golden of unknown size": (
        headroom(demand("cloned", clone=True)),
        UNKNOWN,
        "the size of the golden image of cloned is not known",
    ),
    "pools unread": (
        headroom(there=UNREAD),
        UNKNOWN,
        f"{SUM}; /v1/view/storage-pools could not be read: HTTP 500: out of memory",
    ),
    "nodes unread": (headroom(known=UNREAD), UNKNOWN, "HTTP 500: out of memory"),
    "class unread": (headroom(placement=UNREAD), UNKNOWN, "HTTP 500: out of memory"),
    "demand unread": (headroom(UNREAD), UNKNOWN, "HTTP 500: out of memory"),
    "class without a pool": (
        headroom(placement=ClassPlacement(AT, "replicated", "", 3)),
        UNKNOWN,
        "class replicated names no single storage pool",
    ),
    "class of other copies": (
        headroom(placement=ClassPlacement(AT, "replicated", "data", 2), there=free(82, 82, 1)),
        HOLDS,
        "= 82 GiB on each of 2 nodes (the inventory says 3) at most",
    ),
    "class of more copies than nodes": (
        headroom(placement=ClassPlacement(AT, "replicated", "data", 4)),
        BROKEN,
        "4 copies need 4 nodes",
    ),
    "class of unknown copies": (
        headroom(placement=ClassPlacement(AT, "replicated", "data", None)),
        HOLDS,
        "on each of 3 nodes at most",
    ),
    "no copies": (
        headroom(copies=0, placement=ClassPlacement(AT, "replicated", "data", 0)),
        UNKNOWN,
        "no copy is expected",
    ),
    "pools not understood": (
        headroom(there=pools({"storage_pool_name": "data"}, pool("n1", 1))),
        UNKNOWN,
        "not all storage pools are understood",
    ),
    "quota with room": (
        headroom(limits=quotas(quota(200, 100))),
        HOLDS,
        "; claims of 2 x 20 GiB disks + 2 x 21 GiB scratch spaces = 82 GiB;"
        " quota limits leaves 100 GiB of 200 GiB",
    ),
    "quota to the last byte": (headroom(limits=quotas(quota(182, 100))), HOLDS, "leaves 82 GiB"),
    "quota too small": (
        headroom(limits=quotas(quota(100, 20))),
        BROKEN,
        "quota limits leaves 80 GiB of 100 GiB: 2 GiB short",
    ),
    "quota overdrawn": (
        headroom(limits=quotas(quota(10, 20))),
        BROKEN,
        "leaves less than nothing of 10 GiB: 92 GiB short",
    ),
    "quota that does not count a clone's temporary claim": (
        headroom(CLONE, limits=quotas(quota(40, 0))),
        HOLDS,
        "claims of 2 x 20 GiB disks = 40 GiB",
    ),
    "quota of the class counts no scratch": (
        headroom(limits=quotas(quota(40, 0, "replicated"))),
        HOLDS,
        "claims of 2 x 20 GiB disks = 40 GiB; quota limits for class replicated leaves 40 GiB",
    ),
    "quota of the class too small": (
        headroom(limits=quotas(quota(39, 0, "replicated"))),
        BROKEN,
        "1 GiB short",
    ),
    "quota of another class": (
        headroom(limits=quotas(quota(0, 0, "local"))),
        HOLDS,
        "claims of nothing = 0 GiB; quota limits for class local leaves 0 GiB",
    ),
    "what is used is not said": (
        headroom(limits=quotas(quota(100, None))),
        UNKNOWN,
        "what quota limits has left is not said",
    ),
    "one of two quotas too small": (
        headroom(limits=quotas(quota(200, None), quota(50, 0))),
        BROKEN,
        "32 GiB short",
    ),
    "quota not understood": (
        headroom(limits=quotas(quota(200, 0), strange=("all: requests.storage is 'many'",))),
        UNKNOWN,
        "is not understood",
    ),
    "quotas unread": (
        headroom(limits=UNREAD),
        UNKNOWN,
        f"{SUM}; {FREE}; /v1/view/storage-pools could not be read: HTTP 500: out of memory",
    ),
    "quota with a demand unread": (
        headroom(UNREAD, limits=quotas(quota(200, 0))),
        UNKNOWN,
        "what the quotas of tenant-hil are to take is not known",
    ),
    "quota with one demand of two unread": (
        headroom(demand(), UNREAD, limits=quotas(quota(200, 0))),
        UNKNOWN,
        "what the quotas of tenant-hil are to take is not known",
    ),
    "no demand that could be read": (headroom(UNREAD, UNREAD), UNKNOWN, "an unknown sum = 0 GiB"),
    "no room, quota unknown": (
        headroom(there=free(1, 1, 1), limits=quotas(quota(100, None))),
        BROKEN,
        "n1 lacks 81 GiB, n2 lacks 81 GiB, n3 lacks 81 GiB",
    ),
    "room unknown, quota too small": (
        headroom(there=free(200, 200, None), limits=quotas(quota(1, 0))),
        BROKEN,
        "81 GiB short",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_headroom(case: str) -> None:
    found, outcome, because = CASES[case]
    said = judge(found)
    assert said[0] == outcome, said
    assert because in said[1]


def test_what_was_not_measured_is_not_known() -> None:
    verdict = judged(None, "pool plain")
    assert (verdict.outcome.value, verdict.facts) == (UNKNOWN, ())
    assert "nothing was measured" in verdict.because


def test_nothing_asked_for_is_not_room() -> None:
    found = headroom()
    empty = Headroom(3, (), found.placement, found.nodes, found.pools, found.quotas)
    assert judge(empty)[0] == UNKNOWN
