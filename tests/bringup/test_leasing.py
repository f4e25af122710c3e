"""Cards that a Lease promises are nobody else's, whichever pool asks for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from harness.bringup.connect import ConnectedLab
from harness.bringup.leasing import CARDS, CARDS_TAKEN, ROOM, lease_of, leased
from harness.reach.errors import LeaseHeld
from harness.reach.lease import PoolLease, lease_state

GB202 = "nvidia.com/GB202GL_RTX_PRO_6000_BLACKWELL_SERVER_EDITION"
LEASES = ("coordination.k8s.io/v1", "Lease", "tenant-hil")

Promised = Callable[..., PoolLease]


class Log(list[tuple[str, str]]):
    def __call__(self, kind: str, text: str) -> None:
        self.append((kind, text))


@pytest.fixture
def promised(lab: ConnectedLab) -> Iterator[Promised]:
    """Another run's Lease on another pool, that promises cards."""
    held: list[PoolLease] = []

    def promise(count: int, *, run: str = "other", duration: int = 900) -> PoolLease:
        taken = {"resource": GB202, "count": count, "machines": "kubernetes-lab-big-"}
        notes = {CARDS: json.dumps(taken)}
        lease = PoolLease(
            lab.management, "tenant-hil", "hil-pool-lab-big", duration=duration, notes=notes
        )
        lease.acquire(run, lab.clock)
        held.append(lease)
        lab.clock.sleep(1)
        return lease

    yield promise
    for one in held:
        one.release()


def test_a_lease_says_which_cards_its_pool_takes_and_whose_it_was(lab: ConnectedLab) -> None:
    with leased(lab, "gpu-gb202", Log()) as lease:
        stored = lab.management.get(*LEASES, lease.name)
    assert stored is not None
    notes = stored["metadata"]["annotations"]
    told = json.loads(notes[CARDS])
    assert (told["resource"], told["count"]) == (GB202, 1)
    assert (notes["hil.dev/lab"], notes["hil.dev/run"]) == ("twin", "mine")


def test_what_an_earlier_run_was_promised_is_nothing_of_the_next_ones(lab: ConnectedLab) -> None:
    taken = json.dumps({"resource": GB202, "count": 4, "machines": "kubernetes-lab-plain-"})
    earlier = lease_of(lab, "plain", {ROOM: "yes", CARDS: taken})
    earlier.acquire("earlier", lab.clock)
    earlier.release()
    with leased(lab, "plain", Log()) as lease:
        stored = lab.management.get(*LEASES, lease.name)
    assert stored is not None
    notes = stored["metadata"]["annotations"]
    assert (notes[ROOM], notes[CARDS]) == ("", "")


def test_the_last_card_is_not_promised_twice(lab: ConnectedLab, promised: Promised) -> None:
    promised(4)
    with pytest.raises(LeaseHeld, match="4 are promised to run other") as held:
        leased(lab, "gpu-gb202", Log()).__enter__()
    assert held.value.holder == "other"
    own = lab.management.get(*LEASES, "hil-pool-lab-gpu-gb202")
    assert own is not None
    assert lease_state(own).holder == ""


@pytest.mark.parametrize(
    ("count", "run", "duration"), [(3, "other", 900), (4, "mine", 900), (4, "other", 3)]
)
def test_enough_cards_ones_own_and_a_dead_runs_are_no_hindrance(
    lab: ConnectedLab, promised: Promised, count: int, run: str, duration: int
) -> None:
    promised(count, run=run, duration=duration)
    lab.clock.sleep(5)
    with leased(lab, "gpu-gb202", Log()) as lease:
        assert lease.holder == "mine"


def test_a_promise_is_waited_for(lab: ConnectedLab, promised: Promised) -> None:
    log, began = Log(), lab.clock.now()
    promised(4, duration=200)
    with leased(lab, "gpu-gb202", log, wait=600.0):
        assert 195 <= lab.clock.now() - began <= 260
    assert "waits for run other, which holds lease hil-pool-lab-big" in log[0][1]
    assert [kind for kind, _ in log] == ["lease"] * len(log)


def test_cards_that_others_took_without_a_lease_are_noted(lab: ConnectedLab) -> None:
    pods = []
    for number, host in enumerate(["hv-2"] * 4):
        limits = {"resources": {"limits": {GB202: "1"}}}
        pods.append(
            lab.management.create(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": f"trainer-{number}", "namespace": "tenant-root"},
                    "spec": {
                        "nodeName": host,
                        "containers": [{"name": "c", "image": "busybox:1.37.0", **limits}],
                    },
                }
            )
        )
    log = Log()
    with leased(lab, "gpu-gb202", log):
        pass
    for one in pods:
        lab.management.delete("v1", "Pod", "tenant-root", one["metadata"]["name"])
    (kind, text) = log[0]
    assert kind == CARDS_TAKEN
    assert "0 of 4 cards" in text
    assert "tenant-root/trainer-0" in text
