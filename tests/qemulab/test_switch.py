from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.clock import WallClock
from harness.qemulab.switch import LINE, Port, Switch, Way

CLOCK = WallClock()
BROADCAST = b"\xff" * 6


def mac(node: int) -> bytes:
    return bytes([0x52, 0x54, 0, 0x77, 0, node])


class Card:
    """QEMU's end of a wire."""

    def __init__(self, port: Port) -> None:
        self.port = port
        port.theirs.unlink(missing_ok=True)
        self.line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.line.bind(str(port.theirs))
        self.line.settimeout(5)

    def sends(self, to: bytes, text: bytes = b"") -> None:
        self.line.sendto(to + self.port.mac + b"\x08\x00" + text, str(self.port.ours))

    def hears(self) -> bytes:
        return self.line.recv(70000)[14:]

    def hears_nothing(self) -> bool:
        self.line.settimeout(0.05)
        try:
            self.line.recv(70000)
        except TimeoutError:
            return True
        finally:
            self.line.settimeout(5)
        return False

    def all(self, pause: float = 0.0) -> list[bytes]:
        """All that comes until nothing does, taken with a pause between."""
        self.line.settimeout(0.1)
        heard = []
        try:
            while True:
                heard.append(self.line.recv(70000)[14:])
                CLOCK.sleep(pause)
        except TimeoutError:
            return heard


class Net:
    def __init__(self, directory: Path, guests: int, seed: int = 1) -> None:
        ports = [
            Port(f"n{n}", directory / f"s{n}", directory / f"g{n}", mac(n))
            for n in range(1, guests + 1)
        ]
        self.switch = Switch(ports, CLOCK, seed=seed)
        self.cards = [Card(port) for port in ports]
        self.switch.start()

    def counts(self, a: int, b: int) -> dict[str, int]:
        return self.switch.counts()[f"n{a}", f"n{b}"]

    def close(self) -> None:
        self.switch.close()
        for card in self.cards:
            card.line.close()


@pytest.fixture
def net(tmp_path: Path) -> Iterator[Callable[..., Net]]:
    made: list[Net] = []

    def make(guests: int = 2, seed: int = 1) -> Net:
        directory = tmp_path / str(len(made))
        directory.mkdir()
        made.append(Net(directory, guests, seed))
        return made[-1]

    yield make
    for one in made:
        one.close()


def until(look: Callable[[], bool]) -> bool:
    end = CLOCK.monotonic() + 5
    while not look():
        if CLOCK.monotonic() > end:
            return False
        CLOCK.sleep(0.002)
    return True


def test_frames_go_both_ways_and_keep_their_bytes(net: Callable[..., Net]) -> None:
    one, two = net().cards
    jumbo = random.Random(1).randbytes(9000)
    one.sends(mac(2), jumbo)
    two.sends(mac(1), b"back")
    assert two.hears() == jumbo
    assert one.hears() == b"back"


def test_a_frame_goes_to_whom_it_is_for_and_a_broadcast_to_all(net: Callable[..., Net]) -> None:
    lab = net(3)
    one, two, three = lab.cards
    one.sends(mac(3), b"for three")
    assert three.hears() == b"for three"
    assert two.hears_nothing()
    three.sends(BROADCAST, b"who has")
    assert (one.hears(), two.hears()) == (b"who has", b"who has")
    assert three.hears_nothing()
    assert lab.counts(1, 3)["passed"] == 1


def test_a_frame_to_its_own_sender_goes_nowhere_and_harms_nothing(net: Callable[..., Net]) -> None:
    one, two = net().cards
    one.sends(mac(1), b"to myself")
    one.sends(mac(2), b"to you")
    assert two.hears() == b"to you"
    assert one.hears_nothing()


def test_nothing_overtakes_what_waits_for_room(net: Callable[..., Net]) -> None:
    one, two = net().cards

    def send() -> None:
        for number in range(2000):
            one.sends(mac(2), b"%d" % number)

    sending = threading.Thread(target=send)
    sending.start()
    heard = [int(frame) for frame in two.all(pause=0.0005)]
    sending.join()
    assert len(heard) > LINE
    assert heard == sorted(heard)


def test_a_cut_is_of_a_direction_and_counted(net: Callable[..., Net]) -> None:
    lab = net()
    one, two = lab.cards
    lab.switch.change("n1", "n2", cut=True)
    one.sends(mac(2), b"lost")
    two.sends(mac(1), b"there")
    assert one.hears() == b"there"
    assert two.hears_nothing()
    assert lab.counts(1, 2)["cut"] == 1
    lab.switch.restore({})
    one.sends(mac(2), b"again")
    assert two.hears() == b"again"


def _heard(lab: Net) -> list[bytes]:
    """What arrives of a hundred frames, sent one by one."""
    lab.switch.change("n1", "n2", lose=0.3)
    heard: list[bytes] = []
    for number in range(100):
        lab.cards[0].sends(mac(2), b"%d" % number)
        assert until(lambda sent=number + 1: sum(lab.counts(1, 2).values()) == sent)
        if lab.counts(1, 2)["passed"] > len(heard):
            heard.append(lab.cards[1].hears())
    return heard


def test_a_share_is_lost_and_the_same_one_for_the_same_seed(net: Callable[..., Net]) -> None:
    first, again, other = _heard(net()), _heard(net()), _heard(net(seed=2))
    assert 50 <= len(first) <= 90
    assert first == again != other


def test_all_may_be_lost(net: Callable[..., Net]) -> None:
    lab = net()
    lab.switch.change("n1", "n2", lose=1.0)
    lab.cards[0].sends(mac(2))
    assert until(lambda: lab.counts(1, 2)["lost"] == 1)


def test_a_delayed_frame_comes_later_and_nothing_overtakes_it(net: Callable[..., Net]) -> None:
    lab = net()
    one, two = lab.cards
    lab.switch.change("n1", "n2", delay=0.15)
    began = CLOCK.monotonic()
    one.sends(mac(2), b"first")
    assert until(lambda: bool(lab.switch._directions["n1", "n2"].late))
    lab.switch.change("n1", "n2", delay=0.0)
    one.sends(mac(2), b"second")
    two.sends(mac(1), b"not delayed")
    assert one.hears() == b"not delayed"
    assert [two.hears(), two.hears()] == [b"first", b"second"]
    assert CLOCK.monotonic() - began >= 0.15


def test_a_guest_that_takes_nothing_holds_up_nobody(net: Callable[..., Net]) -> None:
    lab = net()
    one, two = lab.cards
    for number in range(LINE + 200):
        one.sends(mac(2), b"%d" % number)
    assert until(lambda: lab.counts(1, 2)["full"] > 0)
    two.sends(mac(1), b"still")
    assert one.hears() == b"still"
    assert until(lambda: lab.counts(1, 2)["full"] + len(lab.switch._out["n2"].line) > 150)
    heard = two.all()
    counts = lab.counts(1, 2)
    assert len(heard) == counts["passed"] == LINE + 200 - counts["full"]
    assert heard == [b"%d" % number for number in range(len(heard))]
    one.sends(mac(2), b"flows again")
    assert two.hears() == b"flows again"


def test_a_guest_may_go_and_come_back(net: Callable[..., Net]) -> None:
    lab = net()
    one, two = lab.cards
    one.sends(mac(2), b"before")
    assert two.hears() == b"before"
    two.line.close()
    one.sends(mac(2), b"to nobody")
    assert until(lambda: lab.counts(1, 2)["nobody"] == 1)
    lab.cards[1] = back = Card(two.port)
    one.sends(mac(2), b"after")
    assert back.hears() == b"after"


def test_a_hushed_switch_forgets_and_knows_when_all_is_swallowed(net: Callable[..., Net]) -> None:
    lab = net()
    one, two = lab.cards
    assert lab.switch.quiet()
    one.sends(mac(2), b"unread")
    assert until(lambda: lab.counts(1, 2)["passed"] == 1)
    assert not lab.switch.quiet()
    lab.switch.change("n1", "n2", delay=0.1)
    one.sends(mac(2), b"on its way")
    assert until(lambda: bool(lab.switch._directions["n1", "n2"].late))
    lab.switch.hush()
    lab.switch.change("n1", "n2", delay=0.0)
    one.sends(mac(2), b"while hushed")
    assert two.hears() == b"unread"
    assert until(lab.switch.quiet)
    assert two.hears_nothing()
    lab.switch.restore({("n2", "n1"): Way(lose=0.5)})
    lab.switch.go_on()
    assert lab.switch.ways() == {("n1", "n2"): Way(), ("n2", "n1"): Way(lose=0.5)}
    one.sends(mac(2), b"after")
    assert two.hears() == b"after"
    assert two.hears_nothing()
