from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.clock import WallClock
from harness.qemulab.errors import Misnamed, Unfit
from harness.qemulab.guest import PortTaken
from harness.qemulab.machines import PRISTINE, Machines
from harness.qemulab.switch import Way

CLOCK = WallClock()

Made = Callable[..., Machines]


def told(machines: Machines, node: int, since: int = 0) -> list[str]:
    """What a guest's QEMU was told, but for questions."""
    lines = Path(f"{machines.guests[f'n{node}'].spec.root}.told").read_text().splitlines()
    return [line for line in lines if not line.startswith("query-")][since:]


def states(machines: Machines) -> list[str]:
    return [
        "off" if guest.off else "on" if guest.running() else "paused"
        for guest in machines.guests.values()
    ]


def test_a_guest_does_not_run_before_its_carrier_is_set(machines: Made) -> None:
    lines = told(machines(1), 1)
    assert "-S" in lines[0]
    assert lines[1:] == ["qmp_capabilities", "set_link name=nic1 up=True", "cont"]


def test_power_off_kills_and_on_starts_anew(machines: Made) -> None:
    lab = machines()
    guest = lab.guests["n2"]
    before, port = guest.pid, guest.port
    lab.power("n2", "off")
    assert (guest.off, guest.pid) == ("it was switched off", 0)
    assert not Path(f"/proc/{before}").exists()
    lab.power("n2", "off")  # no error where it is off
    lab.power("n2", "on")
    after = guest.pid
    assert after not in (0, before)
    assert guest.port == port
    lab.power("n2", "on")
    assert guest.pid == after
    starts = [line for line in told(lab, 2) if line.startswith("argv")]
    assert len(starts) == 2
    assert "loadvm" not in starts[1]


def test_a_port_that_somebody_was_told_does_not_change(machines: Made) -> None:
    lab = machines(1)
    port = lab.guests["n1"].port
    lab.power("n1", "off")
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        with pytest.raises(PortTaken, match=f"port {port} of 127.0.0.1 is taken"):
            lab.power("n1", "on")
    lab.power("n1", "on")
    assert lab.guests["n1"].port == port


def test_pause_resume_and_reset_go_to_the_one_guest(machines: Made) -> None:
    lab = machines()
    lab.power("n1", "pause")
    assert states(lab) == ["paused", "on"]
    lab.power("n1", "resume")
    assert states(lab) == ["on", "on"]
    lab.power("n1", "reset")
    assert told(lab, 1)[-1] == "system_reset"
    assert "system_reset" not in told(lab, 2)


def test_what_is_off_refuses_its_buttons_in_a_sentence(machines: Made) -> None:
    lab = machines()
    lab.power("n1", "off")
    with pytest.raises(
        Unfit, match=r"n1, saw that it is off \(it was switched off\): switch it on"
    ):
        lab.power("n1", "reset")
    with pytest.raises(Unfit, match="find a guest 'n7', saw the guests n1, n2"):
        lab.power("n7", "off")
    with pytest.raises(Unfit, match="no such thing"):
        lab.power("n1", "explode")


def test_a_snapshot_stops_all_before_it_saves_any(machines: Made) -> None:
    lab = machines()
    lab.snapshot("before")
    for node in (1, 2):
        assert told(lab, node)[-3:] == [
            "stop",
            "human-monitor-command command-line=savevm hil-before",
            "cont",
        ]
    assert states(lab) == ["on", "on"]


def test_a_snapshots_name_is_never_taken_for_the_number_of_another(machines: Made) -> None:
    lab = machines()
    lab.snapshot("1")
    lab.power("n2", "off")
    lab.rollback("1")
    ordered = [line.split()[-1] for node in (1, 2) for line in told(lab, node) if "vm " in line]
    named = [word for word in ordered if "=" not in word]
    assert len(named) == 4  # saved on both, loaded on one, the other started from it
    assert not any(word.isdecimal() for word in named)


def test_a_rollback_lets_nothing_of_the_future_in(machines: Made) -> None:
    lab = machines()
    lab.cut("n1", "n2", carrier=True)
    lab.snapshot("cut")
    lab.heal()
    lab.change("n1", "n2", delay=0.5)
    since = len(told(lab, 1))
    lab.rollback("cut")
    assert told(lab, 1, since) == [
        "set_link name=wire up=False",
        "stop",
        "human-monitor-command command-line=loadvm hil-cut",
        "set_link name=wire up=True",
        "set_link name=nic1 up=False",
        "cont",
    ]
    assert set(lab.switch.ways().values()) == {Way(cut=True)}


def test_a_rollback_brings_back_what_is_off_and_leaves_paused_what_was(machines: Made) -> None:
    lab = machines()
    lab.power("n1", "pause")
    lab.snapshot("paused")
    lab.power("n1", "resume")
    lab.power("n2", "off")
    lab.rollback("paused")
    assert states(lab) == ["paused", "on"]
    last = [line for line in told(lab, 2) if line.startswith("argv")][-1]
    assert "-S" in last
    assert last.endswith("-loadvm hil-paused")


def test_a_paused_guest_runs_while_it_is_emptied_for_a_rollback(machines: Made) -> None:
    lab = machines()
    lab.snapshot("running")
    lab.power("n1", "pause")
    since = len(told(lab, 1))
    lab.rollback("running")
    assert told(lab, 1, since)[:3] == ["set_link name=wire up=False", "cont", "stop"]
    assert states(lab) == ["on", "on"]


def test_a_snapshot_takes_no_others_place_unless_it_is_told_to(machines: Made) -> None:
    lab = machines()
    lab.snapshot(PRISTINE)
    lab.snapshot("mine")
    since = len(told(lab, 1))
    for name, replace in (("mine", False), (PRISTINE, False), (PRISTINE, True)):
        with pytest.raises(Misnamed, match="choose another name"):
            lab.snapshot(name, replace=replace)
    assert told(lab, 1, since) == []
    lab.snapshot("mine", replace=True)
    assert told(lab, 1, since)[0] == "stop"


def test_snapshots_that_cannot_be_are_refused(machines: Made) -> None:
    lab = machines()
    with pytest.raises(Unfit, match="roll back to 'none', saw the snapshots none"):
        lab.rollback("none")
    with pytest.raises(Unfit, match="use letters, digits"):
        lab.snapshot("a b; quit")
    lab.snapshot("overwritten")
    full = Path(f"{lab.guests['n1'].spec.root}.full")
    full.touch()
    with pytest.raises(Unfit, match=r"no room.*from n1.*see that the disk has room"):
        lab.snapshot("overwritten", replace=True)
    full.unlink()
    assert lab.snapshots == {}  # one half of it is of another moment
    assert states(lab) == ["on", "on"]
    lab.power("n2", "off")
    with pytest.raises(Unfit, match="that n2 is off: switch it on first"):
        lab.snapshot("one")


def test_a_carrier_cut_while_a_guest_is_off_is_there_when_it_comes_on(machines: Made) -> None:
    lab = machines()
    lab.power("n2", "off")
    lab.cut("n1", "n2", carrier=True)
    since = len(told(lab, 2))
    lab.power("n2", "on")
    assert told(lab, 2, since)[2:] == ["set_link name=nic1 up=False", "cont"]
    lab.heal()
    assert told(lab, 2)[-1] == "set_link name=nic1 up=True"


def test_loss_is_of_one_direction(machines: Made) -> None:
    lab = machines(3)
    lab.change("n3", "n1", lose=0.25)
    ways = lab.switch.ways()
    assert ways.pop(("n3", "n1")) == Way(lose=0.25)
    assert set(ways.values()) == {Way()}
    assert len(ways) == 5
    with pytest.raises(Unfit, match="name two guests"):
        lab.change("n1", "n1", lose=0.25)


def test_whether_a_console_is_taken_is_known(machines: Made) -> None:
    guest = machines(1).guests["n1"]
    assert guest.console_taken() is False
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(guest.spec.console))
        assert client.recv(100) == b"n1 login: "
        assert guest.console_taken() is True
