"""Whatever a ledger holds in whatever field: each verb that reads one tells it, and none breaks."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from harness.live.watch import watch
from harness.report.command import equivalence
from harness.report.comparing import compare_runs
from harness.report.merged import read_one
from harness.report.rebuilding import report
from harness.report.signing import Asked, sign
from harness.report.trending import trend
from tests.report.runs import CLUSTER, TWIN, Run, seen

VALUES: dict[str, dict[str, Any]] = {
    "ModuleTable": {"modules": [{"name": "nvidia", "state": "Live", "used_by": ["nvidia_uvm"]}]},
    "PciCards": {"cards": [{"vendor": "10de", "device": "26b9"}]},
    "DaemonSets": {"sets": [{"containers": [{"image": "a/gpu-operator:v26.3.3"}]}]},
    "Addons": {"override": [], "hami": False},
    "OperatorValues": {"values_from": ["a"]},
    "PoolRequest": {"kernel_modules": {"listed": ["nvidia"]}, "gpus": ["l40s"]},
    "LinstorPools": {"pools": [{"provider": "ZFS"}]},
    "DrbdStatus": {"version": "9.2", "resources": [{"name": "r", "volumes": []}]},
    "DiskHistory": {"phases": [{"phase": "Bound", "seconds": 2.0, "since": 1.0}, {"seconds": 1.0}]},
    "JoinTrack": {"steps": [{"step": "node", "at": 1.0, "seconds": 3.0}], "seconds": 3.0},
    "BootLedger": {"boots": [{"id": "b", "begun": 1.0, "last": 9.0}], "limit": 4200.0},
    "GpuNode": {"name": "n", "allocatable": "1"},
    "Extensions": {"names": ["a"], "schematic": "s"},
    "DiskClass": {"name": "replicated", "provisioner": "p"},
    "Unread": {"reason": "gone"},
}
WRONG: some.SearchStrategy[Any] = some.sampled_from(
    [None, 5, -1, 1e300, True, "", "x", [], {}, [1], [[1]], [None], [{}], {"a": 1}, "\x00",
     "2026-13-45T99:99:99Z", 10**400, float("nan"), float("inf"), "\ud800", "9" * 400]
)  # fmt: skip
STATUSES = {0, 1, 2, 3, 6, 130}


def lines(kind: str, out: Path) -> list[dict[str, Any]]:
    """A run with a record of each kind, as its lines."""
    facts = [seen(name, **values) for name, values in VALUES.items()]
    run = Run(out, kind, subject="v1")
    run.plans("node-joins").says("node-joins", facts=facts).says("uptime", "broken")
    run.lacks("cuda-runs", "no card")
    run.pool.begin("s", "p", at=1.0)
    run.pool.wait("a node", scenario="s", pool="p", since=1.0, until=3.0)
    run.pool.note("bring-up", "it begins", at=1.0)
    run.pool.evidence(
        "s", "p", at=2.0, folder="evidence/s--p", score={"planned": 2, "taken": 1}, status="named",
        causes=["c"], diagnosis="it is c",
    )  # fmt: skip
    run.pool.not_run("t", "p", ["uptime"], "no time")
    run.pool.known_issue(
        claim="uptime", pool="p", owner="o", link="l", expires="2027-01-01", signature="s",
        state="matched",
    )  # fmt: skip
    run.pool.end("s", "failed", pool="p", at=4.0)
    folder = run.end()
    return [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of everything in a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for step, one in inner:
        yield (*path, step)
        if isinstance(one, (dict, list)):
            yield from places(one, (*path, step))


def put(record: Any, path: tuple[Any, ...], value: Any) -> None:
    for step in path[:-1]:
        record = record[step]
    record[path[-1]] = value


def asked(out: Path) -> dict[str, int]:
    """Each verb's exit status; what it says is put by."""
    runs = ("run-twin", "run-cluster")
    verbs: dict[str, Callable[[], int]] = {
        "trend": lambda: trend(out=out, html=out / "trend.html"),
        "compare": lambda: compare_runs(*runs, out=out),
        "equivalence": lambda: equivalence(list(runs), out=out),
        "signoff": lambda: sign(Asked(runs, "twin", kept=out, out=out / "signed"), now=10.0),
        "watch": lambda: watch(runs[0], out=out, as_json=False, every=0.01),
        "watch --json": lambda: watch(runs[0], out=out, as_json=True, every=0.01),
        "report": lambda: report([runs[0]], out=out),
    }
    quiet = io.StringIO()
    with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
        return {verb: ask() for verb, ask in verbs.items()}


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=some.data())
def test_no_verb_breaks_on_a_ledger(
    data: some.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    out = tmp_path_factory.mktemp("out")
    for kind in (TWIN, CLUSTER):
        records = lines(kind, out)
        spoilt = [n for n, one in enumerate(records) if one["record"] not in ("header", "merged")]
        paths = [(n, path) for n in spoilt for path in places(records[n]) if path != ("record",)]
        # what is deepest first: a path still leads somewhere when its turn comes
        chosen = data.draw(some.lists(some.sampled_from(paths), min_size=1, max_size=30))
        for number, path in sorted(chosen, key=lambda one: -len(one[1])):
            put(records[number], path, data.draw(WRONG))
        path_of = out / f"run-{kind}" / "ledger.jsonl"
        path_of.write_text("".join(f"{json.dumps(one)}\n" for one in records))
        info = out / f"run-{kind}" / "run.json"
        info.write_text(json.dumps({**json.loads(info.read_text()), "exit": 1}))
    said = asked(out)
    assert set(said.values()) <= STATUSES, said


def test_overrides_that_cannot_be_read_are_not_taken_for_none(tmp_path: Path) -> None:
    odd: list[Any] = [5, None, {}]
    for number, override in enumerate(odd):
        out = tmp_path / str(number)
        run = Run(out, CLUSTER).says("node-joins", facts=[seen("Addons", override=override)])
        found = read_one(run.end())
        assert not found.told or found.own_values, override


def test_a_manifest_of_any_form_is_told(tmp_path: Path) -> None:
    from harness.report.allure_evidence import attachments

    place = tmp_path / "evidence"
    place.mkdir()
    odd = [5, [5], {"a": 1}, None, "x", [{"file": "\x00", "name": 3}, {"file": "a" * 4000}]]
    for one in odd:
        told = {"schema": "hil.evidence/1", "items": one, "score": one, "diagnosis": one}
        (place / "manifest.json").write_text(json.dumps(told))
        assert attachments(tmp_path, "evidence")
    (place / "manifest.json").write_text("[" * 100_000)
    assert "cannot be read" in str(attachments(tmp_path, "evidence")[0])
