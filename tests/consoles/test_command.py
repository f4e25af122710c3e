"""`hil console` on a twin of its own: whose console it is, what is shown, and how it ended."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest

from harness import cli
from harness.bringup.leasing import lease_name
from harness.consoles.command import status
from harness.inventory.loading import load
from harness.inventory.manifest import kubernetes_nodes
from harness.reach.capture import Ending, How
from harness.reach.console import Console
from harness.reach.kube import Kube
from harness.reach.lease import PoolLease
from harness.reach.nodeshell import PodShell
from harness.reach.terminal import Left
from harness.session.labs import LabChoice
from harness.twin.process import TwinProcess

INVENTORY = Path(__file__).parents[2] / "inventory" / "twin.yaml"
SPACE = "tenant-hil"
KUBEVIRT = ("kubevirt.io/v1", "VirtualMachineInstance", SPACE)


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp("twin")
    process = TwinProcess(directory, seed=1, faults=())
    try:
        with connected(directory) as lab:
            lab.management.create(kubernetes_nodes(lab.inventory, "plain"))
            lab.clock.sleep(240.0, "workers")
        yield directory
    finally:
        process.close()


def connected(directory: Path) -> Any:
    return LabChoice(load(INVENTORY), "test", directory, attach=directory).open("plain")


def vmi(directory: Path, which: int = 0) -> str:
    with connected(directory) as lab:
        names = sorted(one["metadata"]["name"] for one in lab.management.list(*KUBEVIRT))
    return str(names[which])


def hil(twin: Path, *words: str) -> int:
    return cli.main(["console", *words, "--attach", str(twin)])


def attached(twin: Path, name: str, *words: str) -> Any:
    """`hil console` in a terminal of its own, once it has the console."""
    argv = ["-m", "harness.cli", "console", name, "--attach", str(twin), *words]
    terminal = pexpect.spawn(sys.executable, argv, timeout=20, encoding="utf-8")
    terminal.expect_exact("attached to the console")
    return terminal


def left(terminal: Any) -> tuple[int, str]:
    """Its exit status, and what it said until then."""
    terminal.expect(pexpect.EOF)
    terminal.close()
    return terminal.exitstatus, terminal.before


def said_first(capfd: pytest.CaptureFixture[str]) -> str:
    return capfd.readouterr().err


def test_a_vmi_that_goes_is_told_from_a_console_that_is_taken(twin: Path) -> None:
    name = vmi(twin)
    terminal = attached(twin, name, "--seconds", "20")
    with connected(twin) as lab:
        lab.management.delete(*KUBEVIRT, name)
        lab.clock.sleep(240.0, "its successor")
    ended, said = left(terminal)
    assert (ended, "the console ended" in said) == (1, True)
    assert any(why in said for why in ("VMI is gone", "being deleted", "another VMI"))


def test_a_second_reader_takes_it_and_that_is_4(twin: Path) -> None:
    name = vmi(twin)
    terminal = attached(twin, name, "--seconds", "20", "--until", "never")
    with connected(twin) as lab:
        Console.attach(lab.management, SPACE, name).close()
    ended, said = left(terminal)
    assert ended == 4
    assert "another client attached" in said
    assert "not known" in said


def test_what_a_machine_says_ends_it(twin: Path) -> None:
    name = vmi(twin)
    terminal = attached(twin, name, "--seconds", "20", "--until", "Linux version")
    with connected(twin) as lab:
        shell = PodShell.open(lab.tenant, name, run="t", image="busybox", wait_running=running)
        shell.run(["sh", "-c", "dmesg > /dev/ttyS0"])
    ended, said = left(terminal)
    assert (ended, "Linux version" in said) == (0, True)


def running(kube: Kube, namespace: str, name: str) -> None:
    def look() -> bool:
        found = kube.get("v1", "Pod", namespace, name) or {}
        return (found.get("status") or {}).get("phase") == "Running"

    assert kube.clock.wait(look, kube.clock.deadline(120.0), "the shell")


def test_a_console_of_a_run_is_refused_unless_it_is_to_be_taken(
    twin: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = vmi(twin)
    with connected(twin) as lab:
        lease = PoolLease(lab.management, SPACE, lease_name("lab", "plain"))
        lease.acquire("night-42", lab.clock)
        assert hil(twin, name, "--seconds", "0.2") == 3
        said = said_first(capfd)
        assert "night-42 holds pool plain" in said
        assert "--steal" in said
        assert hil(twin, name, "--seconds", "0.2", "--steal") == 0
        lease.release()
    assert hil(twin, name, "--seconds", "0.2") == 0


def test_a_text_that_does_not_come_is_1_and_everything_is_recorded(
    twin: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    record = tmp_path / "console.log"
    words = ("--seconds", "0.3", "--until", "never", "--record", str(record))
    assert hil(twin, vmi(twin), *words) == 1
    assert "'never' did not come" in said_first(capfd)
    assert record.read_bytes() == b""


def test_a_person_lets_go_and_types_nothing_else(twin: Path) -> None:
    terminal = attached(twin, vmi(twin))
    terminal.send("\x1d")
    assert left(terminal)[0] == 0


MISTAKES = {
    "x --seconds 0": "--seconds 0: give a number of seconds above 0",
    "x --seconds nan": "--seconds nan",
    "x --tail 0": "--tail 0: give a number of lines of 1 or more",
    "x --tail 5 --until up": "leave --seconds and --until out",
    "x": "no terminal to type on",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_a_sentence(
    line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", os.fdopen(os.open(os.devnull, os.O_RDONLY)))
    assert cli.main(["console", *line.split(), "--attach", str(tmp_path)]) == 2
    assert MISTAKES[line] in capfd.readouterr().err


def test_no_such_vmi_names_the_one_that_was_meant(
    twin: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    name = vmi(twin)
    assert hil(twin, f"{name}x", "--seconds", "1") == 2
    assert f"did you mean {name}?" in said_first(capfd)


def test_what_was_not_kept_is_no_empty_log(twin: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert hil(twin, vmi(twin), "--tail", "5") == 2
    assert "logSerialConsole" in said_first(capfd)


def test_a_record_that_cannot_be_written_is_a_sentence(
    twin: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ("--seconds", "1", "--record", str(tmp_path / "none" / "console.log"))
    assert hil(twin, vmi(twin), *words) == 2
    assert "No such file" in said_first(capfd)


def test_a_record_that_is_full_is_a_sentence_and_the_console_let_go(
    twin: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said_at_once(kube: Kube, namespace: str, name: str) -> Console:
        attached = Console.attach(kube, namespace, name)
        attached.capture.add(b"words")
        return attached

    stand_in = type("Talkative", (), {"attach": staticmethod(said_at_once)})
    monkeypatch.setattr("harness.consoles.machines.Console", stand_in)
    assert hil(twin, vmi(twin), "--seconds", "9", "--record", "/dev/full") == 2
    assert "--record /dev/full: No space left on device" in said_first(capfd)


def test_a_reader_that_goes_away_is_not_the_records_fault(twin: Path, tmp_path: Path) -> None:
    """`hil console ... | head -1`: what could not be shown is no mistake of anybody's."""
    name, record = vmi(twin), tmp_path / "console.log"
    argv = [sys.executable, "-m", "harness.cli", "console", name, "--attach", str(twin)]
    read, write = os.pipe()
    program = subprocess.Popen(
        [*argv, "--seconds", "20", "--record", str(record)], stdout=write, stderr=subprocess.PIPE
    )
    os.close(read)
    os.close(write)
    assert program.stderr is not None
    while b"attached" not in program.stderr.readline():
        continue
    with connected(twin) as lab:
        shell = PodShell.open(lab.tenant, name, run="p", image="busybox", wait_running=running)
        shell.run(["sh", "-c", "dmesg > /dev/ttyS0"])
    said = program.communicate(timeout=20)[1]
    assert (program.returncode, said) == (0, b"")


def test_nothing_that_runs_is_said_with_how_to_start_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["console", "x", "--seconds", "1"]) == 2
    assert "hil twin up" in capfd.readouterr().err


def test_a_twin_that_is_not_up_is_an_unfit_lab(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert hil(tmp_path, "x", "--seconds", "1") == 3
    assert "no running twin" in said_first(capfd)


ENDINGS = [
    (Left.ESCAPE, None, True, 0),
    (Left.FOUND, None, True, 0),
    (Left.OVER, None, False, 0),
    (Left.OVER, None, True, 1),
    (Left.ENDED, How.GONE, False, 1),
    (Left.ENDED, How.TAKEN, False, 4),
    (Left.ENDED, How.BROKE, True, 4),
    (Left.ENDED, How.CLOSED, True, 4),
]


@pytest.mark.parametrize(("why", "how", "waited", "expected"), ENDINGS)
def test_exit_statuses(why: Left, how: How | None, *, waited: bool, expected: int) -> None:
    ending = Ending(how, "so it was", 1.0, 0) if how is not None else None
    assert status(why, ending, waited=waited) == expected
