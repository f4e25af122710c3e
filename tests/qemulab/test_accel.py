from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.clock import WallClock
from harness.qemulab import accel
from harness.qemulab.errors import Unfit

CLOCK = WallClock()
SPEAKS = "print('[    0.0] Linux version 6.1', flush=True); import time; time.sleep(60)"
HANGS = "import time; time.sleep(60)"
FAILS = "import sys; sys.exit('qemu: failed to initialize kvm: Operation not permitted')"


def python(program: str) -> list[str]:
    return [sys.executable, "-S", "-c", program]


def test_a_kernel_that_speaks_proves_it() -> None:
    found = accel.tried(python(SPEAKS), CLOCK, 30.0)
    assert found.name == "kvm"
    assert "spoke under KVM" in found.why
    assert found.options[:2] == ("-accel", "kvm")


def test_one_that_hangs_is_given_up_and_ended() -> None:
    began = CLOCK.monotonic()
    found = accel.tried(python(HANGS), CLOCK, 0.2)
    assert found.name == "tcg"
    assert "opens, but no kernel spoke under KVM in 0.2 s" in found.why
    assert CLOCK.monotonic() - began < 10


def test_one_that_fails_is_told_in_its_own_words() -> None:
    found = accel.tried(python(FAILS), CLOCK, 30.0)
    assert found.name == "tcg"
    assert "Operation not permitted" in found.why


def test_without_qemu_it_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "tether", tuple)
    with pytest.raises(Unfit, match="install Debian's qemu-system-x86"):
        accel.tried(["/nowhere/qemu"], CLOCK, 1.0)


def test_what_is_missing_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unfit, match=r"no qemu-system-x86_64.*: install Debian's qemu-system-x86$"):
        accel.check_installed()
    program = tmp_path / accel.PROGRAM
    program.touch(0o755)
    with pytest.raises(Unfit, match=r"no qemu-img.*: install Debian's qemu-utils$"):
        accel.check_installed()


def test_no_device_needs_no_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accel, "DEVICE", tmp_path / "kvm")
    monkeypatch.setattr(accel, "trial_command", lambda kernel: pytest.fail("tried"))
    found = accel.choose(tmp_path / "vmlinuz", CLOCK, tmp_path / "kept")
    assert (found.name, found.why) == ("tcg", f"there is no {tmp_path}/kvm")


def test_a_trial_is_remembered_for_this_boot_and_this_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, boot, kept = tmp_path / "kvm", tmp_path / "boot_id", tmp_path / "kept"
    device.touch()
    boot.write_text("one\n")
    trials = []

    def command(kernel: Path) -> list[str]:
        trials.append(kernel)
        return python(SPEAKS)

    monkeypatch.setattr(accel, "DEVICE", device)
    monkeypatch.setattr(accel, "BOOT", boot)
    monkeypatch.setattr(accel, "trial_command", command)
    first = accel.choose(Path("a"), CLOCK, kept)
    again = [accel.choose(Path("a"), CLOCK, kept) for _ in range(2)]
    assert len(trials) == 1
    assert {one.name for one in (first, *again)} == {"kvm"}
    assert [one.why for one in again] == [
        f"{first.why} (tried earlier in this boot of the host)"
    ] * 2
    accel.choose(Path("b"), CLOCK, kept)
    boot.write_text("two\n")
    accel.choose(Path("b"), CLOCK, kept)
    kept.write_text("{")
    accel.choose(Path("b"), CLOCK, kept)
    assert len(trials) == 4
