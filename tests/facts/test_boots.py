from __future__ import annotations

from typing import Any

import pytest

from harness.facts.boots import LOOK, BootLook, BootSample, age_at_end, read_look, read_sample
from harness.facts.fact import Origin, Unread
from harness.facts.reply import Output

BOOT = "9c6cd353-d611-4b30-910f-c90ec5268979"


def said(stdout: str = f"{BOOT}\n83.25 300.10\n", exit_code: int | None = 0) -> Output:
    return Output(LOOK, exit_code, stdout, "", "closed" if exit_code is None else "")


def test_a_look_takes_both_from_one_answer() -> None:
    assert read_look(said(), at=11.0, source="guest w1") == BootLook(11.0, BOOT, 83.25)
    assert BootLook(100.0, BOOT, 30.5).began == 69.5


@pytest.mark.parametrize(
    ("output", "asked", "reason"),
    [
        (said(exit_code=None), "boot_id", "closed"),
        (said(exit_code=1), "boot_id", "ended with 1"),
        (said(""), "boot_id", "no boot id"),
        (said(f"{BOOT}\n"), "uptime", "no uptime"),
        (said(f"{BOOT}\n83.2"), "uptime", "83.2"),
        (said("83.25 300.10\n"), "boot_id", "83.25"),
        (said(f"{BOOT}83.25 300.10\n"), "boot_id", "no boot id"),
    ],
)
def test_an_answer_that_is_none(output: Output, asked: str, reason: str) -> None:
    found = read_look(output, at=1.0, source="guest w1")
    assert isinstance(found, Unread)
    assert found.asked.endswith(asked)
    assert reason in found.reason


def test_a_sample() -> None:
    found = read_sample("w1", said(), at=11.0, vmi_uid="v", node_uid="n", node_ready=False)
    assert isinstance(found, BootSample)
    assert (found.node, found.boot_id, found.uptime) == ("w1", BOOT, 83.25)
    assert (found.vmi_uid, found.node_uid, found.node_ready) == ("v", "n", False)
    assert found.origin == Origin(11.0, "guest w1: boot id and uptime", f"{BOOT}\n83.25 300.10\n")


def test_a_machine_of_no_cluster_is_ready_and_has_no_uids() -> None:
    found = read_sample("n1", said(), at=11.0)
    assert isinstance(found, BootSample)
    assert (found.vmi_uid, found.node_uid, found.node_ready) == ("", "", True)


def test_what_could_not_be_read_is_no_sample() -> None:
    assert isinstance(read_sample("w1", said(exit_code=None), at=11.0), Unread)


def sample(at: float, uptime: float) -> Any:
    return BootSample(Origin(at, "", ""), "w1", BOOT, uptime, "", "", True)


@pytest.mark.parametrize(
    ("before", "after", "age"),
    [
        (sample(1000.0, 100.0), sample(1600.0, 100.0), 600.0),
        (sample(1000.0, 100.0), sample(1600.0, 590.0), 110.0),
        (sample(1000.0, 100.0), sample(1010.0, 60.0), 100.0),  # clocks that differ
    ],
)
def test_a_boot_had_ended_when_the_next_began(
    before: BootSample, after: BootSample, age: float
) -> None:
    assert age_at_end(before, after) == age
