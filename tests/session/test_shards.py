"""Which parts of a ledger a run's processes write, and in which order they are joined."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.report.closing import shard_of
from harness.report.ledger import Ledger
from harness.report.rundir import RunDirectory
from harness.session.finish import finish
from harness.session.plan import Plan, Planned

PLAN = Plan([Planned("test_a", "mini", ("storage-ok",)), Planned("test_b", "other", ("uptime",))])


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    made = RunDirectory(tmp_path, "own")
    made.create()
    return made


def write(directory: RunDirectory, shard: str, pool: str) -> None:
    with Ledger(directory.path, shard) as ledger:
        ledger.end("test", "passed", pool=pool)


def joined(directory: RunDirectory) -> list[str]:
    lines = directory.ledger.read_text(encoding="utf-8").splitlines()
    return [line.split('"shard": "')[1].split('"')[0] for line in lines if '"header"' in line]


def test_a_pool_of_one_process_has_one_shard(directory: RunDirectory) -> None:
    for pool in ("other", "mini"):
        write(directory, shard_of(pool), pool)
    finish(directory, PLAN, "")
    assert joined(directory) == ["pool-mini", "pool-other", "end"]


def test_guests_driven_side_by_side_have_one_for_each_process(directory: RunDirectory) -> None:
    for hand in ("gw1", "gw0"):
        write(directory, shard_of("mini", hand), "mini")
    write(directory, shard_of("other"), "other")
    view = finish(directory, PLAN, "")
    assert joined(directory) == ["pool-mini.gw0", "pool-mini.gw1", "pool-other", "end"]
    assert [one.text("pool") for one in view.of("end")] == ["mini", "mini", "other"]
