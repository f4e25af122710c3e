from __future__ import annotations

import pytest

from harness.facts.containers import Container
from harness.facts.daemonsets import DaemonSet, DaemonSets
from harness.facts.fact import Origin, Unread
from harness.judge.hidden import no_hidden_helper

AT = Origin(1.0, "tenant lab", "")
MAIN = Container("main", False, "i", (), False, ())
ROOT = Container("main", False, "i", (), True, ())


def daemonset(
    namespace: str,
    *paths: str,
    owner: str = "",
    manager: str = "",
    container: Container = MAIN,
    host_pid: bool = False,
) -> DaemonSet:
    return DaemonSet(namespace, "ds", owner, manager, (container,), paths, 1, 1, host_pid)


CNI = daemonset("kube-system", "/run/cilium", manager="helm.sh/chart=cilium")


def judged(*sets: DaemonSet) -> tuple[str, str]:
    facts = DaemonSets(AT, sets)
    verdict = no_hidden_helper(facts, "cluster lab")
    assert (verdict.claim, verdict.subject) == ("no-hidden-helper", "cluster lab")
    assert verdict.facts == (facts,)
    return verdict.outcome.value, verdict.because


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "//",
        "/usr",
        "/usr/",
        "/usr/local/bin",
        "/home/../usr/bin",
        "/usr/x/../bin",
        "/run",
        "/var/run",
        "/run/nvidia",
        "/run/nvidia/driver",
        "/run/cdi",
        "/var/run/cdi",
        "/etc/cdi",
        "/run/containerd/containerd.sock",
        "/var/run/containerd",
        "/etc",
        "/etc/containerd/config.toml",
        "/etc/cri/conf.d",
        "/etc/nvidia-container-runtime",
        "/lib",
        "/lib/modules",
        "/lib/firmware",
        "/dev",
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/var/lib/kubelet/device-plugins",
        "/./usr",
    ],
)
def test_what_could_bring_a_driver_is_named(path: str) -> None:
    outcome, because = judged(CNI, daemonset("default", path))
    assert outcome == "broken"
    assert f"default/ds (mounts {path})" in because


@pytest.mark.parametrize(
    "path",
    [
        "/var/log",
        "/usrlocal",
        "/run/cilium",
        "/run/cdirectory",
        "/etc/cni/net.d",
        "/opt/cni/bin",
        "/var/lib/kubelet",
        "/dev/dri",
        "/sys/fs/bpf",
        "/home/usr",
        "/var/lib/run/cdi",
    ],
)
def test_what_could_not_is_let_pass(path: str) -> None:
    outcome, because = judged(CNI, daemonset("default", path))
    assert outcome == "holds", because
    assert "of 2 DaemonSets, 1 beside the platform's" in because


@pytest.mark.parametrize("namespace", ["cozy-gpu-operator", "cozy-monitoring", "kube-system"])
@pytest.mark.parametrize(
    "by", [{"owner": "ClusterPolicy cluster-policy"}, {"manager": "helm.sh/chart=x"}]
)
def test_the_platforms_own_may(namespace: str, by: dict[str, str]) -> None:
    outcome, because = judged(daemonset(namespace, "/", "/run/cdi", **by))
    assert (outcome, because[:28]) == ("holds", "of 1 DaemonSet, 0 beside the")


@pytest.mark.parametrize("namespace", ["cozy-gpu-operator", "kube-system"])
def test_one_in_the_platforms_namespace_that_nobody_made_may_not(namespace: str) -> None:
    assert judged(daemonset(namespace, "/usr"))[0] == "broken"


@pytest.mark.parametrize("namespace", ["default", "my-cozy-gpu", "kube-system-2", "cozy"])
def test_one_elsewhere_that_wears_the_platforms_labels_may_not(namespace: str) -> None:
    assert judged(daemonset(namespace, "/usr", manager="helm.sh/chart=x", owner="A a"))[0] == (
        "broken"
    )


@pytest.mark.parametrize(
    ("container", "pid", "outcome"),
    [(ROOT, 1, "broken"), (ROOT, 0, "holds"), (MAIN, 1, "holds"), (MAIN, 0, "holds")],
)
def test_who_may_enter_the_host(container: Container, pid: int, outcome: str) -> None:
    found, because = judged(CNI, daemonset("default", container=container, host_pid=bool(pid)))
    assert found == outcome
    assert ("is privileged and sees the host's processes" in because) is (outcome == "broken")


def test_every_one_found_is_named_with_all_its_ways() -> None:
    outcome, because = judged(
        daemonset("a", "/usr", "/var/log", "/run/cdi"), daemonset("b", "/dev"), CNI
    )
    assert outcome == "broken"
    assert "a/ds (mounts /usr, mounts /run/cdi); b/ds (mounts /dev)" in because


def test_a_cluster_without_any_is_not_believed() -> None:
    outcome, because = judged()
    assert (outcome, "no DaemonSet at all" in because) == ("unknown", True)


def test_a_list_that_could_not_be_read() -> None:
    lost = Unread(AT, "DaemonSets", "the reason")
    verdict = no_hidden_helper(lost, "cluster lab")
    assert (verdict.outcome, verdict.facts) == ("unknown", (lost,))
    assert "the reason" in verdict.because
