from __future__ import annotations

import pytest

from harness.facts.fact import Unread
from harness.facts.guestdisk import GuestDisk, read_disk_size
from harness.facts.reply import Output

ASKED = ("cat", "/sys/block/vda/size")


def read(stdout: str, code: int | None = 0, stderr: str = "") -> GuestDisk | Unread:
    return read_disk_size(Output(ASKED, code, stdout, stderr), at=1.0, source="guest w1")


def test_sectors_are_512_bytes() -> None:
    found = read("41943040\n")
    assert isinstance(found, GuestDisk)
    assert found.size == 20 * 2**30
    assert found.origin.raw == "41943040\n"


@pytest.mark.parametrize(
    ("stdout", "code", "why"),
    [
        ("", 0, "no number of sectors"),
        ("20Gi", 0, "no number of sectors: '20Gi'"),
        ("1\n2", 0, "no number of sectors"),
        ("-1", 0, "no number"),
        ("", 1, "ended with 1"),
        ("41943040\n", None, "no exit status"),
    ],
)
def test_anything_else_is_unread(stdout: str, code: int | None, why: str) -> None:
    found = read(stdout, code)
    assert isinstance(found, Unread)
    assert why in found.reason
