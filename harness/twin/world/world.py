"""The whole simulated lab: its clusters, its controllers, and what a fault may take hold of."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.apiserver.access import Access
from harness.twin.apiserver.builtin_kinds import BUILTIN
from harness.twin.apiserver.errors import ApiError, not_found
from harness.twin.apiserver.execresult import ExecResult, Running
from harness.twin.apiserver.resources import Registry, Resource
from harness.twin.apiserver.store import Admission, Change, Identities, Revisions, Store
from harness.twin.engine import Engine
from harness.twin.world import (
    capi,
    containers,
    kinds,
    landscape,
    landscape_tenant,
    machinesets,
    pods,
    podsecurity,
    projection,
    shapes,
    talos_reconcile,
)
from harness.twin.world.addons import Addons
from harness.twin.world.capk import KubevirtMachines
from harness.twin.world.cdi import DataVolumes
from harness.twin.world.chart_behaviour import CatalogueChart, ChartBehaviour, KubernetesChart
from harness.twin.world.claims import Claims
from harness.twin.world.cluster import Cluster
from harness.twin.world.daemonsets import DaemonSets
from harness.twin.world.deployments import TenantDeployments
from harness.twin.world.endpoints import EndpointSlices
from harness.twin.world.golden_catalogue import Catalogue
from harness.twin.world.gpu_operator import GpuOperator
from harness.twin.world.guests import Guests
from harness.twin.world.ha_controller import HaController
from harness.twin.world.healthcheck import HealthChecks, Monitors
from harness.twin.world.helm import HelmController
from harness.twin.world.hostpower import HostPower
from harness.twin.world.hosts import Hosts
from harness.twin.world.images import ImageFactory
from harness.twin.world.instances import Instances
from harness.twin.world.kubevirt import VirtualMachines
from harness.twin.world.kubevirt_csi import KubevirtCsi
from harness.twin.world.linstor import Linstor
from harness.twin.world.machines import Machines, TalosBootstrap
from harness.twin.world.metrics import Metrics
from harness.twin.world.objects import (
    BOOTSTRAP,
    CAPI,
    COZY,
    KUBEVIRT,
    Obj,
    annotations_of,
    deep,
    encode,
    labels_of,
)
from harness.twin.world.pool_chart import CLUSTER_NAME, PARENT_PREFIX
from harness.twin.world.quota import Quotas
from harness.twin.world.reconcile import Queue
from harness.twin.world.satellites import Satellites
from harness.twin.world.snapshots import Snapshots
from harness.twin.world.storage import Storage
from harness.twin.world.storage_classes import StorageProfiles
from harness.twin.world.storage_csi import LinstorCsi
from harness.twin.world.tenant import Workers
from harness.twin.world.timings import Timings

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest

MANAGEMENT = "management"
TENANT_PREFIX = "tenant-"
PAUSED = "cluster.x-k8s.io/paused"
LAB = ("lab", "tenant-hil")  # tenant cluster, namespace
GuestHook = Callable[["Guest", Obj], None]


class World:
    """Builds the lab at the engine's present moment; from then on the engine moves it.

    ``management`` and ``tenants`` are what API servers serve; they share one revision counter and
    one seeded source of names. A fault edits objects in them, replaces `chart`, registers builds
    at `factory`, hooks `admission`, `on_created` or `on_guest`, or fixes a duration in `timings`.
    ``planted`` lists the faults that were planted, by name.
    """

    def __init__(self, engine: Engine, *, seed: int = 1) -> None:
        self.engine = engine
        self.started = engine.now
        self.seed = seed
        self.planted: list[str] = []
        self.identities = Identities(seed)
        self.timings = Timings(self.rng)
        self.factory = ImageFactory()
        # asked with each new guest and its VMI, before the guest is powered on
        self.on_guest: list[GuestHook] = []
        # seconds after which another client attaches to a console that is attached to; 0: none does
        self.console_taken_after = 0.0
        self._chart = ChartBehaviour()
        self._kubernetes_chart = KubernetesChart()
        self._catalogue_chart = CatalogueChart()
        revisions = Revisions()
        self.management = self._store(
            MANAGEMENT, revisions, (*kinds.MANAGEMENT, *projection.resources(self._monitors_of))
        )
        self.tenants = {LAB[0]: self._store(f"{TENANT_PREFIX}{LAB[0]}", revisions, kinds.TENANT)}
        self.cluster = Cluster(self.management, engine)
        self.access = Access(self.management)
        self.tenant_clusters = {
            name: Cluster(store, engine) for name, store in self.tenants.items()
        }
        self._install_admission()
        self._start_controllers()
        landscape.build(self)
        landscape_tenant.build(self, *LAB)
        self.satellites.build()
        self.linstor.build()

    def _store(self, name: str, revisions: Revisions, more: tuple[Resource, ...]) -> Store:
        registry = Registry((*BUILTIN, *more))
        return Store(
            name,
            registry,
            now=lambda: self.engine.now,
            revisions=revisions,
            identities=self.identities,
        )

    def _install_admission(self) -> None:
        self.admission += [
            shapes.well_shaped,
            kinds.only_these,
            capi.default_replicas,
            talos_reconcile.immutable_template,
            pods.accepted,
        ]
        for store in self.tenants.values():
            store.admission.extend((shapes.well_shaped, kinds.only_these, pods.accepted))
            store.admission.append(
                podsecurity.admission(partial(store.find, "v1", "Namespace", ""))
            )

    def _start_controllers(self) -> None:
        self.hosts = Hosts(self)
        self.storage = Storage(self)
        self.storage_csi = LinstorCsi(self)
        self.satellites = Satellites(self)
        self.linstor = Linstor(self)
        self.power = HostPower(self)
        self.ha_controller = HaController(self)
        self.helm = HelmController(self)
        self.catalogue = Catalogue(self)
        self.jobs = talos_reconcile.Jobs(self)
        self.deployments = capi.Deployments(self)
        self.sets = machinesets.Sets(self)
        self.machines = Machines(self)
        self.bootstrap = TalosBootstrap(self)
        self.health_checks = HealthChecks(self)
        self.monitors = Monitors(self)
        self.kubevirt_machines = KubevirtMachines(self)
        self.virtual_machines = VirtualMachines(self)
        self.instances = Instances(self)
        self.claims = Claims(self)
        self.snapshots = Snapshots(self)
        self.quotas = Quotas(self)
        self.storage_profiles = StorageProfiles(self)
        self.data_volumes = DataVolumes(self)
        authorization = self.data_volumes.authorization
        self.admission += [
            authorization.machine,
            authorization.volume,
            self.claims.admission,
            self.quotas.admission,
        ]
        self.guests = Guests(self)
        self.metrics = Metrics(self)
        self.workers = {name: Workers(self, c) for name, c in self.tenant_clusters.items()}
        self.endpoints: dict[str, EndpointSlices] = {}
        self.workloads = [
            (DaemonSets(self, c), TenantDeployments(self, c)) for c in self.tenant_clusters.values()
        ]
        self.operators = {name: GpuOperator(self, w) for name, w in self.workers.items()}
        self.addons = {name: Addons(self, w) for name, w in self.workers.items()}
        for name, workers in self.workers.items():
            self.endpoints[name] = EndpointSlices(self, workers.cluster)
            workers.use(KubevirtCsi(self, workers, self.addons[name], LAB[1]))

    def rng(self, purpose: str) -> random.Random:
        """A generator of its own for each purpose, so that one draw never shifts another."""
        return random.Random(f"{self.seed}/{purpose}")

    # -- what faults take hold of

    @property
    def chart(self) -> ChartBehaviour:
        """What the installed chart of worker pools does.

        A new value with another ``version`` is an upgrade: every release is reconciled with it.
        With the same version it takes effect at the next render.
        """
        return self._chart

    @chart.setter
    def chart(self, behaviour: ChartBehaviour) -> None:
        upgraded = behaviour.version != self._chart.version
        self._chart = behaviour
        if upgraded:
            self.helm.revisit()

    @property
    def kubernetes_chart(self) -> KubernetesChart:
        """What the installed chart of tenant clusters does, and so the addons it renders.

        A new value with another ``version`` is an upgrade, as with `chart`.
        """
        return self._kubernetes_chart

    @kubernetes_chart.setter
    def kubernetes_chart(self, behaviour: KubernetesChart) -> None:
        upgraded = behaviour.version != self._kubernetes_chart.version
        self._kubernetes_chart = behaviour
        if upgraded:
            self.helm.revisit()

    @property
    def catalogue_chart(self) -> CatalogueChart:
        """What the installed chart of golden images does; a new ``version`` is an upgrade."""
        return self._catalogue_chart

    @catalogue_chart.setter
    def catalogue_chart(self, behaviour: CatalogueChart) -> None:
        upgraded = behaviour.version != self._catalogue_chart.version
        self._catalogue_chart = behaviour
        if upgraded:
            self.helm.revisit()

    @property
    def admission(self) -> list[Callable[[Admission], Obj]]:
        """Hooks before every commit to the management cluster; each may change or refuse."""
        return self.management.admission

    @admission.setter
    def admission(self, hooks: list[Callable[[Admission], Obj]]) -> None:
        self.management.admission[:] = hooks

    def on_created(
        self,
        api_version: str,
        kind: str,
        callback: Callable[[Obj], None],
        cluster: str = MANAGEMENT,
    ) -> None:
        """Call ``callback`` with each new object of a kind, at the moment of its creation.

        It is called after the write that created it, never inside, so it may edit what it is
        given; the object is the one stored and must not be changed in place.
        """
        where = self._cluster_named(cluster)

        def hear(change: Change) -> None:
            if change.type == "ADDED":
                what = f"{kind} {change.obj['metadata']['name']} was created"
                self.engine.after(0.0, lambda: callback(change.obj), what)

        where.on(api_version, kind, hear)

    @property
    def kubevirt(self) -> Obj | None:
        """The KubeVirt CR as it is now."""
        return self.cluster.find(KUBEVIRT, "KubeVirt", "cozy-kubevirt", "kubevirt")

    # -- what controllers ask

    def tenant_of(self, cluster: str) -> Cluster | None:
        """The tenant cluster behind a Cluster API cluster's name, or None."""
        return self.tenant_clusters.get(cluster.removeprefix(PARENT_PREFIX))

    def workers_of(self, cluster: str) -> Workers | None:
        """The workers of the tenant cluster behind a Cluster API cluster's name, or None."""
        return self.workers.get(cluster.removeprefix(PARENT_PREFIX))

    def is_paused(self, obj: Obj) -> bool:
        """Whether Cluster API leaves an object alone: its Cluster is paused, or it is itself."""
        if PAUSED in annotations_of(obj):
            return True
        name = deep(obj, "spec", "clusterName") or labels_of(obj).get(CLUSTER_NAME, "")
        found = self.cluster.find(CAPI, "Cluster", obj["metadata"]["namespace"], name)
        return bool(deep(found or {}, "spec", "paused"))

    def revisit_when_resumed(self, api_version: str, kind: str, queue: Queue) -> None:
        """Reconcile every object of a kind when a Cluster is no longer paused."""

        def hear(change: Change) -> None:
            before, after = (deep(o or {}, "spec", "paused") for o in (change.old, change.obj))
            if before and not after:
                for obj in self.cluster.all(api_version, kind, change.obj["metadata"]["namespace"]):
                    queue.hear_of(obj)

        self.cluster.on(CAPI, "Cluster", hear)

    def infrastructure_ready(self, obj: Obj) -> bool:
        """Whether the Cluster that an object belongs to has its infrastructure."""
        name = labels_of(obj).get(CLUSTER_NAME, "")
        found = self.cluster.find(CAPI, "Cluster", obj["metadata"]["namespace"], name)
        return bool(deep(found or {}, "status", "infrastructureReady"))

    def templates_in_use(self, namespace: str) -> list[str]:
        """Names of the TalosConfigTemplates that MachineDeployments and MachineSets refer to."""
        found = []
        for kind in ("MachineDeployment", "MachineSet"):
            for obj in self.cluster.all(CAPI, kind, namespace):
                reference = deep(obj, "spec", "template", "spec", "bootstrap", "configRef") or {}
                if reference.get("apiVersion") == BOOTSTRAP and reference["name"] not in found:
                    found.append(reference["name"])
        return found

    def _monitors_of(self, namespace: str, kind: str, name: str) -> list[Obj]:
        prefix = f"{projection.APPLICATION}."
        return [
            monitor
            for monitor in self.management.all(COZY, "WorkloadMonitor", namespace)
            if labels_of(monitor).get(f"{prefix}kind") == kind
            and labels_of(monitor).get(f"{prefix}name") == name
        ]

    # -- what API servers ask

    def set_tenant_kubeconfig(self, cluster: str, text: str) -> None:
        """Fill Secret ``kubernetes-<cluster>-admin-kubeconfig``: both keys hold ``text``."""
        name = f"{PARENT_PREFIX}{cluster}-admin-kubeconfig"
        keys = ("super-admin.conf", "super-admin.svc")
        self.management.edit(
            "v1",
            "Secret",
            LAB[1],
            name,
            lambda stored: stored["data"].update({key: encode(text) for key in keys}),
            manager="kamaji",
        )

    def _cluster_named(self, name: str) -> Cluster:
        if name == MANAGEMENT:
            return self.cluster
        return self.tenant_clusters[name.removeprefix(TENANT_PREFIX)]

    def exec(
        self,
        cluster: str,
        namespace: str,
        pod: str,
        container: str,
        argv: list[str],
        stdin: bytes = b"",
    ) -> ExecResult | Running:
        """Run a program in a container. ``cluster``: ``management`` or ``tenant-<name>``.

        Raises ApiError where there is no such pod, it does not run, or its node is not reachable.
        """
        del stdin  # nothing modelled reads it
        where = self._cluster_named(cluster)
        found = self._pod(where, namespace, pod)
        if where is self.cluster:
            return containers.run_on_host(self, found, container, argv)
        return containers.run_on_worker(self.workers[cluster.removeprefix(TENANT_PREFIX)], found,
                                        container, argv)  # fmt: skip

    def logs(
        self,
        cluster: str,
        namespace: str,
        pod: str,
        container: str = "",
        *,
        previous: bool = False,
    ) -> bytes:
        """What a container has written, or the one before it. Raises ApiError for what is not."""
        where = self._cluster_named(cluster)
        found = self._pod(where, namespace, pod)
        return containers.log_of(self, found, container, previous=previous)

    def follow_logs(
        self,
        cluster: str,
        namespace: str,
        pod: str,
        container: str,
        heard: Callable[[bytes], None],
    ) -> Callable[[], None]:
        """Hand what a container writes from now on to ``heard``; returns how to stop."""
        found = self._pod(self._cluster_named(cluster), namespace, pod)
        return containers.follow_log(self, found, container, heard)

    @staticmethod
    def _pod(cluster: Cluster, namespace: str, name: str) -> Obj:
        found = cluster.find("v1", "Pod", namespace, name)
        if found is None:
            raise not_found("", "pods", name)
        if not deep(found, "spec", "nodeName"):
            raise ApiError(400, f"pod {name} does not have a host assigned")
        return found
