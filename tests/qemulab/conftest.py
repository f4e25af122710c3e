"""A keeper's process with a program in QEMU's place, so that all but the machines is real."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.clock import WallClock
from harness.qemulab.client import KeeperProcess
from harness.qemulab.machines import Machines
from harness.qemulab.ports import free_port
from harness.qemulab.rundir import make_run, take, tidy
from harness.qemulab.spec import GuestSpec, Spec

FAKE = Path(__file__).with_name("fakeqemu.py")

Start = Callable[..., "Lab"]


class Lab:
    """A keeper and what it was told."""

    def __init__(self, spec: Spec, keeper: KeeperProcess) -> None:
        self.spec = spec
        self.keeper = keeper

    def told(self, node: int) -> list[str]:
        return Path(f"{self.spec.guests[node - 1].root}.told").read_text().splitlines()


@pytest.fixture
def fake_qemu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "qemu-system-x86_64"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {FAKE} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def spec_for(
    directory: Path, run: Path, ports: list[int], *, named: bool = False, foreign: bool = False
) -> Spec:
    guests = []
    for node, port in enumerate(ports, 1):
        name = f"n{node}"
        own = directory / name
        own.mkdir(parents=True, exist_ok=True)
        guests.append(
            GuestSpec(
                name,
                node,
                port,
                named,
                root=own / "root.qcow2",
                data=own / "data.qcow2",
                console=run / f"{name}.console",
                log=own / "console.log",
                complaints=own / "qemu.log",
                switch_side=run / f"{name}.switch-side",
                guest_side=run / f"{name}.guest-side",
            )
        )
        guests[-1].root.touch()
    return Spec(
        directory=directory,
        run=run,
        kernel=Path("/boot/vmlinuz"),
        initrd=Path("/boot/initrd"),
        append="console=ttyS0",
        memory=192 << 20,
        accelerator=("-accel", "tcg"),
        guests=tuple(guests),
        about={"host_key": "SHA256:none", "release": "6.1", "accelerator": "tcg", "why": "a test"},
        foreign=foreign,
    )


@pytest.fixture
def machines(
    tmp_path: Path, fake_qemu: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Machines]]:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    made: list[Machines] = []

    def make(guests: int = 2) -> Machines:
        ports = [free_port() for _ in range(guests)]
        made.append(Machines(spec_for(tmp_path, make_run(tmp_path), ports), WallClock()))
        made[-1].start()
        return made[-1]

    yield make
    for lab in made:
        lab.end()
        tidy(next(iter(lab.guests.values())).spec.console.parent, tmp_path)


@pytest.fixture
def start(tmp_path: Path, fake_qemu: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    keepers: list[KeeperProcess] = []

    def starting(
        guests: int = 2,
        *,
        ports: list[int] | None = None,
        named: bool = False,
        made_by: str = "",
    ) -> Lab:
        directory = tmp_path / "lab"
        held = take(directory)
        chosen = ports or [free_port() for _ in range(guests)]
        spec = spec_for(directory, make_run(directory), chosen, named=named)
        spec = replace(spec, about={**spec.about, "made_by": made_by})
        keepers.append(KeeperProcess(spec, held))
        os.close(held)
        return Lab(spec, keepers[-1])

    yield starting
    for keeper in keepers:
        keeper.close()
