from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.markdown import PAGES, Page, broken_links


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_link_leads_somewhere(path: Path) -> None:
    assert list(broken_links(Page(path))) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_page_has_one_title_and_speaks_of_no_machine(path: Path) -> None:
    text = Page(path).text
    assert len(re.findall(r"^# ", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M)) == 1
    assert not re.search(r"/(home|root|work)/", text)


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [PAGES[0]]
    while waiting:
        page = Page(waiting.pop())
        reached.add(page.path)
        targets = {(page.path.parent / link.partition("#")[0]).resolve() for link in page.links()}
        waiting += [path for path in PAGES if path in targets - reached]
    assert set(PAGES) - reached == set()


def test_a_broken_link_and_a_lost_anchor_are_found(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# B\n\n## Two words\n\n## Two words\n")
    page = tmp_path / "a.md"
    page.write_text(
        "# A\n[x](b.md#two-words) [x](b.md#two-words-1) [x](b.md#three) [x](c.md) [x](#a) [x](#b)\n"
        "`[x](in-code.md)`\n```\n[x](in-a-block.md)\n```\n"
    )
    assert list(broken_links(Page(page))) == [
        "b.md#three: no such heading",
        "c.md: no such file",
        "#b: no such heading",
    ]
