"""A pod on a worker that needs the tenant's addons: a disk of the default class, and a name.

It and its claim are made when somebody looks and are gone when they have been looked at; what an
earlier run left is deleted first. What keeps them from coming about stays in the fact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.bringup.errors import PoolNotReady
from harness.bringup.ownership import MANAGED
from harness.bringup.probes import FOR_EVER, GONE_BUDGET, NAMESPACE, POD_BUDGET
from harness.facts import addons
from harness.facts.addons import COREDNS, CSI, METRICS, NAME, DiskTry, NameLookup, TenantAddons
from harness.facts.fact import Origin, Unread
from harness.facts.objects import Obj, listed, mapped, name_of, text_at
from harness.facts.probes import CONTAINER
from harness.observe.addons import DNS_SERVICE, DNS_SPACE, STORAGE, releases, tenant_addons
from harness.observe.guest import output_of
from harness.reach.errors import ApiRefused
from harness.reach.execs import Reply, run_in_pod

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool
    from harness.bringup.worker import Worker

ADDON_BUDGET = 600.0
"""Seconds that addons may take on workers that are Ready: images to be pulled, a first scrape."""
PAUSE = 5.0
"""Seconds between two looks while something is missing."""
MADE_FOR = "hil.dev/addons-of"
"""Label of pod and claim: the pool they were made for. Who holds its Lease may delete them."""
PATH = "/data"
SIZE = "1Gi"
_CLAIM = "PersistentVolumeClaim"


def tenant_addon_facts(pool: HeldPool) -> TenantAddons:
    """The addons on a pool's workers, once they are up or their time is over.

    Raises PoolNotReady where a worker has not joined.
    """
    lab, place = pool.lab, pool.lab.inventory.tenant
    there = releases(lab.management, place.namespace, place.cluster)
    nodes = [_joined(worker) for worker in pool.workers]
    trial = AddonTrial(pool, nodes[0])
    disk, lookup = trial.run(lookup=COREDNS in there, disk=CSI in there)
    deadline = lab.clock.deadline(ADDON_BUDGET)
    while True:
        found = tenant_addons(lab.tenant, there, nodes, now=lab.clock.now, lookup=lookup, disk=disk)
        # one of another pool that has just joined is counted before its ingress pod is Ready
        ingress = not pool.terms.beside or _ingress(found)
        if (_settled(found) and ingress) or deadline.expired:
            return found
        pool.pause(min(PAUSE, deadline.remaining()), "addons to come up on every worker")


def _joined(worker: Worker) -> str:
    if worker.absent:
        raise PoolNotReady(worker.absent)
    return worker.name


def _settled(found: TenantAddons) -> bool:
    """Whether nothing is missing that may still come."""
    agents = all(one.agent == "Ready" for one in found.workers) or "cilium" not in found.there
    drivers = all(one.drivers for one in found.workers) or CSI not in found.there
    figures = all(one.measured for one in found.workers) or METRICS not in found.there
    dns = found.dns is None or found.dns.available == "True"
    return agents and drivers and figures and dns


def _ingress(found: TenantAddons) -> bool:
    return all(one.ready >= one.wanted for one in found.ingress)


class AddonTrial:
    """One pod with one claim on one node."""

    def __init__(self, pool: HeldPool, node: str) -> None:
        self._pool, self._node = pool, node
        self._kube, self._clock = pool.lab.tenant, pool.lab.clock
        self.claim = f"hil-addons-{pool.name}"

    def run(
        self, *, lookup: bool, disk: bool
    ) -> tuple[DiskTry | Unread | None, NameLookup | Unread | None]:
        """Make what is needed, look, and delete it; None for what is not asked."""
        if not lookup and not disk:
            return None, None
        self._pool.probes.ensure_namespace()
        self.clear()
        try:
            try:
                storage_class = self._make_claim() if disk else ""
                pod = self._make_pod(with_disk=bool(storage_class))
            except ApiRefused as refused:
                why = f"the API would not make it: {refused}"
                return self._unread("the claim", why), self._unread("the lookup", why)
            return (
                self._disk(storage_class, pod) if disk else None,
                self._lookup(pod) if lookup else None,
            )
        finally:
            self._pool.lease.renew(self._clock)  # else they are those of the run that has it now
            self.clear()

    def clear(self) -> None:
        """Delete pod and claim and see them go; none is fine."""
        selector = f"{MADE_FOR}={self._pool.name}"
        pods = self._kube.list("v1", "Pod", NAMESPACE, labels=selector)
        for pod in pods:
            self._kube.delete("v1", "Pod", NAMESPACE, name_of(pod))
        claims = self._kube.list("v1", _CLAIM, NAMESPACE, labels=selector)
        for claim in claims:
            self._kube.delete("v1", _CLAIM, NAMESPACE, name_of(claim))
        if pods or claims:
            self._pool.wait(self._is_gone, GONE_BUDGET, f"{self.claim} and its pod to be gone")

    def _is_gone(self) -> bool:
        selector = f"{MADE_FOR}={self._pool.name}"
        kinds = ("Pod", _CLAIM)
        return not any(self._kube.list("v1", one, NAMESPACE, labels=selector) for one in kinds)

    # -- its disk

    def _make_claim(self) -> str:
        """Ask for a disk of the default class; its name, "" where there is none to ask for."""
        found = addons.default_class(self._kube.list(STORAGE, "StorageClass"))
        if found:
            spec = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": found,
                "resources": {"requests": {"storage": SIZE}},
            }
            metadata = {"name": self.claim, **self._metadata()}
            self._kube.create(
                {"apiVersion": "v1", "kind": _CLAIM, "metadata": metadata, "spec": spec}
            )
        return found

    def _disk(self, storage_class: str, pod: str) -> DiskTry | Unread:
        if not storage_class:
            return self._unread("a claim of the default class", "not one class is the default")
        claim = self._kube.get("v1", _CLAIM, NAMESPACE, self.claim) or {}
        volume = text_at(claim, "spec", "volumeName")
        bound = self._kube.get("v1", "PersistentVolume", "", volume) if volume else None
        running = self._kube.get("v1", "Pod", NAMESPACE, pod) or {}
        device, kind, wrote = "", "", None
        if text_at(running, "status", "phase") == "Running":
            mounts = self._exec(pod, ["cat", "/proc/mounts"])
            device, kind = addons.mounted_at(PATH, mounts.stdout.decode("utf-8", "replace"))
            argv = ["dd", "if=/dev/urandom", f"of={PATH}/hil", "bs=65536", "count=1", "conv=fsync"]
            wrote = self._exec(pod, argv).exit_code
        return DiskTry(
            self._origin(f"PersistentVolumeClaim {NAMESPACE}/{self.claim}"),
            storage_class,
            text_at(claim, "status", "phase"),
            addons.volume_driver(bound),
            addons.standing(running) if running else "gone",
            _why(running),
            device,
            kind,
            wrote,
        )

    # -- its names

    def _lookup(self, pod: str) -> NameLookup | Unread:
        wanted = self._kube.get("v1", "Service", "default", "kubernetes") or {}
        server = self._kube.get("v1", "Service", DNS_SPACE, DNS_SERVICE) or {}
        running = self._kube.get("v1", "Pod", NAMESPACE, pod) or {}
        if text_at(running, "status", "phase") != "Running":
            why = f"no pod runs to ask from: {addons.standing(running)} {_why(running)}".strip()
            return self._unread(f"nslookup {NAME}", why)
        reply = self._exec(pod, ["nslookup", NAME])
        return addons.read_lookup(
            output_of(reply),
            at=reply.ended,
            source=f"{self._kube.name} Pod {NAMESPACE}/{pod}",
            service=text_at(server, "spec", "clusterIP"),
            wanted=text_at(wanted, "spec", "clusterIP"),
        )

    # -- its pod

    def _make_pod(self, *, with_disk: bool) -> str:
        container: Obj = {
            "name": CONTAINER,
            "image": self._pool.request.shell_image,
            "command": list(FOR_EVER),
        }
        spec: Obj = {
            "nodeSelector": {"kubernetes.io/hostname": self._hostname()},
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
        }
        if with_disk:
            container["volumeMounts"] = [{"name": "disk", "mountPath": PATH}]
            claim = {"claimName": self.claim}
            spec["volumes"] = [{"name": "disk", "persistentVolumeClaim": claim}]
        metadata = {"generateName": "hil-addons-", **self._metadata()}
        made = self._kube.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        )
        name = name_of(made)
        feed = self._pool.lab.observatory.feed(self._kube, "v1", "Pod", NAMESPACE)
        phases = ("Running", "Succeeded", "Failed")
        self._pool.wait(
            lambda: text_at(feed.object(name) or {}, "status", "phase") in phases,
            POD_BUDGET,
            f"pod {NAMESPACE}/{name} to run",
        )
        return name

    def _hostname(self) -> str:
        node = self._pool.watched.nodes.object(self._node) or {}
        labels = mapped(node, "metadata", "labels")
        return text_at(labels, "kubernetes.io/hostname") or self._node

    def _exec(self, pod: str, argv: list[str]) -> Reply:
        return run_in_pod(self._kube, NAMESPACE, pod, argv, container=CONTAINER)

    def _metadata(self) -> Obj:
        return {"namespace": NAMESPACE, "labels": {**MANAGED, MADE_FOR: self._pool.name}}

    def _origin(self, what: str) -> Origin:
        return Origin(self._clock.now(), f"{self._kube.name} {what}", "")

    def _unread(self, what: str, why: str) -> Unread:
        return Unread(self._origin(what), what, why)


def _why(pod: Obj) -> str:
    """Why a pod does not run, as far as its conditions tell."""
    for one in listed(pod, "status", "conditions"):
        if text_at(one, "status") == "False" and text_at(one, "message"):
            return text_at(one, "message")
    return ""
