from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.facts.drbd import (
    NO_RESOURCE,
    NOT_SAID,
    NOTHING,
    DrbdAbsent,
    DrbdDevice,
    DrbdPeer,
    DrbdPeerDevice,
    DrbdResource,
    DrbdStatus,
)
from harness.facts.drbd8 import read_status8
from harness.facts.drbd9 import read_status9
from harness.facts.fact import Unread
from tests.facts.drbd_texts import (
    CAPTURES,
    MISSING,
    NO_SUCH,
    answer,
    captured,
    captured_output,
    json9,
    peer9,
    status9,
)

KIB = 1024


def status(text: str) -> DrbdStatus:
    found = status9(text)
    assert isinstance(found, DrbdStatus), found
    return found


def changed(**keys: Any) -> DrbdResource:
    """The healthy resource with keys of its own set, or left out where None."""
    said = json.loads(json9(0))
    for key, value in keys.items():
        said[0].pop(key.replace("_", "-"))
        if value is not None:
            said[0][key.replace("_", "-")] = value
    return status(json.dumps(said)).resources[0]


def test_a_captured_status() -> None:
    found = status(json9(0))
    assert (found.node, found.version, found.generation) == ("n1", "9.2.14", 9)
    assert found.whole and not found.strange and not found.disagreements
    device = DrbdDevice(0, 0, "UpToDate", 65496 * KIB, True, False)
    towards = DrbdPeerDevice(0, "Established", "UpToDate", False, 0, None, ())
    peers = tuple(
        DrbdPeer(f"n{node + 1}", node, "Connected", "Secondary", (towards,)) for node in (1, 2)
    )
    expected = DrbdResource("r0", "Primary", 0, (), False, (device,), peers)
    assert found.resources == (expected,)
    assert found.origin.raw == json9(0)
    assert (found.origin.at, found.origin.source) == (2.0, "guest n1:drbdsetup status")


def test_a_resource_without_quorum() -> None:
    resource = status(json9(0, suspended="true", quorum="false")).resources[0]
    assert resource.suspended == ("quorum",)
    assert resource.devices[0].quorum is False


def test_a_resync() -> None:
    said = json.loads(json9(0, peer9(1, replication="SyncSource", disk="Inconsistent", oos=2052)))
    said[0]["connections"][0]["peer_devices"][0]["percent-resync-done"] = 75.23
    towards = status(json.dumps(said)).resources[0].peers[0].devices[0]
    assert (towards.replication, towards.out_of_sync, towards.done) == (
        "SyncSource",
        2052 * KIB,
        75.23,
    )


@pytest.mark.parametrize(
    ("flags", "suspended"),
    [
        ({}, ()),
        ({"suspended": True}, (NOT_SAID,)),
        ({"suspended": True, "suspended_user": True}, ("user",)),
        ({"suspended": None}, ()),
        ({"suspended": None, "suspended_user": None}, None),
        ({"suspended": None, "suspended_user": None, "suspended_quorum": True}, ("quorum",)),
        ({"suspended": "no"}, ()),
        ({"suspended": "no", "suspended_user": "no"}, None),
        ({"suspended_no_data": True, "suspended_fencing": True}, ("no-data", "fencing")),
    ],
)
def test_suspended(flags: dict[str, Any], suspended: tuple[str, ...] | None) -> None:
    assert changed(**flags).suspended == suspended


def test_an_older_9_says_less_and_that_is_not_known() -> None:
    said = json.loads(json9(0))
    for key in ("node-id", "force-io-failures", "role"):
        said[0].pop(key)
    for key in ("quorum", "client", "size", "minor", "disk-state"):
        said[0]["devices"][0].pop(key)
    for key in ("out-of-sync", "peer-client", "resync-suspended", "replication-state"):
        said[0]["connections"][0]["peer_devices"][0].pop(key)
    resource = status(json.dumps(said)).resources[0]
    assert (resource.node_id, resource.force_io_failures, resource.role) == (None, None, "")
    assert resource.devices == (DrbdDevice(0),)
    towards = resource.peers[0].devices[0]
    assert towards == DrbdPeerDevice(0, "", "UpToDate")
    assert resource.whole


def test_a_newer_9_says_more_and_that_is_let_pass() -> None:
    said = json.loads(json9(0))
    said[0]["quorum-nodes"] = 3
    said[0]["devices"][0]["backing_dev"] = "/dev/vda"
    said[0]["devices"][0]["blocked"] = "upper"
    said[0]["connections"][0]["paths"] = [{"established": True}]
    resource = status(json.dumps(said)).resources[0]
    assert (resource.devices[0].backing, resource.devices[0].blocked) == ("/dev/vda", "upper")
    assert resource.whole


@pytest.mark.parametrize("figure", [2**63 - 1, -1, "12", 1.5, True, None])
def test_a_figure_that_is_none_is_not_known(figure: object) -> None:
    said = json.loads(json9(0))
    said[0]["connections"][0]["peer_devices"][0]["out-of-sync"] = figure
    said[0]["devices"][0]["size"] = figure
    resource = status(json.dumps(said)).resources[0]
    assert resource.peers[0].devices[0].out_of_sync is None
    assert resource.devices[0].size is None


def _without(said: Any, *path: Any) -> None:
    for key in path[:-1]:
        said = said[key]
    del said[path[-1]]


@pytest.mark.parametrize(
    "path",
    [
        ("devices",),
        ("connections",),
        ("devices", 0, "volume"),
        ("connections", 1, "name"),
        ("connections", 1, "peer_devices"),
        ("connections", 1, "peer_devices", 0, "volume"),
    ],
    ids=lambda path: "/".join(map(str, path)),
)
def test_a_part_that_is_missing_leaves_the_resource_not_whole(path: tuple[Any, ...]) -> None:
    said = json.loads(json9(0))
    _without(said[0], *path)
    found = status(json.dumps(said))
    assert not found.whole
    assert not found.resources[0].whole
    assert found.resources[0].name == "r0"


@pytest.mark.parametrize("devices", [{}, "x", [7], [{"volume": -1}], [{"volume": "0"}]])
def test_a_part_of_another_shape_leaves_the_resource_not_whole(devices: object) -> None:
    found = changed(devices=devices)
    assert found.devices == ()
    assert not found.whole


def test_a_resource_without_a_name_is_quoted() -> None:
    said = [*json.loads(json9(0)), {"role": "Primary"}, 7]
    found = status(json.dumps(said))
    assert [one.name for one in found.resources] == ["r0"]
    assert found.strange == ("\"{'role': 'Primary'}\"", "'7'")
    assert not found.whole
    assert found.resources[0].whole


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (json9(0)[:-30], "it is no JSON"),
        ("", "it is no JSON"),
        ("{}", "no list of resources"),
        ("unrecognized option '--json'\n", "unrecognized option"),
        ("[" * 100_000, "it is no JSON"),
        ("[1" + "0" * 5000 + "]", "it is no JSON"),
    ],
)
def test_what_is_no_answer(text: str, said: str) -> None:
    found = status9(text)
    assert isinstance(found, Unread)
    assert found.asked == "drbdsetup status --json"
    assert said in found.reason


def test_another_end_than_0_is_no_answer() -> None:
    for code in (None, 20):
        found = read_status9(answer(json9(0), code), at=2.0, source="s", resource="r0")
        assert isinstance(found, Unread)


def test_no_such_resource() -> None:
    output = answer("[\n]\n\n", 10, NO_SUCH)
    found = read_status9(output, at=2.0, source="s", node="n1", version="9.2.14", resource="r0")
    assert isinstance(found, DrbdAbsent)
    assert (found.what, found.resource, found.node) == (NO_RESOURCE, "r0", "n1")
    assert (found.version, found.said) == ("9.2.14", NO_SUCH.strip())


@pytest.mark.parametrize(
    ("code", "stderr"), [(1, NO_SUCH), (10, "r00: No such resource\n"), (10, "no access\n")]
)
def test_another_complaint_is_no_absence(code: int, stderr: str) -> None:
    found = read_status9(answer("", code, stderr), at=2.0, source="s", resource="r0")
    assert isinstance(found, Unread)


def test_of_two_resources_one_that_is_not_whole_spoils_the_status() -> None:
    said = json.loads(json9(0)) + json.loads(json9(0))
    del said[1]["devices"]
    found = status(json.dumps(said))
    assert [one.whole for one in found.resources] == [True, False]
    assert not found.whole


def test_no_resource_at_all() -> None:
    found = status9("[\n]\n\n", resource="")
    assert isinstance(found, DrbdAbsent)
    assert (found.what, found.version) == (NOTHING, "9.2.14")


def test_nothing_listed_with_a_complaint_is_no_absence() -> None:
    output = answer("[\n]\n\n", 0, "access denied\n")
    found = read_status9(output, at=2.0, source="s")
    assert isinstance(found, Unread)
    assert "access denied" in found.reason


def test_colours_and_line_ends_of_a_terminal_are_let_pass() -> None:
    dirty = json9(0).replace("UpToDate", "\x1b[32mUpToDate\x1b[0m").replace("\n", "\r\n")
    assert status(dirty).resources == status(json9(0)).resources


@settings(deadline=None)
@given(st.integers(0, len(json9(0).rstrip()) - 1))
def test_a_prefix_is_no_answer(at: int) -> None:
    assert isinstance(status9(json9(0)[:at]), Unread)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "devices", "connections", "volume", "peer_devices", "size"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(deadline=None, max_examples=50)
@given(st.lists(JSON, max_size=3), st.text(max_size=40), st.integers(0, 2000))
def test_anything_is_read_without_an_error(said: list[Any], junk: str, at: int) -> None:
    status9(json.dumps(said))
    status9(json9(0)[:at] + junk + json9(0)[at:])


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=MISSING)
def test_every_capture_says_in_json_what_it_says_in_text() -> None:
    seen = 0
    for path in sorted(CAPTURES.glob("drbd9_[0-9][0-9]_*.txt")):
        if "sync" in path.stem:
            continue  # the figures move between the two commands
        for node in captured(path.stem):
            output = captured_output(path.stem, node, "drbdsetup status r0 --json")
            one = read_status9(output, at=1.0, source="s", resource="r0")
            command = "drbdsetup status r0 --verbose --statistics"
            text = captured_output(path.stem, node, command)
            other = read_status8(text, None, at=1.0, source="s", resource="r0")
            assert isinstance(one, DrbdStatus)
            assert isinstance(other, DrbdStatus)
            assert one.whole and other.whole
            assert plain(one.resources[0]) == plain(other.resources[0]), (path.stem, node)
            seen += 1
    assert seen > 20


def plain(resource: DrbdResource) -> object:
    """What JSON and text both say: text names no client, JSON neither disk below nor blocked."""
    return (
        resource.name,
        resource.role,
        resource.node_id,
        resource.suspended,
        resource.force_io_failures,
        [(one.volume, one.minor, one.disk_state, one.size, one.quorum) for one in resource.devices],
        [
            (
                (one.name, one.node_id, one.connection, one.role),
                [
                    (each.volume, each.replication, each.disk_state, each.out_of_sync)
                    for each in one.devices
                ],
            )
            for one in resource.peers
        ],
    )
