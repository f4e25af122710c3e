"""The trial of reboots, against a machine whose story is told in advance, on a scripted time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from harness.bringup.reboots import (
    PRINT_LOG,
    SET_NMI,
    SET_PANIC,
    SHOW_PANIC,
    STEADY,
    SYSRQ_BOOT,
    SYSRQ_CRASH,
    RebootBench,
    try_reboots,
)
from harness.clock import Deadline
from harness.facts.boots import LOOK
from harness.facts.fact import Unread
from harness.facts.reboots import BannerDecoy, RebootKind, RebootNotRun, RebootTrial
from harness.judge.reboots import reboots_told
from harness.reach.capture import Capture, How
from harness.reach.errors import LabError, Unreachable
from harness.reach.nodeshell import Reply

BANNER = b"[    0.000000] Linux version 6.1.0-57 (x) #1\r\n"


class Clock:
    """Time that moves as somebody waits; what is due comes when it comes."""

    follows = False

    def __init__(self) -> None:
        self.time = 1000.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def deadline(self, seconds: float) -> Deadline:
        return Deadline(self, self.time + seconds, seconds)

    def wait(
        self, look: Callable[[], bool], deadline: Deadline, what: str, bell: object = None
    ) -> bool:
        while not look():
            moment = min([deadline.at, *(at for at, _ in self.due)])
            if moment >= deadline.at:
                self.time = max(self.time, deadline.at)
                return look()
            self.pass_to(moment)
        return True

    def sleep(self, seconds: float, what: str = "sleep") -> None:
        self.wait(lambda: False, self.deadline(seconds), what)

    def pass_to(self, moment: float) -> None:
        self.time = max(self.time, moment)
        now = [do for at, do in self.due if at <= self.time]
        self.due = [(at, do) for at, do in self.due if at > self.time]
        for do in now:
            do()

    def after(self, seconds: float, do: Callable[[], None]) -> None:
        self.due.append((self.time + seconds, do))

    def notify(self) -> None:
        return

    def held(self) -> Any:
        return nullcontext()

    def follow(self, participant: object) -> Callable[[], None]:
        return lambda: None

    @contextmanager
    def actor(self, name: str) -> Iterator[None]:
        yield

    def back_off(self, seconds: float, stop: threading.Event) -> bool:
        return False


@dataclass
class Machine:
    """A machine, its shell, its console and its power at once.

    It boots ``down`` seconds after an order and answers ``up`` seconds after that; ``dying`` is how
    long the old system still answers after an order that is given to it in good order.
    """

    clock: Clock = field(default_factory=Clock)
    down: float = 2.0
    up: float = 4.0
    dying: float = 1.0
    boots: int = 1
    extra: int = 0  # boots that come right behind the ordered one
    refuses: dict[tuple[str, ...], int] = field(default_factory=dict)
    deaf: frozenset[RebootKind] = frozenset()  # orders that have no effect
    panic: bytes = b"1\n"
    keeps_id: bool = False
    ends_console: bool = False
    how: How = How.GONE
    quiet: bool = False
    log: bytes = BANNER + b"[    1.000000] x\r\n"
    dead: bool = False  # never comes back
    logged_in: int = 0
    resets: int = 0
    ordered: list[tuple[str, ...]] = field(default_factory=list)
    began: float = 900.0
    away: tuple[float, float] = (0.0, 0.0)
    login_boot: int = 1
    where: str = "guest n1"
    root: str = ""

    def __post_init__(self) -> None:
        self.capture = Capture(self.clock, "console n1")
        self.closed = 0

    # -- console

    @property
    def ending(self) -> Any:
        return self.capture.ending

    def close(self) -> None:
        self.closed += 1
        self.capture.end(How.OURS, "we closed it")

    # -- shell

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        argv = tuple(argv)
        if self.login_boot != self.boots or self._away():
            return self.reply(argv, None, b"", "the connection has ended")
        if argv in self.refuses:
            return self.reply(argv, self.refuses[argv], b"")
        if argv == LOOK:
            return self.reply(argv, 0, self.look())
        if argv == SHOW_PANIC:
            return self.reply(argv, 0, self.panic)
        self.ordered.append(argv)
        if argv == PRINT_LOG:
            self.clock.after(0.5, lambda: self.capture.add(self.log))
        if argv == ("reboot",):
            self.go_down(RebootKind.INSIDE, self.dying)
        if argv == SYSRQ_BOOT:
            self.go_down(RebootKind.SYSRQ)
            return self.reply(argv, None, b"", "3 s passed")
        if argv == SYSRQ_CRASH:
            self.go_down(RebootKind.PANIC)
            raise Unreachable("exec", "a connection that broke", "wait")
        return self.reply(argv, 0, b"")

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        raise AssertionError

    def reply(self, argv: tuple[str, ...], code: int | None, out: bytes, why: str = "") -> Reply:
        now = self.clock.now()
        return Reply(argv, code, out, b"", now, now, why)

    def look(self) -> bytes:
        boot = 1 if self.keeps_id else self.boots
        up = self.clock.now() - self.began
        return f"00000000-0000-4000-8000-{boot:012d}\n{up:.2f} 1.00\n".encode()

    def login(self) -> Any:
        return self

    def come_back(self, seconds: float) -> Any:
        if self._away():
            raise Unreachable("log in", "no answer", "wait")
        self.logged_in += 1
        self.login_boot = self.boots
        return self

    def _away(self) -> bool:
        return self.dead or self.away[0] <= self.clock.now() < self.away[1]

    # -- power

    def reset(self) -> None:
        self.resets += 1
        self.go_down(RebootKind.RESET)

    def nmi(self) -> None:
        self.go_down(RebootKind.NMI)

    def go_down(self, kind: RebootKind, after: float = 0.0) -> None:
        if kind not in self.deaf:
            self.clock.after(after, self._down) if after else self._down()

    def _down(self) -> None:
        now = self.clock.now()
        self.away = (now, now + self.down + self.up)
        self.clock.after(self.down, self._boot)
        if self.ends_console:
            self.capture.end(self.how, "the emulator has ended")

    def _boot(self) -> None:
        self.boots += 1
        self.began = self.clock.now()
        self.capture.add(b"" if self.quiet else BANNER + b"n1 login: ")
        if self.extra:
            self.extra -= 1
            self.clock.after(self.up + 2, self._down)

    def bench(self, **more: Any) -> RebootBench:
        given: dict[str, Any] = {"power": self, "inside": ("reboot",), "budget": 60.0, **more}
        return RebootBench(
            where="guest n1",
            clock=self.clock,
            login=self.login,
            come_back=self.come_back,
            attach=lambda: self,
            **given,
        )


def outcome(machine: Machine, **more: Any) -> tuple[Any, str, str]:
    found = try_reboots(machine.bench(**more))
    verdict = reboots_told(found, "guest n1")
    return found, str(verdict.outcome), verdict.because


def test_every_kind_is_seen_as_one_change_each() -> None:
    machine = Machine()
    found, told, because = outcome(machine)
    assert told == "holds", because
    assert [one.how for one in found.trials] == list(RebootKind)
    assert all(isinstance(one, RebootTrial) for one in found.trials)
    assert {one.console.banners for one in found.trials} == {1}
    assert [len(set(one.boot_ids)) for one in found.trials] == [2] * 5
    assert machine.closed == 1


def test_what_was_ordered_and_in_which_order() -> None:
    machine = Machine()
    outcome(machine)
    assert machine.ordered == [
        PRINT_LOG,
        ("reboot",),
        SYSRQ_BOOT,
        SET_PANIC,
        SYSRQ_CRASH,
        SET_PANIC,
        SET_NMI,
    ]


@pytest.mark.parametrize("prompt", [b"", b"login: ", b"never shown"])
def test_seconds_count_from_the_order_to_the_first_answer(prompt: bytes) -> None:
    found, told, _ = outcome(Machine(), prompt=prompt, again=0.25)
    assert told == "holds"
    reset = found.trials[1]
    waited = 60.0 if prompt == b"never shown" else 6.0
    assert reset.seconds == pytest.approx(waited, abs=0.3)
    assert reset.console.banner_after == pytest.approx(2.0)


def test_a_system_that_goes_down_in_its_own_time_is_seen_to_answer_till_then() -> None:
    machine = Machine(dying=5.0)
    found, told, _ = outcome(machine)
    assert told == "holds"
    inside = found.trials[0]
    assert [one.boot_id for one in inside.looks] == [
        inside.boot_ids[0],
        inside.boot_ids[0],
        inside.boot_ids[1],
        inside.boot_ids[1],
    ]
    assert inside.looks[-1].at - inside.looks[-2].at >= STEADY


def test_the_decoy_shows_a_banner_and_no_other_boot() -> None:
    found, _, because = outcome(Machine())
    assert isinstance(found.decoy, BannerDecoy)
    assert (found.decoy.console.banners, len({one.boot_id for one in found.decoy.looks})) == (1, 1)
    assert "printing the log showed 1 first line" in because
    assert BANNER.decode().strip() in found.decoy.origin.raw


def test_a_wrapped_log_makes_no_decoy() -> None:
    _, told, because = outcome(Machine(log=b"[   99.000000] x\r\n"))
    assert told == "unknown"
    assert "showed no first line of a kernel" in because


def test_without_power_and_command_what_is_left_is_tried() -> None:
    found, told, because = outcome(Machine(), power=None, inside=())
    assert told == "holds"
    left = [one.how for one in found.trials if isinstance(one, RebootNotRun)]
    assert left == [RebootKind.INSIDE, RebootKind.RESET, RebootKind.NMI]
    assert "inside not run: its system has no command" in because
    assert "reset not run: the lab has no hold of the machine's power" in because


@pytest.mark.parametrize(
    ("argv", "how"),
    [
        (("reboot",), RebootKind.INSIDE),
        (SYSRQ_BOOT, RebootKind.SYSRQ),
        (SET_PANIC, RebootKind.PANIC),
        (SYSRQ_CRASH, RebootKind.PANIC),
        (SET_NMI, RebootKind.NMI),
    ],
)
def test_an_order_that_is_refused_is_told_as_not_run(
    argv: tuple[str, ...], how: RebootKind
) -> None:
    found, told, because = outcome(Machine(refuses={argv: 126}))
    assert told == "holds"
    refused = next(one for one in found.trials if getattr(one, "how", None) is how)
    assert isinstance(refused, RebootNotRun)
    assert "exit 126" in because


def test_a_panic_that_would_stand_still_is_not_provoked() -> None:
    machine = Machine(panic=b"0\n")
    _, told, because = outcome(machine)
    assert told == "holds"
    assert SYSRQ_CRASH not in machine.ordered
    assert "panic not run: kernel.panic was set and is not in effect" in because


def test_power_that_cannot_do_it_is_told() -> None:
    class Broken(Machine):
        def reset(self) -> None:
            raise LabError("reset n1", "it is off", "switch it on")

    _, told, because = outcome(Broken())
    assert told == "holds"
    assert "reset not run: tried to reset n1, saw it is off" in because


def test_an_order_without_effect_is_not_taken_for_a_reboot() -> None:
    found, told, because = outcome(Machine(deaf=frozenset({RebootKind.RESET})))
    assert told == "unknown"
    assert "reset: no other boot in" in because
    assert found.trials[1].seconds is None


def test_two_boots_for_one_order_are_two() -> None:
    _, told, because = outcome(Machine(extra=1))
    assert told == "broken"
    assert "changed 2 times" in because


def test_an_uptime_that_falls_under_one_boot_id_is_seen() -> None:
    _, told, because = outcome(Machine(keeps_id=True))
    assert told == "broken"
    assert "under one boot id" in because


def test_a_console_that_ends_is_told_and_does_not_hold_up_the_rest() -> None:
    found, told, because = outcome(Machine(ends_console=True))
    assert told == "broken"
    assert "inside: the console did not stay attached: the emulator has ended" in because
    assert len([one for one in found.trials if isinstance(one, RebootTrial)]) == 5


def test_a_console_that_somebody_took_leaves_it_open() -> None:
    _, told, because = outcome(Machine(ends_console=True, how=How.TAKEN))
    assert told == "unknown"
    assert "the console was lost" in because


def test_a_quiet_kernel_shows_no_banner_and_is_told_all_the_same() -> None:
    """``quiet`` on its command line: only what the system prints comes."""

    class Quiet(Machine):
        def _boot(self) -> None:
            super()._boot()
            self.capture.add(b"n1 login: ")

    found, told, _ = outcome(Quiet(quiet=True))
    assert told == "holds"
    assert {one.console.banners for one in found.trials} == {0}
    assert {one.console.banner_after for one in found.trials} == {None}


def test_a_machine_that_does_not_come_back_leaves_it_unknown() -> None:
    class Lost(Machine):
        def _boot(self) -> None:
            self.dead = True

    machine = Lost(dying=0.0)
    found, told, because = outcome(machine)
    assert told == "unknown"
    assert all(isinstance(one, Unread) for one in found.trials)
    assert "nobody answered within 60 s, at last: tried to log in, saw no answer" in because
    assert machine.resets == 4, "for each kind after the first"
    machine = Lost(dying=0.0)
    outcome(machine, power=None)
    assert machine.clock.now() < 1000.0 + 100.0, "where there is no rescue, none is waited for"
    _, told, because = outcome(Lost(dying=3.0))
    assert told == "unknown"
    assert (
        "inside: no other boot in 60 s after the order (reboot:  (exit 0); nobody answ" in because
    )


def test_a_machine_that_stands_still_after_a_panic_is_reset_for_the_next_kind() -> None:
    class Stuck(Machine):
        def go_down(self, kind: RebootKind, after: float = 0.0) -> None:
            self.dead = kind is RebootKind.SYSRQ
            super().go_down(kind, after)

    machine = Stuck()
    found, told, because = outcome(machine)
    assert told == "unknown"
    assert "sysrq" in because
    kinds = [type(one).__name__ for one in found.trials]
    assert kinds == ["RebootTrial", "RebootTrial", "Unread", "RebootTrial", "RebootTrial"]


def test_a_connection_that_ended_is_made_anew_before_anything_is_reset() -> None:
    class Flaky(Machine):
        def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
            if tuple(argv) == LOOK and PRINT_LOG in self.ordered and not self.logged_in:
                self.login_boot = 0 if self.capture.size and self.looked else self.login_boot
                self.looked = True
            return super().run(argv, timeout=timeout)

        looked = False

    machine = Flaky()
    _, told, because = outcome(machine)
    assert told == "holds", because
    assert machine.resets == 1, "as a kind of its own"


def test_a_shell_that_fails_in_the_midst_of_an_order_leaves_that_kind_unknown() -> None:
    class Failing(Machine):
        def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
            if tuple(argv) == SET_NMI:
                raise Unreachable("exec", "nothing", "wait")
            return super().run(argv, timeout=timeout)

    found, told, because = outcome(Failing())
    assert told == "unknown"
    assert isinstance(found.trials[-1], Unread)
    assert "for a reboot by nmi could not be read: tried to exec" in because


def test_a_machine_that_goes_away_again_is_unclear() -> None:
    class Again(Machine):
        def _boot(self) -> None:
            super()._boot()
            self.clock.after(self.up + 1, self.vanish)

        def vanish(self) -> None:
            self.dead = True

    _, told, because = outcome(Again())
    assert told == "unknown"
    assert "inside: the new boot was seen once and did not answer again" in because


def test_holding_on_to_the_lab_is_renewed_all_along() -> None:
    renewed: list[float] = []
    machine = Machine()
    try_reboots(machine.bench(renew=lambda: renewed.append(machine.clock.now())))
    assert max(later - sooner for sooner, later in pairwise(renewed)) <= 6.0


def test_a_console_that_cannot_be_had_stops_it() -> None:
    def attach() -> Any:
        raise Unreachable("attach", "nobody", "see")

    machine = Machine()
    bench = machine.bench()
    with pytest.raises(Unreachable):
        try_reboots(RebootBench(**{**_fields(bench), "attach": attach}))
    assert machine.ordered == []


def _fields(bench: RebootBench) -> dict[str, Any]:
    return {name: getattr(bench, name) for name in bench.__dataclass_fields__}
