"""addons-up: each addon by its effect; what has no release is told and not asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import judge
from harness.facts.addons import (
    ASKED,
    Backend,
    DiskTry,
    NameLookup,
    NodeAddons,
    Replicas,
    TenantAddons,
)
from harness.facts.fact import Origin, Unread

NOW = 1000.0
ORIGIN = Origin(NOW, "tenant lab addons", "")
NODE = NodeAddons(
    "n1", "Ready", "False", False, ("csi.kubevirt.io",), NOW - 20, (("cpu", "5m"), ("memory", "1"))
)
LOOKUP = NameLookup(ORIGIN, 0, "10.95.0.10", ("10.95.0.1",), "10.95.0.10", "10.95.0.1")
DISK = DiskTry(ORIGIN, "replicated", "Bound", "csi.kubevirt.io", "Ready", "", "/dev/sda", "ext4", 0)
UNREAD = Unread(ORIGIN, "it", "nobody answered")


def seen(**more: Any) -> TenantAddons:
    given: dict[str, Any] = {
        "there": ASKED,
        "absent": (),
        "workers": (NODE, replace(NODE, node="n2")),
        "dns": Replicas("coredns", 2, 2, "True"),
        "dns_service": Backend("kube-dns", "10.95.0.10", ("10.243.0.4", "10.243.1.4")),
        "ingress": (Replicas("ingress-nginx-controller", 2, 2, ""),),
        "ingress_service": Backend("ingress-nginx-controller", "10.95.18.80", ("10.243.0.9",)),
        "api": ("True", "Passed"),
        "metrics_problem": "",
        "lookup": LOOKUP,
        "disk": DISK,
    }
    return TenantAddons(ORIGIN, **{**given, **more})


def second(**more: Any) -> dict[str, Any]:
    return {"workers": (NODE, replace(NODE, node="n2", **more))}


def test_all_of_them_up_holds() -> None:
    verdict = judge.addons_up(seen(), "pool plain")
    assert verdict.outcome == "holds", verdict.because
    assert "not asked" not in verdict.because and len(verdict.facts) == 3


def without(addon: str) -> dict[str, Any]:
    return {"there": tuple(one for one in ASKED if one != addon), "absent": (addon,)}


def test_an_ingress_without_a_release_is_told_and_not_asked() -> None:
    verdict = judge.addons_up(seen(**without("ingress-nginx"), ingress=()), "pool plain")
    assert verdict.outcome == "holds", verdict.because
    assert "not asked, without a release: ingress-nginx" in verdict.because


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (second(agent=""), "cilium's pod on n2 is not there"),
        (second(agent="ImagePullBackOff"), "cilium's pod on n2 is ImagePullBackOff"),
        (second(waits=True), "n2 has the taint of a node without cilium's agent"),
        (second(network="True"), "n2 says that its network is unavailable"),
        ({"dns": None}, "there is no Deployment coredns"),
        ({"dns": Replicas("coredns", 2, 0, "False")}, "coredns has 0 of 2 pods Ready"),
        ({"dns_service": Backend("kube-dns", "10.95.0.10", ())}, "nothing is behind the Service"),
        ({"dns_service": None}, "nothing is behind the Service kube-dns"),
        ({"lookup": replace(LOOKUP, exit_code=1, found=())}, "could not resolve"),
        ({"lookup": replace(LOOKUP, found=())}, "could not resolve"),
        ({"lookup": replace(LOOKUP, found=("10.95.0.9",))}, "resolves to 10.95.0.9"),
        (second(drivers=None), "n2 has no CSINode"),
        (second(drivers=()), "n2 has no driver csi.kubevirt.io: none"),
        (
            {"disk": replace(DISK, phase="Pending", pod="Pending", why="unbound")},
            "is Pending: unbo",
        ),
        ({"disk": replace(DISK, phase="", pod="gone")}, "is not there: gone"),
        ({"disk": replace(DISK, driver="linstor")}, "is a volume of linstor"),
        ({"disk": replace(DISK, pod="ContainerCreating", why="no attach")}, "ContainerCreating"),
        ({"disk": replace(DISK, wrote=1)}, "a write to it ended with 1"),
        ({"ingress": ()}, "has no DaemonSet and no Deployment"),
        ({"ingress": (Replicas("ingress", 2, 1, ""),)}, "ingress has 1 of 2 pods Ready"),
        ({"ingress_service": Backend("i", "10.95.1.1", ())}, "nothing is behind the Service i"),
        ({"api": ("False", "MissingEndpoints")}, "is not available: MissingEndpoints"),
        ({"api": ("", "")}, "is not available: there is none"),
        ({"metrics_problem": "503"}, "the metrics API gives no list: 503"),
        (second(measured=None), "has nothing of n2"),
        (second(usage=()), "has nothing of n2"),
        (second(measured=NOW - 301), "the metrics of n2 are 301 s old"),
    ],
)
def test_what_breaks_it(changed: dict[str, Any], said: str) -> None:
    verdict = judge.addons_up(seen(**changed), "pool plain")
    assert (verdict.outcome, said in verdict.because) == ("broken", True), verdict.because


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"workers": ()}, "there is no worker to look at"),
        ({"there": (), "absent": ASKED}, "nothing was asked for"),
        (without("cilium"), "cilium has no release, and was not asked"),
        (without("coredns"), "coredns has no release"),
        (without("csi"), "csi has no release"),
        (without("metrics-server"), "metrics-server has no release"),
        (second(network=""), "n2 does not say whether it has a network"),
        ({"lookup": None}, "no name was looked up: nobody tried"),
        ({"lookup": UNREAD}, "no name was looked up: nobody answered"),
        ({"lookup": replace(LOOKUP, server="10.0.0.2")}, "asked 10.0.0.2, kube-dns is at 10.95"),
        ({"lookup": replace(LOOKUP, wanted="")}, "no address to compare with"),
        ({"disk": None}, "no disk was asked for: nobody tried"),
        ({"disk": UNREAD}, "no disk was asked for: nobody answered"),
        ({"disk": replace(DISK, device="")}, "could not be read"),
        ({"disk": replace(DISK, wrote=None)}, "was not told"),
        ({"ingress": (Replicas("ingress", 0, 0, ""),)}, "wants no pod on any node"),
    ],
)
def test_what_leaves_it_open(changed: dict[str, Any], said: str) -> None:
    verdict = judge.addons_up(seen(**changed), "pool plain")
    assert (verdict.outcome, said in verdict.because) == ("unknown", True), verdict.because


def test_an_ingress_without_a_service_is_told() -> None:
    verdict = judge.addons_up(seen(ingress_service=None), "pool plain")
    assert verdict.outcome == "holds" and "without a Service" in verdict.because


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        ({"lookup": replace(LOOKUP, wanted="")}, "unknown", "no address to compare with"),
        ({"lookup": replace(LOOKUP, service="")}, "unknown", "no address to compare with"),
        ({"lookup": replace(LOOKUP, found=())}, "broken", "could not resolve"),
        ({"lookup": replace(LOOKUP, exit_code=2)}, "broken", "could not resolve"),
        ({"lookup": replace(LOOKUP, server="")}, "unknown", "asked nobody that is named"),
        ({"api": ("False", "")}, "broken", "not available: it does not say why"),
        ({"api": ("", "")}, "broken", "not available: there is none"),
        (second(measured=NOW - 300), "holds", "metrics of 2 workers"),
        (second(measured=NOW - 301), "broken", "the metrics of n2 are 301 s old"),
    ],
)
def test_the_edges_of_what_counts(changed: dict[str, Any], outcome: str, said: str) -> None:
    verdict = judge.addons_up(seen(**changed), "pool plain")
    assert verdict.outcome == outcome, verdict.because
    assert said in verdict.because


def test_a_fact_that_was_not_had_is_not_among_those_behind_it() -> None:
    verdict = judge.addons_up(seen(**without("csi"), disk=None), "pool plain")
    assert None not in verdict.facts
