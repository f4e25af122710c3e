"""`hil diagnose` as a person calls it: mistakes, exit statuses, a lab that is running."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.diagnosis import diagnosed
from harness import cli
from harness.clock import WallClock
from harness.diagnose import live
from harness.diagnose.command import status
from harness.diagnose.ranking import diagnose
from harness.reach.errors import Refused, UnknownKind, Unreachable
from tests.diagnose.made import VANILLA, case, pool, service

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "name a lab with --lab, a running twin with --attach, or a folder"),
        (["--seconds", "0"], "give a number of seconds above 0"),
        (["--from", "/does/not/exist"], "/does/not/exist"),
        (["--lab", "/does/not/exist.yaml"], "/does/not/exist.yaml"),
        (["--lab", str(ROOT / "inventory" / "qemu-mini.yaml")], "use --from"),
    ],
)
def test_a_mistake_is_a_sentence(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["diagnose", *argv]) == 2
    told = capsys.readouterr()
    assert not told.out
    assert said in told.err
    assert told.err.startswith("hil: ")


def test_a_twin_that_is_not_running_is_an_unfit_lab(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["diagnose", "--attach", str(tmp_path)]) == 3
    assert "no running twin" in capsys.readouterr().err


def test_exit_statuses() -> None:
    cycle = pool("p", VANILLA, reboots=(4206.0, 4206.0))
    assert status(diagnose(case(service(6443, 8132, 50001), pool("p", VANILLA)))) == 0
    assert status(diagnose(case(service(6443, 8132)))) == 1
    assert status(diagnose(case(cycle))) == 4
    assert status(diagnose(case())) == 3


def test_captures_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (made,) = service(6443, 8132)
    (tmp_path / "service.json").write_text(json.dumps({"apiVersion": "v1", **made.obj}))
    assert cli.main(["diagnose", "--from", str(tmp_path), "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in said["causes"]] == ["port-50001-missing"]


def test_two_causes_in_a_running_twin_are_both_named_and_nothing_is_written() -> None:
    faults = ["apid-port-50001-missing", "nvidia-schematic-no-gpu"]
    exit_status, said = diagnosed(faults, ["gpu-l40s", "plain"], 9000.0)
    named = [one["id"] for one in said["causes"] if one["standing"] == "named"]
    assert (exit_status, named) == (1, ["port-50001-missing", "nvidia-image-without-card"])
    assert {one["source"] for one in said["notLookedAt"]} >= {"serial consoles"}


class Api:
    """An API that refuses one kind, does not know another, and breaks at a third."""

    def list(self, version: str, kind: str, *_: Any, **__: Any) -> list[dict[str, Any]]:
        if kind == "Pod":
            raise Refused(403, "Forbidden", "pods is forbidden", {}, tried="list", do="ask")
        if kind == "Job":
            raise UnknownKind(404, "NotServed", "no Job", {}, tried="list", do="install")
        if kind == "Node":
            raise Unreachable("list Node", "connection reset", "try")
        return [{"apiVersion": version, "kind": kind, "metadata": {"name": "one"}}]


def look(seconds: float) -> live.Live:
    clock = WallClock()
    began = clock.monotonic()
    return live.Live("t", lambda: 1.0, lambda: clock.monotonic() - began, seconds)


def test_what_was_refused_was_not_listed() -> None:
    asked = look(60.0)
    kube: Any = Api()
    asked.list_all(kube, "management", live.MANAGEMENT_QUERIES)
    found = asked.case()
    assert found.listed_whole("Service", "management", "t") is not None
    for kind in ("Pod", "Job", "Node"):
        assert found.listed_whole(kind, "management", "t") is None
        assert any(kind in one.source for one in found.unused)


def test_when_time_is_up_the_rest_is_told_as_not_asked() -> None:
    asked = look(0.0)
    kube: Any = Api()
    asked.list_all(kube, "management", live.MANAGEMENT_QUERIES)
    found = asked.case()
    assert not found.objects and not found.listings
    assert sum("not asked" in one.why for one in found.unused) == len(live.MANAGEMENT_QUERIES)
