from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from harness import cli
from harness.inventory import load as load_inventory
from tests.jenkins.declarative import mistakes, parse

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Jenkinsfile").read_text(encoding="utf-8")
VALUES = {"LAB": "inventory/twin.yaml", "POLICY": "release"}


def scripts(text: str) -> list[str]:
    """What every `sh` of a file runs, those inside `script` too."""
    found = re.findall(
        r"\bsh\b[ (](?:[^'\n]*script: )?('''.*?'''|'[^'\n]*'|\"[^\"\n]*\")", text, re.S
    )
    return [one[3:-3] if one.startswith("'''") else one[1:-1] for one in found]


def commands(name: str) -> list[list[str]]:
    """Calls of a program, each with values for the parameters that it is given."""
    lines = [line.strip() for script in scripts(TEXT) for line in script.splitlines()]
    calls = [
        line.removesuffix(" || exit").replace(
            '"$@"', "build-1" if " signoff " in line else "--claim uptime"
        )
        for line in lines
        if line.startswith(name)
    ]
    filled = [re.sub(r"\$(\w+)", lambda m: VALUES.get(m[1], "1"), line) for line in calls]
    return [shlex.split(line) for line in filled]


def test_the_controller_would_take_it() -> None:
    assert mistakes(TEXT) == []


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("agent none", "agnt none", "'agnt' is not of pipeline"),
        ("always {", "allways {", "'allways' is not of post"),
        ("      steps { sh 'make test' }", "", "a stage has one of"),
        ("steps { sh 'make test' }", "steps { shh 'make test' }", "no such step: shh"),
        ("lock(resource: params", "lock(resuorce: params", "lock knows no argument 'resuorce'"),
        ("allowEmptyResults: false", "allowEmpty: false", "junit knows no argument 'allowEmpty'"),
        ("timeout(time: 40", "timeout(tme: 40", "timeout knows no argument 'tme'"),
        ("  stages {", "  stages {{", "stages"),
        ("cleanup {", "always {", "a second always in post"),
        ("  agent none\n", "", "the pipeline has no agent"),
    ],
)
def test_what_it_would_not_take_is_found(right: str, wrong: str, told: str) -> None:
    assert right in TEXT
    found = mistakes(TEXT.replace(right, wrong, 1))
    assert any(told in one for one in found), found


def test_a_brace_too_many_is_no_traceback() -> None:
    assert mistakes(TEXT + "}") == [f"line {TEXT.count(chr(10)) + 1}: a brace that opens nothing"]
    assert mistakes(TEXT.rstrip()[:-1]) == ["the end of the file: something is not closed"]


def test_every_step_is_a_command_that_a_person_can_give() -> None:
    calls = commands(".venv/bin/hil")
    assert {call[1] for call in calls} == {"doctor", "run", "report", "clean", "signoff"}
    for _, *arguments in calls:
        cli.parser().parse_args(arguments)
    targets = set(re.findall(r"^([\w./$()-]+):", (ROOT / "Makefile").read_text(), re.M))
    assert {call[1] for call in commands("make ")} <= targets | {".venv/.ready"}


def test_the_lab_is_locked_before_time_is_counted_and_let_go_whatever_happens() -> None:
    (pipeline,) = parse(TEXT)
    lab = next(one for one in pipeline.find("stage") if "'lab'" in one.words)
    (locked,) = lab.find("lock")
    assert [one.name for one in locked.inner or ()] == ["timeout"]
    ends = {one.name: one for post in lab.find("post") for one in post.inner or ()}
    always = ends["always"].text
    assert always.index("hil report") < always.index("archiveArtifacts") < always.index("junit ")
    # a report that cannot be made must not keep the run from being archived
    assert re.search(r"returnStatus: true, script: '\S*hil report", always)
    assert "hil clean" in ends["cleanup"].text


def test_what_a_person_is_asked_is_there() -> None:
    (pipeline,) = parse(TEXT)
    (asked,) = (one for one in pipeline.inner or () if one.name == "parameters")
    names = {one.words[one.words.index("name") + 2].strip("'") for one in asked.inner or ()}
    assert {"JOB", "LAB", "LANE", "CARD", "CLAIMS", "SOAK", "POLICY", "BUILDS", "SUBJECT"} == names
    lab = re.search(r"name: 'LAB', defaultValue: '([^']+)'", TEXT)
    lane = re.search(r"name: 'LANE', defaultValue: '([^']+)'", TEXT)
    assert lab
    assert lane
    assert lane[1] in load_inventory(ROOT / lab[1]).lanes
