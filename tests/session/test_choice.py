"""What was asked of a run, checked against its inventory."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.claims.catalogue import get as claim_of
from harness.session.choice import Choice, UserMistake, choose, refuse_misfit

ROOT = Path(__file__).resolve().parents[2]
TWIN = ROOT / "inventory" / "twin.yaml"
REAL = ROOT / "inventory" / "lab-l40s.yaml"
GUESTS = ROOT / "inventory" / "qemu-mini.yaml"


def misfit(
    choice: Choice, faults: list[str] | None = None, attach: Path | None = None, run_id: str = ""
) -> str:
    with pytest.raises(UserMistake) as mistake:
        refuse_misfit(choice, faults or [], attach, run_id)
    return str(mistake.value)


def test_pools_come_in_the_inventorys_order_whatever_the_command_line_says() -> None:
    choice = choose(TWIN, "", ["plain", "gpu-l40s"], [])
    assert choice.pools == ("gpu-l40s", "plain")
    assert choice.hardware("gpu-l40s") == "L40S"
    assert choice.hardware("plain") == ""


def test_a_pool_of_another_lane_is_not_of_this_one() -> None:
    with pytest.raises(UserMistake, match="has no pool 'plain'; it has: gpu-l40s"):
        choose(REAL, "quick", ["plain"], [])


def test_only_the_claims_asked_are_asked() -> None:
    choice = choose(TWIN, "", [], ["node-joins"])
    assert choice.asks("node-joins")
    assert not choice.asks("modules-live")


def test_what_a_pool_lacks_is_a_sentence() -> None:
    choice = choose(TWIN, "", [], [])
    assert choice.missing([claim_of("modules-live")], "gpu-l40s") == []
    (lack,) = choice.missing([claim_of("modules-live")], "plain")
    assert "pool plain of lab twin calls for no kernel module" in lack


def test_a_fault_on_a_real_lab() -> None:
    real = choose(REAL, "", [], [])
    assert "lab lab-l40s is not it" in misfit(real, faults=["no-modules-block"])


def test_a_twin_to_attach_to_and_the_inventory_of_a_real_lab() -> None:
    real = choose(REAL, "", [], [])
    assert "--attach is for a twin or guests" in misfit(real, attach=Path(".hil"))


@pytest.mark.parametrize("run_id", ["a/b", "..", "-x", "x-", "a b", "x" * 64, "ä"])
def test_run_ids_that_cannot_name_a_directory_and_a_pod(run_id: str) -> None:
    assert "--run-id" in misfit(choose(TWIN, "", [], []), run_id=run_id)


@pytest.mark.parametrize("run_id", ["", "x", "20260101-000000-twin-0a1b", "x" * 63, "a_b.c"])
def test_run_ids_that_can(run_id: str) -> None:
    refuse_misfit(choose(TWIN, "", [], []), [], None, run_id)


def test_guests_have_faults_of_their_own() -> None:
    guests = choose(GUESTS, "mini", [], [])
    assert "did you mean 'module-missing'" in misfit(guests, faults=["module-misng"])
    assert "no fault 'no-modules-block' of the mini-lab" in misfit(guests, ["no-modules-block"])
    refuse_misfit(guests, ["module-missing"], Path(".hil/qemu"), "")


def test_guests_do_not_stand_already() -> None:
    guests = choose(GUESTS, "mini", [], [])
    with pytest.raises(UserMistake, match="--save-state is about pools of a cluster"):
        refuse_misfit(guests, [], None, "", Path("state.json"))


def test_guests_are_told_by_their_set() -> None:
    guests = choose(GUESTS, "mini", [], [])
    assert guests.pools == ("mini",)
    assert guests.hardware("mini") == "QEMU guests"
    assert guests.soak == 30.0


def test_a_card_leaves_the_pools_that_have_it() -> None:
    assert choose(TWIN, "", [], [], card="L40S").pools == ("gpu-l40s",)
    assert choose(TWIN, "quick", [], [], card="gb202").pools == ("gpu-gb202",)
    with pytest.raises(UserMistake, match=r"no card 'h100'; it has: gb202, l40s"):
        choose(TWIN, "", [], [], card="h100")
    with pytest.raises(UserMistake, match=r"no card 'gb202'; it has: l40s"):
        choose(TWIN, "hardware", [], [], card="gb202")
    with pytest.raises(UserMistake, match="no pool 'plain'"):
        choose(TWIN, "", ["plain"], [], card="l40s")


def test_a_window_of_ones_own_stands_for_the_lanes() -> None:
    assert choose(TWIN, "soak", [], []).soak == 93 * 60
    longer = choose(TWIN, "soak", [], [], soak="2h30m")
    assert longer.soak == 9000
    assert longer.missing([claim_of("uptime")], "plain") == []
    assert choose(TWIN, "quick", [], [], soak="90s").soak == 90
    with pytest.raises(UserMistake, match="name one with --lane"):
        choose(TWIN, "", [], [], soak="2h")
    with pytest.raises(UserMistake, match=r"--soak '93': a duration with its unit"):
        choose(TWIN, "soak", [], [], soak="93")
