from __future__ import annotations

from harness.facts.drbd import (
    DrbdDevice,
    DrbdHistory,
    DrbdLog,
    DrbdLogEntry,
    DrbdPeer,
    DrbdPeerDevice,
    DrbdResource,
    DrbdStatus,
)
from harness.facts.fact import Origin

AT = Origin(1.0, "guest n1:drbdsetup status", "")
PEER = DrbdPeer("n2", 1, "Connected", devices=(DrbdPeerDevice(0), DrbdPeerDevice(1)))
RESOURCE = DrbdResource("r0", devices=(DrbdDevice(0), DrbdDevice(1)), peers=(PEER,))


def test_things_are_found_by_their_names_and_numbers() -> None:
    status = DrbdStatus(AT, "n1", "9.2.14", (RESOURCE,))
    assert status.find("r0") is RESOURCE
    assert status.find("r1") is None
    assert RESOURCE.device(1) is RESOURCE.devices[1]
    assert RESOURCE.device(2) is None
    assert RESOURCE.peer("n2") is PEER
    assert RESOURCE.peer("n3") is None
    assert PEER.device(1) is PEER.devices[1]
    assert PEER.device(2) is None


def test_the_generation_is_the_first_number_of_the_version() -> None:
    versions = ("8.4.11", "9.2.14", "10.0", "", "x.1", "9" * 5000)
    found = [DrbdStatus(AT, "n1", version, ()).generation for version in versions]
    assert found == [8, 9, 10, None, None, None]


def test_a_history_is_gapless_where_nothing_of_it_can_be_missing() -> None:
    assert DrbdHistory(AT, "n1", (), listed=True).gapless
    assert not DrbdHistory(AT, "n1", (), listed=False).gapless
    assert not DrbdHistory(AT, "n1", (), listed=True, whole=False).gapless
    assert not DrbdHistory(AT, "n1", (), listed=True, strange=("'x'",)).gapless


def test_log_entries_of_a_resource_and_those_that_name_none() -> None:
    entries = tuple(DrbdLogEntry("split brain", "line", resource=name) for name in ("r0", "r1", ""))
    log = DrbdLog(AT, "n1", (*entries, DrbdLogEntry("state", "line", resource="r0")))
    assert log.of("split brain") == entries
    assert log.of("split brain", "r1") == entries[1:]


def test_a_status_goes_into_a_ledger_as_plain_data() -> None:
    said = DrbdStatus(AT, "n1", "9.2.14", (RESOURCE,)).values()
    assert said["resources"][0]["peers"][0]["devices"][0]["out_of_sync"] is None
    assert said["disagreements"] == []
