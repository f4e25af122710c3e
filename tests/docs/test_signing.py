"""The runbook of whoever signs: its commands parse, and its tables have every field of a policy."""

from __future__ import annotations

import re
import shlex

import pytest

from harness import cli
from harness.report.policy import Need, PolicyFile
from harness.report.policy_file import names
from harness.report.signing import POLICIES, ROOT

TEXT = (ROOT / "docs" / "signing.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ *hil (.+)$", TEXT, re.MULTILINE)


def test_the_walk_has_its_steps() -> None:
    verbs = [command.split()[0] for command in COMMANDS]
    assert verbs == [
        *("signoff", "run", "signoff", "signoff", "run", "signoff", "compare", "signoff"),
        "signoff",
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_understood(command: str) -> None:
    chosen = cli.parser().parse_args(shlex.split(command))
    assert callable(chosen.verb)
    if command.startswith("signoff"):
        assert chosen.policy in names(POLICIES)


def test_every_field_of_a_policy_is_told() -> None:
    told = {
        name
        for row in re.findall(r"^\| (`[^|]+`) \|", TEXT, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    for model in (PolicyFile, Need):
        assert {field.alias or name for name, field in model.model_fields.items()} <= told
