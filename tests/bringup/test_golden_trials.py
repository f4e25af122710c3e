"""Goldens of a run's own that fail or go, on a twin; what was there before is there after."""

from __future__ import annotations

from typing import Any

import pytest

from harness import judge
from harness.bringup.catalogue import Catalogue
from harness.bringup.golden_trials import GoldenTrials
from harness.bringup.pool import HeldPool
from harness.facts.applied import Allowed, AppliedPool
from harness.facts.fact import Unread
from harness.facts.objects import name_of
from harness.facts.refusals import RefusalTrial

GOLDENS = ("cdi.kubevirt.io/v1beta1", "DataVolume", "cozy-public")
PACKAGE = ("cozystack.io/v1alpha1", "Package", "", "cozystack.cozystack-platform")


def state(pool: HeldPool) -> Any:
    kube = pool.lab.management
    package = kube.get(*PACKAGE)
    assert package is not None
    volumes = [(one["metadata"]["namespace"], name_of(one)) for one in kube.list(*GOLDENS[:2])]
    pools = sorted(map(name_of, kube.list("apps.cozystack.io/v1alpha1", "KubernetesNodes")))
    return package["spec"], package["metadata"].get("annotations") or {}, sorted(volumes), pools


def test_a_golden_that_fails_and_one_that_goes(cloned_pool: HeldPool) -> None:
    before = state(cloned_pool)
    with Catalogue(cloned_pool).opened() as opened:
        failing = opened.goldens.failing()
        opened.imported()
        opened.dropped()
        seen = opened.goldens.outlived()
        outlived = seen.without
        verdict = judge.golden_lost(failing, outlived, "x")
        assert verdict.outcome == "holds", verdict.because
        assert isinstance(failing, RefusalTrial)
        assert "(3 importer restarts)" in failing.message
        assert isinstance(outlived, Allowed)
        assert isinstance(outlived.seen, AppliedPool)
        assert outlived.seen.asked.maximum == "2"  # the edit that made it render anew is in
        assert isinstance(seen.classless, Allowed)
        assert isinstance(seen.classless.seen, AppliedPool)
        assert seen.classless.seen.asked.storage_class == ""
        assert seen.classless.seen.rendered is not None
        assert seen.classless.seen.rendered.storage_class == "replicated"  # the default is local
        resolved = opened.classes.resolved()
        verdict = judge.class_resolved(resolved, seen, "x")
        assert verdict.outcome == "holds", verdict.because
        assert "(replicated), no class on either side" in verdict.because
        assert "(local)" in verdict.because
    assert state(cloned_pool) == before


def test_without_a_golden_of_its_own_nothing_is_taken_from_a_pool(cloned_pool: HeldPool) -> None:
    before = state(cloned_pool)
    with Catalogue(cloned_pool).opened() as opened:
        told = opened.goldens.outlived().without
        assert isinstance(told, Unread)
        assert "no golden of this run's own" in told.reason
    assert state(cloned_pool) == before


def test_a_golden_that_somebody_else_names_by_then_stays(
    cloned_pool: HeldPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube = cloned_pool.lab.management
    cloned = GoldenTrials._has_cloned

    def then_somebody_comes(self: GoldenTrials, made: Any) -> bool:
        found = cloned(self, made)
        if found and kube.get(*GOLDENS[:2], "tenant-hil", "somebodys") is None:
            golden = next(one for one in map(name_of, kube.list(*GOLDENS)) if "d4eb" in one)
            kube.create(
                {
                    "apiVersion": GOLDENS[0],
                    "kind": "DataVolume",
                    "metadata": {
                        "name": "somebodys",
                        "namespace": "tenant-hil",
                        "annotations": {
                            "kubernetes-worker-image.cozystack.io/golden": golden,
                        },
                    },
                    "spec": {
                        "source": {"blank": {}},
                        "storage": {
                            "storageClassName": "replicated",
                            "resources": {"requests": {"storage": "1Gi"}},
                        },
                    },
                }
            )
        return found

    monkeypatch.setattr(GoldenTrials, "_has_cloned", then_somebody_comes)
    with Catalogue(cloned_pool).opened() as opened:
        opened.imported()
        opened.dropped()
        told = opened.goldens.outlived().without
        kube.delete(*GOLDENS[:2], "tenant-hil", "somebodys")
    assert isinstance(told, Unread)
    assert "tenant-hil/somebodys" in told.reason
