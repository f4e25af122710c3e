from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.facts.drbd import DrbdEvent, DrbdHistory
from harness.facts.drbdevents import read_events
from harness.facts.fact import Unread
from harness.facts.reply import Output
from tests.facts.drbd_texts import CAPTURES, MISSING, captured, captured_output

# drbd84_events2_stream_cut_and_resync, n2
STREAM = """\
2026-11-30T08:20:22.313195+00:00 exists resource name:r0 role:Secondary suspended:no
2026-11-30T08:20:22.313195+00:00 exists connection name:r0 peer-node-id:0 conn-name:peer \
connection:Connected role:Secondary
2026-11-30T08:20:22.313195+00:00 exists device name:r0 volume:0 minor:0 disk:UpToDate
2026-11-30T08:20:22.313195+00:00 exists peer-device name:r0 peer-node-id:0 conn-name:peer \
volume:0 replication:Established peer-disk:UpToDate resync-suspended:no
2026-11-30T08:20:22.339405+00:00 exists -
2026-11-30T08:20:27.695679+00:00 change connection name:r0 peer-node-id:0 conn-name:peer \
connection:NetworkFailure role:Unknown
2026-11-30T08:20:27.696562+00:00 change connection name:r0 peer-node-id:0 conn-name:peer
2026-11-30T08:20:29.815843+00:00 change device name:r0 volume:0 minor:0 disk:Outdated
2026-11-30T08:20:29.815843+00:00 change peer-device name:r0 peer-node-id:0 conn-name:peer \
volume:0 replication:WFBitMapT peer-disk:UpToDate
2026-11-30T08:20:30.075782+00:00 call helper name:r0 peer-node-id:0 conn-name:peer volume:0 \
minor:0 helper:before-resync-target
2026-11-30T08:20:30.195376+00:00 response helper name:r0 peer-node-id:0 conn-name:peer volume:0 \
minor:0 helper:before-resync-target status:0
2026-11-30T08:20:30.216082+00:00 change device name:r0 volume:0 minor:0 disk:Inconsistent
2026-11-30T08:20:30.619504+00:00 change device name:r0 volume:0 minor:0 disk:UpToDate
"""
# drbd9_06, n1, and what a resync says with statistics
LIST9 = """\
exists resource name:r0 role:Primary suspended:no force-io-failures:no may_promote:no \
promotion_score:10103
exists device name:r0 volume:0 minor:0 backing_dev:/dev/vda disk:UpToDate client:no quorum:yes
exists peer-device name:r0 peer-node-id:2 conn-name:n3 volume:0 replication:SyncSource \
peer-disk:Inconsistent done:75.23 dbdt1:3.55 eta:1
exists path name:r0 peer-node-id:2 conn-name:n3 local:ipv4:10.77.0.1:7789 \
peer:ipv4:10.77.0.3:7789 established:yes
exists -
"""
SIGNAL = "the channel closed without an exit status (so it does after a signal)"


def read(
    text: str, code: int | None = 0, *, by_timer: bool = False, stderr: str = ""
) -> DrbdHistory | Unread:
    output = Output(("drbdsetup", "events2"), code, text, stderr, SIGNAL)
    source = "guest n2:drbdsetup events2"
    return read_events(output, at=9.0, source=source, node="n2", ended_by_timer=by_timer)


def history(text: str, code: int | None = 0, *, by_timer: bool = False) -> DrbdHistory:
    found = read(text, code, by_timer=by_timer)
    assert isinstance(found, DrbdHistory), found
    return found


def test_a_captured_stream() -> None:
    found = history(STREAM, 124, by_timer=True)
    assert found.gapless and found.listed and found.whole
    assert (found.node, found.origin.at, found.origin.raw) == ("n2", 9.0, STREAM)
    assert len(found.events) == 12
    key = {"name": "r0", "peer-node-id": "0", "conn-name": "peer"}
    assert found.events[4] == DrbdEvent(
        "change",
        "connection",
        "r0",
        key,
        {"connection": "NetworkFailure", "role": "Unknown"},
        1796026827.695679,
    )
    assert found.events[9].key["helper"] == "before-resync-target"
    assert found.events[9].states == {"status": "0"}


def test_states_that_last_milliseconds_are_there_in_their_order() -> None:
    found = history(STREAM)
    assert found.states("device", "disk") == ("UpToDate", "Outdated", "Inconsistent", "UpToDate")
    assert found.states("peer-device", "replication") == ("Established", "WFBitMapT")
    assert found.states("connection", "connection", "r0") == ("Connected", "NetworkFailure")
    assert found.states("connection", "connection", "r1") == ()
    assert history(STREAM.replace("Outdated", "UpToDate")).states("device", "disk") == (
        "UpToDate",
        "Inconsistent",
        "UpToDate",
    )


def test_a_change_may_name_nothing_that_changed() -> None:
    assert history(STREAM).events[5].states == {}


def test_a_list_of_9_without_times() -> None:
    found = history(LIST9)
    assert found.gapless
    assert {one.at for one in found.events} == {None}
    assert found.events[3].key["peer"] == "ipv4:10.77.0.3:7789"
    assert found.events[3].states == {"established": "yes"}
    assert found.events[2].states["dbdt1"] == "3.55"


def test_a_list_of_nothing() -> None:
    found = history("exists -\n")
    assert (found.events, found.gapless) == ((), True)


def test_a_list_that_was_not_closed_proves_no_absence() -> None:
    found = history(LIST9.removesuffix("exists -\n"))
    assert not found.listed
    assert not found.gapless


@pytest.mark.parametrize("code", [124, 143, None])
def test_an_end_by_the_timer_is_natural_and_any_other_is_not(code: int | None) -> None:
    assert history(STREAM, code, by_timer=True).gapless
    found = history(STREAM, code)
    assert len(found.events) == 12
    assert found.listed
    assert not found.whole


def test_a_last_line_cut_short_is_left_out_and_told() -> None:
    found = history(STREAM.removesuffix("ToDate\n"))
    assert len(found.events) == 11
    assert not found.whole


@pytest.mark.parametrize(
    ("line", "extra"),
    [
        ("hello", 0),
        ("change device volume:0 disk:UpToDate", 0),
        ("change device name:r0 disk:UpToDate disk:Failed", 0),
        ("exists device name:r0 volume:0 minor:0 disk:UpToDate", 0),
        ("exists -", 0),
        ("2026-99-30T08:20:22+00:00 change device name:r0 disk:Failed", 0),
        ("2026-11-30T08:20:22 change device name:r0 disk:Failed", 0),
        ("change disc name:r0 disk:Failed", 0),
    ],
)
def test_a_line_that_is_none_of_drbds_is_quoted(line: str, extra: int) -> None:
    found = history(f"{STREAM}{line}\n")
    assert len(found.events) == 12 + extra
    assert found.strange == (repr(line),)
    assert not found.gapless


def test_a_change_may_come_while_the_list_is_made() -> None:
    lines = LIST9.splitlines(keepends=True)
    found = history("".join([*lines[:2], "destroy device name:r0 volume:0 minor:0\n", *lines[2:]]))
    assert found.gapless
    assert found.events[2].kind == "destroy"


@pytest.mark.parametrize(
    ("text", "code", "stderr", "said"),
    [
        ("", 20, "Could not connect to 'drbd' generic netlink family\n", "generic netlink"),
        (STREAM, 1, "lost\n", "ended with 1"),
        ("", 0, "", "no event in ''"),
        ("", None, "", SIGNAL),
        ("", 124, "", "ended with 124"),
        ("no such command\n", 0, "", "no such command"),
    ],
)
def test_what_is_no_answer(text: str, code: int | None, stderr: str, said: str) -> None:
    found = read(text, code, stderr=stderr)
    assert isinstance(found, Unread)
    assert found.asked == "drbdsetup events2"
    assert said in found.reason


@settings(deadline=None)
@given(st.text(max_size=80), st.integers(0, len(STREAM)))
def test_anything_is_read_without_an_error(junk: str, at: int) -> None:
    read(STREAM[:at] + junk + STREAM[at:])


@settings(deadline=None)
@given(st.integers(0, len(STREAM)))
def test_a_prefix_shows_the_first_events_and_no_others(at: int) -> None:
    found = read(STREAM[:at], 124, by_timer=True)
    if isinstance(found, DrbdHistory):
        assert found.events == history(STREAM).events[: len(found.events)]
        assert found.gapless == (found.listed and STREAM[at - 1] == "\n")


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=MISSING)
def test_every_capture_is_understood_whole() -> None:
    for path in sorted(CAPTURES.glob("drbd*_[0-9][0-9]_*.txt")):
        for node, commands in captured(path.stem).items():
            if "drbdsetup events2 --now r0" in commands:
                output = captured_output(path.stem, node, "drbdsetup events2 --now r0")
                found = read_events(output, at=1.0, source="s")
                assert isinstance(found, DrbdHistory) and found.gapless, path.stem


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=MISSING)
def test_the_captured_streams_are_gapless() -> None:
    text = (CAPTURES / "drbd84_events2_stream_cut_and_resync.txt").read_text()
    for part in text.split("\n\n"):
        found = history(part.partition("\n")[2].rstrip("\n") + "\n", 124, by_timer=True)
        assert found.gapless, found.strange
        assert len(found.events) > 17
