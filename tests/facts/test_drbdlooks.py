"""A volume at one moment: views of a status, made by hand and as real programs print it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.facts.drbd import (
    NO_RESOURCE,
    DrbdAbsent,
    DrbdDevice,
    DrbdPeer,
    DrbdPeerDevice,
    DrbdResource,
    DrbdStatus,
)
from harness.facts.drbd8 import read_status8
from harness.facts.drbdlooks import VERIFYING as VERIFYING_STATES
from harness.facts.drbdlooks import Look, PeerView, View, changed, view_of
from harness.facts.drbdproc import DrbdProc, read_proc
from harness.facts.fact import Origin, Unread
from harness.facts.reply import Output

AT = Origin(5.0, "guest n1", "raw")


def peer(name: str = "peer", **more: Any) -> DrbdPeer:
    given = {"replication": "Established", "disk_state": "UpToDate", "out_of_sync": 0, **more}
    return DrbdPeer(name, 0, "Connected", "Primary", (DrbdPeerDevice(0, **given),))


def resource(*peers: DrbdPeer, **more: Any) -> DrbdResource:
    device = DrbdDevice(0, 0, "UpToDate", 1024)
    given: dict[str, Any] = {"devices": (device,), "peers": peers, "suspended": (), **more}
    return DrbdResource("r0", "Secondary", **given)


def status(one: DrbdResource, **more: Any) -> DrbdStatus:
    return DrbdStatus(AT, "n1", "8.4.11", (one,), **more)


def test_a_view_of_a_replica_in_sync() -> None:
    view = view_of(status(resource(peer())), "n1", "r0")
    assert view == View(
        "n1",
        "Secondary",
        "UpToDate",
        (PeerView("peer", "Connected", "Primary", "Established", "UpToDate", 0),),
        (),
    )
    assert view.in_sync and view.connected
    assert view.out_of_sync == 0
    assert str(view) == (
        "n1: Secondary UpToDate, peer Primary UpToDate Established, 0 bytes out of sync"
    )


@pytest.mark.parametrize(
    ("answer", "missing"),
    [
        (Unread(AT, "status", "no answer"), "could not be read (no answer)"),
        (DrbdAbsent(AT, "n1", NO_RESOURCE, "r0", "8.4.11", ""), "no such resource"),
        (status(dataclasses.replace(resource(), name="r1")), "no such resource"),
        (status(dataclasses.replace(resource(), name="r1"), whole=False), "the answer was cut"),
        (status(resource(peer(), whole=False)), "the answer was cut"),
    ],
)
def test_what_cannot_be_seen_is_missing_with_the_reason(answer: Any, missing: str) -> None:
    view = view_of(answer, "n1", "r0")
    assert view == View("n1", missing=missing)
    assert not view.in_sync and not view.connected
    assert str(view) == f"n1: {missing}"


@pytest.mark.parametrize(
    ("one", "in_sync"),
    [
        (resource(peer()), True),
        (resource(peer(out_of_sync=4096)), False),
        (resource(peer(out_of_sync=None)), False),
        (resource(peer(replication="SyncSource")), False),
        (resource(peer(disk_state="Inconsistent")), False),
        (resource(), False),
        (resource(peer(), devices=(DrbdDevice(0, 0, "Inconsistent"),)), False),
        (resource(peer(), devices=()), False),
        (resource(peer(), devices=(DrbdDevice(0, 0, "Diskless", client=True),)), True),
        (resource(peer(), dataclasses.replace(peer(), connection="Connecting")), False),
        (resource(peer(), peer("n3", disk_state="Diskless", client=True)), True),
        (resource(peer(), peer("n3", disk_state="Diskless")), False),
        (
            resource(
                dataclasses.replace(
                    peer(disk_state="Diskless", client=True), connection="StandAlone"
                )
            ),
            False,
        ),
    ],
)
def test_when_a_replica_is_in_sync(one: DrbdResource, *, in_sync: bool) -> None:
    assert view_of(status(one), "n1", "r0").in_sync is in_sync


def test_a_peer_without_a_line_for_the_volume() -> None:
    bare = DrbdPeer("n2", 1, "Connected", "Primary")
    view = view_of(status(resource(bare)), "n1", "r0")
    assert view.peers == (PeerView("n2", "Connected", "Primary"),)
    assert view.out_of_sync is None
    assert not view.in_sync


def test_peers_by_name_and_without_one() -> None:
    named = view_of(status(resource(peer("n2"), peer("n3", out_of_sync=8))), "n1", "r0")
    assert named.peer("n3") is named.peers[1]
    assert named.peer("n4") is None
    assert named.out_of_sync == 8
    unnamed = view_of(status(resource(peer())), "n1", "r0")
    assert unnamed.peer("n2") is unnamed.peers[0]
    assert view_of(status(resource()), "n1", "r0").peer("n2") is None


def test_a_split_brain_reads_like_health_but_for_the_peer() -> None:
    view = view_of(status(resource()), "n1", "r0")
    assert (view.role, view.disk) == ("Secondary", "UpToDate")
    assert not view.connected and not view.in_sync
    assert str(view) == "n1: Secondary UpToDate, no peer listed"


def test_a_peer_that_is_away() -> None:
    gone = dataclasses.replace(peer(), connection="Connecting")
    view = view_of(status(resource(gone)), "n1", "r0")
    assert not view.connected
    assert str(view) == "n1: Secondary UpToDate, peer Connecting"


def test_io_that_stands_still_is_told() -> None:
    device = DrbdDevice(0, 0, "UpToDate", quorum=False)
    one = resource(peer(), devices=(device,), suspended=("quorum",))
    view = view_of(status(one), "n1", "r0")
    assert (view.quorum, view.suspended) == (False, ("quorum",))
    assert "UpToDate, no quorum, I/O suspended (quorum), peer" in str(view)


def test_a_look_names_who_is_primary() -> None:
    one, two = View("n1", "Primary"), View("n2", missing="switched off")
    look = Look(1.0, (one, two))
    assert look.primaries == ("n1",)
    assert look.of("n2") is two
    assert look.of("n3") == View("n3", missing="was not asked")
    assert not look.in_sync and not Look(1.0, ()).in_sync
    assert str(look) == "n1: Primary , no peer listed | n2: switched off"


def test_a_look_is_in_sync_when_all_are() -> None:
    good = view_of(status(resource(peer())), "n1", "r0")
    assert Look(1.0, (good, good)).in_sync
    assert not Look(1.0, (good, View("n2", missing="switched off"))).in_sync


def test_looks_that_differ_are_kept_and_the_last() -> None:
    a, b = View("n1", "Primary"), View("n1", "Secondary")
    looks = [Look(float(at), (view,)) for at, view in enumerate([a, a, a, b, a, a])]
    assert [one.at for one in changed(looks)] == [0.0, 3.0, 4.0, 5.0]
    assert [one.at for one in changed(looks[:1])] == [0.0]
    assert [one.at for one in changed(looks[:4])] == [0.0, 3.0]
    assert list(changed([])) == []


# -- as two guests with DRBD 8.4.11 and drbd-utils 9.22 printed it in trials

HEAD = "version: 8.4.11 (api:1/proto:86-101)\nsrcversion: F73C670A7EC572DB9CF3E5B \n"


def view_in(proc: str, status: str) -> View:
    given = {"at": 1.0, "source": "n2", "node": "n2"}
    read = read_proc(Output(("cat", "/proc/drbd"), 0, HEAD + proc), **given)  # type: ignore[arg-type]
    assert isinstance(read, DrbdProc)
    found = read_status8(Output(("drbdsetup",), 0, status), read, resource="r0", **given)  # type: ignore[arg-type]
    return view_of(found, "n2", "r0")


SHAKING_HANDS = (
    """\
 0: cs:WFReportParams ro:Primary/Unknown ds:UpToDate/DUnknown C r-----
    ns:0 nr:65496 dw:67544 dr:2048 al:9 bm:0 lo:1 pe:0 ua:0 ap:0 ep:1 wo:f oos:2048
""",
    """\
r0 role:Primary suspended:no
    write-ordering:flush
  volume:0 minor:0 disk:UpToDate
      size:65496 read:2048 written:67544 al-writes:9 bm-writes:0 upper-pending:0
      lower-pending:0 al-suspended:no blocked:no

""",
)
SPLIT = (
    """\
 0: cs:StandAlone ro:Primary/Unknown ds:UpToDate/DUnknown   r-----
    ns:0 nr:65496 dw:67544 dr:2048 al:9 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:2048
""",
    SHAKING_HANDS[1],
)
VERIFIED = (
    """\
 0: cs:Connected ro:Secondary/Primary ds:UpToDate/UpToDate C r-----
    ns:0 nr:0 dw:0 dr:65496 al:0 bm:0 lo:0 pe:0 ua:0 ap:0 ep:1 wo:f oos:64
""",
    """\
r0 role:Secondary suspended:no
    write-ordering:flush
  volume:0 minor:0 disk:UpToDate
      size:65496 read:65496 written:0 al-writes:0 bm-writes:0 upper-pending:0
      lower-pending:0 al-suspended:no blocked:no
  peer connection:Connected role:Primary congested:no
    volume:0 replication:Established peer-disk:UpToDate resync-suspended:no
        received:0 sent:0 out-of-sync:64 pending:0 unacked:0

""",
)


VERIFYING = (
    """\
 0: cs:VerifyT ro:Secondary/Primary ds:UpToDate/UpToDate C r-----
    ns:0 nr:0 dw:0 dr:23380 al:0 bm:0 lo:232 pe:208 ua:692 ap:0 ep:1 wo:f oos:64
	[======>.............] verified: 37.5% (44788/65496)K
	finish: 0:00:04 speed: 10,352 (10,352) K/sec
""",
    """\
r0 role:Secondary suspended:no
    write-ordering:flush
  volume:0 minor:0 disk:UpToDate
      size:65496 read:46968 written:0 al-writes:0 bm-writes:0 upper-pending:0
      lower-pending:114 al-suspended:no blocked:no
  peer connection:Connected role:Primary congested:no
    volume:0 replication:VerifyT peer-disk:UpToDate done:99.90
        resync-suspended:no
        received:0 sent:0 out-of-sync:64 pending:165 unacked:616

""",
)


def test_a_verify_under_way_in_real_words() -> None:
    view = view_in(*VERIFYING)
    assert view.peers[0].replication in VERIFYING_STATES
    assert view.out_of_sync == 65536
    assert view.resyncing == ()


def test_a_split_brain_in_real_words() -> None:
    view = view_in(*SPLIT)
    assert (view.role, view.disk) == ("Primary", "UpToDate")
    assert [one.connection for one in view.peers] == ["StandAlone"]
    assert not view.connected and not view.in_sync


def test_no_peer_is_listed_for_a_moment_without_a_split() -> None:
    """The text has no peer, as in a split brain; /proc/drbd says that they shake hands."""
    view = view_in(*SHAKING_HANDS)
    assert not any(one.connection == "StandAlone" for one in view.peers)
    assert not view.connected and not view.in_sync


def test_what_a_verify_found_in_real_words() -> None:
    view = view_in(*VERIFIED)
    assert (view.disk, view.peers[0].disk, view.peers[0].replication) == (
        "UpToDate",
        "UpToDate",
        "Established",
    )
    assert view.out_of_sync == 65536
    assert view.connected and not view.in_sync
