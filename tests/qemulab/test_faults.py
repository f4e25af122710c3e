"""The mini-lab's faults: what they declare, and what they do to guests that are made up here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.claims.catalogue import load as load_claims
from harness.clock import WallClock
from harness.inventory.capability import capabilities, match, parse_needs
from harness.inventory.loading import load as load_inventory
from harness.qemulab.errors import Unfit
from harness.qemulab.faults import bench as benches
from harness.qemulab.faults import catalogue
from harness.qemulab.faults.bench import Bench
from harness.qemulab.faults.catalogue import FAULTS, LEFT_OUT, UnknownFault, find
from harness.qemulab.faults.listing import show
from harness.qemulab.faults.model import Fault
from harness.reach.execs import Reply

INVENTORY = Path(__file__).resolve().parents[2] / "inventory" / "qemu-mini.yaml"
FILES = {
    "/etc/drbd.d/r0.res": "net {\n\tping-int 2;\n\tverify-alg crc32c;\n}\ndisk {\n\t"
    "resync-rate 100M;\n\ton-io-error detach;\n}\n",
    "/usr/local/bin/hil-cdi-generate": "cdiVersion: 0.5.0\n",
    "/usr/local/sbin/hil-start": "mount -t proc\nmount -t sysfs sysfs /sys\n",
}
Answer = Callable[[str, tuple[str, ...]], "str | int | None"]


@dataclass
class Guests:
    """Guests that write down what is done to them. ``answer`` gives a command's output, its exit
    status, or None for no status at all; a file's text is in ``files``.
    """

    answer: Answer = lambda _guest, _argv: ""
    files: Mapping[str, str] = field(default_factory=lambda: FILES)
    uptime: float = 300.0
    names: tuple[str, ...] = ("n1", "n2")
    done: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)
    logouts: list[str] = field(default_factory=list)

    def shell(self, guest: str, _clock: object) -> Shell:
        self.logins.append(guest)
        return Shell(guest, self)

    def power(self, guest: str) -> Pressed:
        return Pressed(guest, self.done)

    def link(self) -> Pressed:
        return Pressed("link", self.done)

    def console(self, guest: str, _clock: object) -> Any:
        self.done.append(f"{guest} console")
        return Console(self.done)

    def guest(self, name: str) -> Any:
        return type("Access", (), {"machine": name})


@dataclass
class Pressed:
    what: str
    done: list[str]

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *words: self.done.append(" ".join((self.what, name, *words)))


@dataclass
class Console:
    done: list[str]

    class capture:  # noqa: N801 - an attribute of the real one
        size = 7

    def close(self) -> None:
        self.done.append("console let go")


@dataclass
class Shell:
    guest: str
    lab: Guests

    def run(self, argv: tuple[str, ...], *, timeout: float) -> Reply:
        self.lab.done.append(f"{self.guest}# {' '.join(argv)}")
        told = self._told(tuple(argv))
        status = told if isinstance(told, int) or told is None else 0
        text = told.encode() if isinstance(told, str) else b"no good"
        problem = "it went away" if told is None else ""
        return Reply(tuple(argv), status, text, b"", 0.0, timeout, problem)

    def _told(self, argv: tuple[str, ...]) -> str | int | None:
        if argv == ("cat", "/proc/uptime"):
            return f"{self.lab.uptime} 1.0\n"
        if argv[0] == "cat" and argv[1] in self.lab.files:
            return self.lab.files[argv[1]]
        return self.lab.answer(self.guest, argv)

    def close(self) -> None:
        self.lab.logouts.append(self.guest)


@pytest.fixture(autouse=True)
def boots_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benches, "wait_for_prompt", lambda *_, **__: None)
    monkeypatch.setattr(benches, "LOOK", 0.0)


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> Callable[[Guests], None]:
    """Guests that come back after a reset."""

    def of(guests: Guests) -> None:
        monkeypatch.setattr(benches, "log_in", lambda name, *_: guests.shell(name, None))

    return of


def planted(name: str, guests: Guests) -> list[str]:
    catalogue.plant(guests, name)  # type: ignore[arg-type]  # a lab that is made up
    return guests.done


def bench_of(guests: Guests) -> Bench:
    return Bench(guests, WallClock())  # type: ignore[arg-type]  # a lab that is made up


def askable() -> set[str]:
    lab = load_inventory(INVENTORY, claims=load_claims())
    has = capabilities(lab, "mini", lane="boots")
    return {
        one.id
        for one in load_claims().values()
        if not match(parse_needs(one.needs), has) and one.id != "unchanged-since"
    }


# -- what is declared


@pytest.mark.parametrize("one", FAULTS.values(), ids=lambda one: one.id)
def test_a_fault_asks_what_its_guests_can_be_asked_and_says_what_it_is(one: Fault) -> None:
    assert one.asks and one.asks <= askable()
    assert one.harmless is not bool(one.breaks | one.blinds)
    assert one.sentence.endswith(".") and one.seen and one.wrong_diagnosis and one.source


def test_every_claim_of_the_mini_lab_is_broken_by_a_fault_or_left_out_with_a_reason() -> None:
    broken = {claim for fault in FAULTS.values() for claim in fault.breaks}
    assert broken | set(LEFT_OUT) == askable()
    assert not broken & set(LEFT_OUT)


def fault(**declared: Any) -> Fault:
    whole = {"sentence": "s", "seen": "s", "wrong_diagnosis": "w", "edit": lambda _: None}
    return Fault(id="f", **{**whole, "controls": frozenset(), **declared})


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ({"harmless": True, "breaks": frozenset({"uptime"})}, "is declared harmless and changes"),
        ({"breaks": frozenset({"a"}), "blinds": frozenset({"a"})}, "declares a twice"),
        ({"breaks": frozenset({"a"}), "controls": frozenset({"a"})}, "declares a twice"),
        ({"says": {"a": "word"}}, "words of a claim that it does not ask"),
    ],
)
def test_what_cannot_be_declared(declared: Mapping[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        fault(**declared)


def test_a_name_that_is_none_gets_the_nearest() -> None:
    with pytest.raises(UnknownFault) as raised:
        find("drbd-link-cutt")
    assert str(raised.value) == (
        "no fault 'drbd-link-cutt' of the mini-lab: did you mean 'drbd-link-cut'?"
    )


def test_a_name_that_is_like_none() -> None:
    with pytest.raises(UnknownFault, match="lists them"):
        find("zzz")


def test_people_are_shown_the_catalogue_and_one_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert show("") == 0
    assert all(name in capsys.readouterr().out for name in [next(iter(FAULTS))])
    assert show("oom-without-reboot") == 0
    said = capsys.readouterr().out
    assert "harmless  by design" in said and "leaves" in said
    assert show("oom-without-rebot") == 2
    assert "did you mean 'oom-without-reboot'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lab", "status", "said"),
    [
        ("qemu-mini", 0, "reboots it whenever it has been up"),
        ("twin", 2, "no fault 'reboot-timer' in the catalogue"),
        ("lab-l40s", 2, "is a cluster, in which no fault is planted"),
        ("nowhere", 2, "found no readable file"),
    ],
)
def test_a_lab_is_asked_for_its_own_faults(
    lab: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    inventory = str(INVENTORY.with_name(f"{lab}.yaml"))
    assert cli.main(["faults", "--lab", inventory, "reboot-timer"]) == status
    told = capsys.readouterr()
    assert said in (told.err if status else told.out)


# -- what is done


@pytest.mark.parametrize("one", FAULTS.values(), ids=lambda one: one.id)
def test_every_edit_finds_in_the_guests_what_it_changes(
    one: Fault, logins: Callable[[Guests], None]
) -> None:
    waited = "WFConnection StandAlone Connected out-of-sync:64 Diskless/ /dev/drbd0 Out of memory: "
    guests = Guests(lambda *_: f"{waited}Killed process", uptime=5.0)
    logins(guests)
    planted(one.id, guests)
    assert sorted(guests.logins) == sorted(guests.logouts)
    assert guests.done


def test_the_driver_comes_in_as_a_dependency_before_it_is_asked_for() -> None:
    done = planted("driver-asked-late", Guests())
    assert done == [
        "n1# modprobe -r nvidia_drm nvidia_modeset nvidia_uvm nvidia",
        "n1# modprobe nvidia_drm",
        "n1# modprobe nvidia NVreg_NvLinkDisable=1",
        "n1# modprobe nvidia_uvm",
        "n1# modprobe nvidia_modeset",
    ]


def test_a_split_brain_is_left_standing_with_the_wire_whole() -> None:
    done = planted("drbd-split-brain-left", Guests(lambda *_: "WFConnection StandAlone"))
    cut, healed = done.index("link cut n1 n2"), done.index("link heal")
    apart = done[cut:healed]
    for guest in ("n1", "n2"):
        write = next(n for n, line in enumerate(apart) if line.startswith(f"{guest}# dd "))
        assert apart[write - 1] == f"{guest}# drbdadm primary r0"
        assert apart[write + 1] == f"{guest}# drbdadm secondary r0"


def test_a_block_that_differs_is_written_below_and_then_counted() -> None:
    done = planted("drbd-out-of-sync", Guests(lambda *_: "out-of-sync:64 Connected"))
    below = next(n for n, line in enumerate(done) if "of=/dev/vdb" in line)
    assert done[below].startswith("n2# dd ") and done[below + 1] == "n1# drbdadm verify r0"


@pytest.mark.parametrize(
    ("name", "uptime", "when"),
    [("reboot-timer", 5.0, 22), ("reboot-timer", 40.9, 55), ("rebooted-once", 5.0, 45)],
)
def test_a_reboot_comes_on_a_young_boot_after_somebody_has_looked(
    name: str, uptime: float, when: int, logins: Callable[[Guests], None]
) -> None:
    guests = Guests(uptime=uptime)
    logins(guests)
    done = planted(name, guests)
    assert done[:3] == ["n1 console", "n1 reset", "console let go"]
    assert f" {when}" in done[-1] or f"({when} -" in done[-1]
    assert not any(line.startswith("n2") for line in done)


def test_a_guest_too_slow_to_be_watched_is_no_proof(logins: Callable[[Guests], None]) -> None:
    guests = Guests(uptime=120.0)
    logins(guests)
    with pytest.raises(Unfit, match="120 s of uptime at the first login"):
        planted("reboot-timer", guests)
    assert guests.logins == guests.logouts == ["n1"]


# -- how it is done


def test_a_command_that_fails_is_a_plant_that_failed() -> None:
    guests = Guests(lambda *_: 3)
    with pytest.raises(Unfit, match=r"plant a fault on n1 \(modprobe.*exit 3: no good"):
        planted("module-missing", guests)
    assert guests.logouts == ["n1"]


def test_a_command_that_may_fail_has_to_answer_all_the_same() -> None:
    assert bench_of(Guests(lambda *_: 9)).run("n1", "x", fails=True) == "no good"
    with pytest.raises(Unfit, match="it went away"):
        bench_of(Guests(lambda *_: None)).run("n1", "x", fails=True)


def test_a_text_that_the_image_no_longer_has() -> None:
    guests = Guests(files={"/etc/drbd.d/r0.res": "another"})
    with pytest.raises(Unfit, match=r"no .resync-rate 100M. in /etc/drbd\.d/r0\.res"):
        planted("drbd-resync-crawls", guests)


def test_what_does_not_come_is_told_with_what_was_seen() -> None:
    bench = bench_of(Guests(lambda *_: "Connected"))
    with pytest.raises(Unfit, match=r"bring n1 to StandAlone.*'Connected' after 0 s"):
        bench.until("n1", ("drbdadm", "cstate", "r0"), "StandAlone", limit=0.0)


def test_a_pair_of_one() -> None:
    with pytest.raises(Unfit, match="only n1"):
        planted("drbd-link-cut", Guests(names=("n1",)))


def test_a_guest_is_logged_in_to_once_until_it_is_reset(logins: Callable[[Guests], None]) -> None:
    guests = Guests()
    logins(guests)
    bench = bench_of(guests)
    bench.run("n1", "a")
    bench.run("n1", "b")
    assert guests.logins == ["n1"]
    bench.reset("n1")
    bench.run("n1", "c")
    bench.close()
    assert guests.logins == guests.logouts == ["n1", "n1"]
