"""Whole runs in the embedded lab, shared among the tests that look at them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.session.conftest import asked

Run = Callable[..., Any]


MANY = asked("gpu-l40s", "hardware") + asked("plain", "hardware")


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def parallel(hil: Run, out: Path) -> Any:
    """The reference run of one card: two pools on two workers, the window of uptime included."""
    return hil("run", "--lane", "hardware", "--out", out, "--run-id", "parallel")


@pytest.fixture(scope="session")
def by_pytest(plain: Run, out: Path) -> Any:
    """The same by plain pytest, in one process."""
    return plain(
        *("--lab", "inventory/twin.yaml", "--lane", "hardware"),
        *("--out", out, "--run-id", "by-pytest"),
    )


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]


def test_everything_holds(parallel: Any, out: Path) -> None:
    assert parallel.status == 0, parallel.said
    kept = records(out / "parallel")
    planned = [r for r in kept if r["record"] == "planned"]
    ended = [r for r in kept if r["record"] == "end"]
    assert len(planned) == len(ended) == MANY
    assert {r["outcome"] for r in ended} == {"passed"}
    assert json.loads((out / "parallel" / "run.json").read_text())["exit"] == 0


def test_each_pool_tells_at_its_start_and_its_end_which_platform_is_installed(
    parallel: Any, out: Path
) -> None:
    kept = records(out / "parallel")
    told = [(one["at"], one["values"]) for one in kept if one.get("kind") == "PlatformVersion"]
    assert [values["version"] for _, values in told] == ["v1.7.0"] * 4
    assert len({at for at, _ in told}) == 4
    assert all(len(values["sources"]) == 3 for _, values in told)
    signed = json.loads((out / "parallel" / "signoff.json").read_text())
    shown = {one["item"]: [v["value"] for v in one["values"]] for one in signed["identity"]}
    assert (shown["platform"], shown["subject"]) == (["Cozystack v1.7.0"], [])


def test_the_table_is_all_that_standard_output_holds(parallel: Any, out: Path) -> None:
    assert parallel.out == (out / "parallel" / "summary.txt").read_text()
    assert f"{MANY} planned, {MANY} reported, 0 missing" in parallel.out
    assert "Substrate: simulated (no machine of this lab was real)" in parallel.out


def test_allure_says_on_what_each_scenario_ran(parallel: Any, out: Path) -> None:
    folder = out / "parallel" / "allure-results"
    results = [json.loads(path.read_text()) for path in folder.glob("*-result.json")]
    wanted = {"name": "substrate", "value": "simulated"}
    assert all(wanted in one["labels"] for one in results)
    assert [one["status"] for one in results if one["status"] != "skipped"] == ["passed"] * MANY
    assert "substrate=simulated\n" in (folder / "environment.properties").read_text()


def test_a_reference_run_tells_each_link_and_what_it_cannot_show(parallel: Any, out: Path) -> None:
    text = " ".join(parallel.out.split())
    chain = text[text.index("The chain on gpu-l40s (L40S)") : text.index("Not shown by this run")]
    for seen in (
        "by vfio-pci; expected vfio-pci",
        "lists 1 card (NVIDIA L40S GPU-",
        "NvLinkDisable: 1",
        "of the fabric: 00000000:09:00.0 N/A",
        "DEVICE_LIST_STRATEGY=cdi-annotations",
        "done without a restart",
        "allocatable nvidia.com/gpu is 1",
        "exit status 0",
        "s old, watched since",
    ):
        assert seen in chain
    signed = json.loads((out / "parallel" / "signoff.json").read_text())
    links = {one["claim"]: one["outcome"] for one in signed["chains"][0]["links"]}
    assert len(links) == 17 and set(links.values()) == {"holds"}
    said = text[text.index("Not shown by this run") :]
    for word in ("NVreg_NvLinkDisable=1 is needed", "by its effect", "HAMi", "cards than Ada"):
        assert word in said
    assert "own default" not in said
    page = " ".join((out / "parallel" / "signoff.html").read_text().split())
    for sentence in signed["not_shown"]["run"]:
        assert " ".join(sentence.split())[:40] in page


def test_what_waits_for_the_window_comes_last_of_its_pool(out: Path, parallel: Any) -> None:
    assert parallel.status == 0
    planned = [r for r in records(out / "parallel") if r["record"] == "planned"]
    for pool in ("gpu-l40s", "plain"):
        claims = [r["claims"] for r in planned if r["pool"] == pool]
        assert claims[-2:] == [["uptime"], ["nothing-left"]]  # which takes the pool down


def test_progress_tells_of_each_pool_with_the_labs_time(parallel: Any) -> None:
    lines = parallel.err.splitlines()
    assert lines[0].startswith(f"run parallel: {MANY} scenarios on 2 pools of lab twin")
    for pool in ("gpu-l40s", "plain"):
        assert any(re.fullmatch(rf"00:00:00Z  asking for pool {pool}: .*", x) for x in lines)
        assert any(re.fullmatch(rf"01:3\d:\d\dZ  pool {pool} is gone", x) for x in lines)
    assert "bringing up nodes" not in parallel.said
    assert "deselected" not in parallel.said


def test_one_seed_gives_one_ledger_however_it_is_run(
    parallel: Any, by_pytest: Any, out: Path
) -> None:
    assert by_pytest.status == 0, by_pytest.said
    ours = (out / "parallel" / "ledger.jsonl").read_bytes()
    assert ours == (out / "by-pytest" / "ledger.jsonl").read_bytes()


def test_plain_pytest_prints_the_table_too(by_pytest: Any, out: Path) -> None:
    assert (out / "by-pytest" / "summary.txt").read_text() in by_pytest.out
    assert f"{MANY} passed" in by_pytest.out


def test_quiet_prints_the_table_only_and_another_seed_another_ledger(
    hil: Run, parallel: Any, out: Path
) -> None:
    quiet = hil(
        *("run", "--pool", "plain", "--quiet", "--seed", 2, "--out", out, "--run-id", "seed-2")
    )
    assert quiet.status == 0
    assert quiet.err == ""
    assert quiet.out == (out / "seed-2" / "summary.txt").read_text()
    shard = Path("ledger.d") / "pool-plain.jsonl"
    assert (out / "seed-2" / shard).read_bytes() != (out / "parallel" / shard).read_bytes()


def test_no_twin_is_left(parallel: Any, by_pytest: Any, out: Path) -> None:
    for run in ("parallel", "by-pytest"):
        assert (out / run / "twin" / "plain").is_dir()
        assert not list((out / run).glob("twin/*/twin.json"))


def test_allure_has_every_scenario_as_passed(parallel: Any, out: Path) -> None:
    found = [json.loads(p.read_text()) for p in (out / "parallel").glob("*/*-result.json")]
    ran = [one for one in found if one["status"] == "passed"]
    assert len(ran) == MANY
    # the others are claims that this lab cannot establish, which is no pass
    rest = [one for one in found if one not in ran]
    assert {one["status"] for one in rest} == {"skipped"}
    assert all(one["fullName"].startswith("claims#") for one in rest)


def test_a_run_never_writes_into_anothers_directory(hil: Run, parallel: Any, out: Path) -> None:
    before = (out / "parallel" / "ledger.jsonl").read_bytes()
    again = hil("run", "--pool", "plain", "--out", out, "--run-id", "parallel")
    again.assert_sentence(2, "there is a run parallel in", "choose another --run-id")
    assert (out / "parallel" / "ledger.jsonl").read_bytes() == before


@pytest.fixture(scope="session")
def stuck(hil: Run, out: Path) -> Any:
    """A pool that never joins."""
    return hil(
        *("run", "--fault", "gpu-not-permitted", "--pool", "gpu-l40s"),
        *("--claim", "node-joins", "--claim", "modules-live", "--claim", "spec-read-back"),
        *("--out", out, "--run-id", "stuck"),
    )


def test_what_is_stuck_is_named(stuck: Any, out: Path) -> None:
    stuck.assert_sentence(1, "permittedHostDevices", "00:29:00Z  unknown: modules-live")
    text = " ".join(stuck.out.split())
    assert re.search(r"BROKEN node-joins on gpu-l40s .* stuck on VirtualMachineInstance \S+:", text)
    assert re.search(r"unknown modules-live .* no worker joined: \S+ stands at \S+Instance", text)
    assert "Claims: 1 broken, 1 unknown, 1 holds" in stuck.out
    kept = records(out / "stuck")
    assert [r["outcome"] for r in kept if r["record"] == "end"].count("failed") == 2


def test_a_broken_claim_is_in_allures_category_of_broken_claims(stuck: Any, out: Path) -> None:
    assert stuck.status == 1
    run = out / "stuck" / "allure-results"
    categories = json.loads((run / "categories.json").read_text())
    found = {}
    for path in run.glob("*-result.json"):
        result = json.loads(path.read_text())
        message = (result.get("statusDetails") or {}).get("message", "")
        found[result["fullName"].rpartition("#")[2]] = next(
            c["name"]
            for c in categories
            if result["status"] in c["matchedStatuses"]
            and re.fullmatch(c.get("messageRegex", r"[\s\S]*"), message)
        ) if result["status"] != "passed" else "passed"  # fmt: skip
    assert found == {
        "test_workers_join": "Product: claim broken",
        "test_modules_are_live": "Not known: the answer could not be had",
        "test_request_is_kept_as_written": "passed",
    }
