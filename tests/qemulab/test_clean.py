from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.qemulab import clean
from harness.qemulab.clean import Finding
from harness.qemulab.rundir import OWNER, PREFIX, STATE, Process, pid_file, take, write_whole


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where runs are looked for, instead of the machine's own places."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(clean, "_places", lambda: [place])
    return place


@pytest.fixture
def crashed(place: Path, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A run whose parent is gone and whose QEMU, for want of setpriv, lives on."""
    run, lab = place / f"{PREFIX}one", tmp_path / "lab"
    run.mkdir()
    (lab / "n1").mkdir(parents=True)
    for file in (lab / "n1" / "root.qcow2", lab / "n1" / "console.log", lab / "key"):
        file.touch()
    write_whole(lab / STATE, {"run": str(run)})
    write_whole(run / OWNER, {"directory": str(lab), "parent": [os.getpid(), 1]})
    argv = [sys.executable, "-S", "-c", "print(flush=True); input()", str(run)]
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()  # its command line can be read by now
    pid_file(run, "n1").write_text(str(child.pid))
    yield child
    child.kill()
    child.communicate()


def found(tmp_path: Path, lab: str = "nowhere") -> list[Finding]:
    return list(clean.find(tmp_path / lab, tmp_path / "cache"))


def test_what_a_crashed_run_left_is_told_and_removed(
    tmp_path: Path, place: Path, crashed: subprocess.Popen[bytes]
) -> None:
    (one,) = found(tmp_path, "lab")
    assert one.alive == ""
    assert f"{place}/{PREFIX}one of the lab in {tmp_path}/lab; n1 ({crashed.pid})" in one.what
    assert crashed.poll() is None  # looking touches nothing
    one.remove()
    assert crashed.wait(5) == -9
    assert list(place.iterdir()) == []
    left = sorted(str(f.relative_to(tmp_path)) for f in (tmp_path / "lab").rglob("*"))
    assert left == ["lab/n1", "lab/n1/console.log"]
    assert found(tmp_path, "lab") == []


def test_a_lab_whose_parent_lives_is_told_apart(
    tmp_path: Path, place: Path, crashed: subprocess.Popen[bytes]
) -> None:
    me = Process.of(os.getpid())
    owner = {"directory": str(tmp_path / "lab"), "parent": [me.pid, me.started]}
    write_whole(place / f"{PREFIX}one" / OWNER, owner)
    (one,) = found(tmp_path, "lab")
    assert one.alive == f"process {me.pid}, which started it, lives"


def test_a_directory_that_is_being_made_is_left_alone(tmp_path: Path, place: Path) -> None:
    (place / f"{PREFIX}young").mkdir()
    (place / f"{PREFIX}old").mkdir()
    os.utime(place / f"{PREFIX}old", (1, 1))
    old, young = found(tmp_path)
    assert (old.alive, young.alive) == ("", "it was made a moment ago")
    old.remove()
    assert [f.name for f in place.iterdir()] == [f"{PREFIX}young"]


def test_disks_go_only_when_nobody_holds_their_lab(tmp_path: Path, place: Path) -> None:
    held = take(tmp_path / "lab")
    (tmp_path / "lab" / "n1").mkdir()
    (tmp_path / "lab" / "n1" / "data.qcow2").touch()
    assert found(tmp_path, "lab") == []
    os.close(held)
    (one,) = found(tmp_path, "lab")
    assert "n1/data.qcow2" in one.what
    one.remove()
    assert found(tmp_path, "lab") == []


def test_half_built_images_are_found(tmp_path: Path, place: Path) -> None:
    (tmp_path / "cache" / ".building-x").mkdir(parents=True)
    (tmp_path / "cache" / "0123456789abcdef").mkdir()
    (one,) = found(tmp_path)
    assert ".building-x" in one.what
    one.remove()
    assert [f.name for f in (tmp_path / "cache").iterdir()] == ["0123456789abcdef"]
