"""Results rendered by Allure itself and opened in a real browser, with no network to be had.

Neither Node.js nor a browser is needed by the project: where one is missing, this is not run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from harness.judge.verdict import Verdict
from harness.report.ledger import Ledger
from harness.report.rebuilding import rebuild, report
from harness.report.rundir import RunDirectory, RunInfo
from tests.report import browser

START = 1767225600.0
ALLURE = "allure@3.18.0"
DOCS = Path(__file__).resolve().parents[2] / "docs" / "reports.md"
OFFLINE: Mapping[str, str] = {**os.environ, "npm_config_offline": "true", "CI": "1"}


def allure(*argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = ["npx", "--yes", ALLURE, *argv]
    return subprocess.run(
        command, cwd=cwd, env=OFFLINE, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture
def needed(tmp_path: Path) -> None:
    if not browser.installed():
        pytest.skip("not run: no Chromium on this machine")
    if shutil.which("npx") is None or allure("--version", cwd=tmp_path).returncode:
        pytest.skip(f"not run: npx has no {ALLURE} on this machine (docs/reports.md)")


def make(out: Path, number: int, verdict: Callable[..., Verdict]) -> Path:
    """A run in which something holds, something is broken and something is interrupted."""
    directory = RunDirectory(out, f"run-{number}").create()
    info = RunInfo(directory.run_id, "twin", "nightly", START + 100 * number, kind="twin")
    info.write(directory.run_json)
    asked = {"test_modules_are_live": "modules-live", "test_workers_join": "node-joins"}
    with Ledger(directory.path, "plan") as plan:
        for scenario, claim in {**asked, "test_workers_stay_on_one_boot": "uptime"}.items():
            plan.planned(scenario, "gpu", [claim], hardware="L40S", title=f"Says {claim}.")
        plan.not_established("vfio-bound", "", "no host can be asked")
    with Ledger(directory.path, "pool-gpu") as pool:
        for scenario, claim in asked.items():
            pool.begin(scenario, "gpu", at=START)
            outcome = "broken" if claim == "node-joins" else "holds"
            given = verdict(claim, outcome, "</script><img src=http://example.invalid/x>")
            pool.verdict(given, scenario=scenario, pool="gpu", at=START + 5)
            pool.end(
                scenario, "passed" if outcome == "holds" else "failed", pool="gpu", at=START + 6
            )
        pool.begin("test_workers_stay_on_one_boot", "gpu", at=START + 7)
    return directory.path


def strip() -> re.Pattern[str]:
    """The pattern that docs/reports.md tells to take out of the page."""
    (found,) = re.findall(r"sed -i -E 's#(.+?)##g'", DOCS.read_text(encoding="utf-8"))
    return re.compile(found)


@pytest.mark.usefixtures("needed")
def test_the_rendered_page_asks_the_network_for_nothing(
    tmp_path: Path, verdict: Callable[..., Verdict]
) -> None:
    first, second = (make(tmp_path / "out", number, verdict) for number in (1, 2))
    rebuild(first)
    assert report([str(second)], out=tmp_path, quiet=True) == 0
    done = allure("generate", "allure-results", cwd=second)
    assert done.returncode == 0, done.stdout + done.stderr
    index = second / "allure" / "index.html"
    text, times = strip().subn("", index.read_text(encoding="utf-8"))
    assert times == 1
    index.write_text(text, encoding="utf-8")
    shown = browser.opened(index, tmp_path / "profile", "Says modules-live", "Says uptime")
    assert shown.asked == []
    assert shown.complaints == []
    assert "New tests" not in shown.text  # the run before is known to it
