"""LINSTOR's view of the lab: where volumes are, what is free, what satellites told, what fits."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from harness.twin.engine import Engine
from harness.twin.world import conditions, drbd_verbs, pods
from harness.twin.world.linstor import ErrorReport
from harness.twin.world.linstor_rest import Reply, Rest
from harness.twin.world.objects import PIRAEUS, STORAGE
from harness.twin.world.world import World

SPACE = "cozy-linstor"
GIB = 2**20  # KiB


class Asked:
    """A lab's LINSTOR, asked as its REST API is."""

    def __init__(self, lab: Any) -> None:
        self.lab, self.linstor = lab, lab.world.linstor
        self._rest = Rest(lab.world, lab.world.linstor)

    def reply(self, path: str, method: str = "GET", body: Any = None, **query: Any) -> Reply:
        data = b"" if body is None else json.dumps(body).encode()
        return self._rest.answer(method, path, urlencode(query, doseq=True), data)

    def get(self, path: str, **query: Any) -> Any:
        reply = self.reply(path, **query)
        assert reply.status == 200, reply
        return reply.value

    def resource(self, name: str, host: str) -> Any:
        (found,) = self.get("/v1/view/resources", resources=name, nodes=host)
        return found

    def free(self, host: str) -> int:
        return int(self.get(f"/v1/nodes/{host}/storage-pools/data")["free_capacity"])

    def status(self, host: str) -> str:
        return str(self.get(f"/v1/nodes/{host}")["connection_status"])

    def klass(self, name: str) -> Any:
        return self.lab.management.find(STORAGE, "StorageClass", "", name)

    def refusal(self, size: int, klass: str = "replicated") -> str:
        return str(self.linstor.refusal("pvc-next", size * 1024, self.klass(klass)))

    def volume(self, size: str = "10Gi", klass: str = "replicated", host: str = "") -> str:
        """A claim that gets its volume; the volume's name."""
        name = f"c{len(self.lab.management.all('v1', 'PersistentVolumeClaim'))}"
        notes = {"volume.kubernetes.io/selected-node": host} if host else {}
        body = {
            "metadata": {"name": name, "annotations": notes},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Block",
                "storageClassName": klass,
                "resources": {"requests": {"storage": size}},
            },
        }
        kind = self.lab.management.registry.by_kind("v1", "PersistentVolumeClaim")
        self.lab.management.create(kind, body, namespace="tenant-hil")
        self.lab.run(10)
        found = self.lab.management.find("v1", "PersistentVolumeClaim", "tenant-hil", name)
        return str(found["spec"].get("volumeName", ""))

    def delete(self, volume: str) -> None:
        found = self.lab.management.find("v1", "PersistentVolume", "", volume)
        claim = found["spec"]["claimRef"]
        kind = self.lab.management.registry.by_kind("v1", "PersistentVolumeClaim")
        self.lab.management.delete(kind, claim["namespace"], claim["name"])
        self.lab.run(1)

    def satellite(self, host: str) -> Any:
        (found,) = [
            one
            for one in self.lab.management.all("v1", "Pod", SPACE)
            if one["spec"]["nodeName"] == host
        ]
        return found

    def unready(self, host: str) -> None:
        """The satellite's process on a host ends, and does not come up again."""
        now = self.lab.engine.now
        self.lab.world.cluster.status(
            self.satellite(host),
            lambda stored: conditions.write(
                stored, now, conditions.false("Ready", "ContainersNotReady", "")
            ),
            manager="kubelet",
        )

    def available(self, host: str) -> str:
        found = self.lab.management.find(PIRAEUS, "LinstorSatellite", "", host)
        return str(conditions.find(found, "Available")["status"])


@pytest.fixture
def asked(lab: Any) -> Asked:
    lab.run(1)
    return Asked(lab)


# -- capacity


def test_each_copy_takes_its_size_and_drbds_own_in_its_nodes_pool(asked: Asked) -> None:
    before = [asked.free(host) for host in ("hv-1", "hv-2", "hv-3")]
    name = asked.volume("10Gi")
    shown = asked.resource(name, "hv-2")["volumes"][0]
    assert shown["usable_size_kib"] == 10 * GIB
    # seven bitmaps of 320 KiB and 36 KiB: 2276 KiB, in ZFS' blocks of 16
    assert shown["allocated_size_kib"] == 10 * GIB + 2288
    after = [asked.free(host) for host in ("hv-1", "hv-2", "hv-3")]
    assert [a - b for a, b in zip(before, after, strict=True)] == [10 * GIB + 2288] * 3


def test_a_local_volume_is_on_the_node_that_was_chosen_and_bare(asked: Asked) -> None:
    before = {host: asked.free(host) for host in ("hv-1", "hv-2", "hv-3")}
    name = asked.volume("10Gi", "local", "hv-2")
    after = {host: asked.free(host) for host in before}
    assert {h: before[h] - after[h] for h in before} == {"hv-1": 0, "hv-2": 10 * GIB, "hv-3": 0}
    (found,) = asked.get("/v1/view/resources", resources=name)
    assert found["node_name"] == "hv-2" and found["layer_object"]["type"] == "STORAGE"
    assert found["volumes"][0]["state"] == {"disk_state": "Created"}
    assert "state" not in found


def test_zfs_gives_space_back_later(asked: Asked) -> None:
    asked.lab.world.timings.override("zfs.free", 30.0)
    name = asked.volume("10Gi")
    full = asked.free("hv-1")
    asked.delete(name)
    assert asked.get("/v1/view/resources", resources=name) == []
    assert asked.free("hv-1") == full
    asked.lab.run(30)
    assert asked.free("hv-1") == full + 10 * GIB + 2288


def test_what_does_not_fit_is_refused_with_linstors_words(asked: Asked) -> None:
    free = asked.free("hv-1")
    assert asked.refusal(free - 2**16) == ""
    told = asked.refusal(free)
    assert told.startswith('failed to provision volume with StorageClass "replicated": rpc error')
    for part in (
        "CreateVolume failed for pvc-next",
        "Message: 'Not enough available nodes'",
        f"at least '{free}' free space",
        "storage pool named [data]",
        "Replica count: 3",
    ):
        assert part in told
    assert asked.refusal(free, "local") == ""  # without DRBD's own it does


def test_space_that_is_not_freed_yet_is_not_there(asked: Asked) -> None:
    asked.lab.world.timings.override("zfs.free", 30.0)
    asked.delete(asked.volume("150Gi"))
    assert "Not enough available nodes" in asked.refusal(100 * GIB)
    asked.lab.run(30)
    assert asked.refusal(100 * GIB) == ""


def test_a_claim_waits_until_there_is_room(asked: Asked) -> None:
    asked.lab.world.timings.override("zfs.free", 30.0)
    large = asked.volume("150Gi")
    assert asked.volume("100Gi") == ""
    said = asked.lab.events("ProvisioningFailed")
    assert said and "Not enough available nodes" in said[0]["message"]
    asked.delete(large)

    def bound() -> bool:
        found = asked.lab.management.find("v1", "PersistentVolumeClaim", "tenant-hil", "c2")
        return bool(found and (found.get("status") or {}).get("phase") == "Bound")

    asked.lab.run(20)
    assert not bound()  # the volume is gone, its space is not there yet
    asked.lab.run_until(bound, 400)


def test_a_class_wants_as_many_nodes_online_as_it_has_copies(asked: Asked) -> None:
    asked.lab.world.power.off("hv-3")
    assert asked.refusal(GIB) == ""  # nobody has missed it yet
    asked.lab.run(7)
    assert "Not enough available nodes" in asked.refusal(GIB)
    assert asked.refusal(GIB, "local") == ""


def test_a_volume_grows_where_there_is_room(asked: Asked) -> None:
    name = asked.volume("10Gi")
    before = asked.free("hv-3")
    assert asked.linstor.refusal_to_grow(name, 20 * 2**30) == ""
    told = asked.linstor.refusal_to_grow(name, 500 * 2**30)
    assert "storage pool 'data' on node 'hv-1' does not have enough free space" in told
    asked.lab.management.edit(
        "v1",
        "PersistentVolumeClaim",
        "tenant-hil",
        "c1",
        lambda stored: stored["spec"]["resources"]["requests"].update(storage="20Gi"),
        manager="someone",
    )
    asked.lab.run(30)
    assert asked.resource(name, "hv-3")["volumes"][0]["usable_size_kib"] == 20 * GIB
    assert asked.lab.world.storage.resources[name].size == 20 * GIB
    assert before - asked.free("hv-3") == 10 * GIB + 2240


def test_capacity_objects_follow_within_a_minute_or_so(asked: Asked) -> None:
    def told() -> dict[tuple[str, str], str]:
        return {
            (one["storageClassName"], one["nodeTopology"].get("matchLabels", {}).get(
                "linbit.com/hostname", "")): one["capacity"]
            for one in asked.lab.management.all(STORAGE, "CSIStorageCapacity", SPACE)
        }  # fmt: skip

    before = told()
    assert before.keys() == {("replicated", ""), *(("local", f"hv-{i}") for i in (1, 2, 3))}
    asked.volume("10Gi", "local", "hv-2")
    asked.lab.run(61)
    after = told()
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {("local", "hv-2"), ("replicated", "")}
    assert after["local", "hv-2"] == f"{asked.free('hv-2')}Ki"


# -- nodes


def test_a_process_that_ends_is_seen_at_once_and_comes_back(asked: Asked) -> None:
    pod = asked.satellite("hv-2")
    kind = asked.lab.management.registry.by_kind("v1", "Pod")
    asked.lab.management.delete(kind, SPACE, pod["metadata"]["name"])
    asked.lab.run_until(lambda: asked.status("hv-2") == "OFFLINE", 5)
    lost = asked.get("/v1/view/resources", nodes="hv-2")
    assert lost and not [one for one in lost if "state" in one or "state" in one["volumes"][0]]
    asked.lab.run_until(lambda: asked.available("hv-2") == "False", 11)
    asked.lab.run_until(lambda: asked.status("hv-2") == "CONNECTED", 30)
    asked.lab.run_until(lambda: asked.status("hv-2") == "ONLINE", 1)
    asked.lab.run_until(lambda: asked.available("hv-2") == "True", 11)


def test_satellites_that_were_never_ready_are_no_nodes(lab: Any) -> None:
    for host in ("hv-1", "hv-2", "hv-3"):
        Asked(lab).unready(host)
    lab.run(15)
    asked = Asked(lab)
    assert asked.get("/v1/nodes") == [] == asked.get("/v1/view/storage-pools")
    assert asked.get("/v1/view/resources") == []
    assert [asked.available(host) for host in ("hv-1", "hv-2", "hv-3")] == ["False"] * 3
    assert "no available topology found" in asked.refusal(GIB)
    now = lab.engine.now
    pod = asked.satellite("hv-1")
    lab.world.cluster.status(pod, lambda one: pods.running(one, "192.168.100.11", now),
                             manager="kubelet")  # fmt: skip
    lab.run(15)
    assert [one["name"] for one in asked.get("/v1/nodes")] == ["hv-1"]
    assert asked.available("hv-1") == "True"


def test_a_satellite_that_nobody_wants_any_more_is_no_node(asked: Asked) -> None:
    kind = asked.lab.management.registry.by_kind(PIRAEUS, "LinstorSatellite")
    asked.lab.management.delete(kind, "", "hv-3")
    asked.lab.run(60)
    assert [one["name"] for one in asked.get("/v1/nodes")] == ["hv-1", "hv-2"]


def test_a_short_pause_is_not_noticed_and_a_long_one_is(asked: Asked) -> None:
    asked.lab.world.power.pause("hv-3")
    asked.lab.run(3)
    asked.lab.world.power.resume("hv-3")
    asked.lab.run(20)
    assert asked.status("hv-3") == "ONLINE" and asked.available("hv-3") == "True"
    asked.lab.world.power.pause("hv-3")
    asked.lab.run(30)
    assert asked.status("hv-3") == "OFFLINE" and asked.available("hv-3") == "False"
    asked.lab.world.power.resume("hv-3")
    asked.lab.run(30)
    assert asked.status("hv-3") == "ONLINE" and asked.available("hv-3") == "True"


# -- what the controller knows of DRBD


def test_states_of_a_volume_in_order(asked: Asked) -> None:
    name = asked.volume()
    found = asked.resource(name, "hv-1")
    drbd = found["layer_object"]["drbd"]
    assert drbd["connections"] == {
        "hv-2": {"connected": True, "message": "Connected"},
        "hv-3": {"connected": True, "message": "Connected"},
    }
    assert (drbd["may_promote"], drbd["promotion_score"]) == (True, 10103)
    assert found["state"] == {"in_use": False}
    state = found["volumes"][0]["state"]
    assert state["disk_state"] == "UpToDate"
    assert state["replication_states"]["hv-3"] == {"replication_state": "Established"}
    assert found["volumes"][0]["device_path"] == "/dev/drbd1001"
    assert found["create_timestamp"] % 1 == 0 and found["create_timestamp"] > 1767225600000


def test_a_change_is_told_a_little_later(asked: Asked) -> None:
    asked.lab.world.timings.override("linstor.report", 0.4)
    name = asked.volume()
    resource = asked.lab.world.storage.resources[name]
    assert resource.io.open(resource.replicas[0], writes=True) == ""
    assert asked.resource(name, "hv-1")["state"] == {"in_use": False}
    asked.lab.run(0.4)
    assert asked.resource(name, "hv-1")["state"] == {"in_use": True}
    assert asked.resource(name, "hv-2")["layer_object"]["drbd"]["may_promote"] is False


def test_a_connection_that_is_lost_takes_what_it_told_along(asked: Asked) -> None:
    name = asked.volume()
    asked.lab.world.power.off("hv-3")
    asked.lab.run(3)
    # DRBD knows already, LINSTOR still believes what it heard last
    assert asked.resource(name, "hv-3")["volumes"][0]["state"]["disk_state"] == "UpToDate"
    asked.lab.run(4)
    lost = asked.resource(name, "hv-3")
    assert "state" not in lost and "state" not in lost["volumes"][0]
    assert "connections" not in lost["layer_object"]["drbd"]
    assert lost["volumes"][0]["reports"][0]["message"].endswith("satellite 'hv-3'")
    asked.lab.run(15)  # DRBD's own pings are ten seconds apart
    seen = asked.resource(name, "hv-1")["layer_object"]["drbd"]["connections"]
    assert seen["hv-2"]["connected"] and seen["hv-3"] == {
        "connected": False, "message": "Connecting"}  # fmt: skip


def test_what_a_satellite_that_hangs_told_last_stands(asked: Asked) -> None:
    name, free = asked.volume(), asked.free("hv-1")
    asked.linstor.hang("hv-1")
    asked.lab.world.storage.cut("hv-1", "hv-2", carrier=False)
    asked.volume("5Gi")
    asked.lab.run(10)
    assert asked.status("hv-1") == "ONLINE" and asked.free("hv-1") == free
    stale = asked.resource(name, "hv-1")["layer_object"]["drbd"]["connections"]["hv-2"]
    fresh = asked.resource(name, "hv-2")["layer_object"]["drbd"]["connections"]["hv-1"]
    assert stale["connected"] and not fresh["connected"]
    asked.linstor.recover("hv-1")
    told = asked.resource(name, "hv-1")["layer_object"]["drbd"]["connections"]["hv-2"]
    assert not told["connected"] and asked.free("hv-1") < free


def test_how_far_a_resync_has_come(asked: Asked) -> None:
    name = asked.volume("64Gi")
    resource = asked.lab.world.storage.resources[name]
    drbd_verbs.invalidate(resource, resource.replicas[2], (), "")
    asked.lab.run(60)
    state = asked.resource(name, "hv-3")["volumes"][0]["state"]
    assert state["disk_state"] == "Inconsistent"
    syncing = [one for one in state["replication_states"].values() if "done_percentage" in one]
    (one,) = syncing
    assert one["replication_state"] == "SyncTarget" and 0 < one["done_percentage"] < 100
    asked.lab.run(60)
    state = asked.resource(name, "hv-3")["volumes"][0]["state"]["replication_states"]
    assert max(each.get("done_percentage", 0) for each in state.values()) > one["done_percentage"]
    asked.lab.run(1200)
    state = asked.resource(name, "hv-3")["volumes"][0]["state"]
    assert state["disk_state"] == "UpToDate"
    assert not [one for one in state["replication_states"].values() if "done_percentage" in one]


def test_a_resource_that_is_down_in_the_kernel_has_no_state(asked: Asked) -> None:
    name = asked.volume()
    resource = asked.lab.world.storage.resources[name]
    drbd_verbs.down(resource, resource.replicas[1], (), "")
    asked.lab.run(2)
    assert "state" not in asked.resource(name, "hv-2")["volumes"][0]
    drbd_verbs.up(resource, resource.replicas[1], (), "")
    asked.lab.run(20)
    assert asked.resource(name, "hv-2")["volumes"][0]["state"]["disk_state"] == "UpToDate"


def test_a_replica_that_was_taken_away_is_nowhere_and_takes_nothing(asked: Asked) -> None:
    asked.lab.world.timings.override("zfs.free", 30.0)
    before = asked.free("hv-3")
    name = asked.volume()
    resource = asked.lab.world.storage.resources[name]
    resource.drop(resource.replicas[2])
    asked.lab.run(31)
    found = asked.get("/v1/view/resources", resources=name)
    assert [one["node_name"] for one in found] == ["hv-1", "hv-2"]
    assert list(found[0]["layer_object"]["drbd"]["connections"]) == ["hv-2"]
    assert asked.free("hv-3") == before


# -- definitions, groups, sizes


def test_a_definition_names_its_group_and_what_quorum_it_wants(asked: Asked) -> None:
    name = asked.volume("10Gi")
    found = asked.get(f"/v1/resource-definitions/{name.upper()}", with_volume_definitions="true")
    assert found["volume_definitions"][0]["size_kib"] == 10 * GIB
    assert found["props"]["DrbdOptions/Resource/quorum"] == "majority"
    assert found["props"]["DrbdOptions/Resource/on-no-quorum"] == "suspend-io"
    group = asked.get(f"/v1/resource-groups/{found['resource_group_name']}")
    assert group["select_filter"]["place_count"] == 3
    assert group["select_filter"]["storage_pool"] == "data"
    assert "volume_definitions" not in asked.get(f"/v1/resource-definitions/{name}")


def _group(asked: Asked) -> str:
    (found,) = [
        one["name"]
        for one in asked.get("/v1/resource-groups")
        if one["select_filter"]["place_count"] == 3
    ]
    return str(found)


def test_the_largest_volume_is_what_every_copy_has_room_for(asked: Asked) -> None:
    asked.volume("50Gi", "local", "hv-2")
    path = f"/v1/resource-groups/{_group(asked)}"
    answer = asked.get(f"{path}/query-max-volume-size")
    (one,) = answer["candidates"]
    assert one["max_volume_size_kib"] == asked.free("hv-2") < asked.free("hv-1")
    assert one["node_names"] == ["hv-1", "hv-2", "hv-3"] and one["all_thin"] is False
    info = asked.reply(f"{path}/query-size-info", "POST", {}).value["space_info"]
    assert info["max_vlm_size_in_kib"] == asked.free("hv-2")
    assert info["capacity_in_kib"] == 200 * GIB and len(info["next_spawn_result"]) == 3
    fewer = {"select_filter": {"place_count": 2}}
    info = asked.reply(f"{path}/query-size-info", "POST", fewer).value["space_info"]
    assert info["max_vlm_size_in_kib"] == asked.free("hv-1")


def test_sizes_with_too_few_nodes(asked: Asked) -> None:
    asked.lab.world.power.off("hv-3")
    asked.lab.run(7)
    path = f"/v1/resource-groups/{_group(asked)}"
    reply = asked.reply(f"{path}/query-max-volume-size")
    assert reply.status == 500 and reply.value[0]["message"] == "Not enough nodes"
    info = asked.reply(f"{path}/query-size-info", "POST", {}).value["space_info"]
    assert info["max_vlm_size_in_kib"] == 0 and "next_spawn_result" not in info
    unknown = asked.reply("/v1/resource-groups/none/query-size-info", "POST", {})
    assert unknown.status == 200 and "space_info" not in unknown.value
    wrong = asked.reply(f"{path}/query-size-info", "POST", {"select_filter": {"place_count": "x"}})
    assert wrong.status == 400


def test_pages_begin_where_asked_only_with_a_limit(asked: Asked) -> None:
    whole = asked.get("/v1/view/resources")
    assert len(whole) == 3
    assert asked.get("/v1/view/resources", offset=2) == whole
    assert asked.get("/v1/view/resources", offset=1, limit=1) == whole[1:2]


def test_error_reports_are_filtered_and_newest_first(asked: Asked) -> None:
    now = asked.lab.engine.now
    asked.linstor.error_reports += [
        ErrorReport("Controller", now - 60, "ApiRcException", "first"),
        ErrorReport("hv-2", now, "StorageException", "second"),
    ]
    found = asked.get("/v1/error-reports")
    assert [one["exception_message"] for one in found] == ["second", "first"]
    assert found[0]["error_time"] == round(now * 1000)
    assert [one["node_name"] for one in asked.get("/v1/error-reports", node="hv-2")] == ["hv-2"]
    assert len(asked.get("/v1/error-reports", since=round(now * 1000) - 1)) == 1
    assert len(asked.get("/v1/error-reports", limit=1)) == 1


def test_equal_labs_give_equal_answers_and_other_seeds_other_names(lab: Any) -> None:
    def told(seed: int) -> list[Any]:
        other = _another(lab, seed)
        other.run(1)
        asked = Asked(other)
        asked.volume()
        other.world.power.off("hv-2")
        other.run(20)
        paths = ("nodes", "view/storage-pools", "view/resources", "resource-definitions")
        return [asked.get(f"/v1/{path}") for path in paths]

    first = told(1)
    assert first == told(1)
    assert first[0][0]["uuid"] != told(2)[0][0]["uuid"]


def _another(lab: Any, seed: int = 1) -> Any:
    """A lab of its own, in which no time has passed."""
    engine = Engine()
    return type(lab)(World(engine, seed=seed), engine)
