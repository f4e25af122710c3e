from __future__ import annotations

import threading

import pexpect
import pytest

from harness.clock import VirtualClock, WallClock
from harness.reach.capture import Capture, How
from harness.reach.expecting import Expecting
from tests.reach.test_capture import START, Events


def face(keep: int = 1 << 20) -> tuple[Capture, Expecting, list[bytes]]:
    capture = Capture(WallClock(), "console ns/vm", keep=keep)
    typed: list[bytes] = []
    return capture, Expecting(capture, typed.append, timeout=5), typed


def test_a_login_is_talked_through() -> None:
    capture, spawn, typed = face()

    def guest() -> None:
        capture.add(b"hil-1 lo")
        capture.add(b"gin: ")

    threading.Timer(0.02, guest).start()
    assert spawn.expect([b"Password: ", rb"(\S+) login: "]) == 1
    assert spawn.match.group(1) == b"hil-1"
    spawn.sendline("root")
    capture.add(b"root\r\n# ")
    spawn.expect_exact(b"# ")
    assert spawn.before == b"root\r\n"
    assert typed == [b"root\r"]
    assert spawn.isalive()


def test_the_end_is_an_eof_that_says_how() -> None:
    capture, spawn, _ = face()
    capture.add(b"half")
    capture.end(How.GONE, "the VMI is gone")
    with pytest.raises(pexpect.EOF, match="the VMI is gone"):
        spawn.expect(b"whole")
    assert spawn.before == b"half"
    assert not spawn.isalive()


def test_silence_is_a_timeout() -> None:
    _, spawn, _ = face()
    with pytest.raises(pexpect.TIMEOUT):
        spawn.expect(b"x", timeout=0.02)
    assert spawn.expect([b"x", pexpect.TIMEOUT], timeout=0.02) == 1


def test_every_wait_has_an_end() -> None:
    _, spawn, _ = face()
    with pytest.raises(ValueError, match="may wait for ever"):
        spawn.expect(b"x", timeout=None)


def test_what_was_dropped_before_it_was_read_is_an_error() -> None:
    capture, spawn, _ = face(keep=10)
    for _ in range(10):
        capture.add(b"0123456789")
    with pytest.raises(pexpect.ExceptionPexpect, match="dropped"):
        spawn.expect(b"9")


def test_it_begins_where_it_is_told() -> None:
    capture, _, typed = face()
    capture.add(b"old new")
    spawn = Expecting(capture, typed.append, timeout=1, since=4)
    assert spawn.expect([b"old", b"new"]) == 1


def test_a_timeout_on_virtual_time_is_the_labs_silence() -> None:
    lab = Events()
    clock = VirtualClock(lab, patience=5)
    late: list[bytes] = []
    capture: Capture

    def settle() -> None:
        while late:
            capture.add(late.pop(0))

    capture = Capture(clock, "c", settle=settle)
    lab.at(3600, lambda: late.append(b"rebooting in 10 seconds\r\n"))
    spawn = Expecting(capture, late.append, timeout=5400)
    spawn.expect(b"rebooting")
    assert clock.now() - START == 3600
    with pytest.raises(pexpect.TIMEOUT):
        spawn.expect(b"never", timeout=60)
    assert clock.now() - START == 3660
