"""What Allure is given of a failure's evidence."""

from __future__ import annotations

from pathlib import Path

from harness.evidence.manifest import Item, Manifest, Status
from harness.report.allure_evidence import attachments

FOLDER = "evidence/it--p"


def failure(run: Path, *items: Item, **diagnosis: str) -> None:
    manifest = Manifest("it", "p", 1.0, "<b>claim</b> broken", 90.0, items=list(items))
    manifest.diagnosis = {"line": "probable cause: x", **diagnosis}
    manifest.write(run / FOLDER)


def test_the_manifest_comes_first_then_the_diagnosis_then_the_files(tmp_path: Path) -> None:
    shared = tmp_path / "evidence" / "other--p" / "dmesg.txt"
    failure(
        tmp_path,
        Item("dmesg on n", "../other--p/dmesg.txt", Status.TAKEN, 4),
        Item("pods", "pods.json", Status.TAKEN, 2),
        Item("gone", why="90 s were up"),
        file="diagnosis.txt",
    )
    shared.parent.mkdir()
    shared.write_text("oops")
    (tmp_path / FOLDER / "pods.json").write_text("{}")
    (tmp_path / FOLDER / "diagnosis.txt").write_text("the cause is x")
    table, diagnosis, dmesg, pods = attachments(tmp_path, FOLDER)
    assert b"&lt;b&gt;claim" in table.body
    assert b"90 s were up" in table.body
    assert diagnosis.body == b"the cause is x"
    assert (dmesg.name, dmesg.body) == ("dmesg on n", b"oops")
    assert pods.mime == "application/json"


def test_a_manifest_leads_nowhere_but_into_its_run(tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("not of this run")
    failure(tmp_path / "run", Item("x", "../../../outside.txt", Status.TAKEN, 4))
    assert len(attachments(tmp_path / "run", FOLDER)) == 2


def test_a_manifest_that_is_not_there_or_half_written_is_told(tmp_path: Path) -> None:
    assert b"cannot be read" in attachments(tmp_path, FOLDER)[0].body
    (tmp_path / FOLDER).mkdir(parents=True)
    (tmp_path / FOLDER / "manifest.json").write_text('{"schema": "hil.evi')
    assert b"cannot be read" in attachments(tmp_path, FOLDER)[0].body
    (tmp_path / FOLDER / "manifest.json").write_text('{"schema": "hil.evidence/2"}')
    assert b"not of schema" in attachments(tmp_path, FOLDER)[0].body
