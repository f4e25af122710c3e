"""The sign-off of a release as data and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.report.release_document import document
from harness.report.signing import ROOT, TEMPLATE
from harness.report.signoff import page, templates_of
from tests.report.published import assert_valid
from tests.report.releases import ADDONS, CARDS, CLAIMS, A, B, C, judged, need, policy, run
from tests.report.test_signoff import EVIL, Page

HOLDS, BROKEN = "holds", "broken"
WANTED = policy(need(A), need(B), need(C), need(C, ""), waivable=frozenset({C}))
GOOD = run("r1", {A: HOLDS, B: HOLDS, C: HOLDS})
ISSUE = {"record": "known-issue", "claim": A, "pool": "gpu", "state": "matched"}
CASES: dict[str, tuple[Any, ...]] = {
    "nothing": (),
    "one": (GOOD,),
    "plain": (GOOD, run("r2", {C: HOLDS}, hardware="", pool="plain")),
    "broken": (GOOD, run("r2", {A: BROKEN, "node-joins": BROKEN, B: "unknown"})),
    "flawed": (run("r1", {A: HOLDS}, merged=False, ended=None, exit=None), GOOD),
    "known": (run("r1", {A: BROKEN}, more=[ISSUE]),),
    "lacking": (run("r1", {A: HOLDS, B: "not-established"}, kind="twin", subject=""),),
}


def shown(*runs: Any, **more: Any) -> dict[str, Any]:
    found = document(judged(WANTED, *runs, **more), CLAIMS)
    assert_valid(found)
    return found


def read(found: dict[str, Any]) -> Page:
    parsed = Page(page(found, [templates_of(ROOT)], TEMPLATE))
    assert parsed.open == []
    return parsed


@pytest.mark.parametrize("case", CASES)
def test_every_document_is_as_published_and_can_be_shown(case: str) -> None:
    found = shown(*CASES[case])
    text = read(found).text
    assert found["headline"] in text
    for key in ("established", "broken", "open", "waived"):
        for item in found[key]:
            assert item["sentence"] in text and item["because"] in text
    for one in found["obstacles"]:
        assert one in text


def test_the_first_page_says_what_on_what_by_what_and_the_verdict() -> None:
    raw = '"chartName": "kubernetes-nodes",\n "chartVersion": "1.7.0"'
    chart = {"kind": "PoolRequest", "source": "management HelmRelease t/kubernetes-nodes-lab-gpu"}
    facts = [
        ADDONS,
        CARDS,
        chart | {"raw": raw},
        {"kind": "DriverVersion", "release": "595.45.04", "flavour": "open"},
        {"kind": "BootSource", "schematic": "d4eb" * 16, "version": "v1.13.6"},
        {"kind": "DrbdStatus", "version": "9.2.14"},
    ]
    text = read(shown(run("r1", {A: HOLDS, B: HOLDS, C: HOLDS}, facts=facts))).text
    first, rest = text.split("Established Claim", 1)
    for part in (
        "Cozystack v1.7.0",
        "By policy p",
        "Not to be signed",
        "kubernetes-nodes 1.7.0",
        "595.45.04 (open modules)",
        "d4eb" * 16,
        "v1.13.6",
        "10de:26b9",
        "DRBD 9.2.14",
        "Extensions not recorded",
        "r1",
    ):
        assert part in first
    order = ("Broken", "Not established, and why", "By their nature such runs cannot show")
    places = [rest.index(part) for part in order]
    assert places == sorted(places)


def test_counts_are_of_the_policy_line_by_line() -> None:
    found = shown(GOOD)
    assert found["counts"] == {"broken": 0, "not-established": 1, "waived": 0, "established": 3}
    lines = {one["hardware"]: one["counts"] for one in found["policy"]["lines"]}
    assert (lines["L40S"]["established"], lines[""]["not-established"]) == (3, 1)


def test_what_a_claim_leaves_open_is_told_only_where_it_is_established() -> None:
    told = [one["claim"] for one in shown(GOOD)["not_shown"]["claims"]]
    assert told == [A, B, C]
    assert shown()["not_shown"]["claims"] == []


def test_each_word_that_was_said_names_its_facts_and_whether_it_counts() -> None:
    (item,) = (one for one in shown(GOOD)["established"] if one["claim"] == A)
    (said,) = item["said"]
    assert said["facts"] == ["pool-gpu/f1"] and said["counts"] is True
    (old,) = shown(run("r", {A: HOLDS}, days_ago=30))["open"][0]["said"]
    assert old["counts"] is False and "stale" in old["discounts"][0]


def test_whatever_was_seen_is_text_on_the_page() -> None:
    evil = run(EVIL, {A: HOLDS, EVIL: BROKEN}, subject=EVIL, lane=EVIL, lab=EVIL, fault=EVIL)
    parsed = read(shown(evil, subject=EVIL))
    assert not {"script", "img", "link"} & set(parsed.tags)
    assert not [item for item in parsed.attributes if item[1].startswith("on")]
    assert parsed.text.count("alert('x')") > 3


def test_the_page_loads_nothing() -> None:
    html = page(shown(GOOD), [templates_of(ROOT)], TEMPLATE)
    assert "http://" not in html and "https://" not in html
    assert "url(" not in html and "@import" not in html and "src=" not in html


def test_secrets_do_not_reach_it(tmp_path: Path) -> None:
    secret = {"record": "known-issue", "claim": A, "pool": "gpu", "link": "token: abcdefghijk"}
    found = shown(run("r", {A: BROKEN}, more=[secret]))
    assert "abcdefghijk" not in str(found)
