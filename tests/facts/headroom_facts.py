"""A pool, its storage and its quotas, as headroom is reckoned from them."""

from __future__ import annotations

from typing import Any

from harness.facts.fact import Origin, Unread
from harness.facts.headroom import (
    ClassPlacement,
    Headroom,
    PoolDemand,
    Quota,
    Quotas,
)
from harness.facts.linstor import LinstorNodes, LinstorPools
from tests.facts.linstor_texts import NAMES, nodes, pool, pools

AT = Origin(1.0, "LINSTOR", "")
GIB = 1024**3
GIB_KIB = 1024**2


def demand(name: str = "plain", **said: Any) -> PoolDemand:
    """Two workers of 20 GiB that are downloaded: upstream's own example."""
    usual: dict[str, Any] = {
        "storage_class": "replicated",
        "workers": 2,
        "standing": 0,
        "surge": 0,
        "disk": 20 * GIB,
        "clone": False,
        "golden": None,
    }
    return PoolDemand(AT, name, **{**usual, **said})


def free(*gib: float | None, **more: Any) -> LinstorPools:
    """Storage pools of n1, n2, … with so much free."""
    names = [f"n{number + 1}" for number in range(len(gib))]
    sizes = [None if one is None else int(one * GIB_KIB) for one in gib]
    return pools(*(pool(name, size, **more) for name, size in zip(names, sizes, strict=True)))


def quota(hard: int, used: int | None, storage_class: str = "") -> Quota:
    return Quota("limits", storage_class, hard * GIB, None if used is None else used * GIB)


def quotas(*said: Quota, strange: tuple[str, ...] = ()) -> Quotas:
    return Quotas(AT, "tenant-hil", said, strange)


def headroom(
    *demands: PoolDemand | Unread,
    copies: int = 3,
    known: LinstorNodes | Unread | None = None,
    there: LinstorPools | Unread | None = None,
    placement: ClassPlacement | Unread | None = None,
    limits: Quotas | Unread | None = None,
) -> Headroom:
    """Room for everything, with what is given instead."""
    return Headroom(
        copies,
        demands or (demand(),),
        placement or ClassPlacement(AT, "replicated", "data", 3),
        known or nodes(),
        there or free(*(200 for _ in NAMES)),
        limits or quotas(),
    )
