from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from harness import cli
from harness.claims import load
from harness.inventory import kubernetes_nodes
from harness.inventory import load as load_inventory
from tests.docs.markdown import PAGES, ROOT, Page, code

README = Page(ROOT / "README.md")


def commands(page: Page) -> list[list[str]]:
    blocks = (block.replace("\\\n", " ") for block in code(page.text, ""))
    lines = [line for block in blocks for line in block.splitlines()]
    return [shlex.split(line, comments=True) for line in lines if line.startswith("hil ")]


def test_start_is_two_commands() -> None:
    first, *_ = code(README.section("Start"), "")
    assert first.splitlines() == ["make run", "make test"]
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    assert {"run", "test"} <= targets


def test_the_table_is_one_of_this_project() -> None:
    table = code(README.section("Start"), "")[1].splitlines()
    assert table[0].split() == ["claim", *load_inventory(ROOT / "inventory/twin.yaml").pools]
    asked = set(load()) - {"unchanged-since"}  # only with a record to compare with
    assert {line.split()[0] for line in table[3 : 3 + len(asked)]} == asked


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_command_of_ours_is_understood(path: Path) -> None:
    for _, *arguments in commands(Page(path)):
        cli.parser().parse_args(arguments)


def test_the_example_pool_is_the_one_of_the_inventory() -> None:
    pool = yaml.safe_load((ROOT / "docs/examples/pool.yaml").read_text())
    lab = load_inventory(ROOT / "inventory/twin.yaml")
    assert pool == kubernetes_nodes(lab, "gpu-l40s", labels={})


def test_exit_statuses_are_those_of_the_command() -> None:
    told = re.findall(r"^\| (\d+) \|", README.section("Exit status"), re.M)
    assert told == ["0", *re.findall(r"; (\d+) ", (cli.__doc__ or "").replace("\n", " "))]
    reports = Page(ROOT / "docs/reports.md").section("Exit status").replace("\n", " ")
    assert told == re.findall(r"(?:^|; )(\d+) ", reports.strip())
