"""`hil signoff`: what it takes, what it writes and says, how it ends; with runs on disk."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.report import pdf
from harness.report.rebuilding import report
from harness.report.signing import Asked, sign
from tests.report.published import assert_valid
from tests.report.runs import CLUSTER, TWIN, Run, seen

POLICY = """\
schema: hil.policy/1
name: mine
description: What I need.
purpose: release
maxAge: 3d
needs:
  - title: it joins
    hardware: none
    claims: [node-joins, schematic-consistent]
waivable: [schematic-consistent]
"""
NOW = 100.0
SUBJECT = "Cozystack v1.7.0"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(POLICY)
    return path


def made(out: Path, *claims: str, kind: str = CLUSTER, **more: Any) -> Run:
    run = Run(out, kind, **({"subject": SUBJECT, "exit": 0} | more))
    for claim in claims:
        run.says(claim)
    return run


def ask(runs: Sequence[str | Path], policy: str | Path, tmp_path: Path, **more: Any) -> int:
    asked = Asked(
        tuple(map(str, runs)), str(policy), kept=tmp_path, **({"out": tmp_path / "signed"} | more)
    )
    return sign(asked, now=NOW)


def test_a_release_that_can_be_signed(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path, "node-joins", run_id="one").end()
    made(tmp_path, "schematic-consistent", run_id="two").end()
    assert ask(["one", "two"], policy, tmp_path) == 0
    said = capsys.readouterr().out
    assert said.startswith("Ready to sign: all that the policy needs is established\n")
    assert f"{SUBJECT}, by policy mine" in said
    shown = json.loads((tmp_path / "signed" / "release.json").read_text())
    assert_valid(shown)
    assert (shown["verdict"], shown["signable"]) == ("signable", True)
    assert SUBJECT in (tmp_path / "signed" / "release.html").read_text()
    assert not (tmp_path / "signed" / "release.pdf").exists()


def test_one_that_cannot_ends_with_1_and_says_why(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path, "node-joins").end()
    assert ask([folder], policy, tmp_path) == 1
    said = capsys.readouterr().out
    assert "not established  schematic-consistent on no card\n    no run asked it" in said
    assert ask([folder], policy, tmp_path, json=True) == 1
    shown = json.loads(capsys.readouterr().out)
    assert_valid(shown)
    assert shown["signable"] is False


@pytest.mark.parametrize("policy_", ["release", "nightly", "l40s", "gb202"])
def test_a_twin_never_signs_a_release(tmp_path: Path, policy_: str) -> None:
    folder = made(tmp_path, "node-joins", kind=TWIN).end()
    assert ask([folder], policy_, tmp_path) == 1
    shown = json.loads((tmp_path / "signed" / "release.json").read_text())
    assert shown["counts"]["established"] == 0


def test_the_order_in_which_runs_are_named_does_not_matter(tmp_path: Path, policy: Path) -> None:
    one = made(tmp_path, "node-joins", run_id="one").end()
    two = made(tmp_path, "schematic-consistent", run_id="two").end()
    texts = []
    for runs in ([one, two], [two, one], [two, one, one, two]):
        assert ask(runs, policy, tmp_path) == 0
        texts.append((tmp_path / "signed" / "release.json").read_text())
    assert len(set(texts)) == 1


def test_half_a_line_is_told_with_its_number_and_the_rest_is_used(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path, "node-joins", "schematic-consistent").end()
    lines = (folder / "ledger.jsonl").read_text().splitlines(keepends=True)
    lines[-2] = lines[-2][:20] + "\n"
    (folder / "ledger.jsonl").write_text("".join(lines))
    assert ask([folder], policy, tmp_path) == 1
    said = capsys.readouterr().out
    assert "run-cluster: unreadable: pool-p:4: not JSON" in said
    shown = json.loads((tmp_path / "signed" / "release.json").read_text())
    (whole,) = (one for one in shown["open"] if one["claim"] == "node-joins")
    assert whole["said"][0]["outcome"] == "holds"
    assert "1 line of its ledger cannot be read" in whole["because"]


def test_a_schema_that_is_not_known_is_refused(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path, "node-joins").end()
    ledger = folder / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace("hil.ledger/1", "hil.ledger/9"))
    assert ask([folder], policy, tmp_path) == 3
    assert "its schema is 'hil.ledger/9'" in capsys.readouterr().err
    assert not (tmp_path / "signed").exists()


def test_a_run_without_its_run_json_cannot_be_read(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path, "node-joins").end()
    (folder / "run.json").write_text("{")
    assert ask([folder], policy, tmp_path) == 3
    assert "run.json" in capsys.readouterr().err


def test_a_ledger_that_was_changed_after_its_sign_off_does_not_count(
    tmp_path: Path, policy: Path
) -> None:
    folder = made(tmp_path, "node-joins", "schematic-consistent").end()
    (folder / "signoff.json").write_text(json.dumps({"ledger": {"sha256": "0" * 64}}))
    assert ask([folder], policy, tmp_path) == 1
    (folder / "signoff.json").write_text("{")
    assert ask([folder], policy, tmp_path) == 0


def test_a_rebuilt_report_does_not_whitewash_a_ledger_that_was_changed(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path, "node-joins", "schematic-consistent").end()
    assert report([str(folder)], out=tmp_path) == 0
    ledger = folder / "ledger.jsonl"
    changed = ledger.read_bytes().replace(b'"because": "', b'"because": "not ')
    assert changed != ledger.read_bytes()
    ledger.write_bytes(changed)
    before = (folder / "signoff.json").read_bytes()
    capsys.readouterr()
    assert report([str(folder)], out=tmp_path) == 3
    assert "not the one that its own sign-off was made of" in capsys.readouterr().err
    assert (folder / "signoff.json").read_bytes() == before
    assert ask([folder], policy, tmp_path) == 1


@pytest.mark.parametrize(
    ("was", "change"),
    [
        ({"kind": TWIN}, {"kind": CLUSTER}),
        ({"fault": "no-modules-block"}, {"fault": ""}),
        ({"subject": "Cozystack v1.6.0"}, {"subject": SUBJECT}),
        ({"ended": 40.0}, {"ended": 90.0}),
    ],
)
def test_a_run_json_that_was_changed_after_its_sign_off_does_not_count(
    tmp_path: Path,
    policy: Path,
    was: dict[str, Any],
    change: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    kind = was.pop("kind", CLUSTER)
    folder = made(tmp_path, "node-joins", "schematic-consistent", kind=kind, **was).end()
    assert report([str(folder)], out=tmp_path) == 0
    told = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(told | change))
    assert ask([folder], policy, tmp_path) == 1
    said = f"its run.json is not the one that its own sign-off was made of: {next(iter(change))}"
    assert said in " ".join(capsys.readouterr().out.split())
    assert report([str(folder)], out=tmp_path) == 3, "nor is it whitewashed"
    assert "run.json was changed after its sign-off" in capsys.readouterr().err
    (folder / "run.json").write_text(json.dumps(told))
    assert report([str(folder)], out=tmp_path) == 0


def test_an_end_that_a_sign_off_did_not_see_is_no_change(tmp_path: Path, policy: Path) -> None:
    folder = made(tmp_path, "node-joins", "schematic-consistent", ended=None).end()
    assert report([str(folder)], out=tmp_path) == 0
    told = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(told | {"ended": 3.0}))
    assert report([str(folder)], out=tmp_path) == 0
    assert ask([folder], policy, tmp_path) == 0


def test_a_sign_off_is_not_written_into_a_run(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path, "node-joins", "schematic-consistent").end()
    asked = Asked((str(folder),), str(policy), kept=tmp_path, out=folder)
    assert sign(asked, now=NOW) == 2
    assert "a run's own folder" in capsys.readouterr().err
    assert not (folder / "release.html").exists()


def test_copies_of_one_run_that_say_different_things_of_themselves_are_two(
    tmp_path: Path, policy: Path
) -> None:
    folder = made(tmp_path, "node-joins", "schematic-consistent").end()
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    assert ask([folder, copy], policy, tmp_path) == 0
    info = json.loads((copy / "run.json").read_text())
    (copy / "run.json").write_text(json.dumps(info | {"ended": info["ended"] - 1}))
    assert ask([folder, copy], policy, tmp_path) == 1


@pytest.mark.parametrize(
    ("runs", "policy_", "says"),
    [
        (["on"], "mine.yaml", "no folder of a run, and no run of that name"),
        (["one"], "releas", "no such policy; did you mean 'release'?"),
        (["one"], "wrong.yaml", "no claim 'node-join' in the catalogue; did you mean 'node-joins'"),
    ],
)
def test_mistakes_end_with_2_and_a_sentence(
    tmp_path: Path,
    policy: Path,
    capsys: pytest.CaptureFixture[str],
    runs: list[str],
    policy_: str,
    says: str,
) -> None:
    made(tmp_path, "node-joins", run_id="one").end()
    (tmp_path / "wrong.yaml").write_text(POLICY.replace("node-joins", "node-join"))
    path = tmp_path / policy_
    assert ask(runs, path if path.exists() else policy_, tmp_path) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("waiver", "status", "says"),
    [
        ("schematic-consistent=the lab has no factory", 0, "waived  schematic-consistent"),
        ("schematic-consistent@none=the lab has no factory", 0, "waived  schematic-consistent"),
        ("schematic-consistent", 2, "no reason is given"),
        ("schematic-consistent= ", 2, "no reason is given"),
        ("node-joins=no", 2, "policy mine lets be waived: schematic-consistent"),
        ("uptime=no", 2, "policy mine does not need uptime"),
        ("schematic-consistent@L40S=no", 2, "does not need schematic-consistent@L40S"),
    ],
)
def test_waivers(
    tmp_path: Path,
    policy: Path,
    capsys: pytest.CaptureFixture[str],
    waiver: str,
    status: int,
    says: str,
) -> None:
    folder = made(tmp_path, "node-joins").end()
    assert ask([folder], policy, tmp_path, waive=(waiver,)) == status
    said = capsys.readouterr()
    assert says in said.out + said.err


def test_a_folder_that_cannot_be_written_is_a_sentence(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path, "node-joins").end()
    assert ask([folder], policy, tmp_path, out=policy) == 2
    assert f"--out {policy}: cannot write there" in capsys.readouterr().err


def test_without_weasyprint_a_pdf_is_refused_by_a_sentence(
    tmp_path: Path,
    policy: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pdf, "MODULE", "weasyprint_that_is_not_there")
    folder = made(tmp_path, "node-joins", "schematic-consistent").end()
    assert ask([folder], policy, tmp_path, pdf=True) == 2
    said = capsys.readouterr().err
    assert "a PDF needs WeasyPrint, which is not installed: pip install 'hil[pdf]'" in said
    assert not (tmp_path / "signed").exists()


def test_the_command_line_says_the_same(
    tmp_path: Path, policy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = made(tmp_path, "node-joins", "schematic-consistent").end()
    argv = ["signoff", str(folder), "--policy", str(policy), "--out", str(tmp_path / "o"), "--json"]
    assert cli.main(argv) == 1  # a run of 1970 is stale
    assert "it is stale" in json.loads(capsys.readouterr().out)["obstacles"][0]


def test_facts_of_the_ledger_say_on_what(tmp_path: Path, policy: Path) -> None:
    run = made(tmp_path, "schematic-consistent")
    run.says("node-joins", facts=[seen("BootSource", schematic="d4eb", version="v1.13.6")])
    assert ask([run.end()], policy, tmp_path) == 0
    shown = json.loads((tmp_path / "signed" / "release.json").read_text())
    told = {one["item"]: [value["value"] for value in one["values"]] for one in shown["identity"]}
    assert (told["schematic"], told["talos"], told["driver"]) == (["d4eb"], ["v1.13.6"], [])
