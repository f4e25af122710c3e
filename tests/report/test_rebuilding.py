"""`hil report` on folders as runs leave them, killed at every moment."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.judge.verdict import Outcome, Verdict
from harness.report.ledger import Ledger, read
from harness.report.rebuilding import rebuild, report
from harness.report.rundir import RunDirectory, RunInfo

START = 1767225600.0


@pytest.fixture
def killed(tmp_path: Path, verdict: Callable[..., Verdict]) -> Path:
    """A run of two scenarios, killed in the second: no joined ledger, no end in its run.json."""
    directory = RunDirectory(tmp_path / "out", "k").create()
    RunInfo("k", "twin", "nightly", 5.0, kind="twin").write(directory.run_json)
    with Ledger(directory.path, "plan") as plan:
        for scenario, claim in {"test_a": "modules-live", "test_b": "uptime"}.items():
            plan.planned(scenario, "p", [claim], title=scenario)
    with Ledger(directory.path, "pool-p") as pool:
        pool.begin("test_a", "p", at=START)
        pool.verdict(verdict("modules-live"), scenario="test_a", pool="p", at=START + 1)
        pool.end("test_a", "passed", pool="p", at=START + 1)
        pool.begin("test_b", "p", at=START + 2)
        pool.wait("the window", scenario="test_b", pool="p", since=START + 2, until=START + 400)
    return directory.path


def statuses(run: Path) -> dict[str, str]:
    results = [json.loads(p.read_text()) for p in (run / "allure-results").glob("*-result.json")]
    return {one["fullName"].rpartition("#")[2]: one["status"] for one in results}


def contents(run: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file()
    }


def test_a_killed_run_is_made_whole(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(["k"], out=killed.parent) == 0
    assert "1 not run, 1 holds" in capsys.readouterr().out
    view = read(killed)
    assert view.merged
    assert [r.text("why") for r in view.of("not-run")] == ["the run was killed"]
    assert [r.text("text") for r in view.of("note") if r.text("kind") == "killed"] != []
    assert json.loads((killed / "signoff.json").read_text())["signable"] is False
    assert statuses(killed) == {"test_a": "passed", "test_b": "broken"}
    suite = ElementTree.parse(killed / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("errors")) == ("2", "1")


def test_doing_it_again_changes_nothing(killed: Path) -> None:
    rebuild(killed)
    before = contents(killed)
    rebuild(killed)
    assert contents(killed) == before


def test_what_was_lost_of_a_finished_run_comes_back_the_same(killed: Path) -> None:
    rebuild(killed)
    before = contents(killed)
    for name in ("signoff.html", "signoff.json", "summary.txt", "junit.xml", "allurerc.json"):
        (killed / name).unlink()
    shutil.rmtree(killed / "allure-results")
    rebuild(killed)
    after = contents(killed)
    assert {k: v for k, v in before.items() if "/history/" not in k} == after


def test_a_run_killed_at_any_byte_of_its_ledger(killed: Path, tmp_path: Path) -> None:
    """The last line is cut anywhere: it is reported, and the rest is used."""
    shard = killed / "ledger.d" / "pool-p.jsonl"
    whole = shard.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in (last + 1, last + 20, len(whole) - 2):
        run = tmp_path / "cut" / str(cut)
        shutil.copytree(killed, run)
        (run / "ledger.d" / "pool-p.jsonl").write_bytes(whole[:cut])
        _, view = rebuild(run)
        assert [(line.shard, line.line) for line in view.unreadable] == [("pool-p", 7)]
        assert statuses(run) == {"test_a": "passed", "test_b": "broken"}


def test_lines_that_are_none_are_named_and_the_rest_is_used(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shard = killed / "ledger.d" / "pool-p.jsonl"
    shard.write_bytes(shard.read_bytes() + b'{"record": "fa\n[1, 2]\n')
    assert report([str(killed)], out=killed.parent, quiet=True) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[3] for line in said] == ["pool-p:8", "pool-p:9"]
    assert statuses(killed) == {"test_a": "passed", "test_b": "broken"}


def test_another_schema_is_refused(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shard = killed / "ledger.d" / "pool-p.jsonl"
    shard.write_text(shard.read_text().replace("hil.ledger/1", "hil.ledger/2", 1))
    assert report([str(killed)], out=killed.parent) == 3
    assert "'hil.ledger/2'" in capsys.readouterr().err
    assert not (killed / "signoff.html").exists()


def test_another_schema_of_the_run_is_refused(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = killed / "run.json"
    path.write_text(path.read_text().replace("hil.run/1", "hil.run/9"))
    assert report([str(killed)], out=killed.parent) == 3
    assert "its schema is not 'hil.run/1'" in capsys.readouterr().err


@pytest.mark.parametrize("left", [b"", b'{"schema": "hil.'])
def test_a_run_without_its_run_json_has_its_name_only(killed: Path, left: bytes) -> None:
    (killed / "run.json").write_bytes(left)
    rebuild(killed)
    assert json.loads((killed / "signoff.json").read_text())["run"]["lab"] == "not recorded"
    assert statuses(killed) == {"test_a": "passed", "test_b": "broken"}


def test_an_end_that_was_broken_off_is_written_anew(killed: Path) -> None:
    (killed / "ledger.d" / "end.jsonl").write_text('{"record": "header", "schema": "hil.led')
    (killed / "ledger.jsonl").write_text('{"record": "header", "schema"')
    _, view = rebuild(killed)
    assert view.merged
    assert view.unreadable == ()
    assert [r.text("scenario") for r in view.of("not-run")] == ["test_b"]


def test_no_such_run(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(["kk"], out=killed.parent) == 2
    assert "did you mean 'k'" in capsys.readouterr().err


def test_a_run_that_planned_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = RunDirectory(tmp_path, "k").create()
    RunInfo("k", "twin", "", 5.0).write(directory.run_json)
    assert report(["k"], out=tmp_path) == 3
    assert "killed before anything was planned" in capsys.readouterr().err


def trend(run: Path) -> list[dict[str, Any]]:
    lines = (run / "allure-history.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_run_carries_the_history_of_those_before_it(killed: Path) -> None:
    out = killed.parent
    for number, (name, lane, fault) in enumerate(
        [("b", "nightly", ""), ("c", "nightly", "x"), ("d", "hardware", ""), ("e", "nightly", "")]
    ):
        shutil.copytree(killed, out / name)
        info = RunInfo(name, "twin", lane, 10.0 + number, kind="twin", fault=fault)
        info.write(out / name / "run.json")
    assert report(list("kbcde"), out=out, quiet=True) == 0
    assert [len(trend(out / name)) for name in "kbcde"] == [0, 1, 2, 0, 2]
    assert [one["name"] for one in trend(out / "e")] == ["hil k", "hil b"]
    folder = out / "e" / "allure-results" / "history"
    counts = json.loads((folder / "history-trend.json").read_text())
    assert [one["data"]["passed"] for one in counts] == [1, 1]
    kept = json.loads((folder / "history.json").read_text())
    results = (out / "e" / "allure-results").glob("*-result.json")
    assert set(kept) == {json.loads(one.read_text())["historyId"] for one in results}
    assert all(one["statistic"]["total"] == 2 for one in kept.values())


def test_one_that_is_killed_between_ledger_and_sign_off_can_be_done_again(
    killed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There was a sign-off already, of a ledger that was lost."""
    rebuild(killed)
    (killed / "ledger.jsonl").unlink()
    with Ledger(killed, "pool-q") as late:
        late.note("bring-up", "written since", at=START)

    def cut(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("harness.report.closing.write_reports", cut)
        with pytest.raises(KeyboardInterrupt):
            rebuild(killed)
    assert read(killed).merged
    assert report([str(killed)], out=killed.parent) == 0
    told = json.loads((killed / "signoff.json").read_text())
    assert told["ledger"]["sha256"] == read(killed).sha256


def test_the_evidence_of_a_run_is_in_its_run_json(killed: Path) -> None:
    with Ledger(killed, "pool-q") as pool:
        pool.evidence(
            "test_c", "q", at=START, folder="evidence/test_c--q", score={"planned": 4, "taken": 3},
            status="undecided", causes=[], diagnosis="undecided",
        )  # fmt: skip
        broken = Verdict("uptime", "node n", Outcome.BROKEN, "it rebooted", ())
        pool.planned("test_c", "q", ["uptime"])
        pool.verdict(broken, scenario="test_c", pool="q", at=START)
    rebuild(killed)
    told = json.loads((killed / "run.json").read_text())["evidence"]
    assert (told["failures"], told["undecided"], told["undiagnosable_share"]) == (1, 1, 1.0)
    assert (told["planned"], told["taken"], told["share"]) == (4, 3, 0.75)
    before = (killed / "run.json").read_bytes()
    rebuild(killed)
    assert (killed / "run.json").read_bytes() == before
