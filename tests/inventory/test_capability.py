from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.inventory import Lab, Missing, NeedError, match, parse_needs
from harness.inventory.capability import (
    TERMS,
    Need,
    capabilities,
    parse_need,
    pools_for,
    window,
)


def missing(lab: Lab, pool: str, *needs: str) -> tuple[Missing, ...]:
    return match(parse_needs(needs), capabilities(lab, pool))


def test_a_pool_with_cards_has_a_gpu(small: dict[str, Any]) -> None:
    lab = Lab.model_validate(small)
    assert missing(lab, "cards", "gpu", "gpu=l40s", "storage=drbd", "console") == ()
    assert missing(lab, "plain", "no-gpu") == ()


@pytest.mark.parametrize(
    ("pool", "need", "because"),
    [
        ("plain", "gpu", "pool plain of lab bench has no GPU, and one is needed"),
        ("plain", "gpu=l40s", "pool plain of lab bench has no GPU, and l40s is needed"),
        ("cards", "gpu=gb202", "pool cards of lab bench has l40s, and gb202 is needed"),
        ("cards", "no-gpu", "pool cards of lab bench has a GPU (l40s), and none may be there"),
        ("plain", "storage=drbd", "its disks on local, which does not use DRBD"),
        ("cards", "ssh", "lab bench names no host with an SSH key"),
        ("plain", "nvidia", "pool plain of lab bench has no NVIDIA driver, and one is needed"),
        ("plain", "modules", "pool plain of lab bench calls for no kernel module"),
        ("plain", "storage=pair", "pool plain of lab bench has no two DRBD replicas"),
        ("cards", "storage=pair", "has 3 DRBD replicas, whose quorum keeps two from going on"),
        ("plain", "storage=quorum", "has 0 DRBD replicas, 3 make a quorum"),
        ("cards", "disruption", "lab bench lets nobody cut a link, switch a machine off"),
        (
            "plain",
            "clone",
            "pool plain of lab bench downloads its disks: no golden image is cloned",
        ),
        ("cards", "linstor", "lab bench says nothing of LINSTOR's controller"),
        ("cards", "platform", "a run of lab bench without a lane lets nobody edit the platform's"),
    ],
)
def test_each_missing_thing_has_its_sentence(
    small: dict[str, Any], pool: str, need: str, because: str
) -> None:
    [lack] = missing(Lab.model_validate(small), pool, need)
    assert lack.need == need
    assert because in str(lack)


def test_every_missing_thing_is_told(small: dict[str, Any]) -> None:
    small["console"] = False
    lacks = missing(Lab.model_validate(small), "plain", "gpu", "console", "ssh", "storage=drbd")
    assert [lack.need for lack in lacks] == ["gpu", "console", "ssh", "storage=drbd"]


def test_a_host_with_a_key_gives_ssh(small: dict[str, Any]) -> None:
    small["hosts"] = [{"name": "a"}, {"name": "b", "ssh": {"env": "KEY"}}]
    assert missing(Lab.model_validate(small), "cards", "ssh") == ()


def test_a_pool_of_clones_has_a_golden_image(small: dict[str, Any]) -> None:
    small["pools"]["plain"]["osImage"] = "builtin"
    small["pools"]["cards"]["osImage"] = "factory"
    lab = Lab.model_validate(small)
    assert missing(lab, "plain", "clone") == ()
    assert [lack.need for lack in missing(lab, "cards", "clone")] == ["clone"]


def test_linstor_is_what_a_lab_names_or_a_twin_hands_out(small: dict[str, Any]) -> None:
    secret = {"env": "LINSTOR"}
    small["linstor"] = {
        "url": "https://linstor:3371", "ca": secret, "certificate": secret, "key": secret
    }  # fmt: skip
    assert missing(Lab.model_validate(small), "cards", "linstor") == ()
    del small["linstor"], small["management"]
    small |= {"kind": "twin", "clock": "virtual"}
    assert missing(Lab.model_validate(small), "cards", "linstor") == ()


def test_the_platform_is_a_lanes_to_edit(small: dict[str, Any]) -> None:
    small["lanes"] = {"rough": {"pools": ["cards"], "platform": True}, "mild": {"pools": ["cards"]}}
    lab, needs = Lab.model_validate(small), parse_needs(["platform"])
    assert match(needs, capabilities(lab, "cards", lane="rough")) == ()
    [lack] = match(needs, capabilities(lab, "cards", lane="mild"))
    assert str(lack) == "lane mild of lab bench lets nobody edit the platform's catalogue"


def test_a_soak_is_the_lanes_and_not_the_pools(small: dict[str, Any]) -> None:
    small["lanes"] = {"long": {"pools": ["plain"], "soak": "93m"}, "short": {"pools": ["plain"]}}
    lab, needs = Lab.model_validate(small), parse_needs(["soak"])
    assert match(needs, capabilities(lab, "plain", lane="long")) == ()
    [short] = match(needs, capabilities(lab, "plain", lane="short"))
    assert "lane short of lab bench has no soak" in str(short)
    [none] = match(needs, capabilities(lab, "plain"))
    assert "a run of lab bench without a lane has no soak" in str(none)


def test_where_time_is_virtual_a_run_without_a_lane_has_a_window_too(small: dict[str, Any]) -> None:
    small["lanes"] = {"long": {"pools": ["plain"], "soak": "2h"}, "short": {"pools": ["plain"]}}
    lab = Lab.model_validate(small)
    assert [window(lab, lane) for lane in ("", "long", "short")] == [0.0, 7200.0, 0.0]
    twin = lab.model_copy(update={"kind": "twin", "clock": "virtual"})
    assert [window(twin, lane) for lane in ("", "long", "short")] == [5580.0, 7200.0, 0.0]
    assert capabilities(twin, "plain").soak
    assert window(twin.model_copy(update={"clock": "real"}), "") == 0.0


def test_pools_that_meet_the_needs(small: dict[str, Any]) -> None:
    lab = Lab.model_validate(small)
    assert pools_for(lab, parse_needs(["no-gpu"])) == ("plain",)
    assert pools_for(lab, parse_needs([])) == ("cards", "plain")
    assert pools_for(lab, parse_needs(["ssh"])) == ()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("gpus", "gpu, as the nearest"),
        ("gpu=l4s", "gpu=l40s, as the nearest"),
        ("storage=drdb", "storage=drbd, as the nearest"),
        ("consle", "console, as the nearest"),
        ("nogpu", "no-gpu, as the nearest"),
        ("", "one of clone"),
        ("gpu=", "gpu"),
    ],
)
def test_an_unknown_need_is_an_error_with_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(NeedError, match="unknown need") as raised:
        parse_need(text)
    assert hint in str(raised.value)


@pytest.mark.parametrize(
    "texts", [["gpu", "no-gpu"], ["no-gpu", "gpu=l40s"], ["gpu=l40s", "gpu=gb202"]]
)
def test_needs_that_exclude_each_other_are_an_error(texts: list[str]) -> None:
    with pytest.raises(NeedError, match="no pool can meet both"):
        parse_needs(texts)


def test_needs_are_kept_once_and_in_order() -> None:
    assert parse_needs(["ssh", " gpu = l40s ", "ssh"]) == (Need("ssh"), Need("gpu", "l40s"))


@given(st.sampled_from(TERMS))
def test_every_term_reads_as_it_is_written(text: str) -> None:
    assert str(parse_need(text)) == text


@given(st.text(max_size=12))
def test_any_text_is_a_need_or_a_need_error(text: str) -> None:
    try:
        assert str(parse_need(text)) in TERMS
    except NeedError as error:
        assert "allowed" in str(error)


def test_only_a_lane_that_says_so_may_break_machines(small: dict[str, Any]) -> None:
    del small["management"]
    small["kind"] = "twin"
    small["lanes"] = {"rough": {"pools": ["cards"], "disruption": True}}
    lab, needs = Lab.model_validate(small), parse_needs(["disruption"])
    assert match(needs, capabilities(lab, "cards", lane="rough")) == ()
    [lack] = match(needs, capabilities(lab, "cards"))
    assert "a run of lab bench without a lane lets nobody cut a link" in str(lack)


GUESTS: dict[str, Any] = {
    "name": "mini",
    "kind": "qemu",
    "clock": "real",
    "guests": {"pair": {"kernelModules": [{"name": "nvidia"}]}, "one": {"replicas": 1}},
    "lanes": {"long": {"pools": ["pair"], "soak": "30s"}},
}


def test_guests_have_an_operating_system_and_no_cluster() -> None:
    lab = Lab.model_validate(GUESTS)
    has = ("nvidia", "modules", "storage=drbd", "storage=pair", "console", "disruption")
    assert missing(lab, "pair", *has) == ()
    lacks = missing(lab, "pair", "kubernetes", "gpu", "storage=quorum", "soak")
    assert [str(lack) for lack in lacks] == [
        "lab mini has no Kubernetes cluster",
        "pool pair of lab mini has no GPU, and one is needed",
        "lab mini has DRBD 8.4, which knows no quorum and no third node",
        "a run of lab mini without a lane has no soak, so no node grows old enough",
    ]
    assert match(parse_needs(["soak"]), capabilities(lab, "pair", lane="long")) == ()


def test_a_guest_alone_replicates_nothing() -> None:
    lab = Lab.model_validate(GUESTS)
    assert [lack.need for lack in missing(lab, "one", "storage=drbd", "nvidia", "modules")] == [
        "storage=drbd",
        "nvidia",
        "modules",
    ]


def test_a_talos_image_is_not_ours_to_look_into() -> None:
    image = {"path": "/images/talos.raw.xz", "sha256": "ab" * 32}
    guests = {"pair": {"talos": image, "kernelModules": [{"name": "nvidia"}]}}
    lab = Lab.model_validate({**GUESTS, "guests": guests})
    needs = ("shell", "modules", "nvidia", "storage=drbd")
    assert [lack.need for lack in missing(lab, "pair", *needs)] == list(needs)
