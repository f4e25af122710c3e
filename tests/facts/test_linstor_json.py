from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Fact, Unread
from harness.facts.linstor import (
    LinstorConnection,
    LinstorError,
    LinstorErrors,
    LinstorNode,
    LinstorNodes,
    LinstorPool,
    LinstorPools,
    LinstorReplication,
    LinstorResources,
    LinstorVersion,
    LinstorVolume,
)
from harness.facts.linstor_json import (
    read_errors,
    read_nodes,
    read_pools,
    read_resources,
    read_version,
)
from tests.facts.linstor_texts import AT, ERROR, SENTINEL, diskless, node, pool, resource

READERS: list[Callable[..., Fact]] = [read_nodes, read_pools, read_resources, read_errors]
ALL = [*READERS, read_version]
WELL: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "nodes": (read_nodes, [node("n1"), node("n2", "OFFLINE", flags=["EVICTED"])]),
    "pools": (read_pools, [pool("n1", 1000), diskless("n1"), pool("n2", None)]),
    "resources": (read_resources, [resource("pvc-1", "n1"), resource("pvc-1", "n2")]),
    "errors": (read_errors, [{"error_time": 1000, "node_name": "Controller"}]),
}


def test_nodes() -> None:
    found = read_nodes(json.dumps(WELL["nodes"][1]), AT)
    assert found == LinstorNodes(
        AT,
        (
            LinstorNode("n1", "Satellite", "ONLINE"),
            LinstorNode("n2", "Satellite", "OFFLINE", ("EVICTED",)),
        ),
    )
    assert isinstance(found, LinstorNodes)
    assert found.find("n2") is found.nodes[1]
    assert found.find("n3") is None


def test_no_node_is_an_answer() -> None:
    assert read_nodes("[]", AT) == LinstorNodes(AT, ())


def test_pools_in_kib_and_what_is_missing_is_not_known() -> None:
    listed = [
        pool("n1", 1000),
        diskless("n1"),
        pool("n2", None),
        pool("n3", SENTINEL),
        pool("n4", 0),
    ]
    found = read_pools(json.dumps(listed), AT)
    assert isinstance(found, LinstorPools)
    assert found.pools[0] == LinstorPool("data", "n1", "ZFS", 1000, 209715200)
    assert [one.free for one in found.pools] == [1000, None, None, None, 0]
    assert [one.diskless for one in found.pools] == [False, True, False, False, False]
    assert found.pools[1].total is None
    assert found.whole


@pytest.mark.parametrize("free", [-1, 1.5, "1000", True, None, [], SENTINEL, SENTINEL + 1])
def test_capacity_that_is_none_is_not_known(free: Any) -> None:
    found = read_pools(json.dumps([{**pool("n1", 0), "free_capacity": free}]), AT)
    assert isinstance(found, LinstorPools)
    assert found.pools[0].free is None


def test_errors_of_a_pool_are_told_and_its_warnings_are_not() -> None:
    lost = {"ret_code": ERROR + 5, "message": "No active\n connection to satellite 'n2'"}
    reports = [lost, {"ret_code": -9223372036854775808, "message": "a warning"}, {"ret_code": 1}, 7]
    found = read_pools(json.dumps([pool("n2", None, reports=reports)]), AT)
    assert isinstance(found, LinstorPools)
    assert found.pools[0].errors == ("No active connection to satellite 'n2'",)


def test_resources() -> None:
    said = resource(
        "pvc-1",
        "n2",
        disk="Inconsistent",
        connections={"n1": "Connected", "n3": "StandAlone"},
        replications={"n1": ("SyncTarget", 43.1)},
    )
    found = read_resources(json.dumps([said]), AT)
    assert isinstance(found, LinstorResources)
    (one,) = found.of("pvc-1")
    assert (one.node, one.in_use, one.drbd, one.flags, one.whole) == ("n2", False, True, (), True)
    assert one.connections == (
        LinstorConnection("n1", connected=True, message="Connected"),
        LinstorConnection("n3", connected=False, message="StandAlone"),
    )
    towards = (LinstorReplication("n1", "SyncTarget", 43.1),)
    assert one.volumes == (
        LinstorVolume(0, "data", "ZFS", "Inconsistent", 20975884, 20971520, towards),
    )
    assert one.connection("n3") == one.connections[1]
    assert one.connection("n4") is None
    assert one.volume(1) is None
    assert found.of("pvc-2") == ()


def test_of_a_node_that_is_lost_nothing_is_known() -> None:
    bare = {"name": "pvc-1", "node_name": "n3", "volumes": [{"volume_number": 0}]}
    found = read_resources(json.dumps([bare]), AT)
    assert isinstance(found, LinstorResources)
    (one,) = found.replicas
    assert (one.in_use, one.drbd, one.connections, one.whole) == (None, False, (), True)
    assert one.volumes == (LinstorVolume(0),)


def test_layer_of_drbd_is_found_below_others() -> None:
    inner = resource("pvc-1", "n1")["layer_object"]
    said = {**resource("pvc-1", "n1"), "layer_object": {"type": "CACHE", "children": [inner]}}
    found = read_resources(json.dumps([said]), AT)
    assert isinstance(found, LinstorResources)
    assert len(found.replicas[0].connections) == 2
    plain = {**said, "layer_object": {"type": "STORAGE"}}
    found = read_resources(json.dumps([plain]), AT)
    assert isinstance(found, LinstorResources)
    assert not found.replicas[0].drbd


@pytest.mark.parametrize("flag", ["DISKLESS", "DRBD_DISKLESS", "TIE_BREAKER"])
def test_flags_of_a_replica_without_a_disk(flag: str) -> None:
    found = read_resources(json.dumps([resource("a", "n1", flags=(flag,))]), AT)
    assert isinstance(found, LinstorResources)
    assert found.replicas[0].diskless
    found = read_resources(json.dumps([resource("a", "n1", flags=("RSC_AUX",))]), AT)
    assert isinstance(found, LinstorResources)
    assert not found.replicas[0].diskless


@pytest.mark.parametrize(
    "broken",
    [
        {"volumes": None},
        {"volumes": []},
        {"volumes": [7]},
        {"volumes": [{"volume_number": "0"}]},
        {"volumes": [{"volume_number": 0, "state": {"replication_states": {"n2": 7}}}]},
        {"volumes": [{"volume_number": 0, "state": {"replication_states": []}}]},
        {"layer_object": {"drbd": {"connections": {"n2": "Connected"}}}},
        {"layer_object": {"drbd": {"connections": ["n2"]}}},
    ],
)
def test_replica_with_a_part_that_is_not_understood_is_not_whole(broken: Any) -> None:
    found = read_resources(json.dumps([{**resource("pvc-1", "n1"), **broken}]), AT)
    assert isinstance(found, LinstorResources)
    assert (found.whole, found.replicas[0].whole, found.strange) == (False, False, ())


def test_error_reports_oldest_first() -> None:
    listed = [
        {"error_time": 2500, "node_name": "n1", "exception_message": "full", "filename": "E-2.log"},
        {"error_time": 1000, "exception": "StorageException"},
    ]
    found = read_errors(json.dumps(listed), AT)
    assert found == LinstorErrors(
        AT,
        (LinstorError(1.0, "", "StorageException"), LinstorError(2.5, "n1", "full", "E-2.log")),
    )


def test_version() -> None:
    said = json.dumps({"version": "1.31.3", "rest_api_version": "1.26.0", "git_hash": "x"})
    assert read_version(said, AT) == LinstorVersion(AT, "1.31.3", "1.26.0")
    assert read_version('{"version": "1.31.3"}', AT) == LinstorVersion(AT, "1.31.3", "")


@pytest.mark.parametrize("text", ["{}", "[]", '{"version": 3}', "3", '"1.31"', "", "null"])
def test_version_that_is_none(text: str) -> None:
    assert isinstance(read_version(text, AT), Unread)


@pytest.mark.parametrize("kind", WELL)
def test_what_the_command_line_prints_is_the_same(kind: str) -> None:
    read, said = WELL[kind]
    pasted = "\ufeff" + json.dumps([said], indent=2).replace("\n", "\r\n") + "\r\n"
    assert read(pasted, AT) == read(json.dumps(said), AT)


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "3",
        '"text"',
        "{}",
        '{"message": "x"}',
        "[7]",
        "[[7]]",
        "[null, {}]",
        '[{"ret_code": -4611686018427387904, "message": "Access denied"}]',
        '[{"stor_pools": [{"stor_pool_name": "data", "node_name": "n1"}]}]',
        "<html>",
        "[" * 100000,
    ],
)
def test_what_is_no_list_of_them_is_unread(read: Callable[..., Fact], text: str) -> None:
    found = read(text, AT)
    assert isinstance(found, Unread)
    assert found.origin is AT
    assert found.reason


def test_message_in_the_place_of_an_answer_is_quoted() -> None:
    found = read_pools('[{"ret_code": -46, "message": "Access denied"}]', AT)
    assert isinstance(found, Unread)
    assert "Access denied" in found.reason


@pytest.mark.parametrize("kind", WELL)
def test_entry_that_is_none_is_quoted_beside_the_others(kind: str) -> None:
    read, said = WELL[kind]
    found = read(json.dumps([*said, {"odd": "one"}]), AT)
    assert not isinstance(found, Unread)
    assert not found.whole
    assert found.strange == ('\'{"odd": "one"}\'',)


@pytest.mark.parametrize("kind", WELL)
def test_cut_anywhere_it_is_unread_and_quoted(kind: str) -> None:
    read, said = WELL[kind]
    text = json.dumps(said)
    for end in range(len(text)):
        found = read(text[:end], AT)
        assert isinstance(found, Unread), text[:end]
        assert "no JSON" in found.reason


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(text=st.text(), read=st.sampled_from(ALL))
def test_any_text_is_read_or_unread(text: str, read: Callable[..., Fact]) -> None:
    assert isinstance(read(text, AT), Fact)


@given(data=st.data(), kind=st.sampled_from(sorted(WELL)))
def test_any_wrong_type_anywhere_is_met(data: st.DataObject, kind: str) -> None:
    """One value somewhere is replaced: nothing raises, and no capacity comes out of it as zero."""
    read, said = WELL[kind]
    document = json.loads(json.dumps(said))
    target: Any = document
    while True:
        keys = list(target) if isinstance(target, dict) else list(range(len(target)))
        key = data.draw(st.sampled_from(keys))
        inner = target[key]
        deeper = isinstance(inner, (dict, list)) and bool(inner)
        if not deeper or data.draw(st.booleans()):
            break
        target = inner
    if data.draw(st.booleans()) and isinstance(target, dict):
        del target[key]
    else:
        target[key] = data.draw(JSON)
    found = read(json.dumps(document), AT)
    assert isinstance(found, Fact)
    if isinstance(found, LinstorPools):
        zeros = [one for one in found.pools if one.free == 0]
        assert len(zeros) == sum(
            isinstance(one, dict)
            and type(one.get("free_capacity")) is int
            and one["free_capacity"] == 0
            and one.get("provider_kind") != "DISKLESS"
            for one in document
        )
