"""Runs that are kept, found by folder and by id."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli
from harness.report.kept import Mistake, folder, runs
from tests.report.runs import CLUSTER, TWIN, Run


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


def test_a_run_that_has_not_planned_yet_is_told_as_one(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "run.json").write_text("{}")
    with pytest.raises(Mistake, match=r"has not planned yet, or never did$"):
        folder("one", tmp_path)


LONG = "n" * 300


@pytest.mark.parametrize(
    "argv",
    [
        ["trend", "--kept", LONG],
        ["compare", LONG, "b"],
        ["compare", "a", "b", "--kept", LONG],
        ["report", LONG],
        ["watch", LONG],
        ["watch", "--out", LONG],
        ["equivalence", "--out", LONG],
        ["equivalence", LONG, "b"],
        ["signoff", LONG, "--policy", "twin"],
        ["signoff", "RUN", "--policy", LONG],
        ["signoff", "RUN", "--policy", "twin", "--out", LONG],
        ["signoff", "RUN", "--policy", "twin", "--out", "FILE"],
        ["signoff", "RUN", "--policy", "twin", "--out", "FILE/below"],
        ["trend", "--kept", "OUT", "--html", LONG],
        ["trend", "--kept", "OUT", "--html", "FILE/below"],
        ["trend", "--kept", "OUT", "--html", "OUT"],
        ["report", "SPOILT"],
        ["prove", "--out", LONG],
        ["prove", "--out", "FILE"],
    ],
    ids=" ".join,
)
def test_a_place_that_is_none_is_a_mistake(
    tmp_path: Path, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path / "out", TWIN, subject="v1").says("node-joins").end()
    spoilt = Run(tmp_path / "other", TWIN).says("node-joins").end()
    (spoilt / "allure-results").write_text("a file in a folder's place")
    (tmp_path / "file").touch()
    named = {"RUN": run, "OUT": run.parent, "FILE": tmp_path / "file", "SPOILT": spoilt}
    words = []
    for one in argv:
        head, slash, rest = one.partition("/")
        words.append(f"{named[head]}{slash}{rest}" if head in named else one)
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert said.startswith("hil: ")
    assert "[Errno" not in said
