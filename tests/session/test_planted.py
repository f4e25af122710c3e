"""Secrets that stand everywhere in a lab are nowhere in what a run leaves or prints."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.twin.faults import planted

Run = Callable[..., Any]

POOLS = ("--pool", "gpu-l40s", "--pool", "plain")
CLAIMS = tuple(
    word
    for claim in ("modules-live", "node-joins", "uptime", "early-pod-unserved", "nothing-left")
    for word in ("--claim", claim)
)
FORMS = {
    planted.WORD,
    planted.BOOTSTRAP[:6] + ".",
    *(
        # what the word becomes inside base64, at each of its three places
        base64.b64encode(b"x" * shift + planted.WORD.encode() + b"yyy").decode()[4:12]
        for shift in range(3)
    ),
    planted.WORD.encode().hex(),
}


@pytest.fixture(scope="module")
def ran(hil: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A run with secrets everywhere, one of whose pools fails and leaves its evidence."""
    out = tmp_path_factory.mktemp("out")
    faults = ("--fault", "secrets-in-plain-sight", "--fault", "no-modules-block")
    ended = hil("run", *POOLS, *CLAIMS, *faults, "--out", out, "--run-id", "planted")
    assert ended.status == 1, ended.said
    return out / "planted", ended


def files(run: Path) -> Iterator[Path]:
    return (path for path in run.rglob("*") if path.is_file())


def test_no_file_of_the_run_has_one(ran: tuple[Path, Any]) -> None:
    run, _ = ran
    kept = list(files(run))
    assert len(kept) > 20
    found = []
    for path in kept:
        text = path.read_bytes().decode("utf-8", "replace")
        for form in FORMS:
            for place in re.finditer(re.escape(form), text):
                around = text[max(0, place.start() - 80) : place.end() + 20]
                found.append(f"{path.relative_to(run)}: {around!r}")
    assert found == [], "\n".join(found[:10])


def test_what_was_planted_was_seen(ran: tuple[Path, Any]) -> None:
    """Else their absence would prove nothing."""
    run, _ = ran
    evidence = [path for path in files(run) if "evidence" in path.relative_to(run).parts]
    assert any("[redacted]" in path.read_text("utf-8", "replace") for path in evidence)
    ledger = (run / "ledger.jsonl").read_text()
    assert "login failed: password=[redacted]" in ledger


def test_nothing_that_was_printed_has_one(ran: tuple[Path, Any]) -> None:
    _, ended = ran
    assert not [form for form in FORMS if form in ended.said]


def test_no_key_of_the_twin_is_kept(ran: tuple[Path, Any]) -> None:
    run, _ = ran
    assert {path.suffix for path in (run / "twin").rglob("*") if path.is_file()} <= {".log"}
    for path in files(run):
        text = path.read_bytes()
        assert b"PRIVATE KEY-----\nM" not in text, path
        assert b"client-key-data: LS0" not in text, path
