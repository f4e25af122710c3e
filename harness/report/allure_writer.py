"""Allure's files on disk: results and what lies beside them, each written whole or not at all.

How Allure escapes and reads these files was measured with both renderers (lab/reporting.md
sections 1.4 to 1.7 and 2.4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.judge.verdict import Verdict
from harness.report.allure_causes import CATEGORIES
from harness.report.allure_model import Attachment, Container, Result
from harness.report.atomic import write_bytes, write_json
from harness.report.records import visible
from harness.report.redact import redact, redact_data


def message(verdict: Verdict) -> str:
    """The line a failing test shows."""
    text = f"{verdict.claim} {verdict.outcome.value}: {verdict.because} [{verdict.subject}]"
    return str(visible(redact(text)))


def write_result(results: Path, result: Result) -> Path:
    """A result's file, after the files it names; what is there is replaced at once."""
    write_attachments(results, result.files())
    return _write_compact(results / f"{result.uuid}-result.json", result.document())


def write_container(results: Path, container: Container) -> Path:
    """A container's file, after the files it names."""
    write_attachments(results, container.files())
    return _write_compact(results / f"{container.uuid}-container.json", container.document())


def write_attachments(results: Path, attachments: Iterable[Attachment]) -> None:
    """Files beside results. One that is there has that content already: its name says so."""
    for one in attachments:
        path = results / one.file
        if not path.exists():
            write_bytes(path, one.body)


def write_environment(results: Path, properties: Mapping[str, str]) -> Path:
    """``environment.properties``, escaped as Java reads it; secrets are taken out."""
    clean: Mapping[str, str] = redact_data(dict(properties))
    lines = [f"{_escaped(key, in_key=True)}={_escaped(text)}\n" for key, text in clean.items()]
    return write_bytes(results / "environment.properties", "".join(lines).encode("ascii"))


def write_categories(results: Path) -> Path:
    """``categories.json`` for Allure 2; Allure 3 wants the same list in its configuration."""
    return write_json(results / "categories.json", [dict(item) for item in CATEGORIES])


def write_configuration(run: Path, name: str, history: str) -> Path:
    """``allurerc.json`` for Allure 3, to be used in the run's folder: one file that loads nothing
    but what is in it, sorted by the same categories, with the trend of the runs in ``history``.

    Nothing is appended to that by rendering: each run leaves its own line once (`allure_history`).
    """
    options = {"singleFile": True, "reportLanguage": "en"}
    return write_json(
        run / "allurerc.json",
        {
            "name": name,
            "output": "./allure",
            "historyPath": f"./{history}",
            "appendHistory": False,
            "categories": [dict(item) for item in CATEGORIES],
            "plugins": {"awesome": {"options": options}},
        },
    )


def executor(environ: Mapping[str, str]) -> dict[str, object]:
    """Who runs: Jenkins or another CI by the variables that it sets, else this machine's hands.

    The form of ``executor.json``; ``buildOrder`` orders the trend of Allure 2.
    """
    if environ.get("JENKINS_URL"):
        number = environ.get("BUILD_NUMBER", "")
        url = environ.get("BUILD_URL", "")
        named = environ.get("BUILD_TAG") or f"{environ.get('JOB_NAME', 'build')} #{number}"
        return _executor("Jenkins", "jenkins", number, named, url)
    if environ.get("GITHUB_ACTIONS"):
        number = environ.get("GITHUB_RUN_NUMBER", "")
        where = "/".join(environ.get(k, "") for k in ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY"))
        url = f"{where}/actions/runs/{environ.get('GITHUB_RUN_ID', '')}"
        return _executor("GitHub Actions", "github", number, f"#{number}", url)
    if environ.get("GITLAB_CI"):
        number = environ.get("CI_PIPELINE_IID", "")
        url = environ.get("CI_JOB_URL", "")
        return _executor("GitLab CI", "gitlab", number, f"#{number}", url)
    return {"name": "by hand", "type": "local"}


def write_executor(results: Path, told: Mapping[str, object]) -> Path:
    """``executor.json``."""
    return write_json(results / "executor.json", dict(told))


def _executor(name: str, kind: str, number: str, build: str, url: str) -> dict[str, object]:
    order = {"buildOrder": int(number)} if number.isdigit() else {}
    address = {"buildUrl": url} if url else {}
    return {"name": name, "type": kind, **order, "buildName": build, **address}


def _write_compact(path: Path, document: object) -> Path:
    return write_bytes(path, json.dumps(document, allow_nan=False).encode("ascii"))


def _escaped(text: str, *, in_key: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    text = re.sub(r"[ :=#!]", r"\\\g<0>", text) if in_key else re.sub(r"^ ", r"\\ ", text)
    units = text.encode("utf-16-be", "surrogatepass")
    codes = (int.from_bytes(units[place : place + 2]) for place in range(0, len(units), 2))
    return "".join(chr(code) if 32 <= code < 127 else f"\\u{code:04x}" for code in codes)
