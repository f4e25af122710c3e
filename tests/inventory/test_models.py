from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.inventory import Lab, load
from harness.inventory.models import KernelModule, Pool
from harness.inventory.shapes import Duration


def pool(lab: Lab, name: str = "cards") -> Pool:
    return lab.pools[name]


@pytest.mark.parametrize("dump", ["python", "json"])
def test_absent_kernel_modules_stay_absent(
    small: dict[str, Any], dump: Literal["python", "json"]
) -> None:
    written = Lab.model_validate(small).model_dump(mode=dump, exclude_unset=True)
    assert "kernelModules" not in written["pools"]["cards"]
    assert Lab.model_validate(written).pools["cards"].kernel_modules is None


def test_absent_kernel_modules_stay_absent_in_json_and_alone(small: dict[str, Any]) -> None:
    lab = Lab.model_validate(small)
    assert "kernelModules" not in lab.model_dump_json()
    alone = pool(lab)
    ways: tuple[dict[str, Any], ...] = (
        {},
        {"by_alias": False},
        {"exclude_unset": True},
        {"exclude_defaults": True},
    )
    for how in ways:
        assert not {"kernelModules", "kernel_modules"} & set(alone.model_dump(**how))


def test_an_empty_list_of_kernel_modules_stays_an_empty_list(small: dict[str, Any]) -> None:
    small["pools"]["cards"]["kernelModules"] = []
    lab = Lab.model_validate(small)
    assert pool(lab).kernel_modules == ()
    assert lab.model_dump(mode="json")["pools"]["cards"]["kernelModules"] == []
    assert (
        lab.model_dump(mode="json", exclude_defaults=True)["pools"]["cards"]["kernelModules"] == []
    )


MODULES = st.lists(st.sampled_from(["nvidia", "zram", "br_netfilter"]), max_size=3)


@given(asked=st.none() | MODULES)
def test_three_states_survive_a_round_trip(asked: list[str] | None) -> None:
    made = Pool(
        schematic="plain",
        talos_version="v1.13.6",
        kubernetes_version="v1.35",
        kernel_modules=None if asked is None else tuple(KernelModule(name=name) for name in asked),
    )
    text = yaml.safe_dump(made.model_dump(mode="json"))
    again = Pool.model_validate(yaml.safe_load(text))
    assert again == made
    assert ("kernelModules" in text) == (asked is not None)


def test_a_shipped_lab_survives_a_round_trip(shipped: Path) -> None:
    lab = load(shipped)
    written = yaml.safe_dump(lab.model_dump(mode="json", exclude_unset=True))
    assert Lab.model_validate(yaml.safe_load(written)) == lab


def test_a_lab_cannot_be_changed(small: dict[str, Any]) -> None:
    lab = Lab.model_validate(small)
    with pytest.raises(ValidationError, match="frozen"):
        pool(lab).replicas = 4


def test_durations_and_sizes_have_units(small: dict[str, Any]) -> None:
    lab = Lab.model_validate(small)
    assert pool(lab).join_budget.seconds == 29 * 60
    assert pool(lab).disk_size.bytes == 20 * 2**30
    assert lab.lanes["nightly"].soak == Duration("93m")


def test_cards_count_for_each_worker(small: dict[str, Any]) -> None:
    small["pools"]["cards"]["count"] = 2
    lab = Lab.model_validate(small)
    assert (pool(lab).cards, pool(lab, "plain").cards) == (2, 0)
    assert lab.card("cards") == lab.gpus["l40s"]
    assert lab.card("plain") is None
    assert lab.schematic_of("plain").id == "cd" * 32


def test_a_lane_asks_every_claim_but_those_it_leaves_out(small: dict[str, Any]) -> None:
    small["lanes"] = {
        "all": {"pools": ["cards"], "exclude": ["nvlink-param"]},
        "one": {"pools": ["cards"], "claims": ["passthrough"]},
    }
    lanes = Lab.model_validate(small).lanes
    assert lanes["all"].asks("passthrough")
    assert not lanes["all"].asks("nvlink-param")
    assert lanes["one"].asks("passthrough")
    assert not lanes["one"].asks("node-joins")


def test_parts_that_do_not_fit_are_refused_without_a_file_too(small: dict[str, Any]) -> None:
    small["pools"]["cards"]["schematic"] = "opne"
    with pytest.raises(ValidationError, match="open, as the nearest"):
        Lab.model_validate(small)
