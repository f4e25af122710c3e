"""The platform's catalogue on a twin: an entry put in and out again, whatever comes in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness import judge
from harness.bringup.catalogue import LEASE_SECONDS, Catalogue
from harness.bringup.errors import TakeDownIncomplete
from harness.bringup.open_catalogue import OpenCatalogue
from harness.bringup.package_images import IMAGES, PackageImages
from harness.bringup.pool import HeldPool
from harness.facts.applied import Allowed
from harness.facts.catalogue import GoldenVolume
from harness.facts.fact import Unread
from harness.facts.objects import name_of
from harness.reach.errors import LeaseHeld
from harness.reach.kube import Kube
from harness.reach.lease import PoolLease

PACKAGE = ("cozystack.io/v1alpha1", "Package", "", "cozystack.cozystack-platform")
GOLDENS = ("cdi.kubevirt.io/v1beta1", "DataVolume", "cozy-public")
VANILLA = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515"
NVIDIA = "d4eb676021eb6f6473eb2987d6c51dbeb8711bdee31d4b0b4797539dba013896"
OURS = f"talos-worker-{NVIDIA}-v1.13.6"


@pytest.fixture
def kube(cloned_pool: HeldPool) -> Kube:
    return cloned_pool.lab.management


def spec_of(kube: Kube) -> Any:
    package = kube.get(*PACKAGE)
    assert package is not None
    return package["spec"], package["metadata"].get("annotations") or {}


def goldens(kube: Kube) -> list[str]:
    return [name_of(one) for one in kube.list(*GOLDENS)]


@pytest.fixture
def catalogue(cloned_pool: HeldPool, kube: Kube) -> Iterator[Catalogue]:
    """The catalogue, which is after a test as it was before."""
    before, there = spec_of(kube), goldens(kube)
    yield Catalogue(cloned_pool)
    assert spec_of(kube) == before
    assert goldens(kube) == there
    lease = kube.get("coordination.k8s.io/v1", "Lease", "cozy-system", "hil-catalogue")
    assert lease is None or not lease["spec"].get("holderIdentity")


def test_an_entry_from_its_import_to_a_golden_that_outlives_it(
    catalogue: Catalogue, kube: Kube
) -> None:
    with catalogue.opened() as opened:
        bad = opened.bad_entries()
        new = opened.imported()
        verdict = judge.catalogue_import(
            new.entry, new.release, new.golden, new.history, new.meanwhile, "x"
        )
        assert verdict.outcome == "holds"
        assert isinstance(new.golden, GoldenVolume) and new.golden.name == OURS
        assert isinstance(new.meanwhile, Allowed)
        assert judge.catalogue_refused([*bad, opened.changed()], "x").outcome == "holds"
        kept = opened.dropped()
        assert OURS in goldens(kube)
        assert judge.catalogue_kept(
            kept.before, kept.release_before, kept.after, kept.release_after, "x"
        ).outcome == "holds"  # fmt: skip


def test_an_interrupt_in_the_middle_is_undone(
    catalogue: Catalogue, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: OpenCatalogue, entry: Any) -> Any:
        assert OURS in goldens(kube)
        raise KeyboardInterrupt

    monkeypatch.setattr(OpenCatalogue, "_meanwhile", interrupted)
    with pytest.raises(KeyboardInterrupt), catalogue.opened() as opened:
        opened.imported()


def test_what_a_killed_run_left_is_undone_by_the_next(
    catalogue: Catalogue, cloned_pool: HeldPool, kube: Kube
) -> None:
    entry = {"schematicID": NVIDIA, "version": "v1.13.6"}
    PackageImages(kube).add(entry, golden=OURS, standing=[])
    cloned_pool.pause(60.0, "it to be imported")
    assert OURS in goldens(kube)
    with catalogue.opened():
        assert OURS not in goldens(kube)


def test_a_killed_run_that_had_dropped_its_entry_leaves_its_golden_no_longer(
    catalogue: Catalogue, cloned_pool: HeldPool, kube: Kube
) -> None:
    entry = {"schematicID": NVIDIA, "version": "v1.13.6"}
    images = PackageImages(kube)
    images.add(entry, golden=OURS, standing=[])
    cloned_pool.pause(300.0, "it to be imported")
    images.take_out()
    cloned_pool.pause(60.0, "it to be dropped")
    assert OURS in goldens(kube)
    with catalogue.opened():
        assert OURS not in goldens(kube)


def test_a_golden_that_a_disk_names_stays_and_is_told(
    catalogue: Catalogue, cloned_pool: HeldPool, kube: Kube
) -> None:
    disk = {
        "apiVersion": GOLDENS[0],
        "kind": "DataVolume",
        "metadata": {
            "name": "somebodys",
            "namespace": "tenant-hil",
            "annotations": {"kubernetes-worker-image.cozystack.io/golden": OURS},
        },
        "spec": {
            "source": {"blank": {}},
            "storage": {
                "storageClassName": "replicated",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        },
    }
    with (
        pytest.raises(TakeDownIncomplete, match=f"{OURS} stays.*tenant-hil/somebodys"),
        catalogue.opened() as opened,
    ):
        opened.imported()
        kube.create(disk)
    assert OURS in goldens(kube)
    kube.delete(*GOLDENS[:2], "tenant-hil", "somebodys")
    cloned_pool.pause(60.0, "it to be gone")
    with catalogue.opened():
        pass  # what stays noted is undone once nobody is in the way


def test_what_cannot_be_undone_is_told(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.reach.errors import Unreachable

    def gone(*_: Any, **__: Any) -> Any:
        raise Unreachable("patch packages", "no answer", "look")

    with (
        monkeypatch.context() as patched,
        pytest.raises(TakeDownIncomplete, match="is not as it was: tried to patch packages"),
        catalogue.opened(),
    ):
        patched.setattr(PackageImages, "note", gone)


def test_only_an_entry_that_nobody_has_is_put_in(
    catalogue: Catalogue, cloned_pool: HeldPool, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = cloned_pool.lab.inventory
    alone = {"vanilla": inventory.schematics["vanilla"]}
    other = inventory.model_copy(update={"schematics": alone})
    before = spec_of(kube)
    with monkeypatch.context() as patched, catalogue.opened() as opened:
        patched.setattr(cloned_pool.lab, "inventory", other)
        new = opened.imported()
        assert isinstance(new.entry, Unread)
        assert "every schematic of the inventory has a golden" in new.entry.reason
        assert isinstance(opened.changed(), Unread)
        assert isinstance(opened.dropped().before, Unread)
        assert spec_of(kube) == before


def test_a_bad_entry_is_out_before_the_next_is_put_in(
    catalogue: Catalogue, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    add = PackageImages.add

    def counted(self: PackageImages, entry: Any, **more: Any) -> None:
        package = self.package()
        for key in IMAGES:
            package = package[key]
        seen.append(len(package))
        add(self, entry, **more)

    monkeypatch.setattr(PackageImages, "add", counted)
    with catalogue.opened() as opened:
        opened.bad_entries()
    assert seen == [1, 1, 1, 1]


def test_one_run_at_a_time_has_it(catalogue: Catalogue, cloned_pool: HeldPool, kube: Kube) -> None:
    clock = cloned_pool.lab.clock
    lease = PoolLease(kube, "cozy-system", "hil-catalogue", duration=600)
    lease.acquire("another", clock)
    since = clock.now()
    with catalogue.opened():
        assert 590 < clock.now() - since < 700, "until the other's lease ran out"
    lease = PoolLease(kube, "cozy-system", "hil-catalogue", duration=7200)
    lease.acquire("another", clock)
    with pytest.raises(LeaseHeld), catalogue.opened():
        pass
    lease.release()


def test_runs_of_all_tenants_share_one_lease(catalogue: Catalogue, kube: Kube) -> None:
    with catalogue.opened():
        leases = kube.list("coordination.k8s.io/v1", "Lease", "cozy-system")
        assert [name_of(one) for one in leases] == ["hil-catalogue"]


def test_it_is_renewed_while_it_is_used(
    catalogue: Catalogue, cloned_pool: HeldPool, kube: Kube
) -> None:
    with catalogue.opened() as opened:
        for _ in range(3):
            cloned_pool.pause(LEASE_SECONDS / 2, "a slow lab")
            opened.dropped()
            opened.bad_entries()
        another = PoolLease(kube, "cozy-system", "hil-catalogue", duration=600)
        with pytest.raises(LeaseHeld):
            another.acquire("another", cloned_pool.lab.clock)


def test_what_another_run_put_in_is_not_taken_out(
    catalogue: Catalogue, cloned_pool: HeldPool, kube: Kube
) -> None:
    entry = {"schematicID": "another", "version": "v1.13.6"}
    images, clock = PackageImages(kube), cloned_pool.lab.clock
    another = PoolLease(kube, "cozy-system", "hil-catalogue", duration=600)
    with pytest.raises(TakeDownIncomplete, match="held by another"), catalogue.opened():
        cloned_pool.pause(LEASE_SECONDS + 1, "this run's Lease to run out")
        another.acquire("another", clock)
        images.add(entry, golden="", standing=[])
    note = images.note()
    assert note is not None and note.entry == entry
    images.take_out()
    another.release()


def test_an_undoing_that_is_broken_off_says_where_to_look(
    catalogue: Catalogue, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: PackageImages) -> None:
        raise KeyboardInterrupt

    entry = {"schematicID": "vanilla-2", "version": "v1.13.6"}
    with pytest.raises(KeyboardInterrupt) as cut, catalogue.opened() as opened:
        opened.images.add(entry, golden="", standing=[])
        monkeypatch.setattr(PackageImages, "take_out", interrupted)
    (note,) = cut.value.__notes__
    assert "hil.dev/catalogue on Package cozystack.cozystack-platform" in note
    monkeypatch.undo()
    PackageImages(kube).take_out()
