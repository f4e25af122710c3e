"""A world on virtual time, and short ways to ask it things."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from harness.twin.apiserver.store import Change, Store
from harness.twin.engine import Engine
from harness.twin.world.images import NVIDIA_OPEN
from harness.twin.world.objects import APPS, BOOTSTRAP, CAPI, Obj
from harness.twin.world.world import World

NAMESPACE = "tenant-hil"
L40S = "nvidia.com/AD102GL_L40S"
GB202 = "nvidia.com/GB202GL_RTX_PRO_6000_BLACKWELL_SERVER_EDITION"


@dataclass
class Lab:
    world: World
    engine: Engine

    @property
    def management(self) -> Store:
        return self.world.management

    @property
    def tenant(self) -> Store:
        return self.world.tenants["lab"]

    def pool(self, name: str = "gpu", **spec: Any) -> Obj:
        """Create a pool of one worker; ``gpus`` and ``osImage`` as given."""
        body = {"cluster": "lab", "minReplicas": 1, "maxReplicas": 2, "instanceType": "u1.large"}
        obj = {
            "apiVersion": APPS,
            "kind": "KubernetesNodes",
            "metadata": {"name": f"lab-{name}", "namespace": NAMESPACE},
            "spec": {**body, **spec},
        }
        resource = self.management.registry.by_kind(APPS, "KubernetesNodes")
        return self.management.create(resource, obj, namespace=NAMESPACE)

    def gpu_pool(self, name: str = "gpu", gpu: str = L40S, **spec: Any) -> Obj:
        image = {"factory": {"schematicID": NVIDIA_OPEN}}
        return self.pool(name, **{"gpus": [{"name": gpu}], "osImage": image, **spec})

    def delete_pool(self, name: str = "gpu") -> None:
        resource = self.management.registry.by_kind(APPS, "KubernetesNodes")
        self.management.delete(resource, NAMESPACE, f"lab-{name}")

    def edit_pool(self, name: str, change: Callable[[Obj], None]) -> None:
        self.management.edit(
            APPS, "KubernetesNodes", NAMESPACE, f"lab-{name}", change, manager="kubectl"
        )

    def run(self, seconds: float) -> None:
        self.engine.run_until(self.engine.now + seconds)

    def run_until(self, done: Callable[[], Any], within: float) -> float:
        """Let time pass until ``done``; seconds it took. Fails the test where it takes longer."""
        start = self.engine.now
        reached = self.engine.run_until(start + within, stop=lambda: bool(done()))
        assert done(), f"not within {within} s"
        return reached - start

    def one(self, api_version: str, kind: str, store: Store | None = None) -> Obj:
        """The only object of a kind, apart from the platform's golden and what it consists of."""
        every = (store or self.management).all(api_version, kind)
        found = [obj for obj in every if not _of_golden(obj)]
        assert len(found) == 1, [obj["metadata"]["name"] for obj in found]
        return found[0]

    def ours(self, api_version: str, kind: str, part: str = "kubernetes-lab-gpu") -> list[Obj]:
        found = self.management.all(api_version, kind, NAMESPACE)
        return [obj for obj in found if part in obj["metadata"]["name"]]

    def nodes(self) -> list[Obj]:
        return self.tenant.all("v1", "Node")

    def joined(self) -> list[Obj]:
        return [m for m in self.management.all(CAPI, "Machine") if condition(m, "Ready") == "True"]

    def machine_config(self) -> Obj:
        template = self.one(BOOTSTRAP, "TalosConfigTemplate")
        text = template["spec"]["template"]["spec"]["data"]
        loaded: Obj = yaml.safe_load(text)
        return loaded

    def events(self, reason: str, store: Store | None = None) -> list[Obj]:
        return [e for e in (store or self.management).all("v1", "Event") if e["reason"] == reason]

    def record(self) -> list[Change]:
        """Every change of both clusters from now on."""
        seen: list[Change] = []
        self.management.subscribe(seen.append)
        self.tenant.subscribe(seen.append)
        return seen


def _of_golden(obj: Obj) -> bool:
    claimed = (obj.get("spec") or {}).get("claimRef") or {}
    return "cozy-public" in (obj["metadata"].get("namespace"), claimed.get("namespace"))


def condition(obj: Obj, kind: str, field: str = "status") -> Any:
    for one in (obj.get("status") or {}).get("conditions") or ():
        if one["type"] == kind:
            return one.get(field)
    return None


@pytest.fixture
def lab() -> Lab:
    engine = Engine()
    return Lab(World(engine), engine)
