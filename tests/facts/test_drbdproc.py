from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.facts.drbd import NO_MODULE, DrbdAbsent
from harness.facts.drbdproc import DrbdProc, ProcDevice, read_proc
from harness.facts.fact import Unread
from harness.facts.reply import Output
from tests.facts.drbd_texts import (
    CAPTURES,
    HEAD8,
    MISSING,
    PROC8_CUT,
    PROC8_OOS,
    PROC8_SPLIT,
    PROC8_SYNC,
    PROC8_UP,
    PROC9,
    captured,
    captured_output,
)


def read(text: str, exit_code: int | None = 0, stderr: str = "") -> DrbdProc | DrbdAbsent | Unread:
    output = Output(("cat", "/proc/drbd"), exit_code, text, stderr, "cut off")
    return read_proc(output, at=3.0, source="guest n1:/proc/drbd", node="n1")


def proc(text: str) -> DrbdProc:
    found = read(text)
    assert isinstance(found, DrbdProc), found
    return found


def test_a_captured_device() -> None:
    found = proc(PROC8_UP)
    assert (found.version, found.generation, found.whole, found.strange) == ("8.4.11", 8, True, ())
    assert found.devices == (
        ProcDevice(0, "Connected", "Primary", "Secondary", "UpToDate", "UpToDate", False, 0),
    )
    assert (found.origin.at, found.origin.source) == (3.0, "guest n1:/proc/drbd")
    assert found.origin.raw == PROC8_UP
    assert found.find(0) is found.devices[0]
    assert found.find(1) is found.find(None) is None


@pytest.mark.parametrize(
    ("text", "connection", "replication", "out_of_sync"),
    [
        (PROC8_UP, "Connected", "Established", 0),
        (PROC8_SYNC, "Connected", "SyncSource", 64264 * 1024),
        (PROC8_CUT, "Connecting", "Off", 8 * 1024),
        (PROC8_SPLIT, "StandAlone", "Off", 1068 * 1024),
        (PROC8_OOS, "Connected", "Established", 12 * 1024),
        (PROC8_UP.replace("cs:Connected", "cs:WFReportParams"), "Connected", "Off", 0),
        (PROC8_UP.replace("cs:Connected", "cs:NetworkFailure"), "NetworkFailure", "Off", 0),
    ],
)
def test_one_word_is_a_connection_and_a_replication(
    text: str, connection: str, replication: str, out_of_sync: int
) -> None:
    found = proc(text).devices[0]
    assert (found.connection, found.replication) == (connection, replication)
    assert found.out_of_sync == out_of_sync
    assert not proc(text).strange


def test_version_9_shows_no_device() -> None:
    found = proc(PROC9)
    assert (found.version, found.generation, found.devices) == ("9.2.14", 9, ())
    assert found.whole
    assert not found.strange


def test_a_suspended_device() -> None:
    assert proc(PROC8_UP.replace(" r-----", " s-----")).devices[0].suspended is True


def test_an_unconfigured_minor_is_listed_without_states() -> None:
    assert proc(f"{HEAD8} 3: cs:Unconfigured\n").devices == (ProcDevice(3, "Unconfigured"),)


def test_no_file_is_no_module() -> None:
    said = "cat: /proc/drbd: No such file or directory\n"
    found = read("", 1, said)
    assert isinstance(found, DrbdAbsent)
    assert (found.what, found.node, found.said) == (NO_MODULE, "n1", said.strip())


@pytest.mark.parametrize(
    ("text", "code", "stderr", "said"),
    [
        ("", 1, "cat: /proc/drbd: Permission denied\n", "Permission denied"),
        ("", 1, "cat: /proc/drbd2: No such file or directory\n", "drbd2"),
        (PROC8_UP, None, "", "cut off"),
        ("", 0, "", "no version"),
        ("version: 8.4", 0, "", "no version"),
        ("version: none\n", 0, "", "version: none"),
        (PROC8_UP.removeprefix("version: "), 0, "", "8.4.11 (api"),
    ],
)
def test_what_cannot_be_read(text: str, code: int | None, stderr: str, said: str) -> None:
    found = read(text, code, stderr)
    assert isinstance(found, Unread)
    assert found.asked == "/proc/drbd"
    assert said in found.reason


@pytest.mark.parametrize(
    "line",
    [
        " 1: cs:Connected ro:Primary",
        " 1: cs:Connected ro:Primary/Secondary ds:UpToDate/UpToDate C x-----",
        " 0: cs:StandAlone ro:Primary/Unknown ds:UpToDate/DUnknown   r-----",
        "    ns:0 nr:0 oos:5",
        "hello",
        " 1: cs:Connected",
    ],
)
def test_a_line_that_is_none_of_drbds_is_quoted(line: str) -> None:
    found = proc(f"{PROC8_UP}{line}\n")
    assert len(found.devices) == 1
    assert found.devices[0].state == "Connected"
    if not line.startswith("    ns"):
        assert line in found.strange[0]
    assert found.devices[0].out_of_sync == 0


def test_a_figure_of_thousands_of_digits_is_none() -> None:
    assert proc(PROC8_OOS.replace("oos:12", "oos:" + "1" * 5000)).devices[0].out_of_sync is None


def test_empty_lines_are_let_pass() -> None:
    assert not proc(f"{HEAD8}\n{PROC8_UP.removeprefix(HEAD8)}\n").strange


def test_a_last_line_cut_short_is_left_out_and_told() -> None:
    found = proc(PROC8_UP.rpartition(" oos")[0])
    assert found.devices[0].out_of_sync is None
    assert not found.whole


def test_colours_and_line_ends_of_a_terminal_are_let_pass() -> None:
    dirty = "\ufeff" + PROC8_UP.replace("UpToDate", "\x1b[32mUpToDate\x1b[0m").replace("\n", "\r\n")
    assert proc(dirty).devices == proc(PROC8_UP).devices


@settings(deadline=None)
@given(st.text(max_size=200), st.integers(0, 400))
def test_anything_is_read_without_an_error(junk: str, at: int) -> None:
    read(PROC8_SYNC[:at] + junk + PROC8_SYNC[at:])


@settings(deadline=None)
@given(st.integers(0, len(PROC8_OOS) - 1))
def test_a_prefix_never_claims_a_figure_that_was_cut(at: int) -> None:
    found = read(PROC8_OOS[:at])
    assert isinstance(found, Unread) or all(one.out_of_sync is None for one in found.devices)


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=MISSING)
def test_every_capture_is_understood_whole() -> None:
    names = sorted(path.name[:-4] for path in CAPTURES.glob("drbd*_[0-9][0-9]_*.txt"))
    assert len(names) > 30
    for name in names:
        for node in captured(name):
            output = captured_output(name, node, "cat /proc/drbd")
            found = read_proc(output, at=1.0, source="s")
            assert isinstance(found, DrbdProc), name
            assert found.whole and not found.strange, name
