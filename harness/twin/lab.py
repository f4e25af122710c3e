"""A whole twin in one process: world, API servers, admin port, and the files that say where."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.twin.admin import Admin
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.kubeconfigs import kubeconfig
from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.apiserver.server import ApiServer
from harness.twin.apiserver.tls import Authority
from harness.twin.chaosport import in_force
from harness.twin.engine import Engine
from harness.twin.faults.catalogue import UnknownFault, plant
from harness.twin.linstorport import LinstorPort
from harness.twin.pace import Pace, run_by_itself
from harness.twin.powerport import PowerPort
from harness.twin.process import TOLD
from harness.twin.prometheusport import PrometheusPort
from harness.twin.sshd import Door, HostDoors
from harness.twin.world import hypervisors
from harness.twin.world.backend import ClusterBackend
from harness.twin.world.landscape import KUBERNETES
from harness.twin.world.landscape_tenant import VERSION
from harness.twin.world.linstor_rest import Rest
from harness.twin.world.prometheus_api import PrometheusApi
from harness.twin.world.world import MANAGEMENT, TENANT_PREFIX, World

_ENDED_BY = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SHOWN_EVENTS = 20
SSH_KEY = "id_ed25519"
_STANDS_STILL = 120.0
"""Virtual seconds that pass at most while somebody waits for a program that stands still in I/O."""


class CannotStart(Exception):
    """The twin cannot be served; the message says why and what to do."""


class CannotListen(CannotStart):
    """The port is taken, or not this user's to take."""


class DirectoryTaken(CannotStart):
    """Another twin is up in the directory."""


class DirectoryUnfit(CannotStart):
    """The directory cannot be made or written."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a twin. ``speed`` is virtual seconds per real second; 0 stands still.

    ``watch_lifetime`` is in real seconds; 0, the default: watches never end by themselves. A run
    on virtual time lives in real seconds as long as the machine takes for it, and equal runs
    would meet other ends.
    """

    directory: Path
    seed: int = 1
    faults: tuple[str, ...] = ()
    speed: float = 0.0
    port: int = 0
    watch_lifetime: float = 0.0
    until_stdin_closes: bool = False


class Twin:
    """A running twin."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.engine = Engine()
        self.world = World(self.engine, seed=options.seed)
        self.pace = Pace(self.engine)
        for fault in options.faults:
            plant(self.world, fault)
        self.requests = RequestLog()
        self.authority = Authority()
        self.servers: dict[str, ApiServer] = {}
        self.admin: Admin | None = None
        shells = {name: one.run for name, one in hypervisors.every(self.world).items()}
        self._hosts = HostDoors(shells)
        self._doors: dict[str, Door] = {}
        rest = Rest(self.world, self.world.linstor)
        self._linstor = LinstorPort(rest, self.engine, self.requests)
        api = PrometheusApi(self.world.metrics, lambda: self.engine.now)
        self._prometheus = PrometheusPort(api, self.requests)

    async def start(self) -> None:
        """Serve every cluster, LINSTOR, Prometheus, the admin port and the hosts' SSH, then write
        the files that say where: the kubeconfig, keys and certificates, and ``twin.json``.

        Raises CannotStart.
        """
        stores = {MANAGEMENT: self.world.management}
        stores |= {f"{TENANT_PREFIX}{name}": one for name, one in self.world.tenants.items()}
        for name, store in stores.items():
            server = ApiServer(
                store,
                ClusterBackend(self.world, name),
                authority=self.authority,
                request_log=self.requests,
                version=KUBERNETES if name == MANAGEMENT else VERSION,
                watch_lifetime=self.options.watch_lifetime,
                seed=self.options.seed,
                let_pass=self._let_pass,
            )
            self.servers[name] = server
            await _listen(server, self.options.port if name == MANAGEMENT else 0)
        self._hand_out_tenant_kubeconfigs()
        self.admin = Admin(
            self.engine,
            list(self.servers.values()),
            pace=self.pace,
            revision=lambda: self.world.management.revision,
            describe=self.describe,
            plant=self._plant,
            requests=self.requests,
            power=PowerPort(self.world, self.pace),
        )
        await self.admin.start()
        self._linstor.open()
        await self._prometheus.open()
        self._doors = self._hosts.open()
        with _writing(self.options.directory):
            self._write_files()

    async def close(self) -> None:
        """Stop serving."""
        self._hosts.close()
        self._linstor.close()
        await self._prometheus.close()
        if self.admin is not None:
            await self.admin.close()
        for server in self.servers.values():
            await server.close()

    @property
    def linstor_url(self) -> str:
        """Where LINSTOR's controller answers."""
        return self._linstor.url

    @property
    def prometheus_url(self) -> str:
        """Where Prometheus is; "" before the start."""
        return self._prometheus.url

    def describe(self) -> dict[str, Any]:
        """What `hil twin state` shows."""
        return {
            "now": self.engine.now,
            "revision": self.world.management.revision,
            "speed": self.options.speed,
            "failure": self.pace.failure,
            "faults": list(self.world.planted),
            "chaos": in_force(self.servers),
            "clusters": {name: server.url for name, server in self.servers.items()},
            "prometheus": self._prometheus.url,
            "watches": {name: _watched(server) for name, server in self.servers.items()},
            "pending": [
                {"in": when - self.engine.now, "what": what}
                for when, what in self.engine.pending()[:_SHOWN_EVENTS]
            ],
        }

    def _let_pass(self, until: Callable[[], bool]) -> None:
        self.pace.move(self.engine.now + _STANDS_STILL, stop=until)

    def _plant(self, fault: str) -> None:
        self.pace.do(lambda: plant(self.world, fault), refusals=(UnknownFault, ApiError))

    def _credentials(self, name: str) -> tuple[str, bytes, bytes, bytes]:
        certificate, key = self.authority.client("hil-admin", ("system:masters",))
        return self.servers[name].url, self.authority.ca_pem, certificate, key

    def _hand_out_tenant_kubeconfigs(self) -> None:
        for name in self.world.tenants:
            context = f"{TENANT_PREFIX}{name}"
            config = kubeconfig({context: self._credentials(context)}, context)
            self.world.set_tenant_kubeconfig(name, _dumped(config))

    def _write_files(self) -> None:
        assert self.admin is not None
        directory = self.options.directory
        config = kubeconfig({name: self._credentials(name) for name in self.servers}, MANAGEMENT)
        path = (directory / "kubeconfig").resolve()
        _write_private(path, _dumped(config))
        key = (directory / SSH_KEY).resolve()
        _write_private(key, self._hosts.private_key)
        told = {
            "kubeconfig": str(path),
            "clock": self.admin.url,
            "contexts": list(self.servers),
            "pid": os.getpid(),
            "ssh": {"key": str(key), "hosts": {n: asdict(d) for n, d in self._doors.items()}},
            "linstor": {"url": self._linstor.url, **self._write_linstor()},
            "prometheus": self._write_prometheus(),
        }
        _write_private(directory / TOLD, json.dumps(told, indent=1) + "\n")

    def _write_prometheus(self) -> dict[str, str]:
        path = (self.options.directory / "prometheus-token").resolve()
        _write_private(path, self._prometheus.token)
        return {"url": self._prometheus.url, "token": str(path)}

    def _write_linstor(self) -> dict[str, str]:
        """A client's files for LINSTOR's API, by what they are."""
        found = {}
        for name, pem in asdict(self._linstor.issue()).items():
            path = (self.options.directory / f"linstor-{name}.pem").resolve()
            _write_private(path, pem.decode())
            found[name] = str(path)
        return found


async def _listen(server: ApiServer, port: int) -> None:
    try:
        await server.start(port=port)
    except OSError as taken:
        raise CannotListen(
            f"cannot listen on port {port} ({os.strerror(taken.errno or 0)}): choose another --port"
        ) from taken


def _watched(server: ApiServer) -> dict[str, int]:
    """How many watches are open on each kind."""
    return dict(sorted(Counter(watch.asked.resource.kind for watch in server.watches).items()))


def _dumped(document: Any) -> str:
    # libyaml's own writer takes a tenth of the time, a tenth of a twin's start
    writer = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return str(yaml.dump(document, Dumper=writer))


def _write_private(path: Path, text: str) -> None:
    """Credentials are for their owner alone; the name appears with its whole content."""
    part = path.with_name(path.name + ".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    part.replace(path)


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as refused:
        raise DirectoryUnfit(
            f"cannot write to {directory} ({refused.strerror}): choose another --dir"
        ) from refused


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Hold a directory, made if need be, against every other twin. ``twin.json`` goes at the end.

    The kernel drops the lock with the process, however that ends.
    """
    with _writing(directory):
        directory.mkdir(parents=True, exist_ok=True)
        held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as taken:
            raise DirectoryTaken(
                f"a twin is up in {directory} already: end it, or choose another --dir"
            ) from taken
        try:
            yield
        finally:
            (directory / TOLD).unlink(missing_ok=True)
    finally:
        os.close(held)


def _end_at_eof(ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        ended.set()


async def serve(options: Options, ready: Sequence[str] = ("ready",)) -> None:
    """Run a twin until it is told to end: SIGTERM, SIGINT, SIGHUP, or the end of standard input.

    ``ready`` is printed once it is up, "{prometheus}" and "{linstor}" in it replaced by those
    servers' addresses. Raises CannotStart.
    """
    with _alone_in(options.directory):
        twin = Twin(options)
        try:
            await twin.start()
            await _stay_up(twin, ready)
        finally:
            await twin.close()


async def _stay_up(twin: Twin, ready: Sequence[str]) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _ENDED_BY:
        if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
            continue  # started with nohup
        loop.add_signal_handler(number, ended.set)
    if twin.options.until_stdin_closes:
        loop.add_reader(sys.stdin.fileno(), _end_at_eof, ended)
    if twin.options.speed:
        run_by_itself(twin.pace, twin.engine, twin.options.speed)
    told = "\n".join(ready).replace("{prometheus}", twin.prometheus_url)
    told = told.replace("{linstor}", twin.linstor_url)
    sys.stdout.write(f"{told}\n")
    sys.stdout.flush()
    await ended.wait()
