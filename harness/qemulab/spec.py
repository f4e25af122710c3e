"""What a keeper is told: which guests, on which files, ports and sockets. Kept as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.qemulab.errors import Unfit


@dataclass(frozen=True, slots=True)
class GuestSpec:
    """One guest. ``port`` is the loopback port of its SSH; ``named`` says that the user chose it.

    ``console``, ``switch_side`` and ``guest_side`` are unix sockets in the run's directory; ``log``
    has everything printed on the console, ``complaints`` what QEMU itself had to say.
    """

    name: str
    node: int
    port: int
    named: bool
    root: Path
    data: Path
    console: Path
    log: Path
    complaints: Path
    switch_side: Path
    guest_side: Path

    @property
    def mac(self) -> str:
        """Of the card on the private wire; locally administered, by node."""
        return f"52:54:00:77:00:{self.node:02x}"

    @property
    def outer_mac(self) -> str:
        """Of the card that SSH comes through."""
        return f"52:54:00:75:00:{self.node:02x}"


@dataclass(frozen=True, slots=True)
class Spec:
    """A lab. ``directory`` holds what stays, ``run`` the sockets; ``memory`` in bytes.

    ``append`` is the kernel command line but for the node's number; ``accelerator`` options for
    QEMU as they stand; ``about`` is passed on to whoever asks about the lab. ``foreign``: guests
    boot what is on their disks, which is somebody else's image, and not the kernel named here.
    """

    directory: Path
    run: Path
    kernel: Path
    initrd: Path
    append: str
    memory: int
    accelerator: tuple[str, ...]
    guests: tuple[GuestSpec, ...]
    about: Mapping[str, str]
    foreign: bool = False

    @property
    def control(self) -> Path:
        """The keeper's socket."""
        return self.run / "control"

    @property
    def file(self) -> Path:
        """Where this is kept for the keeper."""
        return self.run / "spec.json"

    def save(self) -> None:
        """Write it to ``file``, whole or not at all."""
        beside = self.file.with_suffix(".new")
        beside.write_text(json.dumps(asdict(self), default=str, indent=1) + "\n", encoding="utf-8")
        beside.replace(self.file)

    @staticmethod
    def load(file: Path) -> Spec:
        """Read it. Raises Unfit where the file is none of ours."""
        try:
            return _spec(json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            saw = f"{type(error).__name__}: {error}"
            raise Unfit(f"read {file}", saw, "start the lab anew") from error


def _spec(told: Mapping[str, Any]) -> Spec:
    paths = {name: Path(told[name]) for name in ("directory", "run", "kernel", "initrd")}
    return Spec(
        **paths,
        append=str(told["append"]),
        memory=int(told["memory"]),
        accelerator=tuple(told["accelerator"]),
        guests=tuple(_guest(one) for one in told["guests"]),
        about={str(name): str(value) for name, value in told["about"].items()},
        foreign=bool(told["foreign"]),
    )


def _guest(told: Mapping[str, Any]) -> GuestSpec:
    plain = {"name": str(told["name"]), "node": int(told["node"]), "port": int(told["port"])}
    paths = {
        name: Path(told[name]) for name in GuestSpec.__slots__ if name not in (*plain, "named")
    }
    return GuestSpec(**plain, named=bool(told["named"]), **paths)  # type: ignore[arg-type]
