"""What a held pool expects of its workers."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from harness.bringup.errors import PoolNotReady
from harness.bringup.pool import HeldPool
from harness.facts.fact import Origin
from harness.facts.joining import JoinTrack, Stage
from harness.inventory.loading import load

ROOT = Path(__file__).resolve().parents[2]
NVIDIA = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")


def pool(
    tmp_path: Path, name: str, modules: list[dict[str, Any]] | None, *tracks: JoinTrack
) -> HeldPool:
    document = yaml.safe_load((ROOT / "inventory" / "twin.yaml").read_text())
    if modules is not None:
        document["pools"][name]["kernelModules"] = modules
    path = tmp_path / "lab.yaml"
    path.write_text(yaml.safe_dump(document))
    lab: Any = SimpleNamespace(inventory=load(path), clock=None)
    watched: Any = SimpleNamespace(tracks=lambda _: tracks)
    lease: Any = SimpleNamespace(renew_if_due=lambda _: None)
    return HeldPool(lab, name, watched, lease, since=0.0)


def test_what_the_card_needs_must_be_live_whatever_is_listed(tmp_path: Path) -> None:
    assert pool(tmp_path, "gpu-l40s", None).expected_modules == NVIDIA
    assert pool(tmp_path, "gpu-l40s", []).expected_modules == NVIDIA


def test_what_is_listed_must_be_live_too(tmp_path: Path) -> None:
    listed = [{"name": "nvidia"}, {"name": "gdrdrv"}]
    assert pool(tmp_path, "gpu-l40s", listed).expected_modules == (*NVIDIA, "gdrdrv")
    assert pool(tmp_path, "plain", [{"name": "nf_tables"}]).expected_modules == ("nf_tables",)


def track(machine: str, stage: Stage) -> JoinTrack:
    where = ("", "", "") if stage is Stage.READY else ("DataVolume", f"{machine}-disk", "phase X")
    return JoinTrack(
        Origin(0.0, "management", ""), machine, machine, stage, *where, (), None, 100.0, 1740.0
    )


def joining(tmp_path: Path, *tracks: JoinTrack) -> HeldPool:
    return pool(tmp_path, "plain", None, *tracks)


def test_a_worker_that_did_not_join_stands_among_those_that_did(tmp_path: Path) -> None:
    held = joining(tmp_path, track("a", Stage.READY), track("b", Stage.CREATED))
    first, second = held.workers
    assert (first.name, first.absent) == ("a", "")
    with pytest.raises(
        PoolNotReady, match=r"^1 of 2 workers joined: b stands at DataVolume b-disk: phase X$"
    ):
        second.modules()


def test_a_worker_without_a_machine_is_missing_too(tmp_path: Path) -> None:
    _, missing = joining(tmp_path, track("a", Stage.READY)).workers
    with pytest.raises(PoolNotReady, match="1 of 2 workers joined: the others have no Machine"):
        missing.smi_cards()


def test_one_more_that_comes_up_beside_enough_of_them_is_not_missed(tmp_path: Path) -> None:
    tracks = (track("a", Stage.READY), track("b", Stage.READY), track("c", Stage.MACHINE))
    assert [worker.name for worker in joining(tmp_path, *tracks).workers] == ["a", "b"]
