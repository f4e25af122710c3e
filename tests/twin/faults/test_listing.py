from __future__ import annotations

import pytest

from harness.twin.faults import listing
from harness.twin.faults.catalogue import FAULTS


def test_the_list_has_every_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert listing.show("") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"{fault.id} {fault.sentence}" in text for fault in FAULTS.values())


def test_one_fault_is_told_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert listing.show("no-modules-block") == 0
    text = " ".join(capsys.readouterr().out.split())
    fault = FAULTS["no-modules-block"]
    for part in (fault.sentence, fault.seen, fault.wrong_diagnosis, *fault.breaks, *fault.where):
        assert part in text


def test_an_unknown_fault_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert listing.show("no-module-block") == 2
    said = capsys.readouterr()
    assert said.out == "" and "did you mean 'no-modules-block'?" in said.err
