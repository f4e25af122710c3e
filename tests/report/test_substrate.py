from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from harness.inventory.loading import load
from harness.inventory.models import Lab
from harness.report.substrate import IN_WORDS, Substrate, substrate_of

KINDS = get_args(Lab.model_fields["kind"].annotation)


def test_every_kind_of_lab_has_a_substrate_of_its_own() -> None:
    found = {substrate_of(kind) for kind in KINDS}
    assert len(found) == len(KINDS)
    assert Substrate.UNRECORDED not in found


@pytest.mark.parametrize("kind", ["", "Cluster", "hardware"])
def test_what_is_not_known_is_never_taken_for_real(kind: str) -> None:
    assert substrate_of(kind) is Substrate.UNRECORDED


def test_each_has_its_words() -> None:
    assert set(IN_WORDS) == set(Substrate)


def test_a_cluster_of_containers_is_one_of_its_own() -> None:
    inventory = Path(__file__).resolve().parents[2] / "inventory" / "gate-containers.yaml"
    lab = load(inventory)
    assert lab.kind == "cluster"
    assert substrate_of(lab.substrate) is Substrate.CONTAINERS
    assert load(inventory.with_name("nightly-qemu-drbd.yaml")).substrate == "cluster"
