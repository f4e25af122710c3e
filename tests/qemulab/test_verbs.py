from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness import cli
from harness.qemulab import clean, verbs
from harness.qemulab.client import ask
from harness.qemulab.errors import Unfit
from harness.qemulab.lab import MiB, MiniLab, Wants
from harness.qemulab.rundir import STATE, take
from tests.qemulab.conftest import Start

MISTAKES = {
    "up --guests 4": "--guests 4: give 1 to 3",
    "up --memory 32": "--memory 32: give 96 MiB or more",
    "up --image a.raw": "--image a.raw: give its checksum, --sha256 with 64 hexadecimal digits",
    "up --sha256 ab": "--sha256 is of an image: name it with --image",
    "up --disk 1": "--disk 1: give 8 MiB or more",
    "up --port 22": "--port 22: give one from 1024",
    "up --module nvidia:a,b": "--module nvidia:a,b: write NAME or NAME:PARAMETER=VALUE",
    "ssh n1 --timeout 0": "--timeout 0: give seconds",
    "link lose n1 n2": "link lose wants --by: a share of the frames from 0 to 1",
    "link lose --by 1.5": "wants --by: a share",
    "link delay --by nan": "wants --by: seconds",
    "link cut --by 1": "link cut takes no amount",
    "link cut n1": "name two guests, or none where there are two",
    "link heal --carrier": "--carrier says nothing about heal",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_a_sentence_and_exit_2(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["qemu", *line.split(), "--dir", str(tmp_path)]) == 2
    assert MISTAKES[line] in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    ["down", "status", "ssh n1", "console n1", "snapshot x", "rollback", "power n1 off"],
)
def test_without_a_lab_the_sentence_says_how_to_start_one(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["qemu", *line.split(), "--dir", str(tmp_path)]) == 3
    assert "start one with `hil qemu up`" in capsys.readouterr().err


NAMED_WRONGLY = {
    "ssh n9": "the guests n1, n2: name one of them",
    "console n9 --tail 1": "the guests n1, n2: name one of them",
    "power n9 off": "the guests n1, n2: name one of them",
    "link cut n1 n9": "the guests n1, n2: name one of them",
    "link cut n1 n1": "one guest: name two guests",
    "snapshot a/b": "that name: use letters",
    "rollback none": "the snapshots none: name one of them",
}


def test_a_name_that_there_is_not_is_the_users_mistake(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = start()
    lab.keeper.ready()
    for line, told in NAMED_WRONGLY.items():
        assert cli.main(["qemu", *line.split(), "--dir", str(lab.spec.directory)]) == 2, line
        assert told in capsys.readouterr().err


@pytest.mark.parametrize("command", [["--", "true"], []])
def test_nobody_waits_for_a_guest_that_cannot_answer(
    start: Start, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    lab = start()
    lab.keeper.ready()
    directory = str(lab.spec.directory)
    assert cli.main(["qemu", "power", "n1", "off", "--dir", directory]) == 0
    assert cli.main(["qemu", "ssh", "n1", "--dir", directory, *command]) == 3
    assert "saw that it is off (it was switched off): switch it on" in capsys.readouterr().err
    assert cli.main(["qemu", "power", "n2", "pause", "--dir", directory]) == 0
    assert cli.main(["qemu", "ssh", "n2", "--dir", directory, *command]) == 3
    assert "saw that it is paused: resume it first" in capsys.readouterr().err


def test_guests_that_were_started_otherwise_are_refused_with_the_command(start: Start) -> None:
    wants = Wants(
        memory=320 * MiB,
        modules=(("nvidia", ("NVreg_NvLinkDisable=1",)), ("nvidia_uvm", ())),
    )
    assert wants.command == (
        "hil qemu up --guests 2 --memory 320 --disk 64 "
        "--module nvidia:NVreg_NvLinkDisable=1 --module nvidia_uvm"
    )
    lab = start(made_by=wants.command)
    lab.keeper.ready()
    attached = MiniLab.attach(lab.spec.directory)
    attached.refuse_other_than(wants)
    with pytest.raises(Unfit, match=r"those of `hil.*nvidia_uvm`: start others, with `hil qemu up"):
        attached.refuse_other_than(Wants())


def test_the_usual_directory_need_not_be_named(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = start(guests=1)
    lab.keeper.ready()
    assert f" --dir {lab.spec.directory}" in verbs._greeting(MiniLab.attach(lab.spec.directory))[1]
    monkeypatch.chdir(lab.spec.directory.parent)
    Path(".hil").mkdir()
    Path(".hil/qemu").symlink_to(lab.spec.directory)
    assert "--dir" not in "".join(verbs._greeting(MiniLab.attach(Path(".hil/qemu"))))


def test_a_directory_that_refuses_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(tmp_path / "n1"))

    monkeypatch.setattr("harness.qemulab.lab.keeper_for", refuse)
    assert cli.main(["qemu", "up", "--dir", str(tmp_path)]) == 3
    assert f"saw Not a directory ({tmp_path}/n1): see that" in capsys.readouterr().err


def test_what_a_dead_lab_left_is_no_lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "minilab.json").write_text(
        json.dumps({"control": "/nowhere", "guests": [], "about": {"host_key": ""}})
    )
    assert cli.main(["qemu", "status", "--dir", str(tmp_path)]) == 3
    assert "start one with `hil qemu up`" in capsys.readouterr().err
    (tmp_path / "minilab.json").write_text("{")
    assert cli.main(["qemu", "status", "--dir", str(tmp_path)]) == 3
    assert "cannot be read" in capsys.readouterr().err


def test_a_second_lab_in_one_directory_is_a_mistake(
    tmp_path: Path, fake_qemu: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bin" / "qemu-img").touch(0o755)
    held = take(tmp_path / "lab")
    try:
        assert cli.main(["qemu", "up", "--dir", str(tmp_path / "lab")]) == 2
        assert "a lab is being made in it: end it (Ctrl-C" in capsys.readouterr().err
        assert cli.main(["qemu", "down", "--dir", str(tmp_path / "lab")]) == 3
        assert "that is still being made: wait for it" in capsys.readouterr().err
        (tmp_path / "lab" / STATE).touch()
        assert cli.main(["qemu", "up", "--dir", str(tmp_path / "lab")]) == 2
        assert "a lab is up in it already" in capsys.readouterr().err
    finally:
        os.close(held)


def test_without_qemu_the_package_is_named_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["qemu", "up", "--dir", str(tmp_path / "lab")]) == 3
    assert "install Debian's qemu-system-x86" in capsys.readouterr().err
    assert not (tmp_path / "lab").exists()


def test_status_shows_guests_wire_and_snapshots(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = start()
    lab.keeper.ready()
    directory, control = str(lab.spec.directory), lab.spec.control
    for words in ("power n2 off", "link lose --by 0.25", "link delay n2 n1 --by 1.5"):
        assert cli.main(["qemu", *words.split(), "--dir", directory]) == 0
    assert cli.main(["qemu", "status", "--dir", directory]) == 0
    assert "coming up" in capsys.readouterr().out
    ask(control, "note", notes={"times": {"image": 1.25}})
    assert cli.main(["qemu", "status", "--dir", directory]) == 0
    said = capsys.readouterr().out
    port = lab.spec.guests[0].port
    for expected in (
        "accelerator tcg: a test",
        f"guest       n1: on, SSH on port {port}, process",
        "guest       n2: off, it was switched off",
        "link        n1 to n2: loses 25%; frames: none",
        "link        n2 to n1: late by 1.5 s; frames: none",
        "snapshots   none",
        "reached     image 1.2 (seconds)",
    ):
        assert expected in said
    assert cli.main(["qemu", "status", "--json", "--dir", directory]) == 0
    assert json.loads(capsys.readouterr().out)["guests"][1]["power"] == "off"


def test_down_ends_it(start: Start) -> None:
    lab = start()
    lab.keeper.ready()
    assert cli.main(["qemu", "down", "--dir", str(lab.spec.directory)]) == 0
    assert lab.keeper._child.wait(5) == 0
    assert not lab.spec.run.exists()


def test_a_console_needs_a_terminal_and_its_tail_none(
    start: Start, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = start(guests=1)
    lab.keeper.ready()
    directory = str(lab.spec.directory)
    lab.spec.guests[0].log.write_bytes(b"one\r\n\x1b[1mtwo\r\nthree\r\n")
    assert cli.main(["qemu", "console", "n1", "--tail", "2", "--dir", directory]) == 0
    assert capsys.readouterr().out == "two\nthree\n"
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: False))
    assert cli.main(["qemu", "console", "n1", "--dir", directory]) == 2
    assert "no terminal" in capsys.readouterr().err


def test_a_guests_console_is_one_by_the_same_interface(
    start: Start, capfd: pytest.CaptureFixture[str]
) -> None:
    lab = start(guests=1)
    lab.keeper.ready()
    directory = str(lab.spec.directory)
    lab.spec.guests[0].log.write_bytes(b"one\r\n\x1b[1mtwo\r\nthree\r\n")
    assert cli.main(["console", "n1", "--tail", "2", "--attach", directory]) == 0
    assert capfd.readouterr().out == "two\nthree\n"
    assert cli.main(["console", "n9", "--seconds", "1", "--attach", directory]) == 2
    assert "the guests n1: name one of them" in capfd.readouterr().err
    assert cli.main(["console", "n1", "--seconds", "0.2", "--attach", directory]) == 0
    assert "attached to the console of n1" in capfd.readouterr().err


def test_words_after_two_dashes_are_the_command_and_nobody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    given = []
    monkeypatch.setattr(verbs, "ssh", lambda *told, timeout: given.append((*told, timeout)) or 7)
    line = ["qemu", "ssh", "n1", "--dir", str(tmp_path), "--", "sh", "-c", "exit 7", "--dir", "x"]
    assert cli.main(line) == 7
    assert given == [(tmp_path, "n1", ["sh", "-c", "exit 7", "--dir", "x"], 600.0)]
    with pytest.raises(SystemExit) as end:
        cli.main(["qemu", "down", "--", "now"])
    assert end.value.code == 2
    assert "unrecognized arguments: -- now" in capsys.readouterr().err


def test_openssh_is_told_this_labs_key_and_host_key_only(start: Start) -> None:
    lab = start(guests=1)
    lab.keeper.ready()
    argv = verbs.ssh_command(MiniLab.attach(lab.spec.directory), "n1")
    told = " ".join(argv)
    assert argv[-3:] == ["-p", str(lab.spec.guests[0].port), "root@127.0.0.1"]
    assert 'StrictHostKeyChecking="yes"' in told
    assert f'UserKnownHostsFile="{lab.spec.directory}/known_hosts"' in told
    assert f"-i {lab.spec.directory}/key" in told


def test_clean_says_each_and_removes_only_when_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(clean, "_places", list)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    lab = tmp_path / "lab"
    argv = ["clean", "--dir", str(lab)]
    assert cli.main(argv) == 0
    assert capsys.readouterr().out == "nothing was left behind\n"
    (lab / "n1").mkdir(parents=True)
    (lab / "n1" / "root.qcow2").touch()
    assert cli.main([*argv, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("would remove: n1/root.qcow2 in ")
    assert (lab / "n1" / "root.qcow2").exists()
    assert cli.main(argv) == 0
    assert capsys.readouterr().out.startswith("removed: n1/root.qcow2 in ")
    assert not (lab / "n1" / "root.qcow2").exists()
