"""Which pools of a run may stand at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness.session.apart import Turns, shared, turns
from harness.session.choice import choose
from harness.session.plan import Plan, Planned
from harness.session.planned import describe

ROOT = Path(__file__).resolve().parents[2]
TWIN = ROOT / "inventory" / "twin.yaml"
L40S = ROOT / "inventory" / "lab-l40s.yaml"
ALL = ("gpu-l40s", "gpu-gb202", "plain", "cloned")


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """A cluster with two pools that draw on the same cards, and one without."""
    told = yaml.safe_load(L40S.read_text())
    told["pools"]["gpu-second"] = dict(told["pools"]["gpu-l40s"])
    told["lanes"]["all"] = {"pools": ["gpu-l40s", "plain", "gpu-second"], "soak": "93m"}
    path = tmp_path / "lab.yaml"
    path.write_text(yaml.safe_dump(told))
    return path


def sets(
    path: Path, lane: str = "", *, attached: bool = False, claims: tuple[str, ...] = ()
) -> list[tuple[str, ...]]:
    found = turns(choose(path, lane, [], list(claims)), attached=attached)
    return [one.pools for one in found]


def test_pools_with_a_twin_of_their_own_all_may() -> None:
    for lane in ("soak", "everything", "storage"):
        assert all(len(some) == 1 for some in sets(TWIN, lane))


@pytest.mark.parametrize("attached", [False, True])
def test_what_is_shared(*, attached: bool) -> None:
    assert shared(choose(TWIN, "", [], []), attached=attached) is attached
    assert shared(choose(L40S, "hardware", [], []), attached=False)


def test_on_one_lab_pools_of_other_cards_may() -> None:
    assert sets(TWIN, "soak", attached=True) == [(pool,) for pool in ALL]
    assert sets(L40S, "hardware") == [("gpu-l40s",), ("plain",)]


def test_pools_of_the_same_cards_take_turns(cluster: Path) -> None:
    first, second = turns(choose(cluster, "all", [], []), attached=False)
    assert first.pools == ("gpu-l40s", "gpu-second")
    assert first.why == "the same cards, nvidia.com/AD102GL_L40S"
    assert second == Turns(("plain",))


def test_a_run_that_changes_what_all_share_drives_one_at_a_time() -> None:
    (found,) = turns(choose(TWIN, "everything", [], []), attached=True)
    assert found.pools == ALL
    assert "takes machines of the lab away (gpu-l40s, gpu-gb202, plain, cloned)" in found.why
    assert "edits the platform's golden catalogue (cloned)" in found.why


def test_a_lane_that_may_and_is_not_asked_to_drives_several() -> None:
    found = sets(TWIN, "everything", attached=True, claims=("uptime", "node-joins"))
    assert found == [(pool,) for pool in ALL]


def test_every_need_of_the_whole_lab_is_one_that_claims_have() -> None:
    from harness.claims.catalogue import load
    from harness.session.apart import LAB_WIDE

    needs = {need for claim in load().values() for need in claim.needs}
    assert set(LAB_WIDE) <= needs


def plan(*pools: str) -> Plan:
    return Plan([Planned("test_it", pool, ("node-joins",)) for pool in pools])


def test_the_plan_says_which_run_at_once_and_why_some_do_not(cluster: Path) -> None:
    choice = choose(cluster, "all", [], [])
    found = turns(choice, attached=False)
    told = describe(choice, plan("gpu-l40s", "plain", "gpu-second"), found, 2)
    assert "2 pools run at the same time, of gpu-l40s or gpu-second, plain\n" in told
    assert "  gpu-l40s, gpu-second: one after the other (the same cards, nvidia.com/AD" in told
    one = describe(choice, plan("gpu-l40s", "plain", "gpu-second"), found, 1)
    assert "\npools run one after the other\n" in one
    assert "at the same time" not in describe(choice, plan("plain"), found, 2)
