from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.facts.fact import Fact
from harness.judge.verdict import Verdict
from harness.report import allure_writer
from harness.report.ledger import read
from harness.report.outcome import Missing, summarise

ROOT = Path(__file__).resolve().parents[2]

IN_A_TEST = """
from harness.facts.fact import Unread, Origin
from harness.judge.verdict import Outcome, Verdict
from harness.report.allure_writer import attach_verdict, step_for_fact

def test_inside():
    fact = Unread(Origin(0.0, "guest a", "token: hunter2\\nnvidia Live"), "modules", "cut")
    step_for_fact(fact)
    for outcome in Outcome:
        attach_verdict(Verdict("modules-live", "node a", outcome, f"seen {outcome}", (fact,)))
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """A real result file, written by a test of its own with allure-pytest."""
    place = tmp_path_factory.mktemp("inner")
    (place / "test_inner.py").write_text(IN_A_TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", f"--rootdir={place}"]
    command += ["-p", "no:cacheprovider", "--alluredir=results", "test_inner.py"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(place)}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout.decode()
    (written,) = (place / "results").glob("*-result.json")
    return json.loads(written.read_text()), place / "results"


def test_a_fact_is_a_step_with_its_values_and_text(result: tuple[dict[str, Any], Path]) -> None:
    data, folder = result
    step = data["steps"][0]
    assert (step["name"], step["status"]) == ("Unread from guest a", "passed")
    kinds = {item["name"]: item for item in step["attachments"]}
    assert kinds["values at 1970-01-01T00:00:00Z"]["type"] == "application/json"
    assert kinds["raw"]["type"] == "text/plain"
    assert (folder / kinds["raw"]["source"]).read_text() == "token: [redacted]\nnvidia Live"


def test_a_verdict_is_a_step_of_its_own_colour_and_ends_nothing(
    result: tuple[dict[str, Any], Path],
) -> None:
    data, folder = result
    assert data["status"] == "passed"
    assert [(step["name"], step["status"]) for step in data["steps"][1:]] == [
        ("modules-live holds: node a", "passed"),
        ("modules-live broken: node a", "failed"),
        ("modules-live unknown: node a", "broken"),
    ]
    because = data["steps"][2]["attachments"][0]
    assert (folder / because["source"]).read_text() == "seen broken"


def test_outside_allure_nothing_is_written_and_nothing_raised(
    fact: Callable[..., Fact], verdict: Callable[..., Verdict]
) -> None:
    allure_writer.step_for_fact(fact("nvidia"))
    allure_writer.attach_verdict(verdict("modules-live", "broken"))


def test_what_was_planned_and_lost_has_a_broken_result(written: Path, tmp_path: Path) -> None:
    missing = summarise(read(written)).missing
    known = {("modules", "gpu-gb202"): allure_writer.Identity("scenarios.gpu#test_modules", "h1")}
    out = tmp_path / "results"
    paths = allure_writer.write_missing(out, missing, run_id="r", at=1.5, identities=known)
    results = {item["name"]: item for item in (json.loads(p.read_text()) for p in paths)}
    assert set(results) == {"modules on gpu-gb202", "join on gpu-l40s"}
    lost = results["modules on gpu-gb202"]
    assert (lost["status"], lost["start"], lost["historyId"]) == ("broken", 1500, "h1")
    assert lost["fullName"] == "scenarios.gpu#test_modules"
    assert "nvlink-param" in lost["statusDetails"]["message"]
    assert "no card free" in results["join on gpu-l40s"]["statusDetails"]["message"]
    again = allure_writer.write_missing(out, missing, run_id="r", at=1.5, identities=known)
    assert again == paths
    assert len(list(out.iterdir())) == len(paths) == len({p.name for p in paths})


def test_what_was_lost_is_labelled_like_what_ran(tmp_path: Path) -> None:
    lost = [Missing("s", "p", ("c",), "no card free")]
    (path,) = allure_writer.write_missing(tmp_path, lost, run_id="r", at=0.0, substrate="mini-lab")
    labels = json.loads(path.read_text())["labels"]
    assert {"name": "substrate", "value": "mini-lab"} in labels
    (path,) = allure_writer.write_missing(tmp_path, lost, run_id="r", at=0.0)
    assert "substrate" not in path.read_text()


def test_one_scenario_lost_on_two_pools_is_not_one_with_a_retry(tmp_path: Path) -> None:
    missing = [Missing("s", pool, ("c",), "no card free") for pool in ("p", "q")]
    paths = allure_writer.write_missing(tmp_path, missing, run_id="r", at=0.0)
    assert len({json.loads(path.read_text())["historyId"] for path in paths}) == 2


def unescaped(line: str) -> tuple[str, str]:
    """A line of a properties file as ``java.util.Properties`` reads it."""
    match = re.fullmatch(r"((?:\\.|[^\\=: ])*)=(.*)", line)
    assert match is not None
    table = {"n": "\n", "t": "\t", "r": "\r"}

    def undo(part: str) -> str:
        plain = re.sub(
            r"\\(?:u([0-9a-f]{4})|(.))",
            lambda m: chr(int(m[1], 16)) if m[1] else table.get(m[2], m[2]),
            part,
        )
        return plain.encode("utf-16", "surrogatepass").decode("utf-16")

    return undo(match[1]), undo(match[2])


def test_environment_properties_read_back(tmp_path: Path) -> None:
    given = {
        "GPU driver": "570.1",
        "path": "C:\\new",
        "a=b:c#d!e": "=x: y",
        "two": "one\ntwo\tthree",
        "lead": "  spaces",
        "Größe": "µ 𝄞 \x07",
    }
    text = allure_writer.write_environment(tmp_path, given).read_bytes().decode("ascii")
    assert dict(unescaped(line) for line in text.splitlines()) == given
    assert text.startswith("GPU\\ driver=570.1\n")


def test_environment_properties_hold_no_secret(tmp_path: Path) -> None:
    path = allure_writer.write_environment(tmp_path, {"api token": "x", "LAB_TOKEN": "hunter2"})
    assert "hunter2" not in path.read_text()


@pytest.mark.parametrize(
    ("status", "message", "category"),
    [
        ("broken", "not run: no card free (claims: c)", "Planned and not run"),
        ("failed", "Failed: c broken: it is 0 [node a]\nmore", "Product: claim broken"),
        ("failed", "c unknown: it was cut [node a]", "Not known: the answer could not be read"),
        ("broken", "KeyError: 'x'", "Harness or scenario at fault"),
    ],
)
def test_categories_sort_the_messages(
    tmp_path: Path, status: str, message: str, category: str
) -> None:
    rules = json.loads(allure_writer.write_categories(tmp_path).read_text())
    first = next(
        rule["name"]
        for rule in rules
        if status in rule["matchedStatuses"]
        and re.fullmatch(rule.get("messageRegex", r"[\s\S]*"), message)
        and "traceRegex" not in rule
    )
    assert first == category


def test_a_failing_test_s_line_is_one_that_the_categories_know(
    verdict: Callable[..., Verdict],
) -> None:
    said = allure_writer.message(verdict("c", "broken", "it is 0", subject="node \x1b[1ma"))
    assert said == "c broken: it is 0 [node \\x1b[1ma]"


def test_executor_leaves_out_what_is_not_known(tmp_path: Path) -> None:
    path = allure_writer.write_executor(tmp_path, name="Jenkins", build_order=0, build_name="#0")
    assert json.loads(path.read_text()) == {"name": "Jenkins", "buildOrder": 0, "buildName": "#0"}
