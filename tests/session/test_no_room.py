"""A pool for which there is no room is refused, and the run says so as a matter of the lab."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.session.conftest import TWIN

Run = Callable[..., Any]


def test_a_pool_without_room_is_3_and_its_headroom_broken(hil: Run, tmp_path: Path) -> None:
    lab = yaml.safe_load(TWIN.read_text(encoding="utf-8"))
    lab["pools"]["plain"]["diskSize"] = "90Gi"
    inventory = tmp_path / "lab.yaml"
    inventory.write_text(yaml.safe_dump(lab), encoding="utf-8")
    claims = ("--claim", "headroom", "--claim", "linstor-agrees")
    ended = hil(
        "run",
        "--lab",
        str(inventory),
        "--pool",
        "plain",
        *claims,
        "--out",
        str(tmp_path / "out"),
        "--run-id",
        "own",
    )
    ended.assert_sentence(3, "headroom        BROKEN", "linstor-agrees  unknown", "549 GiB")
    lines = (tmp_path / "out" / "own" / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    verdicts = [one for line in lines if (one := json.loads(line))["record"] == "verdict"]
    assert [(one["claim"], one["outcome"]) for one in verdicts] == [
        ("headroom", "broken"),
        ("headroom", "unknown"),
        ("linstor-agrees", "unknown"),
    ]
    assert len(verdicts[0]["facts"]) == 5
