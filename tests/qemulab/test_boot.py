from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from harness.clock import Moment, VirtualClock
from harness.qemulab.boot import LIMIT, SILENCE, modules_refused, wait_for_prompt
from harness.qemulab.errors import Unfit
from harness.reach.capture import Capture, How


class Time:
    """Time that jumps to where somebody waits; things are printed on the way."""

    def __init__(self, *events: tuple[float, Any]) -> None:
        self.now = 0.0
        self.events = list(events)

    def settle(self) -> Moment:
        return Moment(self.now, 0)

    def advance(self, until: float) -> Moment:
        if self.events and self.events[0][0] <= until:
            self.now, do = self.events.pop(0)
            do()
        else:
            self.now = until
        return self.settle()


def booting(*prints: tuple[float, bytes], ends: float | None = None) -> tuple[Any, VirtualClock]:
    late: list[bytes] = []  # printed, not taken in: time may not move while something is
    console = SimpleNamespace(name="n1", capture=None)
    events: list[tuple[float, Any]] = [
        (at, lambda text=text: late.append(text)) for at, text in prints
    ]
    if ends is not None:
        events.append((ends, lambda: console.capture.end(How.GONE, "its emulator has ended")))
    clock = VirtualClock(Time(*events), patience=5)

    def settle() -> None:
        while late:
            console.capture.add(late.pop(0))

    console.capture = Capture(clock, "console n1", settle=settle)
    return console, clock


def test_the_prompt_is_waited_for_however_slow_it_comes() -> None:
    prints = [(10.0 * n, b"[ok] started something\r\n") for n in range(1, 15)]
    console, clock = booting(*prints, (150.0, b"n1 lo"), (151.0, b"gin: "))
    wait_for_prompt(console, clock)
    assert clock.now() == 151.0


def test_a_panic_is_not_waited_out_and_its_last_lines_are_shown() -> None:
    panic = b"Kernel panic - not syncing: VFS: Unable to mount root fs\r\n"
    console, clock = booting((2.0, b"/dev/root: Can't open blockdev\r\n"), (3.0, panic))
    with pytest.raises(Unfit) as told:
        wait_for_prompt(console, clock)
    assert clock.now() == 3.0
    assert "boot n1" in told.value.tried
    assert "its kernel panicked" in told.value.saw
    assert "    /dev/root: Can't open blockdev\n" in told.value.saw
    assert "Unable to mount root fs" in told.value.saw


def test_an_emulator_that_ends_is_told_at_once() -> None:
    console, clock = booting((1.0, b"booting\r\n"), ends=2.0)
    with pytest.raises(Unfit, match="its emulator ended"):
        wait_for_prompt(console, clock)
    assert clock.now() == 2.0


def test_silence_is_given_up_before_the_limit() -> None:
    console, clock = booting((1.0, b"hil-initrd: no /dev/vda\r\n"))
    with pytest.raises(Unfit, match=f"silence for {SILENCE:g} s"):
        wait_for_prompt(console, clock)
    assert clock.now() < LIMIT


def test_a_boot_that_never_ends_is_given_up_at_the_limit() -> None:
    console, clock = booting(*[(5.0 * n, b"still here\r\n") for n in range(1, 100)])
    with pytest.raises(Unfit, match=f"no login prompt in {LIMIT:g} s"):
        wait_for_prompt(console, clock)
    assert clock.now() == LIMIT


def test_a_prompt_of_an_earlier_boot_is_none() -> None:
    console, clock = booting((1.0, b"n1 login: "), (2.0, b"rebooting\r\n"), (9.0, b"n1 login: "))
    wait_for_prompt(console, clock)
    assert clock.now() == 1.0
    wait_for_prompt(console, clock, since=console.capture.size)
    assert clock.now() == 9.0


def test_a_module_that_could_not_be_loaded_is_read_off_the_console() -> None:
    console = (
        b"[    1.5] hil-start: modprobe nvidai failed\r\n[    1.6] hil-start: modprobe nvidia\r\n"
        b"[    1.7] hil-start: modprobe nvidia A=1 B=x failed\r\nn1 login: "
    )
    assert modules_refused(console) == ["nvidai", "nvidia A=1 B=x"]
    assert modules_refused(b"") == []
