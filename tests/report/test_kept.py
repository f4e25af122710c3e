"""Runs that are kept, found by folder and by id."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.report.kept import Mistake, folder, runs
from tests.report.runs import CLUSTER, Run


def test_a_run_is_found_by_folder_id_and_link(tmp_path: Path) -> None:
    made = Run(tmp_path, CLUSTER, run_id="one").end()
    (tmp_path / "latest").symlink_to("one")
    for name in (str(made), "one", "latest"):
        assert folder(name, tmp_path).resolve() == made
    assert runs(tmp_path) == [made]


def test_one_that_was_killed_is_found_by_its_shards(tmp_path: Path) -> None:
    made = Run(tmp_path, CLUSTER, run_id="one").end()
    (made / "ledger.jsonl").unlink()
    assert folder("one", tmp_path) == made


def test_none_is_a_sentence_with_the_nearest(tmp_path: Path) -> None:
    Run(tmp_path, CLUSTER, run_id="one").end()
    (tmp_path / "empty" / "ledger.d").mkdir(parents=True)
    with pytest.raises(Mistake, match="did you mean 'one'"):
        folder("on", tmp_path)
    with pytest.raises(Mistake, match="no folder of a run"):
        folder("empty", tmp_path)
