"""What a pool leaves behind on a twin: nothing, unless something is left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness import judge
from harness.bringup.connect import ConnectedLab
from harness.bringup.keeper import hold
from harness.bringup.leasing import CARDS_TAKEN
from harness.bringup.terms import NO_TERMS
from harness.facts.remains import Remains, Space, Thing
from harness.judge.verdict import Outcome, Verdict
from harness.reach.kube import Kube
from harness.reach.lease import PoolLease

TERMS = replace(NO_TERMS, leaks=True)
NODES = ("apps.cozystack.io/v1alpha1", "KubernetesNodes", "tenant-hil")
MACHINES = ("cluster.x-k8s.io/v1beta1", "Machine", "tenant-hil")


class Log(list[tuple[str, str]]):
    def __call__(self, kind: str, text: str) -> None:
        self.append((kind, text))


@pytest.fixture
def kube(lab: ConnectedLab) -> Kube:
    return lab.management


def asked(lab: ConnectedLab, log: Log, spoil: str = "") -> Verdict:
    """The claim, asked of the pool as a scenario asks it; ``spoil`` is a finalizer for a VM."""
    with hold(lab, "plain", log, TERMS) as pool:
        if spoil:
            machine = pool.workers[0].machine
            change = {"metadata": {"finalizers": [spoil]}}
            lab.management.merge(*MACHINES, machine, change)
        gone = pool.departure()
        return judge.nothing_left(gone.before, gone.after, pool.subject, kept=gone.kept)


def test_a_pool_that_goes_leaves_nothing_and_is_taken_down_once(
    lab: ConnectedLab, kube: Kube
) -> None:
    log = Log()
    verdict = asked(lab, log)
    assert (verdict.outcome, verdict.subject) == (Outcome.HOLDS, "pool plain"), verdict.because
    assert [text for kind, text in log if kind == "take-down"] == [
        "deleting pool plain",
        "pool plain is gone",
    ]
    assert kube.list(*NODES) == []


def test_what_stays_is_a_verdict_that_names_it_with_what_holds_it(
    lab: ConnectedLab, kube: Kube
) -> None:
    verdict = asked(lab, Log(), spoil="hil.dev/test")
    assert verdict.outcome is Outcome.BROKEN
    assert "Machine kubernetes-lab-plain-" in verdict.because
    assert "finalizers: hil.dev/test" in verdict.because
    (left,) = (one["metadata"]["name"] for one in kube.list(*MACHINES))
    kube.merge(*MACHINES, left, {"metadata": {"finalizers": None}})
    gone = lab.clock.deadline(1200)
    assert lab.clock.wait(lambda: not kube.list(*NODES), gone, "the pool to be gone")


def test_somebody_elses_pool_stands_and_is_not_counted(lab: ConnectedLab, kube: Kube) -> None:
    from harness.inventory.manifest import kubernetes_nodes

    kube.apply(kubernetes_nodes(lab.inventory, "plain", labels={"made-by": "hand"}))
    verdict = asked(lab, Log())
    assert verdict.outcome is Outcome.HOLDS
    assert "it stands" not in verdict.because
    assert "was there before the run and stands" in verdict.because
    (left,) = kube.list(*NODES)
    kube.delete(*NODES, left["metadata"]["name"])
    gone = lab.clock.deadline(1200)
    assert lab.clock.wait(lambda: not kube.list(*MACHINES), gone, "the pool to be gone")


def test_what_is_done_at_the_end_is_done_while_the_pool_stands(lab: ConnectedLab) -> None:
    seen: list[int] = []
    with hold(lab, "plain", Log(), TERMS) as pool:
        pool.at_end.append(lambda: seen.append(len(pool.workers)))
    assert seen == [2]


def test_whose_other_pools_stood_meanwhile_is_told_by_their_leases(lab: ConnectedLab) -> None:
    def lease(name: str) -> PoolLease:
        return PoolLease(lab.management, "tenant-hil", name, duration=900, notes={"a": "b"})

    earlier, meanwhile = lease("hil-pool-lab-earlier"), lease("hil-pool-lab-meanwhile")
    earlier.acquire("mine", lab.clock)
    lab.clock.sleep(5)
    earlier.release()
    with hold(lab, "plain", Log(), TERMS) as pool:
        meanwhile.acquire("other", lab.clock)
        lab.clock.sleep(5)
        meanwhile.release()
        after = pool.departure().after
    assert isinstance(after, Remains)
    assert after.beside == ("lab-meanwhile",)


def look(*things: Thing, free: int = 100, volumes: tuple[str, ...] = ()) -> Remains:
    from harness.facts.fact import Origin

    spaces = (Space("hv-1", "data", free * 1024 * 1024),)
    return Remains(Origin(0.0, "here", ""), things, volumes, spaces)


@pytest.mark.parametrize(
    ("before", "after", "outcome", "said"),
    [
        (look(), look(free=80), Outcome.BROKEN, "20480 MiB of storage pool data on hv-1 not given"),
        (look(), look(free=80, volumes=("pvc-other",)), Outcome.HOLDS, "others' volumes came or"),
        (look(), replace(look(free=80), beside=("lab-x",)), Outcome.HOLDS, "it was lab-x's too"),
        (
            look(),
            replace(look(Thing("Pod a"), free=80), beside=("lab-x",)),
            Outcome.BROKEN,
            "Pod a",
        ),
        (look(Thing("PersistentVolume a")), look(Thing("PersistentVolume a")), Outcome.HOLDS, "no"),
        (look(), look(Thing("PersistentVolume a", "Released")), Outcome.BROKEN, "a (Released)"),
        (look(), replace(look(), unread=("Pod: 403",)), Outcome.UNKNOWN, "Pod: 403"),
    ],
)
def test_what_was_there_before_and_what_others_did_is_not_the_runs(
    before: Remains, after: Remains, outcome: Outcome, said: str
) -> None:
    verdict = judge.nothing_left(before, after, "pool plain")
    assert verdict.outcome is outcome
    assert said in verdict.because


def test_the_kind_of_the_note_is_the_one_that_reports_know() -> None:
    from harness.bringup.hostloss import HOST_LOST
    from harness.report import environment

    assert (CARDS_TAKEN, HOST_LOST) == (environment.CARDS_TAKEN, environment.HOST_LOST)
