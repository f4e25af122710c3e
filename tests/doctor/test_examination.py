"""What `hil doctor` says of a machine that is made up: programs, memory, packages, leftovers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from harness import cli
from harness.doctor import examination
from harness.doctor.check import Check, State
from harness.qemulab import accel, clean
from harness.qemulab.clean import Finding
from harness.qemulab.hosttools import COMPILERS, TOOLS
from harness.twin.process import TwinFailed

ROOT = Path(__file__).resolve().parents[2]
TWIN, MINI = (ROOT / "inventory" / name for name in ("twin.yaml", "qemu-mini.yaml"))
QEMU = "qemu-system-x86_64"
EVERYTHING = (QEMU, *TOOLS, *COMPILERS, "setpriv", "ssh", "kubectl")

LISTS = """
[ "$1" = policy ] && shift && for name; do
    [ -e "$XDG_RUNTIME_DIR/no-$name" ] || printf '%s:\\n  Candidate: 1\\n' "$name"
done && exit
"""
"""What apt-cache does besides telling its version: every package can be had but those that a file
``no-NAME`` says cannot."""

Machine = Callable[..., None]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with these programs and nothing else; its twin starts at once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(clean, "find", lambda directory, cache: iter(()))
    monkeypatch.setattr(accel, "DEVICE", tmp_path / "no-kvm")
    monkeypatch.setattr(examination, "_ADMIN", "")
    monkeypatch.setattr("harness.twin.process.TwinProcess", Started)

    def make(*programs: str, says: str = "echo version 1.2.3") -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        for name in programs:
            program = folder / name
            lists = LISTS if name == "apt-cache" else ""
            program.write_text(f"#!/bin/sh\n{lists}\n{says}\n")
            program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    return make


class Started:
    """A twin that starts."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def close(self) -> None:
        pass


def ask(lab: Path, *more: str) -> int:
    return cli.main(["doctor", "--lab", str(lab), *more])


def lines(said: str) -> dict[str, str]:
    """Each line by its subject."""
    told = [line.strip() for line in said.splitlines() if line.startswith("  ")]
    split = [line.partition(" ") for line in told]
    rests = [rest.strip() for _, _, rest in split]
    return {rest.partition(": ")[0]: line for rest, line in zip(rests, told, strict=True)}


def test_a_machine_with_everything_runs_the_mini_lab(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(*EVERYTHING)
    assert ask(MINI) == 0
    said = capsys.readouterr().out
    told = lines(said)
    assert {name: told[name].split()[0] for name in EVERYTHING} == dict.fromkeys(EVERYTHING, "ok")
    assert told[QEMU] == f"ok       {QEMU}: 1.2.3"
    assert told["twin"].startswith("ok       twin: starts, ")
    assert said.endswith("\nlab qemu-mini works here, as far as can be seen\n")


def test_without_qemu_the_twin_works_and_the_mini_lab_does_not(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(*(name for name in EVERYTHING if name not in (QEMU, "qemu-img")))
    assert ask(TWIN) == 0
    told = lines(capsys.readouterr().out)
    assert told[QEMU] == (
        f"missing  {QEMU}: not there (optional); "
        "apt-get install --no-install-recommends qemu-system-x86"
    )
    assert ask(MINI) == 3
    said = capsys.readouterr().out
    assert lines(said)["qemu-img"] == (
        "missing  qemu-img: not there; apt-get install --no-install-recommends qemu-utils"
    )
    assert said.endswith(f"\nlab qemu-mini does not work here yet: {QEMU}, qemu-img\n")


def test_every_program_of_the_build_is_needed(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine()
    assert ask(MINI) == 3
    said = capsys.readouterr().out
    built = {**TOOLS, **COMPILERS, "setpriv": "util-linux"}
    for name, package in built.items():
        assert lines(said)[name].endswith(f" {package}")
    assert said.endswith(f" {', '.join((QEMU, *built))}\n")


def test_a_convenience_that_is_missing_fails_nothing(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(*(one for one in EVERYTHING if one not in ("ssh", "kubectl")))
    assert ask(MINI) == 0
    told = lines(capsys.readouterr().out)
    assert told["kubectl"] == "missing  kubectl: not there; only people use it (optional)"
    assert told["ssh"].startswith("missing  ssh: not there, `hil qemu ssh` uses it (optional); apt")


@pytest.mark.parametrize("says", ["exit 1", "echo hello", "kill -9 $$"])
def test_a_program_that_tells_no_version_is_not_known(
    machine: Machine, capsys: pytest.CaptureFixture[str], says: str
) -> None:
    machine(*EVERYTHING, says=says)
    assert ask(MINI) == 0
    said = capsys.readouterr().out
    assert lines(said)["gcc"].startswith("unknown  gcc: ")
    assert "not known: qemu-system-x86_64, apt-" in said.splitlines()[-1]


def test_a_program_that_never_answers_is_not_waited_for(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine("gcc")

    def hang(*_: object, **more: float) -> None:
        assert more["timeout"] <= 10
        raise subprocess.TimeoutExpired("gcc", more["timeout"])

    monkeypatch.setattr(subprocess, "run", hang)
    assert examination._program("gcc", "gcc", needed=True).state is State.UNKNOWN


def test_a_twin_that_does_not_start(
    machine: Machine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise TwinFailed("the twin did not start: no port")

    machine(*EVERYTHING)
    monkeypatch.setattr("harness.twin.process.TwinProcess", fail)
    assert ask(TWIN) == 3
    assert "missing  twin: the twin did not start: no port\n" in capsys.readouterr().out
    assert ask(MINI) == 0


@pytest.mark.parametrize(
    ("available", "status"), [("MemAvailable:  500000 kB\n", 3), ("MemAvailable:  900000 kB\n", 0)]
)
def test_memory_for_all_the_guests(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, available: str, status: int
) -> None:
    machine(*EVERYTHING)
    told = tmp_path / "meminfo"
    told.write_text(f"MemTotal: 99 kB\n{available}")
    monkeypatch.setattr(examination, "_MEMORY", told)
    assert ask(MINI) == status
    assert ask(TWIN) == 0


def test_a_machine_that_does_not_tell_its_memory(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(*EVERYTHING)
    monkeypatch.setattr(examination, "_MEMORY", tmp_path / "gone")
    assert ask(MINI) == 0


def test_a_disk_that_is_too_full(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(*EVERYTHING)
    monkeypatch.setattr("harness.qemulab.image.NEED", 1 << 60)
    assert ask(MINI) == 3
    assert "lab qemu-mini does not work here yet: disk\n" in capsys.readouterr().out


def test_packages_that_apt_does_not_know(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(*EVERYTHING)
    assert ask(MINI) == 0
    assert lines(capsys.readouterr().out)["package lists"].startswith("ok ")
    (tmp_path / "no-podman").touch()
    (tmp_path / "no-linux-image-cloud-amd64").touch()
    assert ask(MINI) == 3
    said = capsys.readouterr().out
    assert lines(said)["package lists"].startswith(
        "missing  package lists: no linux-image-cloud-amd64, podman; apt-get update"
    )
    assert "lab qemu-mini does not work here yet: package lists\n" in said
    assert ask(TWIN) == 0


def test_a_cache_in_which_no_image_can_be_built(
    machine: Machine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine(*EVERYTHING)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "my cache"))
    assert ask(MINI) == 3
    assert "kernel makefiles cannot take; name another folder" in capsys.readouterr().out


def test_a_place_that_cannot_be_written(machine: Machine, tmp_path: Path) -> None:
    machine(*EVERYTHING)
    (tmp_path / ".hil").write_text("a file")
    assert ask(TWIN) == 3


def test_what_crashed_runs_left_is_told_and_fails_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def found(directory: Path, cache: Path) -> Iterator[Finding]:
        yield Finding("/tmp/hil-qemu-dead; no process", "", lambda: None)
        yield Finding("/tmp/hil-qemu-alive; n1 (7)", "process 7 lives", lambda: None)

    machine(*EVERYTHING)
    monkeypatch.setattr(clean, "find", found)
    assert ask(MINI) == 0
    assert lines(capsys.readouterr().out)["leftovers"] == (
        "unknown  leftovers: 1 of crashed runs: /tmp/hil-qemu-dead; no process (optional); "
        "`hil clean` removes them"
    )


def test_kvm_is_tried_only_when_asked(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine(*EVERYTHING)
    device = tmp_path / "kvm"
    device.touch()
    monkeypatch.setattr(accel, "DEVICE", device)
    monkeypatch.setattr(accel, "choose", lambda *_: accel.tcg("no kernel spoke under KVM"))
    ask(TWIN, "--try")
    assert "is not built yet" in lines(capsys.readouterr().out)["KVM"]
    image = tmp_path / "cache" / "hil" / "qemu" / "0123456789abcdef"
    image.mkdir(parents=True)
    (image / "vmlinuz").touch()
    ask(TWIN)
    assert lines(capsys.readouterr().out)["KVM"] == (
        f"unknown  KVM: {device} is there, which says little; not tried (optional); "
        "`hil doctor --try` tries it"
    )
    ask(TWIN, "--try")
    told = lines(capsys.readouterr().out)["KVM"]
    assert told == "missing  KVM: no kernel spoke under KVM; guests are emulated (optional)"
    monkeypatch.setattr(accel, "choose", lambda *_: accel.kvm("a kernel spoke"))
    ask(TWIN, "--try")
    assert lines(capsys.readouterr().out)["KVM"] == "ok       KVM: a kernel spoke"


LOCK = "jinja2==3.1.6 \\\n    --hash=sha256:00\nruff==0.14.0 \\\n    --hash=sha256:00\n"


@pytest.mark.parametrize(
    ("installed", "state", "words"),
    [
        ({"jinja2": "3.1.6", "ruff": "0.14.0"}, State.OK, "2, all as locked"),
        ({"jinja2": "3.1.5", "ruff": "0.14.0"}, State.UNKNOWN, "jinja2 3.1.5 are not those"),
        ({"jinja2": "3.1.6"}, State.UNKNOWN, "ruff not installed"),
        ({"ruff": "0.14.0"}, State.MISSING, "jinja2 not installed"),
    ],
)
def test_packages_against_the_lock(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    installed: dict[str, str],
    state: State,
    words: str,
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", version)
    lock = tmp_path / "lock.txt"
    lock.write_text(LOCK)
    found = examination._packages(lock)
    assert found.state is state and found.said.startswith(words)
    assert found.fails is (state is State.MISSING)
    assert examination._packages(tmp_path / "gone").state is State.UNKNOWN


CLUSTER = """
name: lab
kind: cluster
clock: real
management: {kubeconfig: KUBECONFIG, context: admin}
schematics: {plain: {id: SCHEMATIC}}
storageClasses: {replicated: {drbd: true, replicas: 2}}
pools: {plain: {schematic: plain, talosVersion: v1.13.6, kubernetesVersion: v1.35}}
"""


def test_a_cluster_s_kubeconfig_is_read_and_its_api_asked_only_on_demand(
    machine: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine(*EVERYTHING)
    kubeconfig, lab = tmp_path / "kubeconfig", tmp_path / "lab.yaml"
    lab.write_text(CLUSTER.replace("KUBECONFIG", str(kubeconfig)).replace("SCHEMATIC", "a" * 64))
    assert ask(lab) == 3
    said = capsys.readouterr().out
    assert lines(said)["kubeconfig"].startswith("missing  kubeconfig: ")
    assert "does not work here yet: kubeconfig" in said
    kubeconfig.write_text("{}")
    assert ask(lab) == 0
    assert lines(capsys.readouterr().out)["API"] == (
        "unknown  API: not asked; `hil doctor --try` asks it, `--lane LANE` all that a lane needs"
    )
    assert ask(lab, "--try") == 3
    assert lines(capsys.readouterr().out)["API"].startswith("missing  API: ")


def test_an_inventory_that_cannot_be_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(Path("/nowhere.yaml")) == 2
    told = capsys.readouterr()
    assert told.out == "" and "/nowhere.yaml: found no readable file" in told.err


def test_only_what_is_needed_and_missing_fails() -> None:
    assert Check("a", State.MISSING, "s").fails
    assert not Check("a", State.MISSING, "s", needed=False).fails
    assert not Check("a", State.UNKNOWN, "s").fails
