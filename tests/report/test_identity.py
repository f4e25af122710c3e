"""What a run was made on, read off its ledger."""

from __future__ import annotations

from typing import Any

import pytest

from harness.report.identity import TITLES, identity, pci_ids
from tests.report.releases import CARDS, SUBJECT, A, run

RELEASE = "management HelmRelease tenant-hil/kubernetes-nodes-lab-gpu"
HISTORY = """\
 "history": [
  {
   "action": "upgrade",
   "chartName": "kubernetes-nodes",
   "chartVersion": "1.8.0",
   "configDigest": "sha256:b3"
  },
  {
   "action": "install",
   "chartName": "kubernetes-nodes",
   "chartVersion": "1.7.0",
"""
NODE = """\
 "nodeInfo": {
  "kernelVersion": "6.18.34-talos",
  "kubeletVersion": "v1.35.0",
  "osImage": "Talos (v1.13.6)",
"""
PLUGIN = {"containers": [{"image": "nvcr.io/nvidia/k8s-device-plugin:v0.19.0"}]}
VALIDATOR = {"containers": [{"image": "nvcr.io/nvidia/gpu-operator:v26.3.1"}]}


def told(*facts: dict[str, Any], **info: Any) -> dict[str, list[str]]:
    made = run("r", {A: "holds"}, facts=facts, **info)
    found: dict[str, list[str]] = {}
    for seen in identity(made.view, made.info):
        found.setdefault(seen.item, []).append(seen.value)
    return found


@pytest.mark.parametrize(
    ("fact", "item", "values"),
    [
        ({"kind": "Any", "source": RELEASE, "raw": HISTORY}, "charts", ["kubernetes-nodes 1.8.0"]),
        ({"kind": "DaemonSets", "sets": [PLUGIN, VALIDATOR]}, "operator", ["v26.3.1"]),
        ({"kind": "BootSource", "schematic": "d4eb", "version": "v1"}, "schematic", ["d4eb"]),
        ({"kind": "InstallImage", "schematic": "d4eb", "version": "v1"}, "talos", ["v1"]),
        ({"kind": "GpuNode", "source": "tenant lab Node n", "raw": NODE}, "talos", ["v1.13.6"]),
        ({"kind": "Any", "source": "tenant lab Node n", "raw": NODE}, "kubernetes", ["v1.35.0"]),
        ({"kind": "Any", "source": "a Node n", "raw": NODE}, "kernel", ["6.18.34-talos"]),
        (
            {"kind": "DriverVersion", "release": "595.45", "flavour": "open"},
            "driver",
            ["595.45 (open modules)"],
        ),
        (dict(CARDS), "pci", ["10de:26b9"]),
        (
            {"kind": "PlatformVersion", "version": "v1.7.0", "reason": ""},
            "platform",
            ["Cozystack v1.7.0"],
        ),
        (
            {"kind": "PlatformVersion", "version": "", "reason": "403 Forbidden"},
            "platform",
            ["unknown: 403 Forbidden"],
        ),
        ({"kind": "PlatformVersion"}, "platform", ["unknown: no reason is told"]),
        ({"kind": "DrbdStatus", "version": "9.2.14"}, "storage", ["DRBD 9.2.14"]),
        ({"kind": "Extensions", "names": ["b", "a"], "schematic": ""}, "extensions", ["a, b"]),
        ({"kind": "Extensions", "names": [], "schematic": ""}, "extensions", ["none"]),
        ({"kind": "Extensions", "names": [], "schematic": "d4eb"}, "schematic", ["d4eb"]),
    ],
)
def test_each_item_is_read_where_it_stands(
    fact: dict[str, Any], item: str, values: list[str]
) -> None:
    assert told(fact)[item] == values
    assert item in TITLES


@pytest.mark.parametrize(
    "fact",
    [
        {"kind": "DaemonSets", "sets": None},
        {"kind": "DaemonSets", "sets": ["x", {"containers": None}]},
        {"kind": "PciCards", "cards": [None, {"vendor": "8086"}]},
        {"kind": "DrbdStatus"},
        {"kind": "LinstorPools", "pools": [1, {"provider": "DISKLESS"}]},
        {"kind": "BootSource"},
        {"kind": "Any", "source": RELEASE, "raw": '"chartName": "cut'},
        {"kind": "Extensions"},
    ],
)
def test_what_is_cut_or_strange_is_not_recorded(fact: dict[str, Any]) -> None:
    assert set(told(fact, subject="")) == set()


def test_what_somebody_typed_is_no_version_of_the_platform() -> None:
    found = told(versions={"hil": "0.1", "cozystack": "v1.7.0"})
    assert found == {"subject": [SUBJECT, "cozystack v1.7.0"], "harness": ["hil 0.1"]}


def test_that_a_platform_could_not_be_read_is_no_value_of_it() -> None:
    facts = [
        {"kind": "PlatformVersion", "version": "", "reason": "403"},
        {"kind": "PlatformVersion", "version": "v1.7.0"},
    ]
    made = run("r", {A: "holds"}, facts=facts, subject="unknown: to me")
    assert {(one.item, one.value): one.known for one in identity(made.view, made.info)} == {
        ("subject", "unknown: to me"): True,
        ("platform", "Cozystack v1.7.0"): True,
        ("platform", "unknown: 403"): False,
    }
    assert made.installed == ("Cozystack v1.7.0",)


def test_each_value_says_at_which_pools_it_was_read() -> None:
    made = run("r", {A: "holds"}, facts=(CARDS,), pool="gpu-l40s")
    (seen,) = (one for one in identity(made.view, made.info) if one.item == "pci")
    assert seen.pools == ("gpu-l40s",)
    assert pci_ids(made.view, "gpu-l40s") == ("10de:26b9",) and pci_ids(made.view, "x") == ()
