from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.judge.verdict import Verdict
from harness.report import allure_writer
from harness.report.allure_model import HTML, MOST_BYTES, Attachment, Result, Step, attached, cut


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


def test_a_failing_test_s_line_has_no_control_codes(verdict: Callable[..., Verdict]) -> None:
    said = allure_writer.message(verdict("c", "broken", "it is 0", subject="node \x1b[1ma"))
    assert said == "c broken: it is 0 [node \\x1b[1ma]"


JENKINS = {
    "JENKINS_URL": "https://ci/",
    "BUILD_NUMBER": "17",
    "BUILD_URL": "https://ci/job/hil/17/",
    "BUILD_TAG": "jenkins-hil-17",
}


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        (
            JENKINS,
            {
                "name": "Jenkins",
                "type": "jenkins",
                "buildOrder": 17,
                "buildName": "jenkins-hil-17",
                "buildUrl": "https://ci/job/hil/17/",
            },
        ),
        (
            {"GITLAB_CI": "true", "CI_PIPELINE_IID": "x"},
            {"name": "GitLab CI", "type": "gitlab", "buildName": "#x"},
        ),
        ({"BUILD_NUMBER": "3"}, {"name": "by hand", "type": "local"}),
    ],
)
def test_who_runs(environ: Mapping[str, str], told: Mapping[str, Any], tmp_path: Path) -> None:
    assert allure_writer.executor(environ) == told
    path = allure_writer.write_executor(tmp_path, allure_writer.executor(environ))
    assert json.loads(path.read_text()) == told


def test_allure_3_sorts_by_the_same_categories_as_allure_2(tmp_path: Path) -> None:
    rules = json.loads(allure_writer.write_categories(tmp_path).read_text())
    told = json.loads(allure_writer.write_configuration(tmp_path, "n", "h.jsonl").read_text())
    assert told["categories"] == rules
    assert told["historyPath"] == "./h.jsonl"
    assert told["appendHistory"] is False


def result(**more: Any) -> Result:
    given = {"status": "passed", "message": "", "start": 1.0, "stop": 2.5, **more}
    return Result(("r", "s", "p", 1), "name", "scenarios#s", **given)


def test_a_result_stands_with_the_files_of_its_steps(tmp_path: Path) -> None:
    inner = Step("inner", 1.0, 2.0, attachments=[attached("table", "<p>x</p>", HTML)])
    path = allure_writer.write_result(
        tmp_path, result(steps=[Step("outer", 1.0, 2.0, steps=[inner])])
    )
    told = json.loads(path.read_text())
    (file,) = told["steps"][0]["steps"][0]["attachments"]
    assert (file["name"], file["type"]) == ("table", "text/html")
    assert (tmp_path / file["source"]).read_text() == "<p>x</p>"
    assert (told["start"], told["stop"]) == (1000, 2500)
    assert path.name == f"{told['uuid']}-result.json"


def test_a_result_that_is_written_anew_takes_the_place_of_the_other(tmp_path: Path) -> None:
    allure_writer.write_result(tmp_path, result(status="broken"))
    allure_writer.write_result(tmp_path, result())
    (path,) = tmp_path.iterdir()
    assert json.loads(path.read_text())["status"] == "passed"


def test_a_long_attachment_keeps_head_and_tail() -> None:
    body = b"head" + b"x" * (MOST_BYTES + 100) + b"tail"
    kept = cut(body)
    assert len(kept) < MOST_BYTES + 100
    assert kept.startswith(b"head") and kept.endswith(b"tail")
    assert b"[... 108 bytes left out ...]" in kept
    assert cut(b"short") == b"short"


def test_the_same_text_is_one_file() -> None:
    assert attached("a", "text").file == attached("b", "text").file
    assert Attachment("a", b"text").file != Attachment("a", b"other").file
