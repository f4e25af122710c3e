from __future__ import annotations

import json
import signal
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.twin.command import parse_duration
from tests.clients.driving import (
    HIL,
    PATIENCE,
    TENANT,
    Binary,
    RunningTwin,
    environment,
    eventually,
    finish,
    hil,
    pool_request,
    started,
)

Start = Callable[..., RunningTwin]


def sentence(text: str) -> str:
    """What the command said: one line, of hil, and nothing of Python's."""
    assert text.startswith("hil: ")
    assert text.count("\n") == 1
    assert "Traceback" not in text
    return text


def test_time_stands_still_until_told(twin: Start) -> None:
    one = twin()
    assert one.state()["now"] == one.state()["now"] == 1767225600.0
    assert one.hil("advance", "93m").stdout.startswith("now 2026-01-01T01:33:00+00:00, revision ")
    assert one.hil("advance", "0").stdout.startswith("now 2026-01-01T01:33:00+00:00")
    told = one.hil("state").stdout
    assert "now       2026-01-01T01:33:00+00:00\n" in told
    assert "cluster   tenant-lab at https://127.0.0.1:" in told


def test_a_fault_is_planted(twin: Start) -> None:
    one = twin("--fault", "no-modules-block")
    assert one.hil("fault", "gpu-not-permitted").stdout == "planted gpu-not-permitted\n"
    assert one.state()["faults"] == ["no-modules-block", "gpu-not-permitted"]
    refused = sentence(one.hil("fault", "gpu-not-permited", code=2).stderr)
    assert "did you mean 'gpu-not-permitted'?" in refused


@pytest.mark.parametrize("text", ["", "x", "5", "1h30", "m", "1.5", "-5m", "1e9s", "5 m"])
def test_durations(text: str) -> None:
    seconds = {"5": 5.0, "1.5": 1.5}
    assert parse_duration(text) == seconds.get(text)


def test_a_duration_that_is_none(twin: Start) -> None:
    one = twin()
    assert "'soon' is not a duration" in sentence(one.hil("advance", "soon", code=2).stderr)
    too_far = sentence(one.hil("advance", "99999d", code=2).stderr)
    assert "at the latest to 2099" in too_far
    assert one.state()["now"] == 1767225600.0


@pytest.mark.parametrize("verb", [("advance", "1m"), ("state",), ("fault", "gpu-not-permitted")])
def test_no_twin_in_the_directory(verb: tuple[str, ...], tmp_path: Path) -> None:
    refused = sentence(hil("twin", *verb, "--dir", str(tmp_path), code=3).stderr)
    assert f"no running twin in {tmp_path}" in refused
    assert "hil twin up" in refused


def test_a_twin_that_was_killed_does_not_answer(twin: Start) -> None:
    one = twin()
    assert one.end(signal.SIGKILL) == -signal.SIGKILL
    refused = sentence(one.hil("state", code=3).stderr)
    assert "does not answer" in refused
    assert twin(directory=one.directory.name).state()["revision"] > 0  # nothing is in the way


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_ends_cleanly(twin: Start, number: int) -> None:
    one = twin()
    assert one.told()["pid"] == one.process.pid
    assert one.end(number) == 0
    assert one.log.read_text() == ""
    assert not (one.directory / "twin.json").exists()


def test_it_answers_and_ends_in_the_middle_of_an_advance(twin: Start) -> None:
    one = twin()
    argv = [*HIL, "twin", "advance", "20000d", "--dir", str(one.directory)]
    advancing = started(argv, environment())
    eventually(lambda: bool(one.state()["now"] > 1767225600.0 + 86400), "a day")
    assert advancing.poll() is None
    assert one.end() == 0
    ended = finish(advancing)
    assert ended.returncode == 3
    assert "does not answer" in sentence(ended.stderr)


def test_credentials_are_for_their_owner_alone(twin: Start) -> None:
    one = twin()
    for name in ("kubeconfig", "twin.json"):
        assert stat.S_IMODE((one.directory / name).stat().st_mode) == 0o600


def test_two_twins_in_two_directories(twin: Start) -> None:
    first, second = twin(), twin()
    first.advance(60)
    assert second.state()["now"] == 1767225600.0
    refused = sentence(hil("twin", "up", "--dir", str(first.directory), code=3).stderr)
    assert f"a twin is up in {first.directory} already" in refused
    assert first.state()["now"] == 1767225660.0  # and is as it was
    assert first.told()["pid"] == first.process.pid


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = hil("twin", "up", "--dir", str(tmp_path), "--port", port, code=3)
    assert f"cannot listen on port {port} (Address already in use)" in sentence(ended.stderr)
    assert not (tmp_path / "twin.json").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--speed", "-1"), "--speed -1"),
        (("--speed", "nan"), "--speed nan"),
        (("--port", "70000"), "--port 70000"),
        (("--fault", "none-such"), "no fault 'none-such'"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    assert said in sentence(hil("twin", "up", "--dir", str(tmp_path), *options, code=2).stderr)


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for where in (tmp_path / "file", tmp_path / "file" / "below"):
        refused = sentence(hil("twin", "up", "--dir", str(where), code=2).stderr)
        assert f"cannot write to {where}" in refused


def test_it_runs_by_itself(twin: Start, newest: Binary, tmp_path: Path) -> None:
    one = twin("--speed", "60")
    assert "time runs at 60 virtual seconds per second" in one.greeting
    nodes = newest.at(one, *TENANT)
    watching = nodes.start("get", "nodes", "-w", "--no-headers")
    eventually(lambda: one.watches("tenant-lab", "Node") == 1, "a watch")
    newest.at(one)("apply", "-f", "-", stdin=json.dumps(pool_request()))
    assert watching.stdout is not None
    states = []
    while "Ready" not in states:
        states.append(watching.stdout.readline().split()[1])
    assert states[:2] == ["Unknown", "NotReady"]
    assert 120 < one.state()["now"] - 1767225600.0 < 60 * PATIENCE
    nodes.close()
    where = ("--attach", str(one.directory), "--pool", "gpu-l40s", "--out", str(tmp_path / "out"))
    # the pool was there before the run: no pod of the run's is older than the driver
    some = ("node-joins", "modules-live", "cdi-injection", "storage-ok", "early-pod-unserved")
    asked = [word for claim in some for word in ("--claim", claim)]
    said = hil("run", "--quiet", *where, *asked, code=1).stdout
    assert "Claims: 1 unknown, 4 holds" in said
    assert "unknown  early-pod-unserved on gpu-l40s" in said
