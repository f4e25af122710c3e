"""The gate before a pool is asked for, on a twin whose LINSTOR has 200 GiB on each of three."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.bringup import headroom as room
from harness.bringup.connect import ConnectedLab
from harness.bringup.headroom import NoHeadroom, gate
from harness.bringup.keeper import hold
from harness.bringup.terms import Terms
from harness.facts.fact import Origin, Unread
from harness.facts.headroom import Headroom, PoolDemand
from harness.inventory.manifest import kubernetes_nodes
from harness.inventory.models import Linstor
from harness.inventory.secrets import SecretRef
from harness.inventory.shapes import Quantity
from harness.reach.errors import KeyUnusable, LabError, Unreachable
from harness.reach.lease import PoolLease
from harness.twin.process import TwinProcess

LEASES = ("coordination.k8s.io/v1", "Lease", "tenant-hil")
NODES = ("apps.cozystack.io/v1alpha1", "KubernetesNodes", "tenant-hil")
QUOTA: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "storage", "namespace": "tenant-hil"},
    "spec": {"hard": {"requests.storage": "50Gi"}},
    "status": {"hard": {"requests.storage": "50Gi"}, "used": {"requests.storage": "0"}},
}


class Log(list[tuple[str, str]]):
    """What bring-up says."""

    def __call__(self, kind: str, text: str) -> None:
        self.append((kind, text))

    @property
    def text(self) -> str:
        return "\n".join(text for _, text in self)


@pytest.fixture
def log() -> Log:
    return Log()


def linstor_at(twin: TwinProcess, **other: Any) -> Linstor:
    named = twin.endpoint.linstor
    assert named is not None
    files = {"ca": named.ca, "certificate": named.certificate, "key": named.key}
    refs = {name: SecretRef(file=str(path.resolve())) for name, path in files.items()}
    return Linstor(**{"url": named.url, **refs, **other})


@pytest.fixture
def known(lab: ConnectedLab, twin: TwinProcess) -> ConnectedLab:
    """The lab, with the way to its LINSTOR in the inventory."""
    lab.inventory = lab.inventory.model_copy(update={"linstor": linstor_at(twin)})
    return lab


Resize = Callable[..., ConnectedLab]


@pytest.fixture
def resized(known: ConnectedLab) -> Resize:
    """The lab with a pool that asks for other things."""

    def resize(pool: str = "plain", **asked: Any) -> ConnectedLab:
        pools = dict(known.inventory.pools)
        pools[pool] = pools[pool].model_copy(update=asked)
        known.inventory = known.inventory.model_copy(update={"pools": pools})
        return known

    return resize


@pytest.fixture
def quota(known: ConnectedLab) -> Iterator[None]:
    kube = known.management
    kube.create(QUOTA)
    used = {"status": QUOTA["status"]}
    kube.merge("v1", "ResourceQuota", "tenant-hil", "storage", used, subresource="status")
    yield
    kube.delete("v1", "ResourceQuota", "tenant-hil", "storage")


def test_without_linstor_it_is_told_and_goes_on(lab: ConnectedLab, log: Log) -> None:
    assert gate(lab, "plain", log, stands=False) is None
    assert log.text == (
        "the headroom of pool plain was not measured: the inventory says nothing of LINSTOR's"
        " controller"
    )


def test_pool_that_fits_is_told_with_the_sum(known: ConnectedLab, log: Log) -> None:
    found = gate(known, "plain", log, stands=False)
    assert isinstance(found, Headroom)
    assert found.unread == ()
    assert [one.pool for one in found.demands if isinstance(one, PoolDemand)] == ["plain"]
    assert log.text.startswith(
        "pool plain fits: 2 x 20 GiB disks + 2 x 20 GiB disks more during a roll + 2 x 21 GiB"
        " scratch spaces = 122 GiB on each of 3 nodes at most; free in storage pool data: hv-1 1"
    )


def test_clone_knows_its_golden(known: ConnectedLab, log: Log) -> None:
    gate(known, "cloned", log, stands=False)
    assert "+ 2 x 6 GiB temporary clones = 92 GiB" in log.text


def test_pool_that_cannot_fit_is_refused_before_anything_is_written(
    resized: Resize, log: Log
) -> None:
    lab = resized(disk_size=Quantity("90Gi"))
    kube = lab.management
    before = [one["metadata"]["name"] for one in kube.list("v1", "Namespace")]
    with (
        pytest.raises(NoHeadroom, match="make room for pool plain on class replicated") as caught,
        hold(lab, "plain", log),
    ):
        pytest.fail("it was handed over")
    assert isinstance(caught.value, LabError)
    assert (
        "2 x 90 GiB disks + 2 x 90 GiB disks more during a roll + 2 x 94.5 GiB scratch spaces"
        " = 549 GiB" in caught.value.saw
    )
    assert "hv-1 lacks 3" in caught.value.saw
    assert kube.list(*NODES) == []
    assert [one["metadata"]["name"] for one in kube.list("v1", "Namespace")] == before
    lease = kube.get("coordination.k8s.io/v1", "Lease", "tenant-hil", "hil-pool-lab-plain")
    assert not (lease or {"spec": {}})["spec"].get("holderIdentity")


@pytest.mark.usefixtures("quota")
def test_quota_too_small_for_the_scratch_space_is_refused(known: ConnectedLab, log: Log) -> None:
    with pytest.raises(NoHeadroom, match="72 GiB short"):
        gate(known, "plain", log, stands=False)


def test_pool_that_stands_is_not_refused(resized: Resize, log: Log) -> None:
    lab = resized(disk_size=Quantity("90Gi"))
    assert gate(lab, "plain", log, stands=True) is not None
    assert log.text.startswith("pool plain does not fit, and stands already: ")


def test_unknown_capacity_refuses_nothing_and_is_told(
    resized: Resize, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = Unread(Origin(1.0, "LINSTOR", ""), "/v1/view/storage-pools", "HTTP 500: out of memory")
    monkeypatch.setattr(room.controller, "pools", lambda linstor, now: blind)
    found = gate(resized(disk_size=Quantity("90Gi")), "plain", log, stands=False)
    assert found is not None
    assert log.text.startswith("pool plain may not fit: ")
    assert "HTTP 500: out of memory" in log.text


def test_disks_that_are_there_are_not_counted_again(known: ConnectedLab, log: Log) -> None:
    with hold(known, "plain", log) as held:
        assert held.measured is not None
        assert isinstance(held.measured.demands[0], PoolDemand)
        assert held.measured.demands[0].standing == 0
        found = gate(known, "plain", log, stands=True)
        assert found is not None
        assert isinstance(found.demands[0], PoolDemand)
        assert (found.demands[0].standing, found.demands[0].fresh) == (2, 0)
    assert known.management.list(*NODES) == []


def test_pools_that_were_promised_room_count(known: ConnectedLab, log: Log) -> None:
    found = gate(known, "gpu-l40s", log, stands=True, beside=("gpu-l40s", "cloned", "plain"))
    assert found is not None
    named = [one.pool for one in found.demands if isinstance(one, PoolDemand)]
    assert named == ["gpu-l40s", "cloned", "plain"]


@pytest.fixture
def beside(known: ConnectedLab) -> Iterator[Callable[..., PoolLease]]:
    """Another pool of this run, or of another, that has its Lease."""
    taken: list[PoolLease] = []

    def lease(pool: str = "cloned", *, run: str = "mine", room: str = "") -> PoolLease:
        name = f"hil-pool-lab-{pool}"
        notes = {"hil.dev/room": room}
        made = PoolLease(known.management, "tenant-hil", name, duration=200, notes=notes)
        made.acquire(run, known.clock)
        taken.append(made)
        return made

    yield lease
    for one in taken:
        one.release()


BESIDE = Terms(beside=("plain", "cloned"))
"""Both of them want more than the twin's LINSTOR has."""


def test_who_does_not_fit_beside_a_pool_of_the_run_waits_until_it_is_gone(
    known: ConnectedLab, log: Log, beside: Callable[..., PoolLease]
) -> None:
    beside()
    known.clock.sleep(1)
    began = known.clock.now()
    with hold(known, "plain", log, BESIDE) as held:
        asked = held.since - began
        assert held.measured is not None
        assert len(held.measured.demands) == 1
        late = [one for one in held.join if one.seconds is None or one.seconds > 195]
        assert not late  # the wait is none of the workers'
    assert 199 <= asked <= 260  # that Lease is not renewed
    assert log.text.count("pool plain waits for cloned of this run to be gone") == 1


def test_it_goes_on_as_soon_as_the_other_is_gone(
    known: ConnectedLab, log: Log, beside: Callable[..., PoolLease]
) -> None:
    first, began = beside(), known.clock.now()
    known.clock.sleep(1)

    def let_go(kind: str, text: str) -> None:
        log(kind, text)
        if "waits for cloned" in text:
            first.release()

    with hold(known, "plain", let_go, BESIDE) as held:
        assert held.since - began <= 2


@pytest.mark.parametrize(("room", "waits"), [("yes", True), ("", False)])
def test_of_later_pools_only_one_that_was_promised_room_is_waited_for(
    known: ConnectedLab, log: Log, beside: Callable[..., PoolLease], *, room: str, waits: bool
) -> None:
    own = PoolLease(known.management, "tenant-hil", "hil-pool-lab-plain", duration=900)
    own.acquire("mine", known.clock)
    known.clock.sleep(5)
    beside(room=room)
    with hold(known, "plain", log, BESIDE):
        assert ("waits for cloned" in log.text) is waits


def test_another_runs_pools_are_not_counted(
    known: ConnectedLab, log: Log, beside: Callable[..., PoolLease]
) -> None:
    beside(run="other", room="yes")
    known.clock.sleep(1)
    with hold(known, "plain", log, BESIDE) as held:
        stored = known.management.get(*LEASES, held.lease.name)
        assert stored is not None
        assert stored["metadata"]["annotations"]["hil.dev/room"] == "yes"
    assert "waits for" not in log.text


def test_pool_of_another_class_does_not_count(resized: Resize, log: Log) -> None:
    lab = resized("plain", storage_class="local")
    found = gate(lab, "gpu-l40s", log, stands=True, beside=("plain", "gpu-l40s"))
    assert found is not None
    assert len(found.demands) == 1


def test_wrong_address_ends_it_before_anything_is_written(
    known: ConnectedLab, twin: TwinProcess, log: Log
) -> None:
    wrong = linstor_at(twin, url="https://127.0.0.1:1")
    known.inventory = known.inventory.model_copy(update={"linstor": wrong})
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"), hold(known, "plain", log):
        pytest.fail("it was handed over")
    assert known.management.list(*NODES) == []


def test_certificate_that_is_not_there(known: ConnectedLab, twin: TwinProcess, log: Log) -> None:
    wrong = linstor_at(twin, key=SecretRef(env="HIL_NO_SUCH_KEY"))
    known.inventory = known.inventory.model_copy(update={"linstor": wrong})
    with pytest.raises(KeyUnusable, match="HIL_NO_SUCH_KEY") as caught:
        gate(known, "plain", log, stands=False)
    assert "`linstor` names it" in caught.value.do


def test_manifest_asks_for_as_many_as_are_reckoned_with(known: ConnectedLab, log: Log) -> None:
    """maxSurge is maxReplicas, and the manifest asks for no more than the inventory's workers."""
    found = gate(known, "plain", log, stands=False)
    assert found is not None
    spec = kubernetes_nodes(known.inventory, "plain")["spec"]
    demand = found.demands[0]
    assert isinstance(demand, PoolDemand)
    assert (demand.workers, demand.surge) == (spec["minReplicas"], spec["maxReplicas"])
