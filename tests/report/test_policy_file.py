"""Policies: what their files may say, and every mistake of one told at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.claims.catalogue import load as load_claims
from harness.report.policy import Policy, published
from harness.report.policy_file import PolicyError, find, load, names
from harness.report.signing import POLICIES, ROOT
from harness.report.substrate import Substrate
from harness.session.choice import choose
from tests.report.published import SCHEMAS

HEAD = """\
schema: hil.policy/1
name: mine
description: What I need.
purpose: release
maxAge: 3d
"""
NEEDS = """\
needs:
  - title: the card
    hardware: L40S
    claims: [passthrough, cuda-runs]
"""


def loaded(tmp_path: Path, text: str, **others: str) -> Policy:
    for name, other in others.items():
        (tmp_path / f"{name}.yaml").write_text(other)
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return load(path, load_claims())


def mistakes(tmp_path: Path, text: str, **others: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        loaded(tmp_path, text, **others)
    return [str(one).removeprefix(f"{tmp_path}/") for one in caught.value.problems]


def test_a_policy_is_its_claims_on_their_hardware(tmp_path: Path) -> None:
    found = loaded(tmp_path, HEAD + NEEDS)
    assert [one.key for one in found.requirements] == [
        ("passthrough", "L40S"),
        ("cuda-runs", "L40S"),
    ]
    one = found.requirements[0]
    assert (one.max_age, one.substrates) == (3 * 86400.0, (Substrate.CLUSTER,))
    assert one.defaults and found.release


def test_claims_by_severity_and_part_leave_out_what_the_hardware_cannot_answer(
    tmp_path: Path,
) -> None:
    text = HEAD + (
        "needs:\n  - {title: t, hardware: none, severity: blocker}\n"
        "  - {title: t, hardware: L40S, parts: [gpu], severity: blocker, exclude: [cuda-runs]}\n"
    )
    found = loaded(tmp_path, text)
    claims = load_claims()
    bare = {one.claim for one in found.requirements if not one.hardware}
    card = {one.claim for one in found.requirements if one.hardware}
    assert "node-joins" in bare and "passthrough" not in bare
    assert "passthrough" in card and not {"cuda-runs", "node-joins"} & card
    assert {claims[one].severity for one in bare | card} == {"blocker"}


def test_without_leaves_out_what_needs_it(tmp_path: Path) -> None:
    line = "needs:\n  - {title: t, hardware: none, severity: critical, without: [disruption]}\n"
    found = loaded(tmp_path, HEAD + line)
    claims = load_claims()
    assert found.requirements
    assert not [r for r in found.requirements if "disruption" in claims[r.claim].needs]


def test_the_default_of_the_chart_is_wanted_whatever_a_line_says(tmp_path: Path) -> None:
    text = NEEDS.replace(
        "[passthrough, cuda-runs]", "[operator-default, cuda-runs]\n    values: any"
    )
    found = {one.claim: one.defaults for one in loaded(tmp_path, HEAD + text).requirements}
    assert found == {"operator-default": True, "cuda-runs": False}


def test_every_mistake_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = """\
schema: hil.policy/2
name: Mine!
description: What I need.
purpose: release
maxAge: soon
colour: red
needs:
  - title: the card
    hardwear: L40S
    parts: [gpus]
"""
    told = mistakes(tmp_path, text)
    assert [one.partition(": ")[0] for one in told] == [
        "mine.yaml:1",
        "mine.yaml:2",
        "mine.yaml:5",
        "mine.yaml:6",
        "mine.yaml:8",
        "mine.yaml:9",
        "mine.yaml:10",
    ]
    assert "found 'soon'; allowed: a whole number with m, h or d" in told[2]
    assert told[4].endswith("needs[0].hardware: is missing")
    assert told[5].endswith("unknown field; did you mean 'hardware'?")
    assert "one of gpu, modules, images, storage, workers" in told[6]


def test_an_unknown_claim_is_a_mistake_with_a_suggestion(tmp_path: Path) -> None:
    text = HEAD + NEEDS.replace("cuda-runs", "cuda-run").replace("L40S", "L40")
    text += "    exclude: [vfio-bond]\n    without: [disruptions]\n"
    text += 'cards: {L40S: ["10de:26b9"]}\nwaivable: [uptime]\n'
    assert mistakes(tmp_path, text) == [
        "mine.yaml:8: needs[0].hardware: 'L40' is not among cards; did you mean 'L40S'?",
        "mine.yaml:9: needs[0].claims[1]: no claim 'cuda-run' in the catalogue; did you mean "
        "'cuda-runs'?",
        "mine.yaml:10: needs[0].exclude[0]: no claim 'vfio-bond' in the catalogue; did you mean "
        "'vfio-bound'?",
        "mine.yaml:11: needs[0].without[0]: no need 'disruptions' in the catalogue; did you mean "
        "'disruption'?",
        "mine.yaml:13: waivable[0]: 'uptime' is not needed here; there are: passthrough",
    ]


@pytest.mark.parametrize("substrate", ["simulated", "mini-lab"])
def test_no_policy_for_a_release_takes_a_lab_that_is_not_real(
    tmp_path: Path, substrate: str
) -> None:
    told = mistakes(tmp_path, f"{HEAD}substrates: [cluster, {substrate}]\n{NEEDS}")
    assert told == [f"mine.yaml:6: substrates[1]: a release cannot be signed on a {substrate} lab"]


def test_a_policy_for_a_release_includes_none_for_practice(tmp_path: Path) -> None:
    other = (HEAD + NEEDS).replace("mine", "other").replace("release", "learning")
    told = mistakes(tmp_path, HEAD + "includes: [other, othr]\n" + NEEDS, other=other)
    assert told == [
        "mine.yaml:6: includes[0]: other is for learning, this policy for release",
        "mine.yaml:6: includes[1]: no policy 'othr'; did you mean 'other'?",
    ]


def test_mistakes_of_what_is_included_are_told_too(tmp_path: Path) -> None:
    told = mistakes(tmp_path, HEAD + "includes: [other]\n", other="name: [\n")
    assert told[0].startswith("other.yaml:2: no YAML")


def test_policies_that_include_each_other_come_to_an_end(tmp_path: Path) -> None:
    other = (HEAD + "includes: [mine]\n" + NEEDS).replace("mine", "other", 1)
    found = loaded(tmp_path, HEAD + "includes: [other]\n" + NEEDS, other=other)
    assert {one.policy for one in found.requirements} == {"mine", "other"}


DIRE = ("maxAge: 2027-02-30\n", "[" * 5000, "&a [*a]\n", "needs: &x [*x]\n")


@pytest.mark.parametrize("text", ["", "[]", "needs: {", "a: 1\na: 2\n", "\x00", "- x\n", *DIRE])
def test_whatever_a_file_holds_is_told_and_no_more(tmp_path: Path, text: str) -> None:
    assert mistakes(tmp_path, text)


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(PolicyError, match="bytes that are not UTF-8"):
        load(tmp_path / "mine.yaml", load_claims())


def test_a_key_that_is_there_twice_is_a_mistake(tmp_path: Path) -> None:
    assert mistakes(tmp_path, HEAD + "maxAge: 4d\n" + NEEDS) == [
        "mine.yaml:6: maxAge: stands here twice"
    ]


def test_a_policy_that_needs_nothing_is_a_mistake(tmp_path: Path) -> None:
    assert mistakes(tmp_path, HEAD) == ["mine.yaml: needs: nothing is needed: name some claims"]


def test_a_name_that_is_none_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="no such policy; did you mean 'nightly'"):
        find("nightli", POLICIES)


@pytest.mark.parametrize("name", names(POLICIES))
def test_the_projects_own_policies_load(name: str) -> None:
    found = load(find(name, POLICIES), load_claims())
    assert found.name == name and found.release == (name != "twin")


@pytest.mark.parametrize("name", ["nightly", "l40s", "gb202"])
def test_no_release_is_signed_without_the_platform_that_was_installed(name: str) -> None:
    for policy in (name, "release"):
        found = load(POLICIES / f"{policy}.yaml", load_claims())
        assert (name, "platform") in found.identity


def test_a_release_needs_the_nightly_lane_and_both_cards() -> None:
    found = load(find("release", POLICIES), load_claims())
    assert found.hardware == ("", "L40S", "GB202")
    assert {one.policy for one in found.requirements} == {"nightly", "l40s", "gb202"}
    assert {one.substrates for one in found.requirements} == {(Substrate.CLUSTER,)}
    assert all(one.defaults for one in found.requirements)


@pytest.mark.parametrize(
    ("name", "inventory", "lane"),
    [
        ("nightly", "nightly-qemu-drbd", "nightly"),
        ("l40s", "lab-l40s", "hardware"),
        ("gb202", "lab-gb202", "hardware"),
        ("twin", "twin", "soak"),
    ],
)
def test_what_a_policy_needs_its_lane_asks(name: str, inventory: str, lane: str) -> None:
    """A policy that no run of its lane can meet would never be met."""
    wanted = {one.key for one in load(find(name, POLICIES), load_claims()).requirements}
    choice = choose(ROOT / "inventory" / f"{inventory}.yaml", lane, (), ())
    hardware = {pool: choice.hardware(pool) for pool in choice.pools}
    asked = {
        (claim.id, hardware[pool])
        for pool in choice.pools
        for claim in load_claims().values()
        if not choice.missing([claim], pool)
    }
    assert wanted <= asked


def test_the_published_schema_is_the_models() -> None:
    kept = json.loads((SCHEMAS / "policy.schema.json").read_text(encoding="utf-8"))
    assert kept == published()
