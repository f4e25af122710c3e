"""Headings, links and code of a Markdown page, as far as this project's pages use Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


@dataclass(frozen=True)
class Page:
    path: Path

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @property
    def prose(self) -> str:
        """The page without its code, in which brackets are not links."""
        return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", self.text, flags=re.S | re.M))

    def anchors(self) -> set[str]:
        fenceless = re.sub(r"^```.*?^```", "", self.text, flags=re.S | re.M)
        seen: dict[str, int] = {}
        found = set()
        for heading in re.findall(r"^#{1,6} +(.+?) *#*$", fenceless, re.M):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
            slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            number = seen[slug] = seen.get(slug, -1) + 1
            found.add(f"{slug}-{number}" if number else slug)
        return found

    def links(self) -> list[str]:
        return re.findall(r"\]\(([^)\s]+)\)", self.prose)

    def section(self, heading: str) -> str:
        found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", self.text, re.S | re.M)
        assert found, f"{self.path.name} has no section {heading!r}"
        return found[1]


def code(text: str, language: str) -> list[str]:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.S | re.M)
    return [body for said, body in blocks if said == language]


def broken_links(page: Page) -> Iterator[str]:
    for link in page.links():
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.path.parent / name).resolve() if name else page.path
        if not target.exists():
            yield f"{link}: no such file"
        elif anchor and anchor not in Page(target).anchors():
            yield f"{link}: no such heading"
