"""A world under one fault, on virtual time, with one worker that has a card."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from harness.twin.engine import Engine
from harness.twin.faults.catalogue import plant
from harness.twin.world.images import NVIDIA_OPEN
from harness.twin.world.objects import APPS, Obj
from harness.twin.world.world import World

SPACE = "tenant-hil"
L40S = "nvidia.com/AD102GL_L40S"
GPU = "nvidia.com/gpu"
HOUR = 3600.0


@dataclass
class Faulty:
    """The lab. `gpu` makes a pool of one worker and lets its GPU operator come to an end."""

    world: World
    engine: Engine

    @property
    def tenant(self) -> Any:
        return self.world.tenants["lab"]

    @property
    def guest(self) -> Any:
        (found,) = self.world.guests.all()
        return found

    @property
    def node(self) -> Obj:
        found: Obj
        (found,) = self.tenant.all("v1", "Node")
        return found

    def pool(self, name: str = "gpu", gpu: str = L40S, schematic: str = NVIDIA_OPEN) -> None:
        spec: Obj = {"cluster": "lab", "minReplicas": 1, "talos": {"schematicID": schematic}}
        spec |= {"gpus": [{"name": gpu}]} if gpu else {}
        metadata = {"name": f"lab-{name}", "namespace": SPACE}
        pool = {"apiVersion": APPS, "kind": "KubernetesNodes", "metadata": metadata, "spec": spec}
        resource = self.world.management.registry.by_kind(APPS, "KubernetesNodes")
        self.world.management.create(resource, pool, namespace=SPACE)

    def run(self, seconds: float) -> None:
        self.engine.run_until(self.engine.now + seconds)

    def until(self, done: Callable[[], Any], within: float = HOUR) -> None:
        self.engine.run_until(self.engine.now + within, stop=lambda: bool(done()))
        assert done(), f"not within {within} s"

    def offered(self) -> str:
        nodes = self.tenant.all("v1", "Node")
        return str(nodes[0]["status"]["allocatable"].get(GPU, "")) if nodes else ""

    def card(self, gpu: str = L40S) -> None:
        """A worker with a card that its Node offers."""
        self.pool(gpu=gpu)
        self.until(lambda: self.offered() == "1")

    def pod(self, name: str, *, cards: int = 0, **more: Any) -> Obj:
        limits = {"resources": {"limits": {GPU: str(cards)}}} if cards else {}
        container = {
            "name": "probe",
            "image": "ubuntu:24.04",
            "command": ["sleep", "9999"],
            **limits,
        }
        body = {
            "metadata": {"name": name, **more},
            "spec": {"nodeName": self.node["metadata"]["name"], "containers": [container]},
        }
        kind = self.tenant.registry.by_kind("v1", "Pod")
        made: Obj = self.tenant.create(kind, body, namespace="default")
        return made

    def smi(self, name: str) -> Any:
        def runs() -> bool:
            found = self.tenant.find("v1", "Pod", "default", name)
            return bool(found["status"].get("phase") == "Running")

        self.until(runs, 120.0)
        return self.world.exec("tenant-lab", "default", name, "probe", ["nvidia-smi", "-L"])

    def operand(self, app: str) -> Obj:
        """The pod of one of the operator's DaemonSets."""
        pods = self.tenant.all("v1", "Pod", "cozy-gpu-operator")
        (found,) = [one for one in pods if one["metadata"]["labels"].get("app") == app]
        return dict(found)


@pytest.fixture
def faulty() -> Callable[[str], Faulty]:
    def make(fault: str) -> Faulty:
        engine = Engine()
        world = World(engine)
        plant(world, fault)
        return Faulty(world, engine)

    return make
