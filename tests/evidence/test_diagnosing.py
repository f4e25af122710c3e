"""One line of a diagnosis says as much as the diagnosis, and no more."""

from __future__ import annotations

from pathlib import Path

from harness.diagnose.case import Case
from harness.diagnose.reading import read_folder
from harness.evidence import diagnosing
from harness.evidence.diagnosing import Status, diagnosed
from tests.diagnose.made import SCHEMATICS, VANILLA, case, pool, service


def test_a_named_cause_is_told_with_what_decided_it() -> None:
    _, brief = diagnosed(case(service(6443, 8132)), {}, "pool p")
    assert (brief.status, brief.causes) == (Status.NAMED, ("port-50001-missing",))
    assert brief.line.startswith("probable cause: ")
    assert "[port-50001-missing]; decided by " in brief.line


def test_undecided_stays_undecided() -> None:
    cycle = pool("p", VANILLA, reboots=(4206.0, 4206.0))
    _, brief = diagnosed(case(cycle), {}, "pool p")
    assert (brief.status, brief.causes) == (Status.UNDECIDED, ())
    assert brief.line.startswith("cause not decided")


def test_nothing_found_is_not_told_as_well() -> None:
    _, brief = diagnosed(case(service(6443, 8132, 50001), pool("p", VANILLA)), SCHEMATICS, "p")
    assert brief.status is Status.NOTHING
    assert "not known" in brief.line


def test_nothing_to_look_at_is_no_diagnosis() -> None:
    assert diagnosed(Case(), {}, "pool p")[1] is diagnosing.NO_DIAGNOSIS


def test_what_is_written_is_not_read_as_a_capture(tmp_path: Path) -> None:
    found, _ = diagnosed(case(service(6443, 8132)), {}, "pool p")
    diagnosing.write(tmp_path, found, "pool p")
    assert "50001" in (tmp_path / "diagnosis.txt").read_text()
    read = read_folder(tmp_path)
    assert not (read.objects or read.texts)
    assert any("none itself" in one.why for one in read.unused)
