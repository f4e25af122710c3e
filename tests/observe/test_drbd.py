from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.facts.drbd import NO_MODULE, NO_RESOURCE, DrbdAbsent, DrbdHistory, DrbdLog, DrbdStatus
from harness.facts.drbdproc import DrbdProc
from harness.facts.fact import Unread
from harness.observe import drbd
from harness.reach.errors import Unreachable
from harness.reach.nodeshell import Reply
from tests.facts.drbd_texts import (
    HEAD8,
    NO_SUCH,
    PROC8_SPLIT,
    PROC8_UP,
    PROC9,
    STATUS8_SPLIT,
    STATUS8_UP,
    json9,
)

PROC = "cat /proc/drbd"
JSON = "drbdsetup status --json --verbose --statistics"
TEXT = "drbdsetup status --verbose --statistics"
EVENTS = "exists resource name:r0 role:Primary suspended:no\nexists -\n"
Said = tuple[int | None, str, str]


class Shell:
    """A machine that answers what it was told to, and notes what it was asked."""

    where = "guest n1"
    root = ""

    def __init__(self, said: dict[str, Said], *, took: float = 2.0) -> None:
        self._said = said
        self._took = took
        self.asked: list[str] = []
        self.timeouts: list[float] = []

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        self.asked.append(" ".join(argv))
        self.timeouts.append(timeout)
        code, out, err = self._said[" ".join(argv)]
        problem = "" if code is not None else "no status"
        ended = 40.0 + self._took
        return Reply(tuple(argv), code, out.encode(), err.encode(), 40.0, ended, problem)

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        raise AssertionError("DRBD's tools are the shell's own")


def test_9_is_asked_for_json() -> None:
    shell = Shell({PROC: (0, PROC9, ""), f"{JSON} r0": (0, json9(0), "")})
    found = drbd.drbd_status(shell, "r0")
    assert isinstance(found, DrbdStatus)
    assert shell.asked == [PROC, f"{JSON} r0"]
    assert (found.node, found.version, found.whole) == ("n1", "9.2.14", True)
    assert (found.origin.at, found.origin.source) == (42.0, "guest n1:drbdsetup status")


def test_8_is_asked_for_text_and_has_proc_beside_it() -> None:
    shell = Shell({PROC: (0, PROC8_SPLIT, ""), f"{TEXT} r0": (0, STATUS8_SPLIT, "")})
    found = drbd.drbd_status(shell, "r0", node="worker-7")
    assert isinstance(found, DrbdStatus)
    assert shell.asked == [PROC, f"{TEXT} r0"]
    assert found.resources[0].peers[0].connection == "StandAlone"
    assert (found.node, found.version) == ("worker-7", "8.4.11")
    assert (found.origin.at, found.origin.source) == (42.0, "guest n1:drbdsetup status")


@pytest.mark.parametrize(("seen", "command"), [(PROC8_UP, TEXT), (PROC9, JSON)])
def test_all_resources_are_asked_for_without_a_name(seen: str, command: str) -> None:
    said = STATUS8_UP if command == TEXT else json9(0)
    shell = Shell({PROC: (0, seen, ""), command: (0, said, "")})
    assert isinstance(drbd.drbd_status(shell), DrbdStatus)
    assert shell.asked == [PROC, command]


@pytest.mark.parametrize(("seen", "command"), [(HEAD8, TEXT), (PROC9, JSON)])
def test_no_such_resource(seen: str, command: str) -> None:
    shell = Shell({PROC: (0, seen, ""), f"{command} r0": (10, "", NO_SUCH)})
    found = drbd.drbd_status(shell, "r0")
    assert isinstance(found, DrbdAbsent)
    assert (found.what, found.node) == (NO_RESOURCE, "n1")


def test_a_machine_without_the_module_is_asked_nothing_more() -> None:
    shell = Shell({PROC: (1, "", "cat: /proc/drbd: No such file or directory\n")})
    found = drbd.drbd_status(shell, "r0")
    assert isinstance(found, DrbdAbsent)
    assert (found.what, found.node) == (NO_MODULE, "n1")


def test_a_version_that_cannot_be_read_is_not_guessed() -> None:
    shell = Shell({PROC: (None, PROC9, "")})
    assert isinstance(drbd.drbd_status(shell, "r0"), Unread)
    assert shell.asked == [PROC]


def test_the_version_alone() -> None:
    found = drbd.drbd_version(Shell({PROC: (0, PROC9, "")}))
    assert isinstance(found, DrbdProc)
    assert (found.version, found.origin.at, found.origin.source) == (
        "9.2.14",
        42.0,
        "guest n1:/proc/drbd",
    )


def test_a_machine_without_the_module_is_named() -> None:
    missing: dict[str, Said] = {PROC: (1, "", "cat: /proc/drbd: No such file or directory\n")}
    for node, name in (("", "n1"), ("worker-7", "worker-7")):
        found = drbd.drbd_version(Shell(missing), node=node)
        assert isinstance(found, DrbdAbsent)
        assert found.node == name


@pytest.mark.parametrize(
    ("resource", "command"),
    [
        ("r0", "drbdsetup events2 --now --statistics r0"),
        ("", "drbdsetup events2 --now --statistics"),
    ],
)
def test_a_list_of_now(resource: str, command: str) -> None:
    found = drbd.drbd_history(Shell({command: (0, EVENTS, "")}), resource)
    assert isinstance(found, DrbdHistory)
    assert (found.gapless, found.node) == (True, "n1")
    assert (found.origin.at, found.origin.source) == (42.0, "guest n1:drbdsetup events2")


@pytest.mark.parametrize(
    ("code", "took", "whole"),
    [
        (124, 5.0, True),
        (143, 5.5, True),
        (None, 6.0, True),
        (0, 1.0, True),
        (None, 4.9, False),
        (124, 4.9, False),
        (None, 25.0, False),
    ],
)
def test_a_stream_ends_by_its_timer(code: int | None, took: float, whole: bool) -> None:  # noqa: FBT001
    command = "timeout 5 drbdsetup events2 --timestamps --statistics r0"
    shell = Shell({command: (code, EVENTS, "")}, took=took)
    found = drbd.drbd_history(shell, "r0", seconds=5, node="worker-7")
    assert isinstance(found, DrbdHistory)
    assert (found.whole, found.listed, found.node) == (whole, True, "worker-7")
    assert shell.timeouts == [25.0]


def test_a_list_of_now_has_no_timer() -> None:
    shell = Shell({"drbdsetup events2 --now --statistics": (None, EVENTS, "")})
    found = drbd.drbd_history(shell)
    assert isinstance(found, DrbdHistory)
    assert not found.whole


def test_the_kernel_log() -> None:
    line = "[    1.500000] block drbd0: Unrelated data, aborting!\n"
    found = drbd.drbd_log(Shell({"dmesg": (0, line, "")}), node="worker-7")
    assert isinstance(found, DrbdLog)
    assert [one.what for one in found.entries] == ["unrelated data"]
    assert (found.node, found.origin.at, found.origin.source) == (
        "worker-7",
        42.0,
        "guest n1:dmesg",
    )


class Deaf(Shell):
    """A machine that cannot be asked."""

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        raise Unreachable("run it", "no pod", "look")


def now() -> float:
    return 50.0


def test_a_machine_that_cannot_be_asked_does_not_silence_the_others() -> None:
    shells = {"n1": Deaf({}), "n2": Shell({PROC: (0, PROC9, ""), JSON: (0, json9(1), "")})}
    first, second = drbd.drbd_statuses(shells, now)
    assert isinstance(first, Unread)
    assert (first.asked, first.origin.at) == ("drbdsetup status on guest n1", 50.0)
    assert "no pod" in first.reason
    assert isinstance(second, DrbdStatus)
    assert second.node == "n2"


def test_only_machines_that_stand_alone_are_asked_for_their_log() -> None:
    split = Shell({PROC: (0, PROC8_SPLIT, ""), TEXT: (0, STATUS8_SPLIT, "")})
    well = Shell({PROC: (0, PROC9, ""), JSON: (0, json9(1), "")})
    shells = {"n1": split, "n2": well}
    statuses = drbd.drbd_statuses(shells, now)
    split._said["dmesg"] = (0, "x\n", "")
    (log,) = drbd.standalone_logs(shells, statuses, now)
    assert isinstance(log, DrbdLog)
    assert log.node == "n1"
    assert "dmesg" not in well.asked
    (unread,) = drbd.standalone_logs({"n1": Deaf({}), "n2": well}, statuses, now)
    assert isinstance(unread, Unread)
    assert unread.asked == "dmesg on guest n1"
    assert drbd.standalone_logs(shells, statuses[1:], now) == ()
