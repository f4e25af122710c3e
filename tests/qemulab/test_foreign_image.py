"""A disk image of the user's own, booted by the code that boots the project's: here one sector."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from harness.clock import WallClock
from harness.qemulab.argv import arguments
from harness.qemulab.errors import Unfit
from harness.qemulab.lab import MiB, MiniLab, Wants
from tests.qemulab.conftest import spec_for

CLOCK = WallClock()
PRINTS = bytes.fromhex(
    "fa 31c0 8ed8 be237c fc ac 84c0 7412 88c3 bafd03 ec a820 74fb 88d8 baf803 ee ebe9 f4 ebfd"
)
"""Real mode: writes the text behind it to the first serial port, and halts."""
TEXT = b"[sector] booted from my own disk\r\n"


def sector(tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "own.raw"
    first = (PRINTS + TEXT + b"\0").ljust(510, b"\0") + b"\x55\xaa"
    path.write_bytes(first.ljust(MiB, b"\0"))
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


def test_it_is_booted_from_its_disk_and_talos_port_leads_in(tmp_path: Path) -> None:
    spec = spec_for(tmp_path / "lab", tmp_path, [20022], foreign=True)
    argv = arguments(spec, spec.guests[0], 20022, 5)
    assert not {"-kernel", "-initrd", "-append"} & set(argv)
    assert argv[argv.index("-smp") + 1] == "2"
    assert any(word.endswith("hostfwd=tcp:127.0.0.1:20022-:50000") for word in argv)


@pytest.mark.skipif(
    os.environ.get("HIL_QEMU_TESTS") != "1",
    reason="HIL_QEMU_TESTS=1 is not set: a disk image of one's own is not booted",
)
def test_three_guests_boot_it_and_have_console_power_and_snapshots(tmp_path: Path) -> None:
    wants = Wants(guests=3, memory=64 * MiB, disk=8 * MiB, image=sector(tmp_path))
    lab = MiniLab.start(tmp_path / "lab", wants)
    try:
        assert lab.names == ("n1", "n2", "n3")
        logs = [lab.guest(name).log for name in lab.names]
        assert all(log.read_bytes().count(b"[sector] booted") == 1 for log in logs)
        console = lab.console("n2", CLOCK)
        lab.power("n2").reset()
        again = console.capture.wait(b"my own disk", CLOCK.deadline(60), since=0)
        console.close()
        assert again is not None
        lab.rollback()
        with pytest.raises(Unfit, match="which the project has no login to"):
            lab.shell("n1", CLOCK)
    finally:
        lab.close()


@pytest.mark.skipif(
    os.environ.get("HIL_QEMU_TESTS") != "1",
    reason="HIL_QEMU_TESTS=1 is not set: a disk image that is another one is not tried",
)
def test_another_image_than_was_named_boots_nothing(tmp_path: Path) -> None:
    path, _ = sector(tmp_path)
    with pytest.raises(Unfit, match="was named"):
        MiniLab.start(tmp_path / "lab", Wants(image=(path, "0" * 64)))
