"""`python -m bench.twin_clock`: how soon a twin is ready, and what its virtual time costs.

Times of whole processes are wall-clock; what an advance costs is measured in the process, beside
nothing else, and over the admin port as `hil twin advance` asks for it.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from bench.figures import figure
from harness.clock import WallClock
from harness.inventory.loading import load
from harness.inventory.manifest import kubernetes_nodes
from harness.twin.engine import Engine
from harness.twin.process import TwinProcess
from harness.twin.world.heartbeats import Heartbeat, node_conditions
from harness.twin.world.world import World

CLOCK = WallClock()
LAB = Path(__file__).parent.parent / "inventory" / "twin.yaml"
SOAK = 93 * 60.0
JOINED = 20 * 60.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=1000, help="nodes of the heart-beat figure")
    parser.add_argument("--beat", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.beat:
        print(json.dumps(_beaten(options.beat)))
        return
    runs = range(options.runs)
    bytecode = "not kept" if sys.dont_write_bytecode else "kept"
    print(f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, bytecode {bytecode}")
    print(figure("twin process, start to ready", [_started() for _ in runs], "s", "below 0.6"))
    print(figure("advance 93m, over the admin port", [_asked() for _ in runs], "s", "below 0.3"))
    idle = [_soaked(pool="") for _ in runs]
    print(figure("93 virtual minutes, idle lab", idle, "s", "below 0.3"))
    busy = [_soaked(pool="gpu-l40s") for _ in runs]
    print(figure("93 virtual minutes, one pool up", busy, "s", "below 0.3"))
    _print_heartbeats(options.nodes, max(options.runs // 2, 1))


def _started() -> float:
    with tempfile.TemporaryDirectory() as scratch:
        began = CLOCK.monotonic()
        twin = TwinProcess(Path(scratch), seed=1)
        taken = CLOCK.monotonic() - began
        twin.close()
    return taken


def _asked() -> float:
    with tempfile.TemporaryDirectory() as scratch:
        twin = TwinProcess(Path(scratch), seed=1)
        parts = urlsplit(twin.endpoint.clock_url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port)
        connection.request("GET", "/state")
        now = json.load(connection.getresponse())["now"]
        began = CLOCK.monotonic()
        connection.request("POST", f"/clock/advance?run=all&until={now + SOAK!r}")
        connection.getresponse().read()
        taken = CLOCK.monotonic() - began
        connection.close()
        twin.close()
    return taken


def _soaked(pool: str) -> float:
    engine = Engine()
    world = World(engine)
    if pool:
        asked = kubernetes_nodes(load(LAB), pool)
        kind = world.management.registry.by_kind(asked["apiVersion"], asked["kind"])
        world.management.create(kind, asked)
        engine.run_until(engine.now + JOINED)
    began = CLOCK.monotonic()
    engine.run_until(engine.now + SOAK)
    return CLOCK.monotonic() - began


def _print_heartbeats(nodes: int, runs: int) -> None:
    """Each run in a process of its own: the most memory it ever had is the process's."""
    command = [sys.executable, "-m", "bench.twin_clock", "--beat", str(nodes)]
    told = [
        json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        for _ in range(runs)
    ]
    name = f"93 virtual minutes, {nodes:,} nodes beating"
    print(figure(name, [one["seconds"] for one in told], "s"))
    print(figure("  each of its writes", [one["each"] for one in told], "us"))
    print(figure("  memory at most", [one["megabytes"] for one in told], "MB"))


def _beaten(nodes: int) -> dict[str, float]:
    engine = Engine()
    world = World(engine)
    tenant = next(iter(world.tenant_clusters.values()))
    for number in range(nodes):
        name = f"node-{number:04}"
        status = {"conditions": node_conditions(engine.now, ready=True)}
        metadata = {"name": name}
        tenant.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status},
            manager="kubelet",
        )
        Heartbeat(tenant, name).start()
    before, began = world.management.revision, CLOCK.monotonic()
    engine.run_until(engine.now + SOAK)
    taken = CLOCK.monotonic() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    each = taken / (world.management.revision - before) * 1e6
    return {"seconds": taken, "each": each, "megabytes": most}


if __name__ == "__main__":
    main()
