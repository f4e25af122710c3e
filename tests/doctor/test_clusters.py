"""`hil doctor --lane`: what a lab lacks for a lane is told, with what to do; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.bringup.connect import ConnectedLab
from harness.bringup.keeper import hold
from harness.doctor import clusters
from harness.doctor.check import Check, State
from harness.doctor.permissions import TENANT, Extent, Permission, of_management, of_tenant
from harness.observe.platformversion import platform_version
from harness.reach.kube import Kube
from harness.reach.lease import PoolLease
from harness.session.choice import choose
from harness.twin.process import TwinProcess

ROOT = Path(__file__).resolve().parents[2]
TWIN = ROOT / "inventory" / "twin.yaml"
CLASS = ("storage.k8s.io/v1", "StorageClass", "", "replicated")

Told = Callable[..., dict[str, list[Check]]]


@pytest.fixture
def told(twin: TwinProcess) -> Told:
    """What is said of the twin, by subject."""

    def look(lane: str = "quick") -> dict[str, list[Check]]:
        found: dict[str, list[Check]] = {}
        folder = twin.endpoint.kubeconfig.parent
        for one in clusters.examine(choose(TWIN, lane, (), ()), folder, asks=True):
            found.setdefault(one.subject, []).append(one)
        return found

    return look


def failing(found: dict[str, list[Check]]) -> list[Check]:
    return [one for checks in found.values() for one in checks if one.fails]


def test_a_lab_that_is_fit_lacks_nothing_and_nothing_is_written(
    lab: ConnectedLab, told: Told
) -> None:
    kinds = ("v1", "Namespace"), ("coordination.k8s.io/v1", "Lease"), ("v1", "Pod")
    before = [kube.list_raw(*kind)[1] for kube in (lab.management, lab.tenant) for kind in kinds]
    found = told("everything")
    assert failing(found) == []
    for subject in (
        "API management",
        "clock tenant lab",
        "kinds",
        "LINSTOR",
        "console",
        "SSH hv-1",
    ):
        assert [one.state for one in found[subject]] == [State.OK], subject
    assert "4 offered, 4 free, 1 needed" in found["cards nvidia.com/AD102GL_L40S"][0].said
    assert found["headroom plain"][0].state is State.OK
    after = [kube.list_raw(*kind)[1] for kube in (lab.management, lab.tenant) for kind in kinds]
    assert before == after


def test_who_holds_a_pool_and_since_when(lab: ConnectedLab, told: Told) -> None:
    lease = PoolLease(lab.management, "tenant-hil", "hil-pool-lab-plain", duration=900)
    lease.acquire("other", lab.clock)
    (one,) = told()["pool plain"]
    assert one.fails
    assert "held by run other since 2026-01-01T" in one.said
    assert "hil run --wait 30m" in one.do
    lab.clock.sleep(901)
    (one,) = told()["pool plain"]
    assert one.state is State.OK
    assert "it is taken over" in one.said
    lease.release()


def test_which_platform_is_installed_and_what_to_do_where_it_is_not_known(
    lab: ConnectedLab, told: Told
) -> None:
    (one,) = told()["platform"]
    assert one.state is State.OK
    assert one.said.startswith("Cozystack v1.7.0 is installed: COZYSTACK_VERSION of Deployment")
    place = ("apps/v1", "Deployment", "cozy-system", "cozystack-operator")
    stored = lab.management.get(*place)
    assert stored is not None
    lab.management.delete(*place)
    (one,) = told()["platform"]
    assert (one.state, one.fails) == (State.UNKNOWN, False)
    assert "says 'it is not there" in one.said
    assert "deployments.apps" in one.do and "no release can be signed" in one.do
    keep = {key: value for key, value in stored.items() if key != "metadata"}
    metadata = {"name": place[3], "namespace": place[2]}
    lab.management.create({**keep, "metadata": metadata})
    lab.management.merge(*place, {"status": stored["status"]}, subresource="status")
    assert told()["platform"][0].state is State.OK


def test_a_class_that_is_not_there(lab: ConnectedLab, told: Told) -> None:
    stored = lab.management.get(*CLASS)
    assert stored is not None
    lab.management.delete(*CLASS)
    missing = [one for one in failing(told()) if one.subject == "StorageClass"]
    assert missing[0].said.startswith("no replicated; there is ")
    metadata = {"name": "replicated"}
    kept = {key: value for key, value in stored.items() if key != "metadata"}
    lab.management.create({**kept, "metadata": metadata})


def test_a_clock_that_is_apart(lab: ConnectedLab, twin: TwinProcess, told: Told) -> None:
    from harness.twin.command import chaos

    folder = twin.endpoint.kubeconfig.parent
    for seconds, state in ((30.0, State.UNKNOWN), (300.0, State.MISSING)):
        chaos(folder, "skew", {"seconds": seconds})
        (one,) = told()["clock management"]
        assert one.state is state
        assert f"{seconds:.0f} s ahead the runner's" in one.said
        assert "NTP" in one.do
    chaos(folder, "clear", {})


def test_what_may_not_be_done_is_named_with_its_use(
    lab: ConnectedLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    barred = {("create", "leases"), ("get", "virtualmachineinstances")}
    real = clusters.may

    def may(kube: Kube, asked: Permission, verb: str, namespace: str) -> bool:
        return (verb, asked.resource) not in barred and real(kube, asked, verb, namespace)

    monkeypatch.setattr(clusters, "may", may)
    said = [one.said for one in clusters._rights(lab, lab.management, of_management(Extent()))]
    assert "may not create leases.coordination.k8s.io in tenant-hil (to hold a pool)" in said
    assert any(text.startswith("may not get virtualmachineinstances/console.sub") for text in said)


def test_a_review_answers_for_the_credentials_at_hand(lab: ConnectedLab) -> None:
    reader = Permission("", "secrets", ("get",), TENANT, "")
    assert clusters.may(lab.management, reader, "get", "tenant-hil")


def test_an_api_that_is_away_is_missing_and_no_traceback(tmp_path: Path) -> None:
    found = list(clusters.examine(choose(TWIN, "quick", (), ()), tmp_path, asks=True))
    assert [(one.subject, one.state) for one in found] == [("API", State.MISSING)]


VERBS = {"console": "get", "exec": "create"}
"""What RBAC calls a request that opens a stream."""


def asked_of(kube: Kube) -> set[tuple[str, str]]:
    """Verbs and resources that a cluster was asked, of its kinds."""
    found = set()
    for call in kube.calls:
        parts = call.path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        if parts[:1] == ["namespaces"] and len(parts) > 2:
            parts = parts[2:]
        if parts and call.status not in (0, 404):
            found.add((VERBS.get(call.verb, call.verb), parts[0]))
    return {(verb, what) for verb, what in found if what}


def test_the_table_has_all_that_holding_a_pool_asks(lab: ConnectedLab) -> None:
    def log(_kind: str, _text: str) -> None:
        return

    with hold(lab, "gpu-l40s", log) as pool:
        platform_version(lab.management, now=lab.clock.now)
        pool.trials.valid()
        pool.state()
        pool.probes.fresh(pool.workers[0].name)
        pool.workers[0].boots()
    extent = Extent(cards=True, clones=True, platform=True, disruption=True)
    for kube, table in (
        (lab.management, list(of_management(extent))),
        (lab.tenant, list(of_tenant(extent))),
    ):
        granted = {(verb, one.resource) for one in table for verb in one.verbs}
        assert asked_of(kube) - granted == set(), kube.name


def test_lane_and_lab_are_checked_like_those_of_a_run(capsys: Any) -> None:
    from harness import cli

    assert cli.main(["doctor", "--lab", str(TWIN), "--lane", "quik"]) == 2
    assert "did you mean 'quick'?" in capsys.readouterr().err
