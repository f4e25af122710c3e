from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clock import WallClock
from harness.reach.capture import How
from harness.reach.errors import Unreachable
from harness.reach.serial import SerialConsole

CLOCK = WallClock()


class Emulator:
    """QEMU's side of a serial port: a byte at a time, each of which takes a whole buffer's slot."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(str(path))
        self._listening.listen()
        self._line: socket.socket | None = None

    @property
    def line(self) -> socket.socket:
        if self._line is None:
            self._line, _ = self._listening.accept()
            self._line.settimeout(10)
        return self._line

    def prints(self, text: bytes) -> None:
        for position in range(len(text)):
            self.line.sendall(text[position : position + 1])

    def hears(self, size: int) -> bytes:
        heard = b""
        while len(heard) < size:
            heard += self.line.recv(size - len(heard))
        return heard

    def exits(self) -> None:
        self.line.close()
        self._listening.close()


@pytest.fixture
def emulator(tmp_path: Path) -> Emulator:
    return Emulator(tmp_path / "serial")


@pytest.fixture
def console(emulator: Emulator) -> Iterator[SerialConsole]:
    attached = SerialConsole.attach(emulator.path, CLOCK, name="n1")
    yield attached
    attached.close()


def test_all_that_is_printed_is_captured(emulator: Emulator, console: SerialConsole) -> None:
    emulator.prints(b"Linux version 6.1\r\nn1 login: ")
    found = console.capture.wait(b"login: ", CLOCK.deadline(5))
    assert found is not None
    assert console.capture.text() == b"Linux version 6.1\r\nn1 login: "


def test_an_unread_console_holds_up_no_guest(emulator: Emulator, console: SerialConsole) -> None:
    text = bytes(range(256)) * 16
    printing = threading.Thread(target=emulator.prints, args=(text,))
    printing.start()
    printing.join(10)
    assert not printing.is_alive()
    CLOCK.wait(lambda: console.capture.size == len(text), CLOCK.deadline(5), "")
    assert console.capture.text() == text


def test_bytes_are_taken_in_by_batches(emulator: Emulator, console: SerialConsole) -> None:
    text = b"." * 3000
    emulator.prints(text)
    CLOCK.wait(lambda: console.capture.size == len(text), CLOCK.deadline(5), "")
    assert len(console.capture.pieces()) < 300  # one wake-up a byte were 3000


def test_what_is_typed_arrives_in_order(emulator: Emulator, console: SerialConsole) -> None:
    text = b"".join(b"%d\r" % number for number in range(100_000))  # more than fits a buffer
    console.send(b"root\r")
    console.send(text)
    console.send(b"exit\r")
    assert emulator.hears(10 + len(text)) == b"root\r" + text + b"exit\r"


def test_pexpect_talks_through_it(emulator: Emulator, console: SerialConsole) -> None:
    spawn = console.expecting(timeout=5)
    threading.Timer(0.02, emulator.prints, (b"n1 login: ",)).start()
    spawn.expect(rb"(\S+) login: ")
    assert spawn.match.group(1) == b"n1"
    spawn.sendline("root")
    assert emulator.hears(5) == b"root\r"


def test_the_emulators_end_is_the_machines(emulator: Emulator, console: SerialConsole) -> None:
    emulator.prints(b"reboot: Power down")
    emulator.exits()
    ending = console.capture.wait_for_end(CLOCK.deadline(5))
    assert ending is not None
    assert (ending.how, ending.early) == (How.GONE, False)
    assert "emulator has ended" in ending.told
    assert console.capture.text() == b"reboot: Power down"
    with pytest.raises(Unreachable, match=r"type on the console of n1, saw that it has ended.*"):
        console.send(b"x")


def test_a_killed_emulator_with_our_keys_unread_is_the_same(
    emulator: Emulator, console: SerialConsole
) -> None:
    emulator.prints(b"# ")
    console.send(b"never read")
    assert emulator.hears(1) == b"n"
    emulator.exits()
    ending = console.capture.wait_for_end(CLOCK.deadline(5))
    assert ending is not None
    assert ending.how is How.GONE


def test_letting_go_is_ours_and_may_be_said_twice(
    emulator: Emulator, console: SerialConsole
) -> None:
    emulator.prints(b"x")
    assert console.ending is None
    console.close()
    console.close()
    assert console.ending is not None
    assert console.ending.how is How.OURS
    assert emulator.line.recv(1) == b""


def test_where_nobody_listens_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="attach to the console of n2, saw No such file"):
        SerialConsole.attach(tmp_path / "none", CLOCK, name="n2")
    long = tmp_path / ("x" * 120)
    with pytest.raises(Unreachable, match=r"path too long.*check that the machine is on"):
        SerialConsole.attach(long, CLOCK, name="n2")
