from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.qemulab.console_tail import readable, tail

PANIC = (
    b"\x1b[2J\x1b[01;01H\x1b[=3h\x1b[2J\x1b[01;01H"
    b"[    1.9] /dev/root: Can't open blockdev\r\n\r\n"
    b"[    2.0] Kernel panic - not syncing: VFS\r\n"
    b"# \x1b[6n\x00\x07ls\r\n"
)


def test_what_a_person_reads_is_left() -> None:
    assert readable(PANIC) == [
        "[    1.9] /dev/root: Can't open blockdev",
        "[    2.0] Kernel panic - not syncing: VFS",
        "# ls",
    ]


def test_the_last_lines_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    assert tail(log, 3) == []
    log.write_bytes(PANIC)
    assert tail(log, 2) == ["[    2.0] Kernel panic - not syncing: VFS", "# ls"]
    assert tail(log, 0) == []


def test_a_cut_letter_and_a_long_line_are_no_trouble() -> None:
    assert readable(b"caf\xc3") == ["caf\ufffd"]
    assert [len(line) for line in readable(b"x" * 5000)] == [200]


@given(st.binary(max_size=200))
def test_nothing_that_a_terminal_would_obey_is_left(data: bytes) -> None:
    for line in readable(data):
        assert line.strip()
        assert not any(ord(letter) < 32 and letter != "\t" for letter in line)
