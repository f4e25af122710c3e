from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.facts.fact import Fact
from harness.judge.verdict import Outcome, Verdict
from harness.report.ledger import Ledger, merge, read
from harness.report.records import RAW_LIMIT, LedgerError, rfc3339

Facts = Callable[..., Fact]
ROOT = Path(__file__).resolve().parents[2]

ENDLESS = """
import itertools, sys
from pathlib import Path
from harness.report.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]), "endless")
for number in itertools.count():
    ledger.note("wait", f"line {number} " + "x" * 300, at=float(number))
    if number == 200:
        sys.stdout.write("going\\n")
        sys.stdout.flush()
"""


def test_a_killed_writer_loses_at_most_the_line_it_was_writing(tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT
    )
    assert writer.stdout is not None
    with writer.stdout as said:
        assert said.readline() == b"going\n"
        os.kill(writer.pid, signal.SIGKILL)
    assert writer.wait(timeout=10) == -signal.SIGKILL
    view = read(tmp_path)
    notes = view.of("note")
    assert len(notes) > 200
    assert [note.text("text").split()[1] for note in notes] == [str(n) for n in range(len(notes))]
    assert len(view.unreadable) <= 1
    assert not view.merged


def test_a_record_is_on_disk_before_the_call_returns(tmp_path: Path, fact: Facts) -> None:
    ledger = Ledger(tmp_path, "pool")
    ledger.fact(fact("nvidia"))
    assert ledger.path.read_bytes().count(b"\n") == 2
    ledger.close()


def test_a_half_line_is_reported_with_its_place_and_the_rest_is_used(
    tmp_path: Path, fact: Facts
) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.fact(fact("nvidia"))
        ledger.note("wait", "the second", at=0.0)
    body = ledger.path.read_bytes()
    ledger.path.write_bytes(body[:-9])
    view = read(tmp_path)
    assert [record.kind for record in view.records] == ["header", "fact"]
    (bad,) = view.unreadable
    assert (bad.shard, bad.line, bad.why) == ("pool", 3, "not JSON")
    assert "the second" in bad.text


def test_a_half_line_keeps_its_place_when_shards_are_joined(tmp_path: Path, fact: Facts) -> None:
    for shard in ("one", "two"):
        with Ledger(tmp_path, shard) as ledger:
            ledger.fact(fact(shard))
    first = tmp_path / "ledger.d" / "one.jsonl"
    first.write_bytes(first.read_bytes()[:-5])
    merge(tmp_path, ["one", "two"])
    view = read(tmp_path)
    assert view.merged
    assert [(bad.shard, bad.line) for bad in view.unreadable] == [("one", 2)]
    assert list(view.facts()) == ["two/f1"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[]", "an object was expected"),
        ("{}", "unknown kind"),
        ('{"record": "rumour"}', "unknown kind"),
        ('{"record": ["fact"]}', "unknown kind"),
        ('{"record": "note", "kind": "wait", "text": 1, "at": ""}', "without a usable 'text'"),
        ("", "not JSON"),
        ("\x00\x00\x00", "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_lines_that_are_no_records_are_reported(tmp_path: Path, line: str, why: str) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.note("wait", "before", at=0.0)
    with ledger.path.open("a") as shard:
        shard.write(f"{line}\n" + json.dumps({"record": "end", "scenario": "s", "outcome": "x"}))
        shard.write("\n")
    view = read(tmp_path)
    assert [bad.line for bad in view.unreadable] == [3]
    assert why in view.unreadable[0].why
    assert len(view.of("end")) == 1


def test_another_schema_is_refused_and_named(tmp_path: Path) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        pass
    ledger.path.write_text(ledger.path.read_text().replace("hil.ledger/1", "hil.ledger/9"))
    with pytest.raises(LedgerError, match=r"hil\.ledger/9.*hil\.ledger/1"):
        read(tmp_path)


def test_no_ledger_is_not_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="neither"):
        read(tmp_path)


def test_a_shard_has_one_writer(tmp_path: Path) -> None:
    with Ledger(tmp_path, "pool"), pytest.raises(LedgerError, match="there already"):
        Ledger(tmp_path, "pool")


@pytest.mark.parametrize("name", ["", "../pool", "a/b", ".hidden", "a b"])
def test_a_shard_is_a_plain_file_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(LedgerError):
        Ledger(tmp_path, name)


def test_writing_to_a_closed_ledger_is_an_error(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, "pool")
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.note("wait", "late", at=0.0)


def test_the_same_fact_is_kept_once_and_another_time_is_another_fact(
    tmp_path: Path, fact: Facts
) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ids = [ledger.fact(fact("nvidia", at=at)) for at in (1.0, 1.0, 2.0)]
    assert ids == ["f1", "f1", "f2"]
    assert len(read(tmp_path).of("fact")) == 2


def test_many_threads_share_one_shard(tmp_path: Path, fact: Facts) -> None:
    seen = [fact(f"module{number}") for number in range(40)]
    with Ledger(tmp_path, "pool") as ledger, ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(ledger.fact, seen * 5))
    view = read(tmp_path)
    assert not view.unreadable
    names = [record.text("id") for record in view.of("fact")]
    assert names == [f"f{number}" for number in range(1, 41)]
    assert ids == ids[:40] * 5


def test_a_verdict_stands_after_its_facts(tmp_path: Path, fact: Facts) -> None:
    judged = Verdict("modules-live", "node a", Outcome.HOLDS, "all Live", (fact("a"), fact("b")))
    with Ledger(tmp_path, "pool") as ledger:
        ledger.verdict(judged, scenario="modules", pool="gpu", at=1767225603.5)
    view = read(tmp_path)
    assert [record.kind for record in view.records] == ["header", "fact", "fact", "verdict"]
    data = dict(view.records[-1].data)
    assert data == {
        "record": "verdict",
        "claim": "modules-live",
        "subject": "node a",
        "outcome": "holds",
        "because": "all Live",
        "facts": ["f1", "f2"],
        "scenario": "modules",
        "pool": "gpu",
        "at": "2026-01-01T00:00:03.5Z",
    }


@pytest.mark.parametrize(
    ("at", "text"),
    [
        (1767225600.0, "2026-01-01T00:00:00Z"),
        (1767225600.25, "2026-01-01T00:00:00.25Z"),
        (1767225600.000002, "2026-01-01T00:00:00.000002Z"),
        (1767225599.9999998, "2026-01-01T00:00:00Z"),
        (0.0, "1970-01-01T00:00:00Z"),
    ],
)
def test_times_are_utc_and_short(at: float, text: str) -> None:
    assert rfc3339(at) == text


def test_a_long_text_keeps_its_ends_and_the_digest_of_the_whole(
    tmp_path: Path, fact: Facts
) -> None:
    raw = "first line\n" + "é filler\n" * 20_000 + "last line\n"
    with Ledger(tmp_path, "pool") as ledger:
        ledger.fact(fact("nvidia", raw=raw))
        ledger.fact(fact("nvidia", raw=f"{raw[:90_000]}*{raw[90_001:]}"))
    one, two = read(tmp_path).of("fact")
    kept = one.text("raw")
    assert kept.startswith("first line\n") and kept.endswith("last line\n")
    assert len(kept.encode()) < RAW_LIMIT + 100
    assert "left out" in one.text("raw_note") and str(len(raw.encode())) in one.text("raw_note")
    assert two.text("raw") == kept
    assert one.text("raw_sha256") == hashlib.sha256(raw.encode()).hexdigest()
    assert one.text("raw_sha256") != two.text("raw_sha256")


def test_joining_gives_the_same_bytes_whatever_order_shards_were_written_in(
    tmp_path: Path, fact: Facts
) -> None:
    joined = []
    for run, order in {"a": ("plan", "one", "two"), "b": ("two", "plan", "one")}.items():
        for shard in order:
            with Ledger(tmp_path / run, shard) as ledger:
                ledger.fact(fact(shard))
        joined.append(merge(tmp_path / run, ["plan", "two"]).read_bytes())
    assert joined[0] == joined[1]
    shards = [record.shard for record in read(tmp_path / "a").of("header")]
    assert shards == ["plan", "two", "one"]


def test_a_shard_that_nobody_wrote_is_named(tmp_path: Path) -> None:
    Ledger(tmp_path, "plan").close()
    last = merge(tmp_path, ["plan", "gpu"]).read_text().splitlines()[-1]
    assert json.loads(last)["absent"] == ["gpu"]


def test_a_cut_joined_ledger_gives_way_to_the_shards(tmp_path: Path, fact: Facts) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.fact(fact("nvidia"))
    joined = merge(tmp_path, ["pool"])
    for cut in (1, 40, len(joined.read_bytes()) // 2):
        merge(tmp_path, ["pool"])
        joined.write_bytes(joined.read_bytes()[:-cut])
        view = read(tmp_path)
        assert not view.merged and not view.unreadable and len(view.of("fact")) == 1


def test_a_cut_joined_ledger_alone_says_that_it_is_cut(tmp_path: Path, fact: Facts) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.fact(fact("nvidia"))
    joined = merge(tmp_path, ["pool"])
    ledger.path.unlink()
    joined.write_bytes(b"".join(joined.read_bytes().splitlines(keepends=True)[:-1]))
    view = read(tmp_path)
    assert len(view.of("fact")) == 1
    assert [bad.why for bad in view.unreadable] == ["the joined ledger is cut"]


def test_nothing_of_the_runner_is_in_a_ledger(written: Path) -> None:
    text = merge(written, ["plan"]).read_text()
    assert str(os.getpid()) not in text
    assert str(written) not in text
    assert os.uname().nodename not in text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(raw=st.text(st.characters()), subject=st.text(), values=VALUES)
def test_whatever_is_written_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, fact: Facts, raw: str, subject: str, values: Any
) -> None:
    run = tmp_path_factory.mktemp("run")
    seen = fact("nvidia", raw=raw, detail=values)
    judged = Verdict("modules-live", subject, Outcome.HOLDS, "all Live", (seen,))
    with Ledger(run, "pool") as ledger:
        ledger.verdict(judged, scenario="s", pool="p", at=0.0)
        assert ledger.fact(seen) == "f1"
    shards = read(run)
    merge(run, ["pool"])
    joined = read(run)
    assert not shards.unreadable and not joined.unreadable
    assert [dict(item.data) for item in shards.records] == [
        dict(item.data) for item in joined.records
    ]
    assert joined.of("verdict")[0].texts("facts") == ("f1",)


def test_a_value_with_no_plain_form_is_the_harness_s_own_error(tmp_path: Path, fact: Facts) -> None:
    with Ledger(tmp_path, "pool") as ledger, pytest.raises(TypeError, match="object"):
        ledger.fact(fact("nvidia", detail=object()))
