"""From records to Allure's results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.claims.catalogue import load
from harness.facts.fact import Fact, Origin, Unread
from harness.facts.modules import read_modules
from harness.facts.reply import Output
from harness.judge.verdict import Outcome, Verdict
from harness.report import allure_build, allure_causes
from harness.report.allure_build import page_of
from harness.report.allure_model import FAILED, Result
from harness.report.ledger import Ledger, read
from harness.report.rundir import RunInfo

START = 1767225600.0
INFO = RunInfo("r", "twin", "nightly", 5.0, kind="twin")


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[Ledger]:
    """The shard of a pool with one scenario planned and another that is never begun."""
    with Ledger(tmp_path, "plan") as plan:
        plan.planned("test_a", "p", ["modules-live", "uptime"], hardware="L40S", title="It works.")
        plan.planned("test_b", "p", ["node-joins"], hardware="L40S", title="It joins.")
        plan.not_established("cuda-runs", "", "no pool has a card")
    with Ledger(tmp_path, "pool-p") as pool:
        pool.begin("test_a", "p", at=0.0)
        pool.note("bring-up", "asking for pool p", at=START)
        pool.wait("2 workers", scenario="", pool="p", since=START, until=START + 60)
        yield pool


def built(tmp_path: Path, info: RunInfo = INFO) -> dict[str, Result]:
    results = allure_build.results(read(tmp_path), info, load(), tmp_path)
    return {one.full_name.rpartition("#")[2]: one for one in results}


def say(pool: Ledger, claim: str, outcome: str, fact: Fact, at: float, because: str = "so") -> None:
    given = Verdict(claim, "node n", Outcome(outcome), because, (fact,))
    pool.verdict(given, scenario="test_a", pool="p", at=at)


def labels(result: Result, name: str) -> list[str]:
    return [text for label, text in result.labels if label == name]


def test_a_scenario_is_told_with_its_waits_and_observations_on_the_labs_clock(
    pool: Ledger, tmp_path: Path, fact: Callable[..., Fact]
) -> None:
    soak = {"scenario": "test_a", "pool": "p", "since": START + 60}
    pool.wait("the window", until=START + 360, **soak)
    pool.wait("the window", until=START + 5640, **soak)
    say(pool, "modules-live", "holds", fact("nvidia", at=START + 5641), START + 5642)
    say(pool, "uptime", "holds", fact("nvidia", at=START + 5641), START + 5642)
    pool.note("take-down", "deleting pool p", at=START + 5643)
    pool.end("test_a", "passed", pool="p", at=START + 5700)
    told = built(tmp_path)["test_a"]
    assert (told.status, told.message) == ("passed", "")
    assert (told.start, told.stop) == (START, START + 5643)
    first, second, third = told.steps
    assert first.name == "waited 1 h 33 min for the window"
    assert (first.start, first.stop) == (START + 60, START + 5640)
    assert second.name == "modules-live holds: node n"
    assert [(s.name, s.start, s.stop) for s in second.steps] == [
        ("Modules from guest hil-gpu-x7k2p:/proc/modules", START + 5640, START + 5641)
    ]
    assert third.steps[0].name.endswith("(as above)")
    (around,) = allure_build.containers(read(tmp_path), INFO)
    assert [step.name for step in around.befores[0].steps] == [
        "asking for pool p",
        "waited 1 min 0 s for 2 workers",
    ]
    assert around.afters[0].name == "take-down of pool p"
    assert around.children == [told.uuid]


def test_labels_links_and_parameters(
    pool: Ledger, tmp_path: Path, fact: Callable[..., Fact]
) -> None:
    pool.end("test_a", "passed", pool="p", at=START)
    told = built(tmp_path, RunInfo("r", "twin", "nightly", 5.0, docs="https://d/"))["test_a"]
    assert labels(told, "epic") == ["Kernel modules"]
    assert labels(told, "feature") == ["Live in the kernel"]
    assert labels(told, "claim") == ["modules-live", "uptime"]
    assert labels(told, "severity") == ["blocker"]
    assert ("modules-live", "https://d/claims.md#modules-live") in told.links
    given = {one.name: (one.value, one.excluded) for one in told.parameters}
    assert given["pool"] == ("p", False)
    assert given["card"] == ("L40S", False)
    assert given["lane"] == ("nightly", True)
    other = built(tmp_path, RunInfo("r2", "twin", "hardware", 9.0))["test_a"]
    assert other.history_id == told.history_id
    assert other.uuid != told.uuid
    elsewhere = built(tmp_path, RunInfo("r", "lab-b", "nightly", 5.0))["test_a"]
    assert elsewhere.history_id != told.history_id


@pytest.mark.parametrize(
    ("docs", "url"),
    [
        ("", "docs/claims.md#uptime"),
        ("https://d/x", "https://d/x/claims.md#uptime"),
        ("https://d/{page}.html#{anchor}", "https://d/claims.html#uptime"),
    ],
)
def test_where_a_claim_is_explained(docs: str, url: str) -> None:
    assert page_of("claims.md#uptime", docs) == url


def causes(result: Result) -> list[str]:
    """The categories that a result falls into, as Allure 2 matches: the whole message."""
    return [
        str(rule["name"])
        for rule in allure_causes.CATEGORIES
        if result.status in rule["matchedStatuses"]
        and re.fullmatch(rule["messageRegex"], result.message)
    ]


CASES: Mapping[str, tuple[tuple[tuple[str, str, str], ...], str, str, str]] = {
    "broken": (
        (("modules-live", "broken", "it is 0"), ("uptime", "unknown", "cut")),
        "failed",
        FAILED,
        "Product: claim broken",
    ),
    "unknown": (
        (("modules-live", "holds", "x"), ("uptime", "unknown", "it was cut")),
        "failed",
        "broken",
        "Not known: the answer could not be had",
    ),
    "harness": (
        (("modules-live", "unknown", "the harness failed: KeyError: 'x'"), ("uptime", "holds", "")),
        "failed",
        "broken",
        "Harness or scenario at fault",
    ),
    "unfit": (
        (("modules-live", "unknown", "no answer"), ("uptime", "unknown", "no answer")),
        "lab unfit",
        "broken",
        "Lab unfit",
    ),
    "no verdict": (
        (("modules-live", "holds", "x"),),
        "passed",
        "broken",
        "Not known: the answer could not be had",
    ),
    "left behind": (
        (("modules-live", "holds", "x"), ("uptime", "holds", "x")),
        "error in teardown",
        "broken",
        "Harness or scenario at fault",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_cause_has_its_category_and_no_other(
    case: str, pool: Ledger, tmp_path: Path, fact: Callable[..., Fact]
) -> None:
    said, outcome, status, category = CASES[case]
    for claim, came_out, because in said:
        say(pool, claim, came_out, fact(claim), START + 61, because or "so")
    pool.end("test_a", outcome, pool="p", at=START + 62)
    told = built(tmp_path)["test_a"]
    assert told.status == status
    assert causes(told) == [category]


def test_what_was_begun_and_not_ended_is_interrupted(pool: Ledger, tmp_path: Path) -> None:
    pool.wait("the window", scenario="test_a", pool="p", since=START + 60, until=START + 400)
    told = built(tmp_path)["test_a"]
    assert causes(told) == ["Interrupted"]
    assert "while it waited for the window, since 2026-01-01T00:01:00Z" in told.message
    assert labels(told, "tag") == ["interrupted"]


def test_what_was_planned_and_never_begun_and_what_the_lab_lacks(
    pool: Ledger, tmp_path: Path
) -> None:
    pool.not_run("test_b", "p", ["node-joins"], "no card free")
    told = built(tmp_path)
    assert causes(told["test_b"]) == ["Planned and not run"]
    assert "no card free" in told["test_b"].message
    assert "node-joins" in told["test_b"].message
    assert told["cuda-runs"].status == "skipped"
    assert causes(told["cuda-runs"]) == ["Not established: the lab lacks what it needs"]


def test_a_known_issue_is_told_as_known_and_is_no_pass(
    pool: Ledger, tmp_path: Path, fact: Callable[..., Fact]
) -> None:
    say(pool, "modules-live", "broken", fact("x"), START + 61, "it is 0")
    say(pool, "uptime", "holds", fact("y"), START + 61)
    pool.end("test_a", "failed", pool="p", at=START + 62)
    known = {"claim": "modules-live", "pool": "p", "owner": "ann", "link": "http://i/1"}
    more = {"expires": "2027-01-01", "signature": "it is", "state": "matched"}
    line = {"record": "known-issue", **known, **more}
    with (tmp_path / "ledger.d" / "known.jsonl").open("w") as file:
        file.write(json.dumps(line) + "\n")
    told = built(tmp_path)["test_a"]
    assert told.status == FAILED
    assert causes(told) == ["Known issue, still not established"]
    assert "ann, http://i/1 until 2027-01-01" in told.message
    line["state"] = "expired"
    (tmp_path / "ledger.d" / "known.jsonl").write_text(json.dumps(line) + "\n")
    assert causes(built(tmp_path)["test_a"]) == ["Product: claim broken"]


def test_a_second_attempt_hides_no_first(
    pool: Ledger, tmp_path: Path, fact: Callable[..., Fact]
) -> None:
    for outcome in ("broken", "holds"):
        if outcome == "holds":
            pool.begin("test_a", "p", at=START + 100)
        for claim in ("modules-live", "uptime"):
            say(pool, claim, outcome, fact(claim), START + 61)
        pool.end("test_a", "passed" if outcome == "holds" else "failed", pool="p", at=START + 200)
    results = allure_build.results(read(tmp_path), INFO, load())
    tries = [one for one in results if one.full_name.endswith("#test_a")]
    assert [one.status for one in tries] == [FAILED, "passed"]
    assert len({one.history_id for one in tries}) == 2
    assert len({one.document()["testCaseId"] for one in tries}) == 2
    assert tries[1].name.endswith("attempt 2")


def test_a_verdict_whose_facts_cannot_be_read_is_not_known(
    pool: Ledger, tmp_path: Path, fact: Callable[..., Fact]
) -> None:
    say(pool, "modules-live", "holds", fact("nvidia"), START + 61)
    say(pool, "uptime", "holds", fact("x"), START + 61)
    pool.end("test_a", "passed", pool="p", at=START + 62)
    path = tmp_path / "ledger.d" / "pool-p.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if '"f1"' in line)
    path.write_text("".join([*lines[:place], '{"record": "fa\n', *lines[place + 1 :]]))
    assert causes(built(tmp_path)["test_a"]) == ["Not known: the answer could not be had"]


def files(result: Result) -> dict[str, str]:
    return {one.name: one.body.decode() for one in result.files()}


def test_what_was_read_is_attached_named_for_people(pool: Ledger, tmp_path: Path) -> None:
    text = "nvidia_uvm 1 0 - Live 0x0 (OE)\nnvidia 2 1 nvidia_uvm, Live 0x0 (OE)\n"
    table = read_modules(
        Output(("cat", "/proc/modules"), 0, text, ""), at=START, source="guest a:/proc/modules"
    )
    say(pool, "modules-live", "holds", table, START + 61)
    lost = Unread(Origin(START + 61, "guest a:/dev/kmsg", ""), "the log", "it was cut")
    say(pool, "uptime", "unknown", lost, START + 61)
    pool.end("test_a", "failed", pool="p", at=START + 62)
    told = built(tmp_path)["test_a"]
    found = files(told)
    assert found["/proc/modules of guest a"] == text
    ladder = found["ladder of /proc/modules of guest a"]
    assert ladder.index("<td>nvidia</td>") < ladder.index("<td>nvidia_uvm</td>")
    assert found["modules of /proc/modules of guest a"].startswith("name,size,refcount,used_by")
    unread = told.steps[1].steps[0]
    assert (unread.status, unread.message) == ("broken", "it was cut")


def test_a_shard_from_before_scenarios_were_begun_is_read(
    tmp_path: Path, fact: Callable[..., Fact]
) -> None:
    with Ledger(tmp_path, "plan") as plan:
        plan.planned("test_a", "p", ["modules-live"])
    with Ledger(tmp_path, "pool-p") as pool:
        pool.note("bring-up", "asking for pool p", at=START)
        say(pool, "modules-live", "holds", fact("nvidia"), START + 61)
        pool.end("test_a", "passed", pool="p")
    told = built(tmp_path)["test_a"]
    assert (told.status, told.stop) == ("passed", START + 61)


def test_the_same_ledger_gives_the_same_results(written: Path) -> None:
    def once() -> list[Any]:
        results = allure_build.results(read(written), INFO, load(), written)
        return [one.document() for one in results]

    assert once() == once()
    assert len({one["uuid"] for one in once()}) == len(once())
    assert len({one["historyId"] for one in once()}) == len(once())
