from __future__ import annotations

from typing import Any

import pytest

from harness.reach.errors import ApiRefused, LeaseHeld, LeaseLost
from harness.reach.kube import Kube
from harness.reach.lease import PoolLease, lease_state, micro_time

LEASES = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
POOL = f"{LEASES}/pool"


@pytest.fixture
def leases(objects: Any) -> Any:
    return objects.serve(LEASES, "pool")


def lease(kube: Kube) -> PoolLease:
    return PoolLease(kube, "ns", "pool", duration=300)


def test_a_free_pool_is_taken(kube: Kube, clock: Any, leases: Any) -> None:
    lease(kube).acquire("run-1", clock)
    assert leases.stored[POOL]["spec"] == {
        "holderIdentity": "run-1",
        "leaseDurationSeconds": 300,
        "acquireTime": "2026-01-01T00:00:00.000000Z",
        "renewTime": "2026-01-01T00:00:00.000000Z",
        "leaseTransitions": 0,
    }


def test_a_held_pool_says_by_whom_and_till_when(kube: Kube, clock: Any, leases: Any) -> None:
    lease(kube).acquire("run-1", clock)
    clock.at += 299.5
    with pytest.raises(LeaseHeld, match=r"run-1 since 2026-01-01T00:00:00") as caught:
        lease(kube).acquire("run-2", clock)
    assert caught.value.holder == "run-1"
    assert caught.value.since == 1767225600.0
    assert caught.value.until == 1767225900.0
    assert "till 2026-01-01T00:05:00.000000Z" in str(caught.value)


def test_an_expired_lease_is_taken_over(kube: Kube, clock: Any, leases: Any) -> None:
    first = lease(kube)
    first.acquire("run-1", clock)
    clock.at += 300
    lease(kube).acquire("run-2", clock)
    spec = leases.stored[POOL]["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("run-2", 1)
    with pytest.raises(LeaseLost, match="run-2"):
        first.renew(clock)


def test_one_taken_and_lost_again_is_not_ours(kube: Kube, clock: Any, leases: Any) -> None:
    first, second = lease(kube), lease(kube)
    first.acquire("run-1", clock)
    clock.at += 300
    second.acquire("run-2", clock)
    clock.at += 300
    lease(kube).acquire("run-1", clock)
    with pytest.raises(LeaseLost):
        first.renew(clock)


def test_renewal_extends(kube: Kube, clock: Any, leases: Any) -> None:
    mine = lease(kube)
    mine.acquire("run-1", clock)
    clock.at += 99
    assert mine.renew_if_due(clock) is False
    clock.at += 1
    assert mine.renew_if_due(clock) is True
    assert mine.renew_if_due(clock) is False
    spec = leases.stored[POOL]["spec"]
    assert spec["renewTime"] == micro_time(clock.at)
    assert spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    clock.at += 299
    with pytest.raises(LeaseHeld):
        lease(kube).acquire("run-2", clock)


def test_the_same_run_may_take_it_again(kube: Kube, clock: Any, leases: Any) -> None:
    lease(kube).acquire("run-1", clock)
    clock.at += 10
    lease(kube).acquire("run-1", clock)
    spec = leases.stored[POOL]["spec"]
    assert spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert (spec["renewTime"], spec["leaseTransitions"]) == (micro_time(clock.at), 0)


def test_a_released_pool_is_free_at_once(kube: Kube, clock: Any, leases: Any) -> None:
    mine = lease(kube)
    mine.acquire("run-1", clock)
    assert mine.release() is True
    assert mine.release() is False
    lease(kube).acquire("run-2", clock)
    assert leases.stored[POOL]["spec"]["leaseTransitions"] == 1


def test_release_leaves_anothers_lease_alone(kube: Kube, clock: Any, leases: Any) -> None:
    first = lease(kube)
    first.acquire("run-1", clock)
    clock.at += 300
    lease(kube).acquire("run-2", clock)
    assert first.release() is False
    assert leases.stored[POOL]["spec"]["holderIdentity"] == "run-2"


def test_the_quicker_of_two_wins(kube: Kube, clock: Any, leases: Any, server: Any) -> None:
    real = server.routes[f"POST {LEASES}"]

    async def beaten(request: Any) -> Any:
        spec = {"holderIdentity": "run-0", "renewTime": micro_time(clock.at)}
        leases.put(POOL, {"metadata": {"name": "pool"}, "spec": spec})
        return await real(request)

    server.routes[f"POST {LEASES}"] = beaten
    with pytest.raises(LeaseHeld, match="run-0"):
        lease(kube).acquire("run-1", clock)


def test_take_over_on_a_stale_version_loses(
    kube: Kube, clock: Any, leases: Any, server: Any
) -> None:
    lease(kube).acquire("run-1", clock)
    clock.at += 300
    real = server.routes[f"PUT {POOL}"]

    async def beaten(request: Any) -> Any:
        found = leases.stored[POOL]
        spec = {**found["spec"], "holderIdentity": "run-3", "renewTime": micro_time(clock.at)}
        leases.put(POOL, {**found, "spec": spec})
        return await real(request)

    server.routes[f"PUT {POOL}"] = beaten
    mine = lease(kube)
    with pytest.raises(LeaseHeld, match="run-3"):
        mine.acquire("run-2", clock)
    assert mine.holder == ""


@pytest.mark.parametrize("renewed", [None, "yesterday", "2026-01-01T00:00:00"])
def test_a_lease_that_cannot_be_read_is_not_expired(
    kube: Kube, clock: Any, leases: Any, renewed: str | None
) -> None:
    spec = {"holderIdentity": "other", "leaseDurationSeconds": 1, "renewTime": renewed}
    leases.put(
        POOL,
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "pool", "namespace": "ns"},
            "spec": spec,
        },
    )
    clock.at += 1e6
    with pytest.raises(LeaseHeld, match="cannot be read") as caught:
        lease(kube).acquire("run-1", clock)
    assert caught.value.until is None


def test_a_vanished_lease_is_lost(kube: Kube, clock: Any, leases: Any) -> None:
    mine = lease(kube)
    mine.acquire("run-1", clock)
    leases.stored.clear()
    with pytest.raises(LeaseLost, match="gone"):
        mine.renew(clock)


def test_other_refusals_come_through(
    kube: Kube, clock: Any, leases: Any, server: Any, refuse: Any
) -> None:
    server.routes[f"POST {LEASES}"] = refuse(422, "Invalid", "bad name")
    with pytest.raises(ApiRefused, match="bad name"):
        lease(kube).acquire("run-1", clock)


def test_a_lease_tells_whether_anybody_had_it_after_a_moment(
    kube: Kube, clock: Any, leases: Any
) -> None:
    mine, began = lease(kube), clock.at
    mine.acquire("run-1", clock)
    clock.at += 50
    state = lease_state(leases.stored[POOL])
    assert state.held_after(began + 40, clock.at)
    mine.release()
    state = lease_state(leases.stored[POOL])
    assert (state.holder, state.renewed) == ("", clock.at)
    assert state.held_after(began + 49, clock.at + 1000)
    assert not state.held_after(clock.at, clock.at + 1)
