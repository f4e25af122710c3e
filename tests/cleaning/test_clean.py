"""`hil clean` on a lab: what dead runs left is shown and goes when told; all else stays."""

from __future__ import annotations

from typing import Any

import pytest

from harness import cli
from harness.bringup.connect import ConnectedLab
from harness.bringup.ownership import MANAGED, OWNER_LABELS
from harness.bringup.probes import NAMESPACE, PROBE_OF
from harness.bringup.scratch_pools import TRIAL_OF
from harness.inventory.manifest import kubernetes_nodes
from harness.reach.errors import Refused
from harness.reach.kube import Kube
from harness.reach.lease import PoolLease, lease_state
from harness.reach.nodeshell import RUN as SHELL_RUN
from harness.twin.process import TwinProcess
from tests.conftest import INVENTORY

TWIN = str(INVENTORY)
NODES = ("apps.cozystack.io/v1alpha1", "KubernetesNodes", "tenant-hil")
LEASES = ("coordination.k8s.io/v1", "Lease", "tenant-hil")
CLAIM = ("v1", "PersistentVolumeClaim", "tenant-hil", "hil-scratch-lab-plain")


@pytest.fixture
def hil(twin: TwinProcess, capsys: pytest.CaptureFixture[str]) -> Any:
    """`hil clean` on the twin: its status and what it printed."""

    def clean(*argv: str) -> tuple[int, str]:
        folder = twin.endpoint.kubeconfig.parent
        status = cli.main(["clean", "--lab", TWIN, "--attach", str(folder), *argv])
        return status, capsys.readouterr().out

    return clean


def leave(lab: ConnectedLab, *, run: str, duration: int) -> PoolLease:
    """What a run that was killed left: a pool, a scratch pool, a volume, a probe, its Lease."""
    lease = PoolLease(
        lab.management,
        "tenant-hil",
        "hil-pool-lab-plain",
        duration=duration,
        notes={"hil.dev/run": run},
    )
    lease.acquire(run, lab.clock)
    lab.management.apply(kubernetes_nodes(lab.inventory, "plain", labels={**OWNER_LABELS}))
    scratch = kubernetes_nodes(lab.inventory, "plain", labels={**OWNER_LABELS, TRIAL_OF: "plain"})
    scratch["metadata"]["name"] = "lab-hil1-plain"
    scratch["spec"] |= {"minReplicas": 0, "maxReplicas": 0}
    lab.management.apply(scratch)
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "replicated",
        "resources": {"requests": {"storage": "64Mi"}},
    }
    metadata = {"name": CLAIM[3], "namespace": CLAIM[2], "labels": dict(MANAGED)}
    lab.management.create(
        {"apiVersion": "v1", "kind": CLAIM[1], "metadata": metadata, "spec": spec}
    )
    if lab.tenant.get("v1", "Namespace", "", NAMESPACE) is None:
        space = {"name": NAMESPACE, "labels": dict(MANAGED)}
        lab.tenant.create({"apiVersion": "v1", "kind": "Namespace", "metadata": space})
    probe = {"name": "left", "namespace": NAMESPACE, "labels": {**MANAGED, PROBE_OF: "plain"}}
    box = {"containers": [{"name": "c", "image": "docker.io/library/busybox:1.37.0"}]}
    lab.tenant.create({"apiVersion": "v1", "kind": "Pod", "metadata": probe, "spec": box})
    lab.clock.sleep(30)
    return lease


def there(lab: ConnectedLab) -> list[str]:
    pools = [one["metadata"]["name"] for one in lab.management.list(*NODES)]
    claims = [CLAIM[3]] if lab.management.get(*CLAIM) else []
    return [
        *pools,
        *claims,
        *(p["metadata"]["name"] for p in lab.tenant.list("v1", "Pod", NAMESPACE)),
    ]


EVERYTHING = ["lab-hil1-plain", "lab-plain", CLAIM[3], "left"]


def test_what_a_dead_run_left_is_shown_and_removed_when_told(lab: ConnectedLab, hil: Any) -> None:
    leave(lab, run="dead", duration=10)
    status, said = hil()
    assert status == 0
    rows = [line.split("  ")[0] for line in said.splitlines() if " dead " in line]
    assert sorted(rows) == [
        "KubernetesNodes tenant-hil/lab-hil1-plain",
        "KubernetesNodes tenant-hil/lab-plain",
        "Lease tenant-hil/hil-pool-lab-plain",
        "PersistentVolumeClaim tenant-hil/hil-scratch-lab-plain",
        "Pod hil-probe/left",
    ]
    assert "run dead let the lease on its pool run out" in said
    assert "5 can be removed: add --remove" in said
    assert there(lab) == EVERYTHING
    status, said = hil("--remove")
    assert status == 0, said
    assert said.count("removed: ") == 5
    assert there(lab) == []
    assert hil() == (0, "nothing of earlier runs is on lab twin\n")


def test_what_a_live_run_has_and_what_carries_no_mark_stays(lab: ConnectedLab, hil: Any) -> None:
    lease = leave(lab, run="alive", duration=90000)
    other = kubernetes_nodes(lab.inventory, "cloned", labels={"made-by": "hand"})
    lab.management.apply({**other, "spec": {**other["spec"], "minReplicas": 0, "maxReplicas": 0}})
    status, said = hil("--remove")
    assert status == 0
    assert said.count("in use") == 5
    assert "run alive holds its pool till" in said
    assert "lab-cloned" not in said
    assert "removed" not in said
    assert there(lab) == ["lab-cloned", *EVERYTHING]
    lab.management.delete(*NODES, "lab-cloned")
    status, said = hil("--remove", "--run", "another")
    assert (status, said) == (0, "nothing of earlier runs is on lab twin\n")
    # whoever knows that it is dead need not wait for its lease
    status, said = hil("--remove", "--run", "alive")
    assert status == 0, said
    assert there(lab) == []
    stored = lab.management.get(*LEASES, lease.name)
    assert stored is not None
    assert lease_state(stored).holder == ""


def test_what_was_broken_off_is_begun_again(lab: ConnectedLab, hil: Any) -> None:
    leave(lab, run="dead", duration=10)
    lab.management.delete(*NODES, "lab-plain")
    half = PoolLease(lab.management, "tenant-hil", "hil-pool-lab-plain", duration=10)
    half.acquire("20261130-000000-clean-twin-0000", lab.clock)
    lab.clock.sleep(11)
    status, said = hil("--remove")
    assert status == 0, said
    assert there(lab) == []


def shell(lab: ConnectedLab, run: str) -> None:
    labels = {**MANAGED, SHELL_RUN: run}
    box = {"containers": [{"name": "c", "image": "docker.io/library/busybox:1.37.0"}]}
    pod = {"name": "shell", "namespace": NAMESPACE, "labels": labels}
    lab.tenant.create({"apiVersion": "v1", "kind": "Pod", "metadata": pod, "spec": box})


def test_without_sight_of_leases_nothing_is_dead(
    lab: ConnectedLab, hil: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(lab, run="alive", duration=90000)
    shell(lab, "alive")
    listed = Kube.list

    def refused(self: Kube, api: str, kind: str, *rest: Any, **more: Any) -> Any:
        if kind == "Lease":
            raise Refused(403, "Forbidden", "leases is forbidden")
        return listed(self, api, kind, *rest, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Kube, "list", refused)
        status, said = hil("--remove")
    assert status == 3
    assert "removed" not in said
    assert there(lab) == [*EVERYTHING, "shell"]
    assert hil("--remove", "--run", "alive")[0] == 0


def test_a_run_that_begins_while_it_is_looked_keeps_what_it_made(
    lab: ConnectedLab, hil: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(lab, run="dead", duration=10)
    late = PoolLease(lab.management, "tenant-hil", "hil-pool-lab-cloned", duration=90000)
    listed = Kube.list

    def slowly(self: Kube, api: str, kind: str, *rest: Any, **more: Any) -> Any:
        if kind == "Pod" and not late.holder:
            late.acquire("late", lab.clock)
            shell(lab, "late")
        return listed(self, api, kind, *rest, **more)

    with monkeypatch.context() as patched:
        patched.setattr(Kube, "list", slowly)
        status, said = hil("--remove")
    assert status == 0, said
    assert there(lab) == ["shell"]
    assert hil("--remove", "--run", "late")[0] == 0
    assert there(lab) == []


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--remove"], "name it with --lab FILE"),
        (["--lab", TWIN, "--attach", "--remove", "--dry-run"], "the opposite of each other"),
        (["--lab", TWIN], "nothing of the embedded twin outlives its run"),
        (["--lab", "absent.yaml"], "absent.yaml"),
    ],
)
def test_what_cannot_be_had_is_a_sentence(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["clean", *argv]) == 2
    assert said in capsys.readouterr().err


def test_without_a_lab_it_is_about_this_machine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("harness.qemulab.clean.find", lambda directory, cache: iter(()))
    assert cli.main(["clean", "--dry-run"]) == 0
    assert capsys.readouterr().out == "nothing was left behind\n"


def test_nothing_is_told_dead_by_a_clock_that_is_far_apart(
    lab: ConnectedLab, twin: TwinProcess, hil: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from harness.twin.command import chaos

    folder = twin.endpoint.kubeconfig.parent
    leave(lab, run="alive", duration=900)
    chaos(folder, "skew", {"seconds": 1200.0})
    capsys.readouterr()
    argv = ["clean", "--lab", TWIN, "--attach", str(folder), "--remove"]
    assert cli.main(argv) == 3
    assert "s ahead of this machine's: 2026-01-01T00:2" in capsys.readouterr().err
    assert lab.management.get(*NODES, "lab-plain") is not None
    chaos(folder, "clear", {})
    assert hil("--remove", "--run", "alive")[0] == 0
