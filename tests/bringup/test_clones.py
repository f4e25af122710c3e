"""The disks of a pool on the twin, as the harness sees and judges them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import judge
from harness.bringup.clones import WatchedDisks
from harness.bringup.connect import ConnectedLab, Reachable, connect
from harness.bringup.keeper import hold
from harness.bringup.pool import HeldPool
from harness.bringup.watched import WatchedPool
from harness.facts.fact import Unread
from harness.inventory.loading import load
from harness.judge.verdict import Verdict
from harness.reach.errors import Refused
from harness.reach.watch import Observatory
from harness.twin.process import TwinProcess

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def held(
    directory: Path, prepare: Callable[[ConnectedLab], None] = lambda _: None
) -> Iterator[HeldPool]:
    """The pool that clones, on a twin of its own that was prepared before."""
    process = TwinProcess(directory, seed=1)
    way = Reachable(process.endpoint.kubeconfig, "management", process.endpoint.clock_url)
    lab = connect(load(ROOT / "inventory" / "twin.yaml"), way, "mine")
    prepare(lab)
    with lab.clock.actor("test"), hold(lab, "cloned", lambda kind, text: None) as pool:
        yield pool
    lab.close()
    process.close()


@pytest.fixture(scope="module")
def cloned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeldPool]:
    with held(tmp_path_factory.mktemp("cloned")) as pool:
        yield pool


def judged(pool: HeldPool) -> list[Verdict]:
    look = pool.clones
    told = [judge.golden_ready(look.golden(), look.wanted, "golden")]
    for disk in look.disks:
        source, claim = disk.source(), disk.claim()
        told += [
            judge.disk_source(source, look.wanted, disk.subject),
            judge.csi_clone(
                source,
                disk.history(),
                claim,
                disk.volume(),
                disk.helpers(),
                disk.leftovers(),
                look.wanted,
                disk.subject,
            ),
            judge.disk_phases(source, disk.history(), claim, disk.storage_class(), disk.subject),
        ]
    return told


def test_what_the_pool_asked_for(cloned: HeldPool) -> None:
    wanted = cloned.clones.wanted
    assert (wanted.form, wanted.pool, wanted.size) == ("builtin", "kubernetes-lab-cloned", 20 << 30)
    assert wanted.golden.endswith("-v1.13.6")


def test_every_claim_of_the_fault_free_lab_holds(cloned: HeldPool) -> None:
    told = judged(cloned)
    assert [one.outcome for one in told] == ["holds"] * 7, [one.because for one in told]


def test_a_pod_of_one_disk_is_none_of_the_others(cloned: HeldPool) -> None:
    """CDI grows each clone with a pod; both are seen by both disks, each as whose it is."""
    first, second = (disk.helpers() for disk in cloned.clones.disks)
    assert not isinstance(first, Unread)
    assert not isinstance(second, Unread)
    for one, other in ((first, second), (second, first)):
        own = {pod.name for pod in one.pods if pod.whose == "this disk"}
        assert own
        assert own <= {pod.name for pod in other.pods if pod.whose == "another"}
        assert one.doubts == ()


def test_a_look_is_of_one_moment(cloned: HeldPool) -> None:
    look = cloned.clones
    assert look.seen("golden", "pods") is look.seen("golden", "pods")
    assert cloned.clones.seen("golden", "pods") is not look.seen("golden", "pods")


def test_one_that_came_later_cannot_say_that_no_pod_was_there(cloned: HeldPool) -> None:
    """Another look at the same disks, whose watches began when all was over."""
    lab = cloned.lab
    late = ConnectedLab(lab.inventory, lab.clock, lab.management, Observatory(lab.clock), "late")
    late._tenant = lab.tenant
    again = HeldPool(late, "cloned", WatchedPool.start(late, "cloned"), cloned.lease, cloned.since)
    told = {one.claim: one for one in judged(again)}
    late.observatory.close()
    assert {claim: str(one.outcome) for claim, one in told.items()} == {
        "golden-ready": "holds",
        "disk-source": "holds",
        "csi-clone": "unknown",
        "disk-phases": "unknown",
    }
    assert "the disk was there before its watch" in told["csi-clone"].because


def copy(lab: ConnectedLab) -> None:
    cdi = lab.management.get("cdi.kubevirt.io/v1beta1", "CDI", "", "cdi")
    assert cdi is not None
    cdi["spec"]["cloneStrategyOverride"] = "copy"
    lab.management.replace(cdi)


def test_a_copy_passes_for_a_clone_in_everything_but_the_proofs(tmp_path: Path) -> None:
    with held(tmp_path, copy) as pool:
        told = {one.claim: one for one in judged(pool)}
    outcomes = {claim: str(one.outcome) for claim, one in told.items()}
    assert outcomes == {
        "golden-ready": "holds",
        "disk-source": "holds",
        "csi-clone": "broken",
        "disk-phases": "holds",
    }
    because = told["csi-clone"].because
    for said in (
        "cloneType is copy: the clone was host-assisted",
        "that no pod of it was in tenant-hil proves nothing",
        "clone source pod cozy-public/",
        "upload pod cozy-public/cdi-upload-tmp-pvc-",
    ):
        assert said in because, because


def forbid(lab: ConnectedLab) -> None:
    lab.management.delete(
        "rbac.authorization.k8s.io/v1", "RoleBinding", "cozy-public", "cdi-clone-dv"
    )


def test_a_disk_that_may_not_be_cloned_is_told_by_its_refusal(tmp_path: Path) -> None:
    with held(tmp_path, forbid) as pool:
        told = judged(pool)
        assert [disk.name for disk in pool.clones.disks] == ["", ""]
    (first, *_) = [one for one in told if one.claim == "csi-clone"]
    assert first.outcome == "broken"
    assert "insufficient permissions in clone source namespace cozy-public" in first.because
    assert {str(one.outcome) for one in told if one.claim == "disk-phases"} == {"unknown"}


def test_where_not_all_namespaces_may_be_watched_that_part_is_told() -> None:
    refused = Refused(403, "Forbidden", "pods is forbidden at the cluster scope")

    def feed(cluster: Any, version: str, kind: str, namespace: str, *, labels: str = "") -> Any:
        if not namespace:
            assert (kind, labels) == ("Pod", "app=containerized-data-importer")
            raise refused
        return f"{namespace}/{kind}"

    lab: Any = SimpleNamespace(
        inventory=load(ROOT / "inventory" / "twin.yaml"),
        observatory=SimpleNamespace(feed=feed),
        management=None,
        clock=SimpleNamespace(now=lambda: 5.0),
    )
    disks = WatchedDisks.start(lab, "cloned")
    assert "at the cluster scope" in disks.seen("anywhere", "pods").doubt(6.0, 7.0)
    assert disks.feeds["golden", "sources"] == "cozy-public/VolumeCloneSource"  # type: ignore[comparison-overlap]  # what `feed` gives
    plain = WatchedDisks.start(lab, "plain")
    assert {place for place, _ in plain.feeds} == {"tenant"}
    assert "only pools that clone" in plain.seen("golden", "pods").doubt(6.0, 7.0)
