from __future__ import annotations

from pathlib import Path

import pytest

from harness.qemulab.errors import Unfit
from harness.qemulab.hosttools import check_tools, find_tool, must, run_tool, unpack_package


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is all of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("harness.qemulab.hosttools._ADMIN_PATH", str(folder))
    return folder


def put(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("name", "package"), [("qemu-img", "qemu-utils"), ("mke2fs", "e2fsprogs"), ("gcc", "gcc")]
)
def test_a_missing_program_is_named_with_its_package(
    programs: Path, name: str, package: str
) -> None:
    with pytest.raises(Unfit, match=f"no `{name}` on this machine: `apt-get install {package}`"):
        find_tool(name)


def test_compilers_are_asked_for_only_where_they_are_needed(programs: Path) -> None:
    for name in ("apt-cache", "apt-get", "debugfs", "dpkg-deb", "mke2fs", "qemu-img", "tar"):
        put(programs, name, "exit 0")
    check_tools(compilers=False)
    with pytest.raises(Unfit, match="no `gcc` on this machine"):
        check_tools(compilers=True)


def test_a_program_runs_in_the_c_locale_and_reads_nothing(programs: Path) -> None:
    put(programs, "tool", 'read -r line && exit 9; echo "$LC_ALL $1"')
    done = run_tool(["tool", "word"])
    assert (done.returncode, done.stdout) == (0, "C word\n")


def test_a_program_that_fails_says_its_first_error(programs: Path) -> None:
    put(programs, "tool", "echo fine; echo 'Error: bad block' >&2; echo bye >&2; exit 3")
    with pytest.raises(Unfit) as refused:
        must(["tool"], "do it", "look")
    assert str(refused.value) == "tried to do it, saw Error: bad block: look"


def test_a_program_that_fails_silently_is_named(programs: Path) -> None:
    put(programs, "tool", "exit 3")
    with pytest.raises(Unfit, match="saw tool ended with 3: look"):
        must(["tool"], "do it", "look")


def test_a_program_that_finds_the_disk_full_is_said_so(programs: Path) -> None:
    put(programs, "mke2fs", "echo 'mke2fs: No space left on device' >&2; exit 1")
    with pytest.raises(Unfit, match="no room left on the disk"):
        must(["mke2fs"], "do it", "look")


def test_a_program_of_another_machine_is_said_to_be_one(programs: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "kmod"
    foreign.write_bytes(b"\x7fELF\x02\x01\x01" + b"\0" * 57)
    foreign.chmod(0o755)
    with pytest.raises(Unfit, match="which is for amd64: build it on an amd64 machine"):
        run_tool([str(foreign)])


def test_a_package_that_is_cut_is_named(programs: Path, tmp_path: Path) -> None:
    put(programs, "dpkg-deb", "echo 'dpkg-deb: error: unexpected end of file' >&2; exit 2")
    put(programs, "tar", "exec /bin/cat")
    with pytest.raises(Unfit, match=r"unpack x\.deb, saw dpkg-deb: error: unexpected end of file"):
        unpack_package(tmp_path / "x.deb", tmp_path / "out")


def test_a_disk_that_fills_while_unpacking_is_said_so(programs: Path, tmp_path: Path) -> None:
    put(programs, "dpkg-deb", "echo data")
    put(programs, "tar", "echo 'tar: x: Cannot write: No space left on device' >&2; exit 2")
    with pytest.raises(Unfit, match="no room left on the disk"):
        unpack_package(tmp_path / "x.deb", tmp_path / "out")
