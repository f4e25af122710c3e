"""docs/writing-a-scenario.md, done word for word on a copy of the project."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT

PAGE = ROOT / "docs" / "writing-a-scenario.md"
FILE = re.compile(r"`([\w/]+\.(?:py|toml))`[^`]*?:\n\n```(?:python|toml)\n(.*?)^```$", re.S | re.M)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with the tutorial's edits."""
    project = tmp_path_factory.mktemp("tutorial") / "project"
    skip = shutil.ignore_patterns("__pycache__", "out")
    for part in ("harness", "scenarios", "inventory", "reports"):
        shutil.copytree(ROOT / part, project / part, ignore=skip)
    for part in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / part, project / part)
    edit(project, PAGE.read_text())
    return project


def edit(project: Path, text: str) -> None:
    made = dict(FILE.findall(text))
    for name, body in made.items():
        path = project / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)
    with (project / "harness/claims/catalogue.toml").open("a") as catalogue:
        catalogue.write(f"\n{made['harness/claims/catalogue.toml']}")
    [imports] = re.findall(
        r"beside that file's imports:\n\n```python\n(.*?)^```$", text, re.S | re.M
    )
    worker = project / "harness/bringup/worker.py"
    before, after = "from harness.facts.modules", "    def nvidia_params(self)"
    body = worker.read_text().replace(before, f"{imports}{before}", 1)
    worker.write_text(body.replace(after, made["harness/bringup/worker.py"] + after, 1))
    [name] = re.findall(r"`__all__`:\n\n```python\n(.*?)^```$", text, re.S | re.M)
    face = project / "harness/judge/__init__.py"
    face.write_text(face.read_text().replace("__all__ = [", f'{name}\n__all__ = ["host_name",', 1))
    catalogue = project / "harness/twin/faults/catalogue.py"
    body = catalogue.read_text().replace("    leaks,\n", "    leaks,\n    names,\n", 1)
    catalogue.write_text(body.replace("        leaks,\n", "        leaks,\n        names,\n", 1))


def run(project: Path, line: str, expected: str) -> subprocess.CompletedProcess[str]:
    """Run a line of the page, which has to stand there, and what comes of it too."""
    assert f"{line}\n" in PAGE.read_text()
    assert expected in PAGE.read_text()
    argv = [sys.executable, "-m", "harness.cli", *line.split()[1:], "--out", str(project / "out")]
    return subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)


def test_the_claim_holds(project: Path) -> None:
    table = "claim      plain\n---------------------------\nhost-name  holds\n"
    done = run(project, "hil run --claim host-name --pool plain", table)
    assert (done.returncode, table in done.stdout) == (0, True), done.stdout + done.stderr


def test_the_fault_breaks_it(project: Path) -> None:
    table = "claim      plain\n---------------------------\nhost-name  BROKEN\n"
    line = "hil run --claim host-name --pool plain --fault host-name-lost"
    done = run(project, line, table)
    assert (done.returncode, table in done.stdout) == (1, True), done.stdout + done.stderr
    assert "the kernel is called talos-default" in " ".join(done.stdout.split())


def test_its_tests_pass(project: Path) -> None:
    argv = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    argv += [
        "--import-mode=importlib",
        "tests/facts/test_hostname.py",
        "tests/judge/test_hostname.py",
    ]
    done = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout


def test_the_last_step_names_what_the_projects_own_tests_ask_for(project: Path) -> None:
    text = PAGE.read_text()
    for name in re.findall(r"^- in `([\w/.]+)`", text, re.M):
        assert (ROOT / name).is_file(), name
    [feature, story] = re.findall(r"in the list `\"(\w+)\"`, and at the end\n  `(.+)`", text)[0]
    parts = project / "harness/claims/parts.toml"
    told = parts.read_text().replace(f'"{feature}" = [', f'"{feature}" = ["host-name", ', 1)
    parts.write_text(f"{told}{story}\n")
    asked = (
        "from harness.claims import load",
        "from harness.claims.parts import declared_claims, declared_scenarios",
        "from harness.twin.faults.catalogue import FAULTS",
        "assert declared_claims() == set(load())",
        "assert 'test_kernel_has_the_nodes_name' in declared_scenarios()",
        "assert FAULTS['host-name-lost'].source",
    )
    argv = [sys.executable, "-c", "\n".join(asked)]
    done = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
