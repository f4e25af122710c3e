from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.facts.drbd import NO_RESOURCE, NOTHING, DrbdAbsent, DrbdLog, DrbdStatus
from harness.facts.drbdlog import read_log
from harness.facts.fact import Origin, Unread
from harness.facts.reply import Output
from harness.judge.splitbrain import Standing, split_brain
from tests.facts.drbd_texts import (
    CAPTURES,
    MISSING,
    PROC8_CUT,
    PROC8_SPLIT,
    PROC8_UP,
    STATUS8_CUT,
    STATUS8_SPLIT,
    STATUS8_UP,
    captured_statuses,
    json9,
    peer9,
    status8,
    status9,
)

AT = Origin(1.0, "guest n2:drbdsetup status", "")
UNREAD = Unread(AT, "drbdsetup status", "no exit status (cut off)")
GONE = DrbdAbsent(AT, "n2", NO_RESOURCE, "r0", "8.4.11", "r0: No such resource")

MADE = "drbd r0: conn( WFConnection -> WFReportParams )"
FOUND = "block drbd0: Split-Brain detected but unresolved, dropping connection!"
DROPPED = (
    "drbd r0: conn( WFReportParams -> NetworkFailure )",
    "drbd r0: conn( NetworkFailure -> Disconnecting )",
    "drbd r0: conn( Disconnecting -> StandAlone )",
)
COMMANDED = (
    "drbd r0: peer( Primary -> Unknown ) conn( Connected -> Disconnecting ) ",
    "drbd r0: conn( Disconnecting -> StandAlone )",
)
STRANGERS = "block drbd0: Unrelated data, aborting!"
AGAIN = (
    "drbd r0: conn( StandAlone -> Unconnected )",
    "drbd r0: conn( Unconnected -> WFConnection )",
)


def alone(node: str = "n1") -> DrbdStatus:
    found = status8(STATUS8_SPLIT, PROC8_SPLIT, node)
    assert isinstance(found, DrbdStatus)
    return found


def connecting(node: str) -> DrbdStatus:
    found = status8(STATUS8_CUT, PROC8_CUT, node)
    assert isinstance(found, DrbdStatus)
    return found


def log(node: str, *lines: str) -> DrbdLog:
    text = "".join(f"[   {at}.500000] {line}\n" for at, line in enumerate(lines, 10))
    found = read_log(Output(("dmesg",), 0, text or "x\n"), at=1.0, source="s", node=node)
    assert isinstance(found, DrbdLog)
    return found


def judge(
    statuses: Sequence[DrbdStatus | DrbdAbsent | Unread],
    logs: Sequence[DrbdLog | Unread],
    resource: str = "r0",
) -> Standing:
    found = split_brain(statuses, logs, resource)
    assert found.facts == (*statuses, *logs)
    assert found.because
    return found


@pytest.mark.parametrize(
    ("lines", "split", "cause", "said"),
    [
        ((MADE, FOUND, *DROPPED), True, "split brain", "Split-Brain detected but unresolved"),
        ((FOUND, *DROPPED), True, "split brain", "n1 towards peer: split brain: [   10.5"),
        ((MADE, *COMMANDED), False, "disconnected on command", "Connected -> Disconnecting"),
        (
            (*AGAIN, "drbd r0: conn( WFConnection -> Disconnecting )"),
            False,
            "disconnected on command",
            "WFConnection -> Disconnecting",
        ),
        ((MADE, STRANGERS, *DROPPED), False, "refused", "Unrelated data"),
        (
            (MADE, "block drbd0: I shall become SyncTarget, but I am primary!", *DROPPED),
            False,
            "refused",
            "I shall become SyncTarget",
        ),
        (
            ("drbd r0: Discarding network configuration.",
             "drbd r0: conn( WFConnection -> Disconnecting )"),
            False,
            "refused",
            "Discarding network configuration",
        ),
        # an older split brain is not the cause of what came after it
        ((MADE, FOUND, *DROPPED, *AGAIN, MADE, *COMMANDED), False, "disconnected on command", ""),
        ((MADE, FOUND, *DROPPED, *AGAIN, COMMANDED[0].replace("Connected", "WFConnection")),
         False, "disconnected on command", ""),
        ((MADE, *COMMANDED, *AGAIN, MADE, FOUND, *DROPPED), True, "split brain", ""),
        ((MADE, FOUND, *DROPPED, *AGAIN, MADE, *DROPPED), None, "unknown", "does not say why"),
        # a log that does not tell
        ((), None, "unknown", "its kernel log does not say why"),
        (DROPPED, None, "unknown", "its kernel log does not say why"),
        # other devices and resources
        ((FOUND.replace("drbd0", "drbd1"), *DROPPED), None, "unknown", ""),
        ((MADE, *(line.replace("r0", "r1") for line in COMMANDED)), None, "unknown", ""),
        ((MADE, FOUND, MADE.replace("r0", "r1"), *DROPPED), True, "split brain", ""),
    ],
)  # fmt: skip
def test_one_end_alone(
    lines: tuple[str, ...],
    split: bool | None,  # noqa: FBT001
    cause: str,
    said: str,
) -> None:
    found = judge([alone(), connecting("n2")], [log("n1", *lines), log("n2", MADE)])
    assert (found.split_brain, found.cause) == (split, cause), found.because
    assert said in found.because


def test_one_log_that_says_so_is_enough() -> None:
    both = [alone("n1"), alone("n2")]
    assert judge(both, [log("n1"), log("n2", MADE, FOUND, *DROPPED)]).split_brain is True
    found = judge(both, [log("n1", MADE, *COMMANDED), log("n2", MADE, FOUND, *DROPPED)])
    assert found.split_brain is True
    assert "n1 towards peer: disconnected on command" in found.because
    assert judge([alone(), UNREAD], [log("n1", FOUND)]).split_brain is True


def test_that_it_is_none_needs_every_end() -> None:
    both = [alone("n1"), alone("n2")]
    logs = [log("n1", MADE, *COMMANDED), log("n2", MADE, STRANGERS, *DROPPED)]
    assert (judge(both, logs).split_brain, judge(both, logs).cause) == (False, "refused")
    assert judge(both, logs[:1]).split_brain is None
    assert "n2 towards peer: unknown: its kernel log was not read" in judge(both, logs[:1]).because
    unread = Unread(AT, "dmesg", "denied")
    assert judge(both, [logs[0], unread]).split_brain is None
    found = judge([alone("n1"), UNREAD], logs)
    assert found.split_brain is None
    assert "no exit status (cut off)" in found.because


def test_the_log_of_another_machine_explains_nothing() -> None:
    assert judge([alone("n1")], [log("n2", MADE, FOUND, *DROPPED)]).split_brain is None


@pytest.mark.parametrize(
    ("statuses", "said"),
    [
        ([], "no machine was asked"),
        ([UNREAD], "no exit status"),
        ([GONE], "no machine lists r0"),
        ([GONE, replace(GONE, what=NOTHING, node="n1")], "no machine lists r0"),
        ([replace(connecting("n1"), resources=()), GONE], "no machine lists r0"),
        ([status8(STATUS8_SPLIT, None)], "lists no peer"),
        ([status8(STATUS8_SPLIT, PROC8_UP)], "contradicts itself"),
        ([status8(STATUS8_UP[:-1])], "is not whole"),
    ],
)
def test_unknown(statuses: list[DrbdStatus | DrbdAbsent | Unread], said: str) -> None:
    found = judge(statuses, [])
    assert (found.split_brain, found.cause) == (None, "unknown")
    assert said in found.because


def test_a_connection_that_is_not_standalone_is_none() -> None:
    split = log("n1", MADE, FOUND, *DROPPED)
    for statuses in ([connecting("n1"), connecting("n2")], [connecting("n1"), GONE]):
        found = judge(statuses, [split])
        assert (found.split_brain, found.cause) == (False, "not StandAlone")
    assert judge([alone()], [split], "r9").because == "no machine lists r9"


def test_9_tells_the_peers_apart() -> None:
    gone = peer9(2, connection="StandAlone", replication="Off", disk="DUnknown")
    status = status9(json9(0, peer9(1), gone), "n1")
    split = "drbd r0/0 drbd0 {}: Split-Brain detected but unresolved, dropping connection!"
    assert judge([status], [log("n1", split.format("n3"))]).split_brain is True
    assert judge([status], [log("n1", split.format("n2"))]).split_brain is None
    made = "drbd r0 {}: conn( Connecting -> Connected ) peer( Unknown -> Secondary ) [connected]"
    lines = [split.format("n3"), made.format("n2")]
    assert judge([status], [log("n1", *lines)]).split_brain is True
    lines = [split.format("n3"), made.format("n3")]
    assert judge([status], [log("n1", *lines)]).split_brain is None
    left = "drbd r0 n3: conn( Connected -> Disconnecting ) [disconnect]"
    assert judge([status], [log("n1", *lines, left)]).split_brain is False


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=MISSING)
def test_the_captured_split_brain_and_the_captured_refusal() -> None:
    def captured(name: str, node: str) -> DrbdLog:
        text = (CAPTURES / f"dmesg_{name}.txt").read_text()
        found = read_log(Output(("dmesg",), 0, text), at=1.0, source="s", node=node)
        assert isinstance(found, DrbdLog)
        return found

    logs = [captured(f"drbd84_split_brain_{node}", node) for node in ("n1", "n2")]
    assert judge(captured_statuses("drbd84_16"), logs).split_brain is True
    assert judge(captured_statuses("drbd84_17"), logs).cause == "not StandAlone"
    frozen = captured_statuses("drbd9_09")
    assert judge(frozen[:1], [captured("drbd9_n1", "n1")]).cause == "refused"
    assert judge(frozen, [captured("drbd9_n1", "n1")]).split_brain is None
