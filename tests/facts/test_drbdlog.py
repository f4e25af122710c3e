from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.facts.drbd import DrbdLog, DrbdLogEntry
from harness.facts.drbdlog import read_log
from harness.facts.fact import Unread
from harness.facts.reply import Output
from tests.facts.drbd_texts import CAPTURES, MISSING

# dmesg_drbd84_split_brain_n1, with the module's first line and a recovery
SPLIT8 = """\
[    4.396273] drbd: initialized. Version: 8.4.11 (api:1/proto:86-101)
[   37.814123] drbd r0: conn( WFConnection -> WFReportParams )\x20
[   37.831961] block drbd0: uuid_compare()=100 by rule 90
[   37.976190] block drbd0: helper command: /sbin/drbdadm initial-split-brain minor-0 exit code 0 \
(0x0)
[   37.977929] block drbd0: Split-Brain detected but unresolved, dropping connection!
[   38.079052] drbd r0: conn( WFReportParams -> NetworkFailure )\x20
[   38.109553] drbd r0: conn( NetworkFailure -> Disconnecting )\x20
[   38.136178] drbd r0: conn( Disconnecting -> StandAlone )\x20
[   48.852921] block drbd0: Split-Brain detected, manually solved. Sync from peer node
[   49.076197] block drbd0: Began resync as SyncTarget (will sync 1084 KB [271 bits set]).
[   49.203554] block drbd0: Resync done (total 1 sec; paused 0 sec; 1084 K/sec)
"""
# drbd84_backing_disk_lost_on_n2 and drbd84_verify_found_out_of_sync
LOST8 = """\
[   28.434698] drbd_r_r0: attempt to access beyond end of device
[   28.435677] block drbd0: disk( UpToDate -> Failed )\x20
[   28.435925] block drbd0: Local IO failed in drbd_endio_write_sec_final. Detaching...
[   28.476941] block drbd0: disk( Failed -> Diskless )\x20
[   30.583975] block drbd0: Out of sync: start=8000, size=24 (sectors)
[   34.154086] block drbd0: Online verify done (total 2 sec; paused 0 sec; 32748 K/sec)
[   34.154660] block drbd0: Online verify found 3 4k block out of sync!
"""
# dmesg_drbd9_n1
LOG9 = """\
[    9.558925] drbd: initialized. Version: 9.2.14 (api:2/proto:118-123)
[   19.384000] drbd r0/0 drbd0 n3: Began resync as SyncSource (will sync 65496 KB [16374 bits set]).
[   40.211196] drbd r0/0 drbd0 n3: Resync done (total 20 sec; paused 0 sec; 3272 K/sec)
[   63.605662] drbd r0: susp-io( no -> quorum )
[   63.606825] drbd r0/0 drbd0: quorum( yes -> no )
[   71.636141] drbd r0/0 drbd0 n3: I shall become SyncTarget, but I am primary!
[   71.658090] drbd r0 n3: conn( Connecting -> Disconnecting ) [connect-failed]
[   71.658418] drbd r0/0 drbd0: disk( UpToDate -> Outdated ) [connect-failed]
[   71.929687] drbd r0: Declined by peer n2 (id: 1), see the kernel log there
[   72.073367] drbd r0 n3: conn( Disconnecting -> StandAlone ) [disconnected]
"""


def read(text: str, code: int | None = 0) -> DrbdLog | Unread:
    output = Output(("dmesg",), code, text, "", "cut off")
    return read_log(output, at=99.0, source="guest n1:dmesg", node="n1")


def log(text: str) -> DrbdLog:
    found = read(text)
    assert isinstance(found, DrbdLog), found
    return found


def one(line: str) -> DrbdLogEntry:
    found = log(f"[    1.500000] {line}\n").entries
    assert len(found) == 1, found
    return found[0]


def test_a_captured_split_brain() -> None:
    found = log(SPLIT8)
    assert found.whole
    assert (found.node, found.origin.at, found.origin.raw) == ("n1", 99.0, SPLIT8)
    (split,) = found.of("split brain")
    assert (split.at, split.minor, split.resource, split.peer) == (37.977929, 0, "", "")
    assert split.line == SPLIT8.splitlines()[4]
    assert [entry.what for entry in found.entries] == [
        "state",
        "split brain",
        "state",
        "state",
        "state",
        "split brain solved",
        "resync started",
        "resync done",
    ]
    assert found.entries[0].states == (("conn", "WFConnection", "WFReportParams"),)
    assert found.entries[0].resource == "r0"
    assert found.of("resync started")[0].kib == 1084
    assert found.of("resync done")[0].seconds == 1


def test_a_lost_disk_and_what_a_verify_found() -> None:
    found = log(LOST8)
    assert not found.whole
    (lost,) = found.of("disk lost")
    assert lost.at == 28.435925
    assert found.of("verify done")[0].seconds == 2
    assert found.of("out of sync")[0].blocks == 3
    assert [entry.states[0] for entry in found.of("state")] == [
        ("disk", "UpToDate", "Failed"),
        ("disk", "Failed", "Diskless"),
    ]


def test_a_log_of_9_names_resource_volume_and_peer() -> None:
    found = log(LOG9)
    assert found.whole
    started = found.of("resync started")[0]
    assert (started.resource, started.minor, started.peer, started.kib) == ("r0", 0, "n3", 65496)
    refused = found.of("connection refused")
    assert [(entry.resource, entry.peer) for entry in refused] == [("r0", "n3"), ("r0", "")]
    assert [entry.states for entry in found.of("state")][:2] == [
        (("susp-io", "no", "quorum"),),
        (("quorum", "yes", "no"),),
    ]
    assert not found.of("disconnected")
    assert found.of("resync done", "r0")
    assert not found.of("resync done", "r1")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("block drbd0: Split-Brain detected, 1 primaries, automatically solved. Sync from this "
         "node", "split brain solved"),
        ("drbd r0/0 drbd0 n2: Split-Brain detected but unresolved, dropping connection!",
         "split brain"),
        ("block drbd0: Unrelated data, aborting!", "unrelated data"),
        ("drbd r0/0 drbd0 n2: Unrelated data, aborting!", "unrelated data"),
        ("block drbd0: I shall become SyncSource, but I am inconsistent!", "connection refused"),
        ("drbd r0: Discarding network configuration.", "connection refused"),
        ("block drbd0: The peer's disk size is too small!", "connection refused"),
        ("drbd r0: incompatible after-sb-0pri settings", "connection refused"),
        ("drbd r0: conn( WFConnection -> Disconnecting ) ", "disconnected"),
        ("drbd r0: peer( Primary -> Unknown ) conn( Connected -> Disconnecting ) "
         "pdsk( UpToDate -> DUnknown ) ", "disconnected"),
        ("drbd r0: conn( WFReportParams -> Disconnecting ) ", "state"),
        ("drbd r0: conn( NetworkFailure -> Disconnecting ) ", "state"),
        ("drbd r0: conn( Connected -> TearDown ) ", "state"),
        ("drbd r0 n2: conn( Connected -> Disconnecting ) peer( Secondary -> Unknown ) [disconnect]",
         "disconnected"),
        ("drbd r0 n2: conn( Connecting -> Disconnecting ) [down]", "disconnected"),
        ("drbd r0 n2: conn( Connecting -> Disconnecting ) [connect-failed]", "state"),
        ("drbd r0 n2: conn( Connected -> Disconnecting ) [connect-failed]", "state"),
        ("drbd r0 n2: conn( Connected -> Disconnecting )", "disconnected"),
        ("drbd r0 n2: conn( Unconnected -> Disconnecting )", "state"),
        ("drbd r0: role( Primary -> Secondary ) [down]", "state"),
    ],
)  # fmt: skip
def test_what_a_line_tells(line: str, what: str) -> None:
    assert one(line).what == what


def test_every_change_of_a_line_is_there() -> None:
    found = one("drbd r0: peer( Primary -> Unknown ) conn( Connected -> Disconnecting ) ")
    assert found.states == (("peer", "Primary", "Unknown"), ("conn", "Connected", "Disconnecting"))


@pytest.mark.parametrize(
    "line",
    [
        "EXT4-fs (drbd0): mounted filesystem without journal. Quota mode: none.",
        "drbd: registered as block device major 147",
        "drbd r0: PingAck did not arrive in time.",
        "block drbd0:   state = { cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate r----- }",
        "sshd: Split-Brain detected but unresolved",
        "block drbd0: No resync, but 16374 bits in bitmap!",
        "drbd r0: Aborting: disk( UpToDate -> Failed )",
    ],
)
def test_what_tells_nothing(line: str) -> None:
    assert log(f"[    1.500000] {line}\n").entries == ()


@pytest.mark.parametrize(
    ("stamp", "at"),
    [
        ("[   28.435925] ", 28.435925),
        ("<3>[   28.435925] ", 28.435925),
        ("[   28.435925][  T139] ", 28.435925),
        ("[Mon Nov 30 08:20:22 2026] ", None),
        ("", None),
    ],
)
def test_the_time_of_a_line(stamp: str, at: float | None) -> None:
    found = log(f"{stamp}block drbd0: Local IO failed in x. Detaching...\n").entries
    if stamp.startswith("[Mon"):
        assert found == ()
    else:
        assert [(entry.what, entry.at) for entry in found] == [("disk lost", at)]


def test_a_last_line_cut_short_is_left_out() -> None:
    assert log(SPLIT8 + "[   50.0] block drbd0: Unrelated data, aborting!").entries == (
        log(SPLIT8).entries
    )


@pytest.mark.parametrize(("text", "code"), [("", 0), ("\n\n", 0), (SPLIT8, None), (SPLIT8, 1)])
def test_what_is_no_answer(text: str, code: int | None) -> None:
    found = read(text, code)
    assert isinstance(found, Unread)
    assert found.asked == "dmesg"


def test_a_log_without_a_word_of_drbd_is_one_and_not_whole() -> None:
    found = log("[    0.000000] Linux version 6.1.0-57-cloud-amd64\n")
    assert (found.entries, found.whole) == ((), False)


@settings(deadline=None)
@given(st.text(max_size=80), st.integers(0, len(LOG9)))
def test_anything_is_read_without_an_error(junk: str, at: int) -> None:
    read(LOG9[:at] + junk + LOG9[at:])


@settings(deadline=None)
@given(st.integers(0, len(SPLIT8)))
def test_a_prefix_tells_the_first_lines_and_nothing_else(at: int) -> None:
    found = read(SPLIT8[:at])
    if isinstance(found, DrbdLog):
        assert found.entries == log(SPLIT8).entries[: len(found.entries)]


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=MISSING)
@pytest.mark.parametrize(
    ("name", "whole", "whats"),
    [
        ("84_initial_sync_n1", True, ["resync started", "resync done"]),
        ("84_link_cut_n1", False, []),
        ("84_resync_after_cut_n1", False, ["resync started", "resync done"]),
        ("84_split_brain_n1", False, ["split brain"]),
        ("84_split_brain_n2", False, ["split brain"]),
        (
            "84_split_brain_recovered_n2",
            False,
            ["split brain solved", "resync started", "resync done"],
        ),
        (
            "9_n1",
            True,
            [
                *("resync started", "resync started", "resync done", "resync done"),
                *("resync started", "resync done", "connection refused", "connection refused"),
            ],
        ),
    ],
)
def test_the_captured_logs(name: str, whole: bool, whats: list[str]) -> None:  # noqa: FBT001
    found = log((CAPTURES / f"dmesg_drbd{name}.txt").read_text())
    assert found.whole is whole
    assert [entry.what for entry in found.entries if entry.what != "state"] == whats
