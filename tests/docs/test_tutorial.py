"""The tutorial of docs/scenarios.md, done on a copy of the project."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.docs.markdown import ROOT, Page, code


def run(project: Path, *more: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "harness.cli", "run", "--claim", "card-model"]
    argv += ["--pool", "gpu-l40s", "--out", str(project / "out"), *more]
    return subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)


def test_the_tutorial_works(tmp_path: Path) -> None:
    project = tmp_path / "project"
    skip = shutil.ignore_patterns("__pycache__", "out")
    for part in ("harness", "scenarios", "inventory", "reports"):
        shutil.copytree(ROOT / part, project / part, ignore=skip)
    for part in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / part, project / part)
    text = Page(ROOT / "docs/scenarios.md").section("Adding one")
    [claim] = code(text, "toml")
    judge, name, scenario = code(text, "python")
    holds, broken = code(text, "")[1], code(text, "")[3]

    with (project / "harness/claims/catalogue.toml").open("a") as catalogue:
        catalogue.write(f"\n{claim}")
    (project / "harness/judge/card_model.py").write_text(judge)
    face = project / "harness/judge/__init__.py"
    face.write_text(face.read_text().replace("__all__ = [", f'{name}\n__all__ = ["card_model",', 1))
    with (project / "scenarios/test_cards.py").open("a") as scenarios:
        scenarios.write(f"\n\n{scenario}")

    done = run(project)
    assert (done.returncode, holds in done.stdout) == (0, True), done.stdout + done.stderr

    other = project / "inventory/other-card.yaml"
    twin = (project / "inventory/twin.yaml").read_text()
    other.write_text(twin.replace("10de:26b9", "10de:26ba"))
    done = run(project, "--lab", str(other))
    assert (done.returncode, broken in done.stdout) == (1, True), done.stdout + done.stderr
