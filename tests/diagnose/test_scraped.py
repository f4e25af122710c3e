"""What was scraped of memory, as evidence: near zero, never near zero, and not known."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.diagnose.case import Kind, Text
from harness.diagnose.findings import Standing
from harness.diagnose.ranking import diagnose
from harness.diagnose.reading import read_folder
from harness.diagnose.scraped import told
from harness.facts.fact import Origin
from harness.facts.memory import MemoryWindow, Stretch
from tests.diagnose.made import VANILLA, case, named, pool, service, standings, text

NODE = "kubernetes-lab-p-w"
T = 1_767_225_600.0
GIB = 2**30
IRREGULAR = (1310.0, 2875.0, 640.0)


def window(*least: float, gap: float = 30.0) -> MemoryWindow:
    stretches = []
    begin = T
    for size in least:
        stretches.append(Stretch(begin, begin + 3000, 101, int(size), begin, int(size), kills=1))
        begin += 3000 + gap
    return MemoryWindow(Origin(T, "P", ""), NODE, T, begin, 30.0, 16 * GIB, tuple(stretches))


def scraped(*least: float, gap: float = 30.0) -> list[Text]:
    return [text(Kind.MEMORY, told(window(*least, gap=gap)), NODE)]


def test_a_window_in_lines() -> None:
    assert told(window(12 * GIB, 60 * 2**20, gap=300.0)) == (
        f"MemAvailable of {NODE} over 6300 s: at least 62914560 of 17179869184 bytes in 202 "
        "samples, one each 30 s; kills counted: 1\nno sample for 300 s\n"
    )


@pytest.mark.parametrize("least", [60 * 2**20, 99 * 2**20, 160 * 2**20])
def test_near_zero_names_memory_whatever_is_there_now(least: int) -> None:
    now = text(Kind.MEMINFO, "MemTotal: 16777216 kB\nMemAvailable: 13107200 kB\n", NODE)
    boots = pool("p", VANILLA, reboots=IRREGULAR)
    assert named([now], scraped(12 * GIB, least), boots) == ["out-of-memory"]


def test_plenty_in_every_sample_speaks_against_memory_and_gaps_do_not() -> None:
    boots = pool("p", VANILLA, reboots=IRREGULAR)
    for seen, weights in (
        (scraped(12 * GIB, 11 * GIB), 1),
        (scraped(12 * GIB, 11 * GIB, gap=300.0), 0),
    ):
        found = diagnose(case(seen, boots))
        assert standings(found)["out-of-memory"] is Standing.POSSIBLE
        (memory,) = [one for one in found.ranked if one.cause.id == "out-of-memory"]
        assert len(memory.against) == weights


def test_memory_and_a_missing_port_are_both_named() -> None:
    boots = pool("p", VANILLA, reboots=IRREGULAR)
    found = named(service(6443, 8132), scraped(60 * 2**20), boots)
    assert set(found) == {"port-50001-missing", "out-of-memory"}


def test_it_is_recognised_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "memory.txt").write_text(told(window(60 * 2**20)))
    (found,) = read_folder(tmp_path).texts
    assert found.kind is Kind.MEMORY
