"""`python -m bench.boot_ledger`: what the boot ledger of many workers costs over a whole window.

1,000 workers for 93 minutes of virtual time: each Node beats every five minutes, one worker in
twenty reboots at 4206 s of uptime with all its pods, Events expire after an hour. The API servers
(`bench.booted_server`) and the client that keeps the ledger are a process each. The ledger is kept
as a run keeps it, from watches alone; looks at the machines are left out. Its time is the client's
own processor time.

Example: python -m bench.boot_ledger --workers 100
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.booted_server import MACHINES, SPACE, VMIS, worker
from bench.figures import figure, own_cpu, own_memory
from harness.bringup.boot_ledger import BootBooks
from harness.clock import VirtualClock
from harness.facts.bootledger import boot_ledger
from harness.httptime import HttpTimeSource
from harness.reach.access import client_from_files
from harness.reach.kube import Kube
from harness.reach.watch import Feed, Observatory
from harness.report.records import fact_fields

WINDOW, EVERY = 93 * 60.0, 600.0
REBOOT = 0.05
"""Share of the workers that reboot."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--client", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        directory, clock_url = options.client
        print(json.dumps(_kept(Path(directory), clock_url, options.workers)))
        return
    print(
        f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, load {os.getloadavg()[0]}"
    )
    told = [_measured(options.workers) for _ in range(options.runs)]
    for name, key, unit in (
        ("watches open: memory", "first", "MB"),
        ("93 virtual minutes, until all is seen", "seconds", "s"),
        ("  revisions seen", "revisions", ""),
        ("  of them taken into the ledger, a second", "rate", "/s"),
        ("  taking: the client's processor", "taking", "s"),
        ("  watching: the client's processor", "cpu", "s"),
        ("  memory at most", "megabytes", "MB"),
        ("  requests of the client", "requests", ""),
        ("ledgers of all workers made", "made", "s"),
        ("  entries of one, the most", "entries", ""),
        ("  as written, all of them", "written", "MB"),
        ("  reboots in them", "reboots", ""),
    ):
        print(figure(name, [float(one[key]) for one in told], unit))


def _measured(workers: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        server = subprocess.Popen(
            [sys.executable, "-m", "bench.booted_server", scratch, str(workers), str(REBOOT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert server.stdin is not None
        assert server.stdout is not None
        with server:
            began = json.loads(server.stdout.readline())
            server.stdin.write("go\n")
            server.stdin.flush()
            server.stdout.readline()
            client = subprocess.run(
                [
                    *(sys.executable, "-m", "bench.boot_ledger", "--workers", str(workers)),
                    *("--client", scratch, began["clock"]),
                ],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            server.stdin.write("state\n")
            server.stdin.flush()
            state = json.loads(server.stdout.readline())
            server.stdin.close()
    return {**state, **json.loads(client.stdout)}


def _kept(directory: Path, clock_url: str, workers: int) -> dict[str, Any]:
    """The ledger as one client keeps it."""
    import harness.plugin  # noqa: F401 - for its memory

    clock = VirtualClock(HttpTimeSource(clock_url))
    observatory = Observatory(clock)
    histories = _histories(directory, clock, observatory)
    names = {worker(number): worker(number) for number in range(workers)}
    management, tenant = (
        {name: feed.history for name, feed in feeds.items()} for feeds in histories
    )
    books = BootBooks(lambda: names, management, tenant)
    since, began, before, first = clock.now(), clock.monotonic(), own_cpu(), own_memory()
    revisions, taking = 0, 0.0
    with clock.actor("bench"):
        until = clock.deadline(WINDOW)
        while not until.expired:
            clock.sleep(min(EVERY, until.remaining()))
            started = own_cpu()
            revisions += books.take()
            taking += own_cpu() - started
    seconds, cpu = clock.monotonic() - began, own_cpu() - before
    started = clock.monotonic()
    facts = [
        boot_ledger(
            name, name, since=since, until=clock.now(), limit=4200.0, soak=WINDOW,
            samples=(), seen=books.seen(name),
        )
        for name in names
    ]  # fmt: skip
    made = clock.monotonic() - started
    written = sum(len(json.dumps(fact_fields(one))) for one in facts)
    observatory.close()
    return {
        "first": first,
        "seconds": seconds,
        "revisions": revisions,
        "rate": revisions / taking,
        "taking": taking,
        "cpu": cpu - taking,
        "megabytes": own_memory(),
        "made": made,
        "entries": max(len(one.entries) for one in facts),
        "written": written / 1e6,
        "reboots": sum(len(one.boots) - 1 for one in facts),
    }


def _histories(
    directory: Path, clock: VirtualClock, observatory: Observatory
) -> tuple[Mapping[str, Feed], Mapping[str, Feed]]:
    def kube(name: str) -> Kube:
        client = client_from_files((directory / "kubeconfig",), name)
        return Kube(name, client, clock)

    of_management, of_tenant = kube("management"), kube("tenant")
    management = {
        "machines": (f"{MACHINES.group}/{MACHINES.version}", MACHINES.kind),
        "vmis": (f"{VMIS.group}/{VMIS.version}", VMIS.kind),
        "pods": ("v1", "Pod"),
        "events": ("v1", "Event"),
    }
    tenant = {"nodes": ("v1", "Node"), "pods": ("v1", "Pod"), "events": ("v1", "Event")}
    return (
        {name: observatory.feed(of_management, *what, SPACE) for name, what in management.items()},
        {name: observatory.feed(of_tenant, *what) for name, what in tenant.items()},
    )


if __name__ == "__main__":
    main()
