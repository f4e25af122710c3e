"""What a driver is given, and how it tells what it saw: one line of JSON for each topic.

A driver runs in its client's own environment, where nothing of the harness can be imported.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.request import Request, urlopen

MANAGEMENT, TENANT = "management", "tenant-lab"
POOLS = "tenant-hil"  # where the pools of the standing twin are
POOL = "lab-gpu-l40s"
Obj = dict[str, Any]


@dataclass(frozen=True)
class Surroundings:
    """The twin, and the namespace that is the driver's own in both of its clusters."""

    kubeconfig: str
    namespace: str
    clock: str  # the address of the port that moves time
    home: str  # a directory of the driver's own

    def _ask(self, verb: str, path: str) -> Obj:
        with urlopen(Request(f"{self.clock}{path}", method=verb), timeout=60) as answer:
            told: Obj = json.load(answer)
        return told

    def state(self) -> Obj:
        return self._ask("GET", "/state")

    def advance(self, seconds: float) -> None:
        until = self.state()["now"] + seconds
        self._ask("POST", f"/clock/advance?run=all&until={until!r}")

    def watches(self, cluster: str, kind: str) -> int:
        return int(self.state()["watches"][cluster].get(kind, 0))

    @contextmanager
    def beside(self, cluster: str, kind: str, act: Callable[[], object]) -> Iterator[None]:
        """Do ``act`` once the body of the `with` has a watch on ``kind`` open."""
        before = self.watches(cluster, kind)

        def wait_and_act() -> None:
            for _ in range(20_000):  # each look asks the twin, which paces the loop
                if self.watches(cluster, kind) > before:
                    act()
                    return

        thread = threading.Thread(target=wait_and_act)
        thread.start()
        yield
        thread.join()

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Time moves, a virtual second at a time, while the body of the `with` runs."""
        done = threading.Event()

        def move() -> None:
            while not done.wait(0.02):
                self.advance(1)

        thread = threading.Thread(target=move)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def pod(self, name: str) -> Obj:
        """A pod that sleeps, and sees its worker's root where it may."""
        container = {
            "name": "main",
            "image": "docker.io/library/busybox:1.37",
            "command": ["sleep", "86400"],
            "securityContext": {"privileged": True},
        }
        metadata = {"name": name, "namespace": self.namespace, "labels": {"app": name}}
        spec = {"containers": [container]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def config_map(self, name: str, **data: str) -> Obj:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def drive(*topics: Callable[[Surroundings], Obj]) -> None:
    """Go through ``topics`` in their order; what the first that raises saw is its traceback."""
    parser = argparse.ArgumentParser()
    for name in ("kubeconfig", "namespace", "clock", "home"):
        parser.add_argument(name)
    given = Surroundings(**vars(parser.parse_args()))
    for topic in topics:
        line = {"topic": topic.__name__, "saw": topic(given)}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
