"""`python -m bench.booted_server`: API servers of many workers, for 93 minutes of virtual time.

For `bench.boot_ledger` only: the twin's own API server, and a writer that writes what the boot
ledger watches: Machines, VMIs and launchers once; Nodes that beat every five minutes, pods, Events
that expire after an hour; and some workers that reboot at an uptime of 4206 s, each with all its
pods. Commands come a line at a time on stdin, answers go to stdout.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from collections.abc import Callable
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
from harness.twin.engine import Engine
from harness.twin.pace import Pace
from harness.twin.world.cluster import Cluster
from harness.twin.world.heartbeats import node_conditions
from harness.twin.world.objects import rfc3339

SPACE = "tenant-bench"
MACHINES = Resource("cluster.x-k8s.io", "v1beta1", "Machine", "machines", status=True)
VMIS = Resource(
    "kubevirt.io", "v1", "VirtualMachineInstance", "virtualmachineinstances", status=True
)
BEAT, CYCLE = 300.0, 4206.0
PODS = 8
"""Pods of each worker; their sandboxes and containers are told of in two Events each at a boot."""
IMAGES = 30
"""Images that each Node lists: about half of its 8 KB."""

Obj = dict[str, Any]


def worker(number: int) -> str:
    """A worker's name: its Machine's, its VMI's, its Node's."""
    return f"worker-{number:04}"


class Workers:
    """All workers, made at once; then each with a life of its own."""

    def __init__(self, engine: Engine, management: Store, tenant: Store, count: int) -> None:
        self._engine = engine
        self._management, self._tenant = Cluster(management, engine), Cluster(tenant, engine)
        self._rng = random.Random(1)
        self._count = count

    def make(self) -> None:
        """Every object as it is once all workers have joined."""
        for number in range(self._count):
            name = worker(number)
            self._management.create(self._machine(name), manager="capi")
            vmi = {"apiVersion": "kubevirt.io/v1", "kind": VMIS.kind, "metadata": _meta(name)}
            self._management.create(vmi, manager="kubevirt")
            launcher = _pod(f"virt-launcher-{name}", SPACE, "hv-1")
            launcher["metadata"]["labels"] = {"vm.kubevirt.io/name": name}
            self._management.create(launcher, manager="kubevirt")
            self._tenant.create(self._node(name), manager="kubelet")
            for place in range(PODS):
                pod = _pod(f"pod-{place}-{name}", "kube-system", name)
                self._tenant.create(pod, manager="kubelet")

    def live(self, share: float) -> None:
        """Beats from now on; this share of the workers reboots once, after a cycle."""
        for number in range(self._count):
            name, first = worker(number), float(self._rng.randrange(int(BEAT)))
            self._engine.after(first, self._beating(name), f"{name} beats")
            if self._rng.random() < share:
                at = CYCLE + self._rng.randrange(600)
                self._engine.after(at, self._rebooting(name), f"{name} reboots")

    def _beating(self, name: str) -> Callable[[], None]:
        def beat() -> None:
            now = rfc3339(self._engine.now)

            def change(node: Obj) -> None:
                for one in node["status"]["conditions"]:
                    one["lastHeartbeatTime"] = now

            self._edit_node(name, change)
            self._engine.after(BEAT, beat, f"{name} beats")

        return beat

    def _rebooting(self, name: str) -> Callable[[], None]:
        def reboot() -> None:
            boot_id = f"{self._rng.getrandbits(128):032x}"
            self._edit_node(name, lambda node: node["status"]["nodeInfo"].update(bootID=boot_id))
            node = self._tenant.find("v1", "Node", "", name)
            assert node is not None
            text = f"Node {name} has been rebooted, boot id: {boot_id}"
            self._tenant.events.warning(node, "Rebooted", text, "kubelet")
            for place in range(PODS):
                self._restart(f"pod-{place}-{name}")

        return reboot

    def _restart(self, name: str) -> None:
        pod = self._tenant.find("v1", "Pod", "kube-system", name)
        assert pod is not None

        def again(stored: Obj) -> None:
            stored["status"]["containerStatuses"][0]["restartCount"] += 1

        self._tenant.status(pod, again, manager="kubelet")
        self._tenant.events.normal(pod, "SandboxChanged", "Pod sandbox changed", "kubelet")
        self._tenant.events.normal(pod, "Started", "Started container main", "kubelet")

    def _edit_node(self, name: str, change: Callable[[Obj], None]) -> None:
        node = self._tenant.find("v1", "Node", "", name)
        assert node is not None
        self._tenant.status(node, change, manager="kubelet")

    def _machine(self, name: str) -> Obj:
        return {
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Machine",
            "metadata": _meta(name),
            "spec": {"infrastructureRef": {"name": name}},
            "status": {"nodeRef": {"name": name}},
        }

    def _node(self, name: str) -> Obj:
        images = [
            {"names": [f"registry.example/images/part-{n}@sha256:{n:064}"], "sizeBytes": n}
            for n in range(IMAGES)
        ]
        status = {
            "conditions": node_conditions(self._engine.now, ready=True),
            "nodeInfo": {"bootID": f"{self._rng.getrandbits(128):032x}"},
            "images": images,
        }
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def _meta(name: str) -> Obj:
    return {"name": name, "namespace": SPACE}


def _pod(name: str, space: str, node: str) -> Obj:
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "registry.example/part"}]}
    ran = {"name": "main", "restartCount": 0, "ready": True, "state": {"running": {}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": space},
        "spec": spec,
        "status": {"phase": "Running", "containerStatuses": [ran]},
    }


async def _serve(options: argparse.Namespace) -> None:
    engine, log, authority = Engine(), RequestLog(limit=10**6), Authority()
    revisions, identities = Revisions(), Identities(1)

    def store(name: str, *kinds: Resource) -> Store:
        return Store(
            name,
            Registry((*BUILTIN, *kinds)),
            now=lambda: engine.now,
            revisions=revisions,
            identities=identities,
        )

    management, tenant = store("management", MACHINES, VMIS), store("tenant")
    for where, space in ((management, SPACE), (tenant, "kube-system"), (tenant, "default")):
        where.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}, manager="bench"
        )
    workers = Workers(engine, management, tenant, options.count)
    workers.make()
    servers = [
        ApiServer(one, NoBackend(), authority=authority, request_log=log)
        for one in (management, tenant)
    ]
    for server in servers:
        await server.start()
    admin = Admin(
        engine,
        servers,
        pace=Pace(engine),
        revision=lambda: management.revision,
        describe=dict,
        plant=lambda _: None,
        requests=log,
    )
    await admin.start()
    certificate, key = authority.client("bench", ("system:masters",))
    names = ("management", "tenant")
    way = {
        name: (server.url, authority.ca_pem, certificate, key)
        for name, server in zip(names, servers, strict=True)
    }
    options.directory.joinpath("kubeconfig").write_text(yaml.safe_dump(kubeconfig(way, "tenant")))
    say({"clock": admin.url})
    loop = asyncio.get_running_loop()
    while command := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        if command == "go":
            workers.live(options.share)
        say({"requests": log.count()})
    await admin.close()
    for server in servers:
        await server.close()


def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("share", type=float)
    asyncio.run(_serve(parser.parse_args()))


if __name__ == "__main__":
    main()
