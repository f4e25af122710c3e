"""Which platform a run tested: read off the cluster, from its pool's start to its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., Any]

SOUND = """
import pytest
from harness import judge

@pytest.mark.claims("spec-read-back")
def test_sound(pool, record):
    record(judge.spec_read_back(pool.stored_request(), pool.written_modules, pool.subject))
"""
UPGRADED = f"""{SOUND}
    kube = pool.lab.management
    place = ("apps/v1", "Deployment", "cozy-system", "cozystack-operator")
    found = kube.get(*place)
    container = found["spec"]["template"]["spec"]["containers"][0]
    container["env"][0]["value"] = "v1.8.0"
    container["image"] = "ghcr.io/cozystack/cozystack/cozystack-operator:v1.8.0"
    kube.replace(found)
    kube.merge(*place, {{"status": {{"observedGeneration": 2}}}}, subresource="status")
"""
SUBJECT = ("--pool", "plain", "--subject", "Cozystack v1.7.0")
OF_A_TWIN = "the lab was simulated"


def signed(tmp_path: Path) -> dict[str, Any]:
    shown: dict[str, Any] = json.loads((tmp_path / "out" / "own" / "signoff.json").read_text())
    return shown


def test_a_run_records_what_is_installed_beside_what_is_said(own: Run, tmp_path: Path) -> None:
    assert own(SOUND, *SUBJECT).status == 0
    shown = signed(tmp_path)
    found = {one["item"]: one["values"] for one in shown["identity"]}
    assert [one["value"] for one in found["platform"]] == ["Cozystack v1.7.0"]
    assert found["platform"][0]["where"] == [{"run": "own", "pools": ["plain"]}]
    assert [one["value"] for one in found["subject"]] == ["Cozystack v1.7.0"]
    assert shown["obstacles"] == [OF_A_TWIN]


def test_an_upgrade_between_start_and_end_is_seen(own: Run, tmp_path: Path) -> None:
    assert own(UPGRADED, *SUBJECT).status == 0
    assert signed(tmp_path)["obstacles"] == [
        OF_A_TWIN,
        "the platform installed is 'Cozystack v1.8.0', and not 'Cozystack v1.7.0'",
        "the platform changed during the run: Cozystack v1.7.0, Cozystack v1.8.0",
    ]
