"""A twin in a process of its own: start it, read where it is, end it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TOLD = "twin.json"
"""The file in a running twin's directory that says where it is."""
# The twin connects to nobody, and reading the system's certificates takes a tenth of a second of
# each start: the HTTP library does it when it is imported.
NO_TRUST_STORE = {"SSL_CERT_FILE": os.devnull, "SSL_CERT_DIR": os.devnull}


class TwinFailed(Exception):
    """The twin did not start; the message holds what it said."""


@dataclass(frozen=True, slots=True)
class HostAccess:
    """How to log in to a hypervisor: ``host_key`` a fingerprint, ``key`` a private key's file."""

    address: str
    port: int
    user: str
    host_key: str
    key: Path


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a running twin is. ``hosts``: its hypervisors, by the name of their Node."""

    kubeconfig: Path
    clock_url: str
    contexts: tuple[str, ...]
    pid: int
    hosts: Mapping[str, HostAccess] = field(default_factory=dict)

    @staticmethod
    def load(directory: Path) -> Endpoint:
        """Read ``twin.json`` of a running twin's directory. Raises `TwinFailed` when not there."""
        try:
            told = json.loads((directory / TOLD).read_text(encoding="utf-8"))
            kubeconfig, contexts = Path(told["kubeconfig"]), tuple(told["contexts"])
            clock, hosts = str(told["clock"]), _hosts(told["ssh"])
            return Endpoint(kubeconfig, clock, contexts, int(told["pid"]), hosts)
        except FileNotFoundError as missing:
            raise TwinFailed(
                f"no running twin in {directory}; start one with `hil twin up`"
            ) from missing
        except OSError as unreadable:
            raise _not_told(directory, str(unreadable.strerror)) from unreadable
        except (ValueError, KeyError, TypeError) as wrong:
            raise _not_told(directory, "it is no twin's") from wrong


def _hosts(told: Mapping[str, Any]) -> dict[str, HostAccess]:
    key = Path(told["key"])
    return {
        name: HostAccess(
            str(one["address"]), int(one["port"]), str(one["user"]), str(one["fingerprint"]), key
        )
        for name, one in told["hosts"].items()
    }


def _not_told(directory: Path, why: str) -> TwinFailed:
    return TwinFailed(
        f"no running twin in {directory}, {TOLD} cannot be read ({why}); "
        "start one with `hil twin up`"
    )


class TwinProcess:
    """A twin that lives as long as this object; it also ends when its parent dies."""

    def __init__(self, directory: Path, *, seed: int, faults: Sequence[str] = ()) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        argv = [sys.executable, "-m", "harness.twin", "--dir", str(directory), "--seed", str(seed)]
        for fault in faults:
            argv += ["--fault", fault]
        self._log = (directory / "twin.log").open("wb")
        # the twin ends at the end of its standard input: a killed parent leaves no orphan
        self._child = subprocess.Popen(
            [*argv, "--until-stdin-closes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, **NO_TRUST_STORE},
            start_new_session=True,  # Ctrl-C is for the run; the twin outlives it until take-down
        )
        self.endpoint = self._read_endpoint(directory)

    def _read_endpoint(self, directory: Path, patience: float = 30.0) -> Endpoint:
        out = self._child.stdout
        assert out is not None
        ready, _, _ = select.select([out], [], [], patience)
        line = out.readline() if ready else b""
        if not line.startswith(b"ready"):
            self.close()
            said = (directory / "twin.log").read_text(encoding="utf-8", errors="replace")[-2000:]
            raise TwinFailed(f"the twin did not start: {said.strip() or 'it said nothing'}")
        return Endpoint.load(directory)

    def close(self) -> None:
        """End it; it has ten seconds to go by itself."""
        if self._child.stdin is not None:
            self._child.stdin.close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(10)
        if self._child.stdout is not None:
            self._child.stdout.close()
        self._log.close()
