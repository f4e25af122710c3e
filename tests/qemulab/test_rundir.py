from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.qemulab.rundir import (
    STATE,
    DirectoryUnfit,
    Process,
    end_processes,
    is_held,
    leavings,
    make_run,
    pid_file,
    processes,
    take,
    tidy,
)


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose command line names the run's directory ``tmp_path/run``."""
    (tmp_path / "run").mkdir()
    argv = [sys.executable, "-S", "-c", "print(flush=True); input()", str(tmp_path / "run")]
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()  # its command line can be read by now
    yield child
    child.kill()
    child.communicate()


def test_two_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    file = tmp_path / "told.json"
    again = (
        "import sys; from pathlib import Path; from harness.qemulab.rundir import write_whole\n"
        "for n in range(1500): write_whole(Path(sys.argv[1]), {'n': n})"
    )
    writers = [subprocess.Popen([sys.executable, "-c", again, str(file)]) for _ in range(2)]
    assert [one.wait() for one in writers] == [0, 0]
    assert json.loads(file.read_text()) == {"n": 1499}
    assert list(tmp_path.iterdir()) == [file]


def test_a_process_is_not_a_later_one_of_its_number() -> None:
    me = Process.of(os.getpid())
    assert me.alive
    assert not Process(me.pid, me.started + 1).alive
    assert not Process.of(2**22 + 1).alive
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert not Process.of(child.pid).alive  # it has ended, and waits for its parent to hear so
    child.wait()


def test_a_number_in_a_file_proves_nothing(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    run = tmp_path / "run"
    pid_file(run, "n1").write_text(str(sleeper.pid))
    pid_file(run, "n2").write_text(str(os.getpid()))  # somebody else has the number by now
    pid_file(run, "n3").write_text("what?")
    assert list(processes(run)) == [("n1", sleeper.pid)]
    assert end_processes(run) == [f"n1 ({sleeper.pid})"]
    assert sleeper.wait(5) == -9
    assert list(processes(run)) == []


def test_a_directory_is_one_labs(tmp_path: Path) -> None:
    held = take(tmp_path / "lab")
    assert is_held(tmp_path / "lab")
    with pytest.raises(DirectoryUnfit, match=r"a lab is being made in it: end it \(Ctrl-C"):
        take(tmp_path / "lab")
    (tmp_path / "lab" / STATE).touch()
    with pytest.raises(DirectoryUnfit, match=r"a lab is up in it already: end it \(hil qemu down"):
        take(tmp_path / "lab")
    os.close(held)
    assert not is_held(tmp_path / "lab")
    os.close(take(tmp_path / "lab"))


def test_a_runs_directory_goes_even_where_the_labs_refuses(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "lab" / STATE).mkdir(parents=True)  # somebody's own
    with pytest.raises(OSError, match=STATE):
        tidy(tmp_path / "run", tmp_path / "lab")
    assert not (tmp_path / "run").exists()


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DirectoryUnfit, match=r"Not a directory.*name another directory"):
        take(tmp_path / "file" / "lab")


def test_sockets_fit_wherever_the_user_keeps_run_time_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    for told, root in ((tmp_path / "short", tmp_path / "short"), (long, Path("/tmp"))):
        told.mkdir(exist_ok=True)
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(told))
        run = make_run(tmp_path)
        try:
            assert run.parent == (root if len(str(root)) < 70 else Path("/tmp"))
            assert json.loads((run / "owner.json").read_text())["parent"][0] == os.getpid()
            assert run.stat().st_mode & 0o077 == 0
        finally:
            tidy(run, tmp_path)
    assert list(long.iterdir()) == []


def test_tidying_leaves_the_logs_and_what_is_anothers(tmp_path: Path) -> None:
    run, lab = tmp_path / "run", tmp_path / "lab"
    (lab / "n1").mkdir(parents=True)
    run.mkdir()
    for name in ("n1/root.qcow2", "n1/data.qcow2", "n1/console.log", "key", STATE):
        (lab / name).write_text("{}")
    (lab / STATE).write_text(json.dumps({"run": "/elsewhere"}))
    tidy(run, lab)
    assert (lab / "key").exists()
    assert not run.exists()
    run.mkdir()
    (lab / STATE).write_text(json.dumps({"run": str(run)}))
    tidy(run, lab)
    assert leavings(lab) == []
    assert [str(f.relative_to(lab)) for f in lab.rglob("*")] == ["n1", "n1/console.log"]
