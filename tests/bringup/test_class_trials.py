"""Goldens without a class, made and looked at on a twin; what was there before is there after."""

from __future__ import annotations

from typing import Any

import pytest

from harness.bringup.catalogue import Catalogue
from harness.bringup.class_trials import TRIAL_GOLDEN, ClassTrials
from harness.bringup.errors import TakeDownIncomplete
from harness.bringup.pool import HeldPool
from harness.bringup.refusals import Refusals
from harness.bringup.scratch_pools import ScratchPools
from harness.facts.applied import Allowed, AppliedPool
from harness.facts.fact import Unread
from harness.facts.objects import name_of
from harness.facts.refusals import RefusalTrial

CDI = "cdi.kubevirt.io/v1beta1"
PUBLIC = "cozy-public"


def state(pool: HeldPool) -> Any:
    kube = pool.lab.management
    kinds = ((CDI, "DataVolume"), ("v1", "PersistentVolumeClaim"), ("v1", "Pod"))
    there = [sorted(map(name_of, kube.list(*kind, PUBLIC))) for kind in kinds]
    return there, sorted(map(name_of, kube.list("apps.cozystack.io/v1alpha1", "KubernetesNodes")))


def rendered(one: Allowed | Unread) -> str:
    assert isinstance(one, Allowed) and isinstance(one.seen, AppliedPool)
    assert one.seen.ready == "True" and one.seen.rendered is not None
    return one.seen.rendered.storage_class


def test_goldens_without_a_class_have_their_claims(cloned_pool: HeldPool) -> None:
    before = state(cloned_pool)
    with Catalogue(cloned_pool).opened() as opened:
        found = opened.classes.resolved()
    assert list(map(rendered, found.rendered)) == ["replicated", "local"]
    assert isinstance(found.refused, RefusalTrial)
    assert "storageClass local differs from golden image" in found.refused.message
    assert "whose class is replicated" in found.refused.message
    assert "the golden image has" not in found.refused.message  # that one is its claim's
    assert state(cloned_pool) == before


@pytest.mark.parametrize("cut", [KeyboardInterrupt, SystemExit])
def test_cut_short_they_are_gone_all_the_same(
    cloned_pool: HeldPool, monkeypatch: pytest.MonkeyPatch, cut: type[BaseException]
) -> None:
    before, seen = state(cloned_pool), []

    def then_ctrl_c(self: ScratchPools, made: Any) -> bool:
        seen.append(state(cloned_pool))
        raise cut

    monkeypatch.setattr(ScratchPools, "await_rendered", then_ctrl_c)
    with pytest.raises(cut), Catalogue(cloned_pool).opened() as opened:
        opened.classes.resolved()
    assert len(seen[0][0][0]) == len(before[0][0]) + 2
    assert state(cloned_pool) == before


def test_what_a_killed_run_left_goes_as_the_next_begins(
    cloned_pool: HeldPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(cloned_pool)
    with Catalogue(cloned_pool).opened() as opened:
        with monkeypatch.context() as killed:
            killed.setattr(ClassTrials, "clear", lambda self: [])
            with opened.classes._goldens({"hil-left": "replicated"}):
                pass
        assert state(cloned_pool) != before
        opened.undo()
        assert state(cloned_pool) == before


def test_one_that_somebody_clones_by_then_stays_and_is_told(cloned_pool: HeldPool) -> None:
    kube, before = cloned_pool.lab.management, state(cloned_pool)
    with Catalogue(cloned_pool).opened() as opened:
        with (
            pytest.raises(TakeDownIncomplete, match=r"in use: .* by tenant-hil/somebodys"),
            opened.classes._goldens({"hil-used": "replicated"}),
        ):
            golden = next(one for one in map(name_of, kube.list(CDI, "DataVolume", PUBLIC))
                          if "hil-used" in one)  # fmt: skip
            kube.create(
                {
                    "apiVersion": CDI,
                    "kind": "DataVolume",
                    "metadata": {"name": "somebodys", "namespace": "tenant-hil"},
                    "spec": {
                        "source": {"pvc": {"namespace": PUBLIC, "name": golden}},
                        "storage": {
                            "storageClassName": "replicated",
                            "resources": {"requests": {"storage": "1Gi"}},
                        },
                    },
                }
            )
        kube.delete(CDI, "DataVolume", "tenant-hil", "somebodys")
    assert state(cloned_pool) == before


@pytest.mark.parametrize(
    ("default", "classes", "why"),
    [("", ["replicated"], "not known which class"), ("replicated", ["replicated"], "no class bes")],
)
def test_where_there_are_not_two_classes_nothing_is_made(
    cloned_pool: HeldPool,
    monkeypatch: pytest.MonkeyPatch,
    default: str,
    classes: list[str],
    why: str,
) -> None:
    monkeypatch.setattr(Refusals, "default_class", lambda self: default)
    monkeypatch.setattr(Refusals, "classes", lambda self: classes)
    with Catalogue(cloned_pool).opened() as opened:
        made: list[Any] = []
        monkeypatch.setattr(cloned_pool.lab.management, "create", made.append, raising=False)
        found = opened.classes.resolved()
        monkeypatch.undo()
    assert not made
    for one in (*found.rendered, found.refused):
        assert isinstance(one, Unread) and why in one.reason


def test_another_class_is_found_where_the_goldens_is_the_default(
    cloned_pool: HeldPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Refusals, "default_class", lambda self: "replicated")
    with Catalogue(cloned_pool).opened() as opened:
        assert opened.classes._other() == "local"
        monkeypatch.undo()
        assert opened.classes._other() == "replicated"


def test_its_marks_are_its_own(cloned_pool: HeldPool) -> None:
    kube = cloned_pool.lab.management
    with Catalogue(cloned_pool).opened() as opened, opened.classes._goldens({"g": "replicated"}):
        found = kube.list("v1", "PersistentVolumeClaim", PUBLIC, labels=TRIAL_GOLDEN)
        assert len(found) == 1
