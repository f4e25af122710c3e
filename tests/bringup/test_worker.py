from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from harness.bringup import worker as module
from harness.bringup.probes import Made
from harness.bringup.worker import Worker
from harness.facts.cdifiles import CdiFiles
from harness.facts.fact import Origin, Unread
from harness.facts.probes import Injected, PodAsStored
from harness.reach.nodeshell import Reply

AT = Origin(1.0, "tenant lab", "")
LOST = Unread(AT, "nvidia-smi -L", "it does not run")
REFUSED = "CDI device injection failed: unresolvable CDI devices k8s.device-plugin.nvidia.com/gpu=x"


class Shell:
    where = "guest w1"
    root = "/host"

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        self.ran.append(" ".join(argv))
        return Reply(tuple(argv), 0, b"", b"", 1.0, 2.0, "")


def tried(monkeypatch: pytest.MonkeyPatch, message: str) -> tuple[Any, Shell]:
    """What a worker gives of a fresh pod whose runtime said this, and the shell it could use."""
    stored = PodAsStored("p", "w1", "Pending", "CreateContainerError", message, 5.0, "", 1, "i", ())
    seen = Injected(AT, stored, LOST)
    monkeypatch.setattr(module.probes, "injected", lambda *where, now: seen)
    probes = SimpleNamespace(early={}, fresh=lambda node: Made("p"), delete=lambda made: None)
    lab = SimpleNamespace(tenant=SimpleNamespace(name="lab"), clock=SimpleNamespace(now=lambda: 1))
    shell = Shell()
    worker = Worker("w1", "m1", SimpleNamespace(probes=probes, lab=lab))  # type: ignore[arg-type]
    worker._shell = shell  # type: ignore[assignment]
    worker._operator = lambda: None  # type: ignore[assignment]
    return worker.fresh_pod(), shell


def test_where_a_runtime_resolves_no_device_the_files_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, shell = tried(monkeypatch, REFUSED)
    assert isinstance(found.files, CdiFiles)
    assert (found.files.directories, found.files.engine) == (("/run/cdi",), "")
    assert shell.ran == ["ls /host/run/cdi"]


def test_else_they_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    found, shell = tried(monkeypatch, "ErrImagePull")
    assert (found.files, shell.ran) == (None, [])
