"""Faults of replicated disks, as the kernel of each host tells them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.twin.faults import storage
from harness.twin.faults.catalogue import FAULTS
from harness.twin.faults.consequences import ALL_TRIALS
from harness.twin.world.drbd_verbs import Refused, invalidate, primary

Make = Callable[[str], Any]


def worker(lab: Any) -> Any:
    """A worker of its class `replicated`: its disk's resource and its host."""
    lab.pool(gpu="")
    lab.until(lambda: lab.tenant.all("v1", "Node"), 900.0)
    lab.run(60)
    (resource,) = [
        one
        for one in lab.world.storage.resources.values()
        if any(replica.role == "Primary" for replica in one.running())
    ]
    (host,) = [one.host for one in resource.running() if one.role == "Primary"]
    return resource, host


@pytest.fixture
def faulty_disk(faulty: Make) -> Callable[[str], Any]:
    def make(fault: str) -> Any:
        lab = faulty(fault)
        klass = lab.world.management.find("storage.k8s.io/v1", "StorageClass", "", "local")
        assert klass is not None
        _default(lab)
        return (lab, *worker(lab))

    return make


def _default(lab: Any) -> None:
    """The lab's pools ask for the class by name; this one's goes by the default."""

    def move(stored: Any) -> None:
        note = "storageclass.kubernetes.io/is-default-class"
        mine = stored["metadata"]["name"] == "replicated"
        stored["metadata"].setdefault("annotations", {})[note] = "true" if mine else "false"

    for name in ("local", "replicated"):
        lab.world.management.edit(
            "storage.k8s.io/v1", "StorageClass", "", name, move, manager="test"
        )


def ask(lab: Any, host: str, *argv: str) -> Any:
    (pod,) = [
        one
        for one in lab.world.management.all("v1", "Pod", "cozy-linstor")
        if one["spec"]["nodeName"] == host
    ]
    name = pod["metadata"]["name"]
    return lab.world.exec("management", "cozy-linstor", name, "linstor-satellite", list(argv))


def golden(lab: Any) -> set[str]:
    """The resources of the platform's golden images, which are there from before the story."""
    claims = lab.world.management.all("v1", "PersistentVolumeClaim", "cozy-public")
    return {one["spec"]["volumeName"] for one in claims}


def status(lab: Any, host: str) -> Any:
    """What a host's kernel tells of every disk but the golden images'."""
    told = json.loads(ask(lab, host, "drbdsetup", "status", "--json").stdout)
    return [one for one in told if one["name"] not in golden(lab)]


def test_a_resync_stalls(faulty_disk: Callable[[str], Any]) -> None:
    lab, _, host = faulty_disk("drbd-resync-stalls")
    lab.run(3600)
    (seen,) = status(lab, host)
    (stuck,) = [
        peer["peer_devices"][0]
        for peer in seen["connections"]
        if peer["peer_devices"][0]["replication-state"] == "SyncSource"
    ]
    assert stuck["percent-resync-done"] == 40.0 and stuck["peer-disk-state"] == "Inconsistent"


def test_a_hosts_network_goes(faulty_disk: Callable[[str], Any]) -> None:
    lab, resource, host = faulty_disk("drbd-quorum-suspended")
    lab.until(lambda: resource.on(host).suspended == {"quorum"}, 300)
    (seen,) = status(lab, host)
    assert seen["suspended-quorum"] and seen["devices"][0]["disk-state"] == "UpToDate"


def test_a_split_brain_stands(faulty_disk: Callable[[str], Any]) -> None:
    lab, resource, host = faulty_disk("drbd-split-brain-standing")
    (seen,) = status(lab, host)
    assert [one["connection-state"] for one in seen["connections"]] == ["StandAlone"]
    assert seen["devices"][0]["disk-state"] == "UpToDate"
    assert "Split-Brain detected but unresolved" in lab.world.storage.kernel(host).dmesg()
    other = next(one for one in resource.replicas if one.host != host)
    for node, discards in ((other, True), (resource.on(host), False)):
        for peer in node.peers.values():
            resource.links.connect(node, peer, discards=discards)
    lab.run(60)
    assert [peer.connection for peer in other.peers.values()] == ["StandAlone"]


def test_blocks_differ_in_silence(faulty_disk: Callable[[str], Any]) -> None:
    lab, _, host = faulty_disk("drbd-out-of-sync-silent")
    (seen,) = status(lab, host)
    told = [one["peer_devices"][0] for one in seen["connections"]]
    assert sorted(one["out-of-sync"] for one in told) == [0, 12]
    assert {one["peer-disk-state"] for one in told} == {"UpToDate"}


def test_a_replica_is_missing(faulty_disk: Callable[[str], Any]) -> None:
    lab, resource, host = faulty_disk("drbd-replica-missing")
    (seen,) = status(lab, host)
    assert len(seen["connections"]) == 1 and seen["devices"][0]["quorum"]
    hosts = {one.host for one in resource.replicas}
    (other,) = {"hv-1", "hv-2", "hv-3"} - hosts
    assert status(lab, other) == []
    for verb in ("status", "up", "role"):
        refused = ask(lab, other, "drbdadm", verb, resource.name)
        assert refused.exit_code == 10 and b"not defined in your config" in refused.stderr


def volume(lab: Any) -> Any:
    """A volume that nobody uses yet."""
    claim = {
        "metadata": {"name": "scratch"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "replicated",
            "resources": {"requests": {"storage": "64Mi"}},
        },
    }
    kind = lab.world.management.registry.by_kind("v1", "PersistentVolumeClaim")
    lab.world.management.create(kind, claim, namespace="tenant-hil")
    lab.run(10)
    resources = lab.world.storage.resources
    (name,) = resources.keys() - golden(lab)
    return resources[name]


def write(resource: Any, host: str) -> list[str]:
    outcome: list[str] = []
    resource.io.write(resource.on(host), 0, b"x" * 4096, outcome.append)
    return outcome


def test_a_write_is_lost_and_so_is_what_a_resync_brings(faulty: Make) -> None:
    lab = faulty("drbd-write-lost")
    resource = volume(lab)
    primary(resource, resource.on("hv-1"), (), "")
    assert write(resource, "hv-1") == [""]
    assert resource.on("hv-1").data.read(0, 1) == b"x"
    assert resource.on("hv-2").data.read(0, 1) == b"\0"
    assert not resource.on("hv-1").peers[1].out_of_sync
    invalidate(resource, resource.on("hv-2"), (), "")
    lab.until(lambda: resource.on("hv-2").disk == "UpToDate")
    assert resource.on("hv-2").data.read(0, 1) == b"\0"


def test_a_link_heals_and_nobody_connects(faulty: Make) -> None:
    lab = faulty("drbd-link-heals-without-reconnect")
    resource = volume(lab)
    resource.links.disconnect(resource.on("hv-3"), resource.on("hv-3").peers[0])
    resource.links.connect(resource.on("hv-3"), resource.on("hv-3").peers[0])
    lab.run(30)
    assert resource.on("hv-3").peers[0].connected  # a command still does it
    lab.world.storage.cut("hv-1", "hv-2", carrier=False)
    lab.run(30)
    lab.world.storage.heal()
    lab.run(300)
    assert resource.on("hv-1").peers[1].connection == "Connecting"


def test_a_disk_that_is_opened_anew_is_left_alone(faulty_disk: Callable[[str], Any]) -> None:
    lab, resource, host = faulty_disk("drbd-replica-missing")
    left = list(resource.running())
    for hook in lab.world.storage_csi.on_disk:
        hook(resource, host)
    assert len(left) == 2 and list(resource.running()) == left


def test_without_a_quorum_everybody_writes_on(faulty: Make) -> None:
    lab = faulty("drbd-without-quorum")
    resource = volume(lab)
    primary(resource, resource.on("hv-1"), (), "")
    for other in ("hv-2", "hv-3"):
        lab.world.storage.cut("hv-1", other, carrier=False)
    lab.run(30)
    assert write(resource, "hv-1") == [""]


def test_an_outdated_node_is_promoted(faulty: Make) -> None:
    lab = faulty("drbd-outdated-promoted")
    resource = volume(lab)
    primary(resource, resource.on("hv-1"), (), "")
    for peer in resource.on("hv-2").peers.values():
        resource.links.disconnect(resource.on("hv-2"), peer)
    assert resource.on("hv-2").disk == "Outdated"
    primary(resource, resource.on("hv-2"), (), "")
    assert resource.on("hv-2").role == "Primary"


def test_the_same_is_refused_in_a_lab_without_faults(faulty: Make) -> None:
    resource = volume(faulty("drbd-verify-blind"))
    primary(resource, resource.on("hv-1"), (), "")
    for peer in resource.on("hv-2").peers.values():
        resource.links.disconnect(resource.on("hv-2"), peer)
    with pytest.raises(Refused):
        primary(resource, resource.on("hv-2"), (), "")


def test_a_verify_is_blind(faulty: Make) -> None:
    lab = faulty("drbd-verify-blind")
    resource = volume(lab)
    resource.on("hv-2").data.write(0, b"y")
    resource.syncs.verify(resource.on("hv-1"), resource.on("hv-1").peers[1])
    lab.run(30)
    assert not resource.on("hv-1").peers[1].out_of_sync


def test_a_node_without_its_disk_fails_its_io(faulty: Make) -> None:
    resource = volume(faulty("drbd-no-remote-io"))
    primary(resource, resource.on("hv-1"), (), "")
    resource.io.detach(resource.on("hv-1"))
    assert write(resource, "hv-1") == ["Input/output error"]


def test_every_claim_about_a_volume_is_broken_by_some_fault() -> None:
    broken = {claim for fault in FAULTS.values() for claim in fault.breaks}
    # a split brain does not come about on three replicas with a quorum
    assert (ALL_TRIALS | {"storage-ok"}) - {"drbd-split-brain"} <= broken


def test_the_volumes_option_fails_what_the_class_suspends(faulty: Make) -> None:
    lab = faulty("drbd-fails-without-quorum")
    resource = volume(lab)
    primary(resource, resource.on("hv-1"), (), "")
    for other in ("hv-2", "hv-3"):
        lab.world.storage.cut("hv-1", other, carrier=False)
    lab.run(30)
    assert write(resource, "hv-1") == ["Input/output error"]
    klass = lab.world.management.find("storage.k8s.io/v1", "StorageClass", "", "replicated")
    assert klass["parameters"][storage.QUORUM] == "suspend-io"
