"""Lines of a worker's kernel, held against those of a real one (lab/captures), by their shape."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

CAPTURES = Path(__file__).resolve().parents[4] / "shared" / "lab" / "captures"
MODULE = re.compile(
    r"^\w+ \d+ \d+ (-|(?:\w+,)+) (Live|Loading|Unloading) 0x[0-9a-f]{16}( \([POFDCE]+\))?$"
)
BANNER = re.compile(
    r"^\[    0\.000000\] Linux version \d+\.\d+\.\d+-\S+ \(\S+@?\S*\) "
    r"\(.*gcc.*, GNU ld .*\) #\d+ SMP "
)
BOOT_ID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\n$")
CARD = re.compile(r"^GPU \d+: .+ \(UUID: GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\)$")


@pytest.fixture
def guest(lab: Any) -> Any:
    lab.gpu_pool()
    lab.run_until(lab.joined, 900.0)
    (found,) = lab.world.guests.all()
    return found


def read(guest: Any, *argv: str) -> list[str]:
    result = guest.run(list(argv))
    assert result.exit_code == 0, result
    return str(result.stdout.decode()).splitlines()


def captured(name: str) -> list[str]:
    file = CAPTURES / name
    if not file.is_file():
        pytest.skip("the captures are not beside this checkout")
    return file.read_text(encoding="utf-8").splitlines()


def test_proc_modules(guest: Any) -> None:
    lines = read(guest, "cat", "/proc/modules")
    assert [line for line in lines if not MODULE.match(line)] == []
    names = [line.split()[0] for line in lines]
    # what a module uses was there before it, so stands below it
    for line in lines:
        name, _, count, users = line.split()[:4]
        known = [] if users == "-" else users.rstrip(",").split(",")
        assert all(names.index(user) < names.index(name) for user in known)
        assert int(count) >= len(known)


def test_real_modules_have_that_shape() -> None:
    lines = [line for line in captured("modules_load_order.txt") if " Live 0x" in line]
    assert len(lines) > 40
    assert [line for line in lines if not MODULE.match(line)] == []


def test_banner_and_boot_id(guest: Any) -> None:
    first = guest.kernel_log().decode().splitlines()[0]
    assert BANNER.match(first)
    assert guest.console().decode().startswith(f"{first}\r\n")
    assert BOOT_ID.match(guest.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout.decode())


def test_real_banners_and_boot_ids_have_that_shape() -> None:
    text = captured("console_reboots.txt")
    banners = [line for line in text if "Linux version" in line and line.startswith("[")]
    assert len(banners) >= 6 and all(BANNER.match(line) for line in banners)
    ids = [line.rsplit(" ", 1)[1] for line in text if "boot_id" in line and "up n1" in line]
    assert len(ids) >= 5 and all(BOOT_ID.match(f"{one}\n") for one in ids)


def test_nvidia_smi_lists_cards_as_the_tool_does(guest: Any) -> None:
    lines = read(guest, "chroot", "/host", "/usr/local/bin/nvidia-smi", "-L")
    assert len(lines) == 1 and CARD.match(lines[0])
    stub = [one for one in captured("guest_fastinit_cdi.txt") if one.startswith("GPU 0:")]
    assert stub and all(CARD.match(one) for one in stub)


def test_a_panic_reads_as_the_real_one(guest: Any) -> None:
    """By sysrq, the lines that are the kernel's own and not of one machine."""
    real = "\n".join(captured("console_reboots.txt"))
    guest.run(["sh", "-c", "echo 3 > /proc/sys/kernel/panic"])
    guest.run(["sh", "-c", "echo c > /proc/sysrq-trigger"])
    printed = guest.console().decode()
    for line in (
        "sysrq: Trigger a crash",
        "Kernel panic - not syncing: sysrq triggered crash",
        "Call Trace:",
        " sysrq_handle_crash+0x16/0x20",
        "Rebooting in 3 seconds..",
    ):
        assert line in real and line in printed
