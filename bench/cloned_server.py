"""`python -m bench.cloned_server`: an API server on which disks are cloned, phase by phase.

For `bench.clones` only: the twin's own API server, and a writer that does nothing but write the
phases, on virtual time or, with ``--real``, on the clock of the machine. Commands come a line at a
time on stdin, answers go to stdout.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from bench.serving import NoBackend, say
from harness.twin.admin import Admin
from harness.twin.apiserver.builtin_kinds import BUILTIN
from harness.twin.apiserver.kubeconfigs import kubeconfig
from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.apiserver.resources import Registry, Resource
from harness.twin.apiserver.server import ApiServer
from harness.twin.apiserver.store import Identities, Revisions, Store
from harness.twin.apiserver.tls import Authority
from harness.twin.engine import EPOCH, Engine
from harness.twin.pace import Pace

GROUP, VERSION, NAMESPACE = "cdi.kubevirt.io", "v1beta1", "lab"
API_VERSION = f"{GROUP}/{VERSION}"
PHASES = (
    "CloneScheduled",
    "CSICloneInProgress",
    "PrepClaimInProgress",
    "RebindInProgress",
    "Succeeded",
)
SHORTEST, LONGEST = 0.001, 60.0
"""Seconds that a phase lasts; as many are between 1 and 10 ms as between 1 and 10 s."""
DATA_VOLUMES = Resource(GROUP, VERSION, "DataVolume", "datavolumes", status=True)


def name_of(number: int) -> str:
    """A clone's name."""
    return f"disk-{number:04}"


def begins(number: int, count: int, spread: float) -> float:
    """When a clone begins, in seconds from the start; the last one after ``spread``."""
    return spread * (number + 1) / count


def lasts(number: int, seed: int) -> tuple[float, ...]:
    """How many seconds each phase but the last of a clone lasts."""
    rng = random.Random(f"{seed} {number}")
    least, most = math.log(SHORTEST), math.log(LONGEST)
    return tuple(math.exp(rng.uniform(least, most)) for _ in PHASES[:-1])


class Clones:
    """The clones: made without a phase, then each phase at its time."""

    def __init__(self, store: Store, count: int, seed: int, spread: float) -> None:
        self._store = store
        self._count = count
        self._seed = seed
        self._spread = spread

    def make(self) -> None:
        """All of them are there before they begin: who names one has to find it."""
        for number in range(self._count):
            meta = {"name": name_of(number), "namespace": NAMESPACE}
            source = {"pvc": {"namespace": "cozy-public", "name": "talos-worker-x-v1.13.6"}}
            storage = {"resources": {"requests": {"storage": "20Gi"}}}
            spec = {"source": source, "storage": storage}
            made = {"apiVersion": API_VERSION, "kind": "DataVolume", "metadata": meta, "spec": spec}
            self._store.create(DATA_VOLUMES, made)

    def events(self) -> Iterator[tuple[float, Callable[[], None]]]:
        """(seconds from the start, what is written then)."""
        for number in range(self._count):
            at = begins(number, self._count, self._spread)
            for phase, seconds in zip(PHASES, (*lasts(number, self._seed), 0.0), strict=True):
                yield at, self._writing(name_of(number), phase)
                at += seconds

    def _writing(self, name: str, phase: str) -> Callable[[], None]:
        def change(obj: dict[str, Any]) -> None:
            obj["status"] = {"phase": phase, "claimName": name}

        def write() -> None:
            self._store.edit(
                API_VERSION,
                "DataVolume",
                NAMESPACE,
                name,
                change,
                manager="cdi",
                subresource="status",
            )

        return write


async def _serve(options: argparse.Namespace) -> None:
    engine, log, authority = Engine(), RequestLog(limit=10**6), Authority()
    loop = asyncio.get_running_loop()
    began = loop.time()
    store = Store(
        "bench",
        Registry((*BUILTIN, DATA_VOLUMES)),
        now=lambda: EPOCH + loop.time() - began if options.real else engine.now,
        revisions=Revisions(),
        identities=Identities(1),
    )
    for space in (NAMESPACE, "default"):
        store.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}, manager="bench"
        )
    clones = Clones(store, options.count, options.seed, options.spread)
    clones.make()
    server = ApiServer(store, NoBackend(), authority=authority, request_log=log)
    await server.start()
    admin = Admin(
        engine,
        [server],
        pace=Pace(engine),
        revision=lambda: store.revision,
        describe=dict,
        plant=lambda _: None,
        requests=log,
    )
    await admin.start()
    certificate, key = authority.client("bench", ("system:masters",))
    way = {"bench": (server.url, authority.ca_pem, certificate, key)}
    options.directory.joinpath("kubeconfig").write_text(yaml.safe_dump(kubeconfig(way, "bench")))
    say({"clock": admin.url})
    while command := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        if command == "go":
            for after, write in clones.events():
                if options.real:
                    loop.call_later(after, write)
                else:
                    engine.after(after, write, "a phase")
        say({agent: log.count(user_agent=agent) for agent in ("kubectl",)})
    await admin.close()
    await server.close()


def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("spread", type=float)
    parser.add_argument("--real", action="store_true")
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
