from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.inventory import Lab
from harness.inventory.naming import HELM_LIMIT, is_trial_name, release_name, trial_name
from harness.inventory.references import slips

POOLS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True)
NUMBERS = st.integers(min_value=1, max_value=99)


@given(POOLS, POOLS, NUMBERS)
def test_a_trial_and_a_pool_are_never_the_beginning_of_each_other(
    pool: str, other: str, number: int
) -> None:
    name = trial_name("lab", pool, number)
    assert is_trial_name(name)
    if not is_trial_name(other):
        assert not other.startswith(name)
        assert not name.startswith(f"{other}-")


@given(POOLS, NUMBERS)
def test_a_trial_is_no_longer_than_helm_takes(pool: str, number: int) -> None:
    assert len(release_name("lab", trial_name("lab", pool, number))) <= HELM_LIMIT


def test_trials_of_two_pools_with_long_names_are_two() -> None:
    one, two = (trial_name("lab", f"a-pool-with-a-rather-long-name-{n}", 1) for n in (1, 2))
    assert one != two and one.startswith("hil1-")


def test_a_short_name_stays_readable() -> None:
    assert trial_name("lab", "gpu-l40s", 3) == "hil3-gpu-l40s"


@pytest.mark.parametrize(("name", "refused"), [("hil1-x", True), ("hil1", True), ("hil-x", False)])
def test_an_inventory_may_not_name_a_pool_like_a_trial(
    small: dict[str, Any], name: str, *, refused: bool
) -> None:
    small["pools"][name] = small["pools"]["plain"]
    found = [str(one) for one in slips(small) if "own trials" in str(one)]
    assert bool(found) is refused
    if refused:
        with pytest.raises(ValueError, match="own trials"):
            Lab.model_validate(small)
