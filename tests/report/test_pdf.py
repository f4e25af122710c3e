"""A page as PDF: by WeasyPrint where it is, and by a sentence where it is not."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.report import pdf
from harness.report.signing import ROOT, TEMPLATE
from harness.report.signoff import page, templates_of
from tests.report.test_release_document import GOOD, shown

MISSING = find_spec(pdf.MODULE) is None


class Document:
    """What WeasyPrint's HTML is used as; it asks for what a page would load."""

    def __init__(self, string: str, url_fetcher: Any) -> None:
        self.string, self.fetch = string, url_fetcher

    def write_pdf(self) -> bytes:
        if "<img" in self.string:
            self.fetch("https://elsewhere.example/x")
        return b"%PDF-1.7 " + self.string.encode()


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("stand_in_for_weasyprint")
    module.HTML = Document  # type: ignore[attr-defined]  # a module made by hand
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(pdf, "MODULE", module.__name__)


@pytest.mark.usefixtures("stand_in")
def test_the_page_is_drawn_and_written_whole(tmp_path: Path) -> None:
    written = pdf.write_pdf("<p>signed</p>", tmp_path / "a" / "release.pdf")
    assert written.read_bytes() == b"%PDF-1.7 <p>signed</p>"


@pytest.mark.usefixtures("stand_in")
def test_nothing_is_fetched(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a sign-off loads nothing"):
        pdf.write_pdf("<img src=x>", tmp_path / "release.pdf")
    assert not (tmp_path / "release.pdf").exists()


def test_without_it_the_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MODULE", "weasyprint_that_is_not_there")
    with pytest.raises(pdf.NoPdf, match=r"pip install 'hil\[pdf\]'"):
        pdf.need()


def test_without_pango_the_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: str) -> None:
        raise OSError("cannot load library 'libpango-1.0-0'")

    monkeypatch.setattr(pdf, "import_module", refuse)
    with pytest.raises(pdf.NoPdf, match=r"libpango-1\.0-0 and libpangoft2-1\.0-0"):
        pdf.need()


@pytest.mark.skipif(MISSING, reason="WeasyPrint is not installed here: pip install 'hil[pdf]'")
def test_weasyprint_itself_draws_a_sign_off(tmp_path: Path) -> None:
    html = page(shown(GOOD), [templates_of(ROOT)], TEMPLATE)
    written = pdf.write_pdf(html, tmp_path / "release.pdf")
    assert written.read_bytes().startswith(b"%PDF-")
