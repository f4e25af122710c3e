"""A whole twin in one process: world, API servers, admin port, and the files that say where."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.twin.admin import Admin
from harness.twin.apiserver.kubeconfigs import kubeconfig
from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.apiserver.server import ApiServer
from harness.twin.apiserver.tls import Authority
from harness.twin.engine import Engine
from harness.twin.faults.catalogue import plant
from harness.twin.world.backend import ClusterBackend
from harness.twin.world.world import World

TICK = 0.05
"""Real seconds between two moves of the clock when it runs by itself."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a twin. ``speed`` is virtual seconds per real second; 0 stands still."""

    directory: Path
    seed: int = 1
    faults: tuple[str, ...] = ()
    speed: float = 0.0
    port: int = 0
    until_stdin_closes: bool = False


class Twin:
    """A running twin."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.engine = Engine()
        self.world = World(self.engine, seed=options.seed)
        for fault in options.faults:
            plant(self.world, fault)
        self.requests = RequestLog()
        self.authority = Authority()
        self.servers: dict[str, ApiServer] = {}
        self.admin: Admin | None = None

    async def start(self) -> None:
        """Serve every cluster and the admin port, then write the kubeconfig and ``twin.json``."""
        stores = {"management": self.world.management}
        stores |= {f"tenant-{name}": store for name, store in self.world.tenants.items()}
        for name, store in stores.items():
            server = ApiServer(
                store,
                ClusterBackend(self.world, name),
                authority=self.authority,
                request_log=self.requests,
            )
            await server.start(port=self.options.port if name == "management" else 0)
            self.servers[name] = server
        self._hand_out_tenant_kubeconfigs()
        self.admin = Admin(
            self.engine,
            list(self.servers.values()),
            revision=lambda: self.world.management.revision,
            describe=self.describe,
            plant=lambda fault: plant(self.world, fault),
            requests=self.requests,
        )
        await self.admin.start()
        self._write_files()

    async def close(self) -> None:
        """Stop serving."""
        if self.admin is not None:
            await self.admin.close()
        for server in self.servers.values():
            await server.close()

    def describe(self) -> dict[str, Any]:
        """What `hil twin state` shows."""
        return {
            "now": self.engine.now,
            "revision": self.world.management.revision,
            "faults": list(self.world.planted),
            "clusters": {name: server.url for name, server in self.servers.items()},
            "pending": [
                {"in": when - self.engine.now, "what": what}
                for when, what in self.engine.pending()[:20]
            ],
        }

    def _credentials(self, name: str) -> tuple[str, bytes, bytes, bytes]:
        certificate, key = self.authority.client("hil-admin", ("system:masters",))
        return self.servers[name].url, self.authority.ca_pem, certificate, key

    def _hand_out_tenant_kubeconfigs(self) -> None:
        for name in self.world.tenants:
            context = f"tenant-{name}"
            config = kubeconfig({context: self._credentials(context)}, context)
            self.world.set_tenant_kubeconfig(name, yaml.safe_dump(config))

    def _write_files(self) -> None:
        assert self.admin is not None
        directory = self.options.directory
        directory.mkdir(parents=True, exist_ok=True)
        config = kubeconfig({name: self._credentials(name) for name in self.servers}, "management")
        path = (directory / "kubeconfig").resolve()
        _write_private(path, yaml.safe_dump(config))
        told = {
            "kubeconfig": str(path),
            "clock": self.admin.url,
            "contexts": list(self.servers),
            "pid": os.getpid(),
        }
        _write_private(directory / "twin.json", json.dumps(told, indent=1) + "\n")


def _write_private(path: Path, text: str) -> None:
    """Credentials are for their owner alone; the name appears with its whole content."""
    part = path.with_name(path.name + ".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    part.replace(path)


def _end_at_eof(ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        ended.set()


def _run_by_itself(twin: Twin, loop: asyncio.AbstractEventLoop) -> None:
    def tick() -> None:
        twin.engine.run_until(twin.engine.now + TICK * twin.options.speed)
        loop.call_later(TICK, tick)

    loop.call_later(TICK, tick)


async def serve(options: Options, ready: Sequence[str] = ("ready",)) -> None:
    """Run a twin until it is told to end: SIGTERM, SIGINT, or the end of standard input."""
    twin = Twin(options)
    await twin.start()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if options.until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _end_at_eof, ended)
    if options.speed:
        _run_by_itself(twin, loop)
    sys.stdout.write("\n".join(ready) + "\n")
    sys.stdout.flush()
    try:
        await ended.wait()
    finally:
        await twin.close()
        (options.directory / "twin.json").unlink(missing_ok=True)
