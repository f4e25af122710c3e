"""What is collected of workers that do not join, on a twin whose hosts are nested without vgif."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.bringup.joining_context import join_context
from harness.facts.fact import Unread
from harness.inventory.loading import load
from harness.inventory.manifest import kubernetes_nodes
from harness.observe.joining_collectors import COLLECTORS
from harness.session.labs import LabChoice
from harness.twin.process import TwinProcess

INVENTORY = Path(__file__).parents[2] / "inventory" / "twin.yaml"


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str | Unread]]:
    """What every collector gave of a pool ten minutes after it was asked for, by name."""
    directory = tmp_path_factory.mktemp("twin")
    process = TwinProcess(directory, seed=1, faults=("vgif-nested-stall",))
    choice = LabChoice(load(INVENTORY), "test", directory, attach=directory)
    try:
        with choice.open("plain") as lab:
            lab.management.create(kubernetes_nodes(lab.inventory, "plain"))
            lab.clock.sleep(600.0, "workers")
            with join_context(lab, "plain") as context:
                yield {one.name: one.collect(context) for one in COLLECTORS}
    finally:
        process.close()


def test_every_question_is_answered(collected: dict[str, str | Unread]) -> None:
    assert [name for name, found in collected.items() if isinstance(found, Unread)] == []
    assert all(collected.values())


SAID = {
    "console wedge": "has no guest-console-log: not wedged by it",
    "tenant nodes": "no Node: nothing has joined",
    "addons": "kubernetes-lab-cilium",
    "certificate requests": "no CertificateSigningRequest",
    "importers": "no importer pod: nothing is downloaded now, which is healthy",
    "certificate signer": "has a container talos-csr-signer",
    "launcher network": "k6t-eth0:",
    "launcher block I/O": "rbytes=",
    "launcher throttling": "nr_throttled",
    "vgif of the hosts": "/sys/module/kvm_amd/parameters/vgif: 0\nthe host is a machine itself",
    "stolen time of the hosts": "stolen since boot: 2.00%",
    "modules of the hosts": "kvm_amd ",
    "console": "attached for 20 s, what was printed before is not shown",
}


@pytest.mark.parametrize("name", SAID)
def test_what_each_says(collected: dict[str, str | Unread], name: str) -> None:
    found = collected[name]
    assert isinstance(found, str)
    assert SAID[name] in found


def test_objects_are_such_as_kubectl_gives(collected: dict[str, str | Unread]) -> None:
    machines, disks = collected["machines"], collected["disks"]
    assert isinstance(machines, str)
    assert isinstance(disks, str)
    kinds = {one["kind"] for one in json.loads(machines)["items"]}
    assert {"Machine", "VirtualMachine", "VirtualMachineInstance", "Pod"} <= kinds
    volumes = [one for one in json.loads(disks)["items"] if one["kind"] == "DataVolume"]
    assert [one["status"]["phase"] for one in volumes] == ["Succeeded", "Succeeded"]


def test_linstor_tells_of_the_workers_disks(collected: dict[str, str | Unread]) -> None:
    resources = collected["LINSTOR resources"]
    assert isinstance(resources, str)
    states = {
        volume.get("state", {}).get("disk_state")
        for one in json.loads(resources)
        for volume in one.get("volumes", ())
    }
    assert "UpToDate" in states
