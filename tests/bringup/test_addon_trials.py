"""A tenant's addons on a twin: what a pod and the API find of them, and what is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import judge
from harness.bringup.addon_trials import MADE_FOR, AddonTrial, tenant_addon_facts
from harness.bringup.connect import Reachable, connect
from harness.bringup.keeper import hold
from harness.bringup.pool import HeldPool
from harness.bringup.probes import NAMESPACE
from harness.inventory.loading import load
from harness.reach.errors import LeaseLost
from harness.twin.process import TwinProcess

INVENTORY = Path(__file__).resolve().parents[2] / "inventory" / "twin.yaml"
CLAIM = "PersistentVolumeClaim"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeldPool]:
    """A pool of one worker on a twin of its own."""
    process = TwinProcess(tmp_path_factory.mktemp("addons"), seed=1)
    way = Reachable(process.endpoint.kubeconfig, "management", process.endpoint.clock_url)
    inventory = load(INVENTORY)
    one = inventory.pools["plain"].model_copy(update={"replicas": 1})
    lab = connect(inventory.model_copy(update={"pools": {"plain": one}}), way, "mine")
    with lab.clock.actor("test"), hold(lab, "plain", lambda kind, text: None) as held:
        yield held
    lab.close()
    process.close()


def left(pool: HeldPool) -> list[Any]:
    kube, selector = pool.lab.tenant, f"{MADE_FOR}=plain"
    kinds = ("Pod", CLAIM)
    found = [one for kind in kinds for one in kube.list("v1", kind, NAMESPACE, labels=selector)]
    volumes = kube.list("v1", "PersistentVolume")
    infra = pool.lab.management.list("v1", CLAIM, "tenant-hil", labels="csi-driver/cluster")
    return [one["metadata"]["name"] for one in (*found, *volumes, *infra)]


def test_all_of_them_are_up_and_nothing_is_left(pool: HeldPool) -> None:
    leftover = {
        "apiVersion": "v1",
        "kind": CLAIM,
        "metadata": {
            "name": "hil-addons-plain",
            "namespace": NAMESPACE,
            "labels": {MADE_FOR: "plain"},
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    pool.probes.ensure_namespace()
    pool.lab.tenant.create(leftover)  # as of a run that was killed
    seen = tenant_addon_facts(pool)
    verdict = judge.addons_up(seen, pool.subject)
    assert verdict.outcome == "holds", verdict.because
    assert seen.absent == ("ingress-nginx",)
    assert "without a release: ingress-nginx" in verdict.because
    pool.pause(10, "disks to go")
    assert left(pool) == []


def test_an_addon_without_a_release_is_not_asked(pool: HeldPool) -> None:
    kube, api = pool.lab.management, "helm.toolkit.fluxcd.io/v2"
    kube.delete(api, "HelmRelease", "tenant-hil", "kubernetes-lab-metrics-server")
    pool.pause(20, "the release to go")
    seen = tenant_addon_facts(pool)
    assert "metrics-server" in seen.absent and seen.api == ("", "")
    verdict = judge.addons_up(seen, pool.subject)
    assert (verdict.outcome, verdict.because) == (
        "unknown",
        "metrics-server has no release, and was not asked",
    )


def test_pod_and_claim_of_a_run_that_has_the_pool_by_now_are_left_alone(
    pool: HeldPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(clock: Any) -> None:
        raise LeaseLost("renew it", "it held by another", "look")

    with monkeypatch.context() as patched, pytest.raises(LeaseLost):
        patched.setattr(pool.lease, "renew", lost)
        tenant_addon_facts(pool)
    assert "hil-addons-plain" in left(pool)
    AddonTrial(pool, "any").clear()


def test_names_that_do_not_resolve_break_it(pool: HeldPool) -> None:
    pool.lab.tenant.delete("v1", "Service", "kube-system", "kube-dns")
    pool.pause(10, "its endpoints to go")
    verdict = judge.addons_up(tenant_addon_facts(pool), pool.subject)
    assert verdict.outcome == "broken", verdict.because
    assert "nothing is behind the Service kube-dns" in verdict.because
    assert left(pool) == []
