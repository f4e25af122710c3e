"""`python -m bench.watching`: what it costs to watch many objects, and how far behind one is.

The server is a process of its own (`bench.watched_server`), and so is each client that is
measured: the most memory it ever had is the process's. It imports what `hil run` imports. All on
loopback, without TLS; a moment that the server writes into an object is the same clock's here.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from bench.figures import figure, own_cpu, own_memory
from bench.watched_server import PLACES
from harness.clock import WallClock
from harness.reach.history import Revision
from harness.reach.watch import Feed, Observatory

CLOCK = WallClock()
BEATS = 20  # of each Node in 93 minutes: a kubelet writes its status every five (lab figures)
WAITS = 500


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter, one run of each")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--client", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        what, kind, port, amount = options.client
        print(json.dumps(CLIENTS[what](kind, int(port), float(amount))))
        return
    runs, seconds = (1, 15) if options.quick else (options.runs, 60)
    print(
        f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, load {os.getloadavg()[0]}"
    )
    _print_bare(runs)
    _print_listing(runs)
    _print_nodes(runs)
    _print_rate(runs, seconds)
    _print_waits(runs)


def _print_bare(runs: int) -> None:
    told = [_measured("bare", "Node", 1, 0, "") for _ in range(runs)]
    _print("hil, nothing watched: memory", _each(told, "megabytes"), "MB")


def _print_listing(runs: int) -> None:
    told = [_measured("list", "Pod", 10_000, 0, "") for _ in range(runs)]
    _print("10,000 Pods listed: time", _each(told, "seconds"), "s", 10)
    _print("  sent", [one["sent"] / 1e6 for one in told], "MB")
    _print("  their history", [one["history"] / 1e6 for one in told], "MB")
    _print("  memory at most", _each(told, "megabytes"), "MB", 150)


def _print_nodes(runs: int) -> None:
    beats = BEATS * 1000
    told = [_measured("beats", "Node", 1000, beats, f"run 0 {beats}") for _ in range(runs)]
    _print("1,000 Nodes: JSON of each", [one["size"] / 1000 for one in told], "KB")
    _print("  listed: memory", _each(told, "first"), "MB", 150)
    _print("  20 beats of each, taken in", [beats / one["seconds"] for one in told], "/s")
    _print("  their history", [one["history"] / 1e6 for one in told], "MB")
    _print("  memory at most", _each(told, "megabytes"), "MB", 150)


def _print_rate(runs: int, seconds: int) -> None:
    count = 1000 * seconds
    told = [_measured("lag", "Pod", 1000, count, f"run 1000 {seconds}") for _ in range(runs)]
    for when in ("first", "last"):
        for share in ("p50", "p95", "max"):
            name = f"1,000 events/s, {when} {min(10, seconds // 3)} s of {seconds}: lag {share}"
            limit = {"p50": 5, "p95": 25}.get(share)
            _print(name, [one[when][share] * 1000 for one in told], "ms", limit)
    _print("  one processor, busy", [one["cpu"] / seconds * 100 for one in told], "%", 60)


def _print_waits(runs: int) -> None:
    told = [_measured("waits", "Pod", WAITS, 1000 * 10, "run 1000 10") for _ in range(runs)]
    _print("500 waits, 1,000 events/s: requests", _each(told, "requests"), "", 2)
    _print("  met", _each(told, "met"), "")
    _print("  predicates asked, each", _each(told, "asked_each"), "")
    _print("  lag max", [one["lag"] * 1000 for one in told], "ms", 250)
    _print("  one processor, busy", [one["cpu"] / 10 * 100 for one in told], "%", 60)


def _each(told: list[dict[str, Any]], name: str) -> list[float]:
    return [float(one[name]) for one in told]


def _print(name: str, values: list[float], unit: str, most: float | None = None) -> None:
    if most is None:
        print(figure(name, values, unit), flush=True)
        return
    verdict = "ok" if max(values) <= most else "over"
    print(figure(name, values, unit, f"at most {most:g}"), verdict, flush=True)


# -- the processes -----------------------------------------------------------------------------


def _measured(what: str, kind: str, objects: int, amount: float, command: str) -> dict[str, Any]:
    """What a client says, with what its server says; ``command`` is the server's."""
    server = subprocess.Popen(
        [sys.executable, "-m", "bench.watched_server", kind, str(objects)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdin is not None
    assert server.stdout is not None
    with server:
        began = json.loads(server.stdout.readline())
        client = subprocess.Popen(
            [
                *(sys.executable, "-m", "bench.watching", "--client"),
                *(what, kind, str(began["port"]), str(amount)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        if command:
            server.stdin.write(command + "\n")
            server.stdin.flush()
            server.stdout.readline()
        told: dict[str, Any] = json.loads(client.communicate()[0])
        server.stdin.write("state\n")
        server.stdin.flush()
        state = json.loads(server.stdout.readline())
        server.stdin.close()
    return {**began, **told, **state}


@contextmanager
def _following(kind: str, port: int) -> Iterator[Feed]:
    """A feed, in a process that has imported what `hil run` does."""
    import kubernetes.client  # noqa: F401 - for its memory

    import harness.plugin  # noqa: F401 - for its memory
    from harness.reach.access import client_from_text
    from harness.reach.kube import Kube

    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "u", "user": {"token": "none"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    cluster = Kube("lab", client_from_text(yaml.safe_dump(config)), CLOCK)
    namespace = "lab" if "namespaces" in PLACES[kind] else ""
    observatory = Observatory(CLOCK)
    yield observatory.feed(cluster, "v1", kind, namespace)
    observatory.close()


def _bare(kind: str, port: int, amount: float) -> dict[str, Any]:
    with _following(kind, port):
        return {"megabytes": own_memory(), "seconds": amount}


def _listed(kind: str, port: int, amount: float) -> dict[str, Any]:
    began = CLOCK.monotonic() + amount
    with _following(kind, port) as feed:
        taken = CLOCK.monotonic() - began
        return {"seconds": taken, "history": feed.history.bytes, "megabytes": own_memory()}


def _beaten(kind: str, port: int, amount: float) -> dict[str, Any]:
    with _following(kind, port) as feed:
        first, began = own_memory(), CLOCK.monotonic()
        _until(feed, lambda: feed.history.place >= 1000 + amount)
        taken = CLOCK.monotonic() - began
        assert feed.healthy()
        told = {"first": first, "seconds": taken, "history": feed.history.bytes}
        return {**told, "megabytes": own_memory()}


def _lagging(kind: str, port: int, amount: float) -> dict[str, Any]:
    lags: list[float] = []

    def measure(revision: Revision) -> bool:
        if revision.source == "event":
            lags.append(_lag(revision))
        return len(lags) >= amount

    with _following(kind, port) as feed:
        before = own_cpu()
        assert feed.wait(measure, CLOCK.deadline(600), "every event")
        some = int(min(10_000, amount // 3))
        told = {"first": _shares(lags[:some]), "last": _shares(lags[-some:])}
        return {**told, "cpu": own_cpu() - before}


def _waiting(kind: str, port: int, amount: float) -> dict[str, Any]:
    asked = [0] * WAITS
    met = [False] * WAITS
    lags: list[float] = []

    with _following(kind, port) as feed:

        def wait(number: int) -> None:
            def twentieth(revision: Revision) -> bool:
                asked[number] += 1
                if asked[number] > amount // WAITS:
                    lags.append(_lag(revision))
                return asked[number] > amount // WAITS

            name = f"pod-{number:05}"
            waited = feed.outcome(twentieth, CLOCK.deadline(120), "its last event", name=name)
            met[number] = waited.kind == "met"

        before = own_cpu()
        threads = [threading.Thread(target=wait, args=(n,)) for n in range(WAITS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        told = {"requests": feed.requests, "met": sum(met), "asked_each": max(asked)}
        return {**told, "lag": max(lags), "cpu": own_cpu() - before}


CLIENTS: dict[str, Callable[[str, int, float], dict[str, Any]]] = {
    "bare": _bare,
    "list": _listed,
    "beats": _beaten,
    "lag": _lagging,
    "waits": _waiting,
}


def _until(feed: Feed, holds: Callable[[], bool]) -> None:
    assert feed.clock.wait(holds, CLOCK.deadline(600), "it"), feed.cuts


def _lag(revision: Revision) -> float:
    return CLOCK.monotonic() - float(revision.obj["status"]["conditions"][0]["lastHeartbeatTime"])


def _shares(lags: list[float]) -> dict[str, float]:
    ordered = sorted(lags)
    at = {"p50": len(ordered) // 2, "p95": len(ordered) * 95 // 100, "max": -1}
    return {name: ordered[place] for name, place in at.items()}


if __name__ == "__main__":
    main()
