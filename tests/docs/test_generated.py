from __future__ import annotations

import runpy
from typing import Any

import pytest

from harness.claims import load
from harness.qemulab.faults.catalogue import FAULTS as IN_GUESTS
from harness.twin.faults.catalogue import FAULTS
from tests.docs.markdown import ROOT, Page

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def generate() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "generate.py"))


@pytest.mark.parametrize("name", ["claims.md", "faults.md", "diagnosis.md"])
def test_the_page_is_current(generate: dict[str, Any], name: str) -> None:
    made = generate["PAGES"][name]()
    assert (DOCS / name).read_text(encoding="utf-8") == made, "run python docs/generate.py"


def test_every_claim_is_where_the_catalogue_says() -> None:
    for claim in load().values():
        name, _, anchor = claim.page.partition("#")
        assert anchor in Page(DOCS / name).anchors()


def test_every_fault_has_a_heading() -> None:
    assert set(FAULTS) | set(IN_GUESTS) <= Page(DOCS / "faults.md").anchors()
    assert not set(FAULTS) & set(IN_GUESTS), "one page has both"


def test_every_claim_is_judged_by_a_scenario(generate: dict[str, Any]) -> None:
    judged = generate["scenarios_by_claim"](ROOT / "scenarios")
    assert set(judged) == set(load())
    assert judged["node-joins"] == ["scenarios/test_joining.py::test_workers_join"]


def test_a_page_that_is_not_current_fails_the_check(
    generate: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    scope = generate["main"].__globals__
    monkeypatch.setitem(scope, "DOCS", tmp_path)
    assert generate["main"](["--check"]) == 1
    assert generate["main"]([]) == 0
    assert generate["main"](["--check"]) == 0
    (tmp_path / "faults.md").write_text("# Faults\n")
    assert generate["main"](["--check"]) == 1
