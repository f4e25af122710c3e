from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from harness.clock import WallClock
from harness.qemulab.client import NoLab, ask, find
from harness.qemulab.errors import Unfit
from harness.qemulab.guest import PortTaken, tether
from harness.qemulab.rundir import STATE, is_held, processes
from tests.qemulab.conftest import Lab, Start

CLOCK = WallClock()


def up(start: Start, **how: Any) -> Lab:
    lab = start(**how)
    lab.keeper.ready()
    return lab


def guest(lab: Lab, name: str) -> dict[str, Any]:
    guests = ask(lab.spec.control, "status")["guests"]
    return next(one for one in guests if one["name"] == name)


def wait_gone(pids: list[int]) -> bool:
    return poll(lambda: not any(alive(pid) for pid in pids))


def alive(pid: int) -> bool:
    line = Path(f"/proc/{pid}/cmdline")
    return line.exists() and line.read_bytes() != b""  # a zombie has none


def poll(look: Any, seconds: float = 5.0) -> bool:
    until = CLOCK.monotonic() + seconds
    while not look():
        if CLOCK.monotonic() > until:
            return False
        CLOCK.sleep(0.01)
    return True


def test_a_lab_says_where_it_is_and_that_it_runs(start: Start) -> None:
    lab = up(start)
    told = find(lab.spec.directory)
    assert told["control"] == str(lab.spec.control)
    assert [one["name"] for one in told["guests"]] == ["n1", "n2"]
    status = ask(lab.spec.control, "status")
    assert [one["power"] for one in status["guests"]] == ["on", "on"]
    assert {one["port"] for one in status["guests"]} == {g.port for g in lab.spec.guests}
    assert "hil.node=2" in lab.told(2)[0]


def test_everything_ends_with_the_parents_pipe(start: Start) -> None:
    lab = up(start)
    pids = [pid for _, pid in processes(lab.spec.run)]
    assert len(pids) == 3
    lab.keeper._child.stdin.close()  # type: ignore[union-attr]
    assert lab.keeper._child.wait(5) == 0
    assert wait_gone(pids)
    assert not lab.spec.run.exists()
    assert sorted(f.name for f in lab.spec.directory.iterdir()) == [
        "keeper.log",
        "lock",
        "n1",
        "n2",
    ]
    assert not is_held(lab.spec.directory)
    assert not lab.spec.guests[0].root.exists()


@pytest.mark.skipif(
    not tether(), reason="no setpriv (util-linux) here: QEMU outlives a killed keeper"
)
def test_a_killed_keeper_takes_its_guests_with_it_and_the_parent_tidies(start: Start) -> None:
    lab = up(start)
    found = dict(processes(lab.spec.run))
    os.kill(found["keeper"], signal.SIGKILL)
    assert wait_gone([found["n1"], found["n2"]])
    with pytest.raises(NoLab, match="start one with"):
        ask(lab.spec.control, "status")
    lab.keeper.close()
    assert not lab.spec.run.exists()
    assert not (lab.spec.directory / STATE).exists()


def test_end_is_answered_when_nothing_runs_any_more(start: Start) -> None:
    lab = up(start)
    pids = [pid for name, pid in processes(lab.spec.run) if name != "keeper"]
    ask(lab.spec.control, "end")
    assert wait_gone(pids)
    assert lab.keeper._child.wait(5) == 0


def test_a_guest_that_goes_off_by_itself_is_noticed(start: Start) -> None:
    lab = up(start)
    with pytest.raises(Unfit):
        ask(lab.spec.control, "power", guest="n1", what="nmi")
    told = guest(lab, "n1")
    assert (told["power"], told["why"]) == ("off", "it went off by itself (guest-shutdown)")
    assert guest(lab, "n2")["power"] == "on"


def test_a_crash_of_qemu_is_told_in_its_own_words(start: Start) -> None:
    lab = up(start)
    Path(f"{lab.spec.guests[0].root}.crash").touch()
    with pytest.raises(Unfit, match="that it has ended"):
        ask(lab.spec.control, "power", guest="n1", what="reset")
    assert guest(lab, "n1")["why"] == "its emulator ended with 1: qemu: it crashed"


def test_a_killed_qemu_is_told_with_its_signal(start: Start) -> None:
    lab = up(start)
    os.kill(dict(processes(lab.spec.run))["n2"], signal.SIGKILL)
    assert poll(lambda: guest(lab, "n2")["why"] == "its emulator was killed by signal 9")
    assert "n2" not in dict(processes(lab.spec.run))


def test_a_port_that_was_taken_meanwhile_is_replaced_and_told(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        lab = up(start, guests=1, ports=[port])
        told = guest(lab, "n1")
        assert told["port"] != port
        assert told["notes"] == [f"port {port} was taken meanwhile; n1 has {told['port']}"]
        assert find(lab.spec.directory)["guests"][0]["port"] == told["port"]


def test_a_named_port_that_is_taken_is_one_sentence(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        lab = start(guests=2, ports=[port, port], named=True)
        with pytest.raises(PortTaken, match=f"port {port} of 127.0.0.1 is taken: end what listens"):
            lab.keeper.ready()
    assert lab.keeper._child.wait(5) == 3
    assert not lab.spec.run.exists()


def test_a_qemu_that_does_not_start_is_told_in_its_own_words(start: Start) -> None:
    lab = start(guests=1)
    (lab.spec.guests[0].root.with_name("broken")).touch()
    with pytest.raises(Unfit, match="emulator of n1, saw qemu-system-x86_64: no such thing"):
        lab.keeper.ready()


@pytest.mark.parametrize("said", [b"what?\n", b"[]\n", b'{"do": "nothing"}\n', b'{"do": "cut"}\n'])
def test_a_request_that_makes_no_sense_harms_nothing(start: Start, said: bytes) -> None:
    lab = up(start, guests=1)
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(lab.spec.control))
        asking.sendall(said)
        assert "understand a request" in json.loads(asking.makefile().readline())["error"]["tried"]
    assert guest(lab, "n1")["power"] == "on"


def test_somebody_who_asks_nothing_or_goes_away_holds_up_nobody(start: Start) -> None:
    lab = up(start, guests=1)
    with socket.socket(socket.AF_UNIX) as idle, socket.socket(socket.AF_UNIX) as gone:
        idle.connect(str(lab.spec.control))
        gone.connect(str(lab.spec.control))
        gone.sendall(b'{"do": "status"}\n')
        gone.close()
        assert guest(lab, "n1")["power"] == "on"
