from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.facts.drbd import (
    NO_RESOURCE,
    NOTHING,
    DrbdAbsent,
    DrbdDevice,
    DrbdPeer,
    DrbdPeerDevice,
    DrbdResource,
    DrbdStatus,
)
from harness.facts.drbd8 import read_status8
from harness.facts.fact import Unread
from tests.facts.drbd_texts import (
    CAPTURES,
    HEAD8,
    MISSING,
    NO_SUCH,
    PROC8_CUT,
    PROC8_OOS,
    PROC8_SPLIT,
    PROC8_SYNC,
    PROC8_UP,
    PROC9,
    STATUS8_CUT,
    STATUS8_OOS,
    STATUS8_SPLIT,
    STATUS8_SYNC,
    STATUS8_UP,
    STATUS9_NO_QUORUM,
    answer,
    captured,
    captured_output,
    proc,
    status8,
)

KIB = 1024
TEXTS = [STATUS8_UP, STATUS8_SYNC, STATUS8_CUT, STATUS8_SPLIT, STATUS8_OOS, STATUS9_NO_QUORUM]


def status(text: str, seen: str | None = PROC8_UP, resource: str = "r0") -> DrbdStatus:
    found = status8(text, seen, resource=resource)
    assert isinstance(found, DrbdStatus), found
    return found


def test_a_captured_status() -> None:
    found = status(STATUS8_UP)
    assert (found.node, found.version, found.generation) == ("n1", "8.4.11", 8)
    assert found.whole and not found.strange and not found.disagreements
    device = DrbdDevice(0, 0, "UpToDate", 65496 * KIB, blocked="no")
    towards = DrbdPeerDevice(0, "Established", "UpToDate", None, 0, None, ())
    peer = DrbdPeer("peer", None, "Connected", "Secondary", (towards,))
    expected = DrbdResource("r0", "Primary", None, (), None, (device,), (peer,))
    assert found.resources == (expected,)
    assert found.origin.raw == PROC8_UP + STATUS8_UP
    assert (found.origin.at, found.origin.source) == (2.0, "guest n1:drbdsetup status")


def test_what_8_does_not_know_is_not_known() -> None:
    found = status(STATUS8_UP).resources[0]
    assert found.devices[0].quorum is None
    assert found.devices[0].client is None
    assert found.node_id is found.peers[0].node_id is None


def test_a_resync_with_its_line_folded() -> None:
    towards = status(STATUS8_SYNC, PROC8_SYNC).resources[0].peers[0].devices[0]
    assert towards == DrbdPeerDevice(0, "SyncSource", "Inconsistent", None, 60888 * KIB, 7.04, ())


def test_a_cut_peer() -> None:
    found = status(STATUS8_CUT, PROC8_CUT)
    peer = found.resources[0].peers[0]
    assert (peer.connection, peer.role) == ("Connecting", "Unknown")
    assert peer.devices[0].disk_state == "DUnknown"
    assert not found.disagreements


def test_a_standalone_peer_is_filled_in_from_proc() -> None:
    found = status(STATUS8_SPLIT, PROC8_SPLIT)
    towards = DrbdPeerDevice(0, "Off", "DUnknown", None, 1068 * KIB)
    assert found.resources[0].peers == (
        DrbdPeer("peer", None, "StandAlone", "Unknown", (towards,)),
    )
    assert not found.disagreements


def test_without_proc_no_peer_is_made_up() -> None:
    found = status(STATUS8_SPLIT, None)
    assert found.resources[0].peers == ()
    assert (found.version, found.generation) == ("", None)
    assert not found.disagreements


def test_only_a_peer_that_is_left_out_is_filled_in() -> None:
    listed = status(STATUS8_UP, PROC8_SPLIT)
    assert [one.connection for one in listed.resources[0].peers] == ["Connected"]
    assert "r0/0: status says connection Connected, /proc/drbd StandAlone" in listed.disagreements
    cut = status(STATUS8_SPLIT.removesuffix("\n"), PROC8_SPLIT)
    assert cut.resources[0].peers == ()
    empty = STATUS8_SPLIT.partition("  volume")[0] + "\n"
    assert status(empty, PROC8_SPLIT).resources[0].peers == ()


@pytest.mark.parametrize(
    ("text", "seen", "said"),
    [
        (STATUS8_SPLIT, PROC8_UP, "r0/0: status lists no peer, /proc/drbd has cs:Connected"),
        (STATUS8_UP, PROC8_CUT, "status says connection Connected, /proc/drbd Connecting"),
        (STATUS8_UP, PROC8_CUT, "status says replication Established, /proc/drbd Off"),
        (STATUS8_UP, PROC8_CUT, "status says peer's disk UpToDate, /proc/drbd DUnknown"),
        (STATUS8_UP, PROC8_CUT, "status says peer's role Secondary, /proc/drbd Unknown"),
        (STATUS8_UP, PROC8_SYNC, "status says replication Established, /proc/drbd SyncSource"),
        (STATUS8_UP, PROC8_OOS, "status says bytes out of sync 0, /proc/drbd 12288"),
        (STATUS8_OOS, PROC8_UP, "status says bytes out of sync 12288, /proc/drbd 0"),
        (
            STATUS8_UP,
            PROC8_UP.replace("ro:Primary", "ro:Secondary"),
            "status says role Primary, /proc/drbd Secondary",
        ),
        (
            STATUS8_UP,
            PROC8_UP.replace("ds:UpToDate", "ds:Failed"),
            "status says disk UpToDate, /proc/drbd Failed",
        ),
        (STATUS8_UP, HEAD8, "r0/0 has minor 0, which /proc/drbd does not list"),
    ],
)
def test_where_the_two_views_differ_is_told(text: str, seen: str, said: str) -> None:
    assert any(said in told for told in status(text, seen).disagreements)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        (STATUS8_SYNC, PROC8_SYNC),
        (STATUS8_SYNC, PROC8_OOS),
        (STATUS8_UP, PROC8_SYNC),
        (STATUS8_UP, PROC8_UP.rpartition(" oos")[0]),
        (STATUS8_OOS.replace("out-of-sync:12 ", ""), PROC8_UP),
    ],
)
def test_figures_on_the_move_or_not_said_are_no_disagreement(text: str, seen: str) -> None:
    assert "bytes" not in " ".join(status(text, seen).disagreements)


def test_what_one_of_the_views_does_not_say_is_no_disagreement() -> None:
    assert not status(STATUS8_UP.replace(" role:Primary", "", 1)).disagreements
    assert not status(STATUS8_UP.replace("    volume:0", "    volume:1")).disagreements
    told = status(STATUS8_UP, f"{HEAD8} 0: cs:Unconfigured\n").disagreements
    assert told == ("r0/0: status says replication Established, /proc/drbd Unconfigured",)


def test_a_minor_of_no_resource_is_told_where_all_were_asked_for() -> None:
    two = PROC8_UP + PROC8_UP.removeprefix(HEAD8).replace(" 0: ", " 1: ")
    assert status(STATUS8_UP, two, "").disagreements == (
        "/proc/drbd lists minor 1, which is of no resource",
    )
    assert not status(STATUS8_UP, two, "r0").disagreements
    assert not status(STATUS8_UP, f"{PROC8_UP} 1: cs:Unconfigured\n", "").disagreements


def test_the_text_of_9_has_more_to_say() -> None:
    found = status(STATUS9_NO_QUORUM, PROC9)
    resource = found.resources[0]
    assert (found.generation, found.disagreements, found.whole) == (9, (), True)
    assert (resource.node_id, resource.suspended) == (0, ("quorum",))
    assert resource.force_io_failures is False
    assert resource.devices == (
        DrbdDevice(0, 0, "UpToDate", 65496 * KIB, False, None, "upper", "/dev/vda"),
    )
    assert [(one.name, one.node_id, one.connection) for one in resource.peers] == [
        ("n2", 1, "Connecting"),
        ("n3", 2, "Connecting"),
    ]


def test_a_client_is_told_from_a_lost_disk() -> None:
    text = STATUS9_NO_QUORUM.replace("disk:UpToDate", "disk:Diskless client:yes", 1)
    text = text.replace("peer-disk:DUnknown", "peer-disk:Diskless peer-client:no", 1)
    resource = status(text, PROC9).resources[0]
    assert resource.devices[0].client is True
    assert resource.peers[0].devices[0].client is False
    assert resource.peers[1].devices[0].client is None


def test_more_than_one_resource_volume_and_peer() -> None:
    second = STATUS8_UP.replace("r0 ", "r1 ").replace("minor:0", "minor:1")
    volume = "  volume:1 minor:2 disk:Diskless\n      size:0 blocked:no\n  peer "
    found = status(STATUS8_UP + second.replace("  peer ", volume), None, "")
    assert [one.name for one in found.resources] == ["r0", "r1"]
    assert [one.minor for one in found.resources[1].devices] == [1, 2]
    last = found.find("r1")
    assert last is not None
    assert last.device(1) == DrbdDevice(1, 2, "Diskless", 0, blocked="no")
    assert found.whole


@pytest.mark.parametrize(
    ("said", "suspended"),
    [
        ("suspended:no", ()),
        ("suspended:user", ("user",)),
        ("suspended:no-data,fencing", ("no-data", "fencing")),
        ("", None),
    ],
)
def test_suspended(said: str, suspended: tuple[str, ...] | None) -> None:
    text = STATUS8_UP.replace(" suspended:no\n", f" {said}\n", 1)
    assert status(text).resources[0].suspended == suspended


def test_no_such_resource() -> None:
    output = answer("", 10, NO_SUCH)
    found = read_status8(output, proc(HEAD8), at=2.0, source="s", node="n1", resource="r0")
    assert isinstance(found, DrbdAbsent)
    assert (found.what, found.resource, found.version) == (NO_RESOURCE, "r0", "8.4.11")
    assert (found.node, found.said) == ("n1", NO_SUCH.strip())


def test_another_resource_that_is_missing_is_no_absence_of_this_one() -> None:
    output = answer("", 10, "r00: No such resource\n")
    found = read_status8(output, None, at=2.0, source="s", resource="r0")
    assert isinstance(found, Unread)


@pytest.mark.parametrize(
    ("text", "seen"), [("", HEAD8), ("# No currently configured DRBD found.\n", None)]
)
def test_no_resource_at_all(text: str, seen: str | None) -> None:
    found = status8(text, seen, resource="")
    assert isinstance(found, DrbdAbsent)
    assert (found.what, found.resource) == (NOTHING, "")
    assert found.version == ("8.4.11" if seen else "")


@pytest.mark.parametrize(
    ("text", "seen", "resource", "stderr", "said"),
    [
        ("", PROC8_UP, "", "", "ended with 0 and said ''"),
        ("", None, "", "", "ended with 0 and said ''"),
        ("", f"{HEAD8} 0: cs", "", "", "ended with 0 and said ''"),
        ("", HEAD8, "r0", "", "ended with 0 and said ''"),
        ("", HEAD8, "", "access denied\n", "access denied"),
        ("# No currently configured DRBD found.\n", HEAD8, "", "denied\n", "denied"),
    ],
)
def test_an_answer_that_is_none(
    text: str, seen: str | None, resource: str, stderr: str, said: str
) -> None:
    beside = None if seen is None else proc(seen)
    found = read_status8(answer(text, 0, stderr), beside, at=2.0, source="s", resource=resource)
    assert isinstance(found, Unread)
    assert said in found.reason


@pytest.mark.parametrize("code", [None, 1, 20])
def test_another_end_than_0_is_no_answer(code: int | None) -> None:
    found = read_status8(answer(STATUS8_UP, code), None, at=2.0, source="s", resource="r0")
    assert isinstance(found, Unread)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (STATUS8_UP.replace("  peer", "  Warning: peer"), "Warning: peer"),
        (STATUS8_UP.replace("disk:UpToDate\n", "disk:UpToDate disk:Failed\n", 1), "disk:Failed"),
        (STATUS8_UP.replace("out-of-sync:0", "out-of-\nsync:0"), "out-of-"),
        (STATUS8_UP + STATUS8_UP, "r0 role:Primary"),
        (STATUS8_UP.removesuffix("\n") + STATUS8_UP.replace("r0", "r1"), "r1 role:Primary"),
        ("hello\n" + STATUS8_UP, "hello"),
        (STATUS8_UP.replace("volume:0 minor", "volume:x minor"), "volume:x"),
        (STATUS8_UP.replace("    volume:0", "    volume:0 minor:0\n    volume:0"), "volume:0 repl"),
        (STATUS8_UP.replace("size:65496", "disk:Failed size:65496"), "disk:Failed"),
        (STATUS8_UP + "\n", "''"),
        (STATUS8_UP + "  peer connection:Connected\n", "peer connection:Connected"),
        (STATUS8_UP.replace("  volume:0 minor:0", "volume:0 minor:0"), "volume:0 minor:0"),
    ],
)
def test_a_line_that_is_none_of_drbds_is_quoted_and_nothing_is_whole(
    text: str, quoted: str
) -> None:
    found = status(text, None)
    assert any(quoted in line for line in found.strange), found.strange
    assert not found.whole


def test_figures_of_thousands_of_digits_are_none() -> None:
    endless = "1" * 5000
    found = status(STATUS8_UP.replace("volume:0 minor", f"volume:{endless} minor"), None)
    assert (found.whole, found.resources[0].devices) == (False, ())
    found = status(STATUS8_UP.replace("minor:0", f"minor:{endless}"), None)
    assert found.resources[0].devices[0].minor is None


def test_a_volume_of_a_peer_that_is_no_number_is_left_out() -> None:
    found = status(STATUS8_UP.replace("    volume:0", "    volume:x"))
    assert found.resources[0].peers[0].devices == ()
    assert not found.whole


def test_of_two_resources_the_one_that_was_cut_is_not_whole() -> None:
    found = status(STATUS8_UP + STATUS8_UP.replace("r0", "r1").removesuffix("\n"), None)
    assert [one.whole for one in found.resources] == [True, False]
    assert not found.whole


def test_a_strange_line_of_proc_is_told_as_well() -> None:
    found = status(STATUS8_UP, PROC8_UP + "hello\n")
    assert found.strange == ("'hello'",)
    assert not found.whole


def test_a_figure_that_is_none_is_not_known() -> None:
    towards = status(STATUS8_OOS.replace("out-of-sync:12", "out-of-sync:?")).resources[0].peers[0]
    assert towards.devices[0].out_of_sync is None


def test_colours_and_line_ends_of_a_terminal_are_let_pass() -> None:
    dirty = STATUS8_UP.replace("UpToDate", "\x1b[32mUpToDate\x1b[0m").replace("\n", "\r\n")
    assert status(dirty).resources == status(STATUS8_UP).resources


@settings(deadline=None)
@given(st.sampled_from(TEXTS), st.data())
def test_a_prefix_is_not_whole_and_says_nothing_that_the_text_does_not(
    text: str, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(text) - 1))
    found = status8(text[:at], None)
    if not isinstance(found, DrbdStatus):
        return
    assert not found.whole
    whole = status(text, None).resources[0]
    for cut in found.resources:
        assert not cut.whole
        assert (cut.name, cut.role) == (whole.name, whole.role)
        assert cut.suspended == whole.suspended
        for peer, full in zip(cut.peers, whole.peers, strict=False):
            assert (peer.name, peer.connection, peer.role) == (
                full.name,
                full.connection,
                full.role,
            )
            for one, said in zip(peer.devices, full.devices, strict=False):
                assert one.out_of_sync in (None, said.out_of_sync)
                assert one.disk_state == said.disk_state


@settings(deadline=None)
@given(st.sampled_from(TEXTS), st.text(max_size=80), st.data())
def test_anything_is_read_without_an_error(text: str, junk: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    status8(text[:at] + junk + text[at:], data.draw(st.sampled_from([None, PROC8_UP, PROC9])))


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=MISSING)
def test_every_capture_is_understood_and_the_two_views_agree() -> None:
    moved = []
    for path in sorted(CAPTURES.glob("drbd84_[0-9][0-9]_*.txt")):
        for node in captured(path.stem):
            beside = proc(captured_output(path.stem, node, "cat /proc/drbd").stdout)
            command = "drbdsetup status r0 --verbose --statistics"
            output = captured_output(path.stem, node, command)
            found = read_status8(output, beside, at=1.0, source="s", node=node, resource="r0")
            if output.exit_code:
                assert isinstance(found, DrbdAbsent)
                continue
            assert isinstance(found, DrbdStatus)
            assert found.whole and not found.strange, path.name
            assert len(found.resources[0].peers) == 1
            if found.disagreements:
                moved.append((path.stem[:9], node))
    assert moved == [("drbd84_09", "n1")]  # a resync that began between the two commands
