"""A world with its golden, disks asked of CDI by hand, and what a watch saw of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.twin.apiserver.store import Change
from harness.twin.engine import Engine
from harness.twin.world.images import VANILLA
from harness.twin.world.objects import CDI, STORAGE, Obj
from harness.twin.world.world import World

TENANT, PUBLIC = "tenant-hil", "cozy-public"
GOLDEN = f"talos-worker-{VANILLA}-v1.13.6"
URL = f"https://factory.talos.dev/image/{VANILLA}/v1.13.6/openstack-amd64.raw.xz"


@dataclass
class Disks:
    """The lab. ``seen`` is every change of its management cluster."""

    world: World
    engine: Engine
    seen: list[tuple[float, Change]] = field(default_factory=list)

    # -- to ask for

    def create(self, obj: Obj, **more: Any) -> Obj:
        resource = self.world.management.registry.by_kind(obj["apiVersion"], obj["kind"])
        namespace = obj["metadata"].get("namespace", "")
        return self.world.management.create(resource, obj, namespace=namespace, **more)

    def volume(self, name: str, source: Obj, size: str, **more: Any) -> Obj:
        """A DataVolume of class replicated; ``notes``: annotations; ``klass=""``: none said."""
        storage: Obj = {"resources": {"requests": {"storage": size}}, **more.get("storage", {})}
        klass = more.get("klass", "replicated")
        if klass:
            storage["storageClassName"] = klass
        metadata = {"name": name, "namespace": more.get("namespace", TENANT)}
        metadata["annotations"] = dict(more.get("notes", {}))
        return {
            "apiVersion": CDI,
            "kind": "DataVolume",
            "metadata": metadata,
            "spec": {"source": source, "storage": storage},
        }

    def clone(
        self, name: str = "disk", size: str = "20Gi", source: str = GOLDEN, **more: Any
    ) -> None:
        self.create(self.volume(name, {"pvc": {"namespace": PUBLIC, "name": source}}, size, **more))

    def http(self, name: str = "disk", size: str = "20Gi", url: str = URL, **more: Any) -> None:
        self.create(self.volume(name, {"http": {"url": url}}, size, **more))

    def import_golden(self, name: str = "golden", **more: Any) -> None:
        """An import as the catalogue asks for one."""
        notes = {
            "cdi.kubevirt.io/storage.usePopulator": "true",
            "cdi.kubevirt.io/storage.bind.immediate.requested": "true",
        }
        self.http(name, "6Gi", **{"namespace": PUBLIC, "notes": notes, **more})

    def edit(self, obj: Obj, change: Callable[[Obj], None]) -> Obj:
        metadata = obj["metadata"]
        where = (metadata.get("namespace", ""), metadata["name"])
        kind = (obj["apiVersion"], obj["kind"])
        return self.world.management.edit(*kind, *where, change, manager="kubectl")

    def delete(self, obj: Obj) -> None:
        resource = self.world.management.registry.by_kind(obj["apiVersion"], obj["kind"])
        metadata = obj["metadata"]
        self.world.management.delete(resource, metadata.get("namespace", ""), metadata["name"])

    def klass(self, name: str) -> Obj:
        return self.get(STORAGE, "StorageClass", "", name)

    def add_class(self, name: str, **more: Any) -> None:
        """A class like replicated, but for what is given."""
        like = {k: v for k, v in self.klass("replicated").items() if k != "metadata"}
        self.create({**like, "metadata": {"name": name, **more.pop("metadata", {})}, **more})
        self.run(1)

    def quota(self, size: str, namespace: str = TENANT) -> Obj:
        return self.create(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "storage", "namespace": namespace},
                "spec": {"hard": {"requests.storage": size}},
            }
        )

    def use(self, claim: str, namespace: str = PUBLIC, name: str = "user") -> Obj:
        """A pod that has a claim open."""
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": claim}}
        return self.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"containers": [{"name": "c", "image": "x"}], "volumes": [volume]},
            }
        )

    # -- time

    def run(self, seconds: float) -> None:
        self.engine.run_until(self.engine.now + seconds)

    def until(self, done: Callable[[], Any], within: float = 600.0) -> None:
        self.engine.run_until(self.engine.now + within, stop=lambda: bool(done()))
        assert done(), f"not within {within} s"

    def finish(self, name: str = "disk", namespace: str = TENANT) -> Obj:
        """Let time pass until a DataVolume has succeeded and all is tidied up."""
        self.until(lambda: self.phase(name, namespace) == "Succeeded")
        self.run(30)
        return self.get(CDI, "DataVolume", namespace, name)

    # -- what is there, and what was seen

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Obj:
        found = self.world.management.find(api_version, kind, namespace, name)
        assert found is not None, f"no {kind} {namespace}/{name}"
        return found

    def phase(self, name: str = "disk", namespace: str = TENANT) -> str:
        return str((self.get(CDI, "DataVolume", namespace, name).get("status") or {}).get("phase"))

    def claim(self, name: str = "disk", namespace: str = TENANT) -> Obj:
        return self.get("v1", "PersistentVolumeClaim", namespace, name)

    def notes(self, name: str = "disk", namespace: str = TENANT) -> dict[str, str]:
        """A claim's annotations, without the group in front."""
        found = self.claim(name, namespace)["metadata"]["annotations"]
        return {key.removeprefix("cdi.kubevirt.io/"): value for key, value in found.items()}

    def condition(self, kind: str, name: str = "disk", namespace: str = TENANT) -> tuple[str, ...]:
        """Status, reason and message."""
        found = self.get(CDI, "DataVolume", namespace, name)["status"]["conditions"]
        (one,) = [c for c in found if c["type"] == kind]
        return one["status"], one.get("reason", ""), one.get("message", "")

    def phases(self, name: str = "disk", namespace: str = TENANT) -> list[str]:
        """The phases of a DataVolume, as a watch saw them."""
        return [phase for _, phase in self.timed_phases(name, namespace)]

    def timed_phases(self, name: str = "disk", namespace: str = TENANT) -> list[tuple[float, str]]:
        found: list[tuple[float, str]] = []
        for when, change in self.seen:
            obj = change.obj
            mine = (obj["metadata"].get("namespace"), obj["metadata"]["name"]) == (namespace, name)
            phase = (obj.get("status") or {}).get("phase")
            told = change.resource.kind == "DataVolume" and mine and phase
            if told and (not found or found[-1][1] != phase):
                found.append((when, phase))
        return found

    def made(self, kind: str, namespace: str = "") -> list[str]:
        """Names of the objects of a kind that came since the beginning, gone or not."""
        return [
            c.obj["metadata"]["name"]
            for _, c in self.seen
            if c.type == "ADDED"
            and c.resource.kind == kind
            and namespace in ("", c.obj["metadata"].get("namespace"))
        ]

    def events(self, reason: str) -> list[Obj]:
        found = self.world.management.all("v1", "Event")
        return [event for event in found if event["reason"] == reason]

    def left(self) -> list[tuple[str, str]]:
        """What there is now and was not at the beginning: kind and name; Events aside."""
        return sorted(self._everything() - self._before)

    def begin(self) -> None:
        self.world.management.subscribe(lambda c: self.seen.append((self.engine.now, c)))
        self._before = self._everything()

    def _everything(self) -> set[tuple[str, str]]:
        return {
            (resource.kind, f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}")
            for resource in self.world.management.registry
            if resource.kind not in ("Event", "Lease", "CSIStorageCapacity")
            for obj in self.world.management.all(resource.api_version, resource.kind)
        }


@pytest.fixture
def disks() -> Disks:
    engine = Engine()
    made = Disks(World(engine), engine)
    made.run(60)
    made.begin()
    return made
