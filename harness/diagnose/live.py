"""A lab as a case: what its APIs say, without writing anything and within a time.

Asked is what needs no object of our own: objects, Events, containers' logs, LINSTOR's REST API, the
satellites and whatever else runs on a node already, and the hypervisor hosts for which the
inventory has a key. No pod is made and no console is taken. The cheapest and the most telling is
asked first; what was not asked, or not answered, is told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.diagnose import inside
from harness.diagnose.case import MANAGEMENT, TENANT, Case, Kind, Listing, Text, Thing, Unused
from harness.facts.goldenname import GOLDENS
from harness.facts.objects import Obj, listed, mapped, name_of, text_at
from harness.observe.guest import output_of
from harness.observe.satellites import satellites
from harness.reach.containershell import ContainerShell
from harness.reach.errors import LabError, Refused, UnknownKind
from harness.reach.kube import Kube
from harness.reach.linstor import Linstor
from harness.reach.nodeshell import NodeShell

OPERATOR = "cozy-gpu-operator"
NOWHERE = Path()
"""Where a look keeps its files: it has none."""
LOG_LINES = 200
LOG_HEAD = 16 * 1024
"""Bytes of a log's beginning: what is tried first is said there once, and then retried for ever."""
LOG_BYTES = 256 * 1024
LOGS = 24
"""Containers whose logs are asked for, at most."""
NODES = 16
"""Nodes whose inside is asked for, at most."""
LINSTOR_PATHS = ("/v1/nodes", "/v1/view/storage-pools", "/v1/view/resources", "/v1/error-reports")

_PODS = ("Pod", TENANT)
_APPS = "apps.cozystack.io/v1alpha1"
_HELM = "helm.toolkit.fluxcd.io/v2"
_CAPI = "cluster.x-k8s.io/v1beta1"
_INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io/v1alpha1"
_KUBEVIRT = "kubevirt.io/v1"
_RBAC = "rbac.authorization.k8s.io/v1"
_CDI = "cdi.kubevirt.io/v1beta1"

HERE, EVERYWHERE = "{namespace}", ""
"""The tenant's namespace; all of them, or a kind that has none."""


@dataclass(frozen=True, slots=True)
class Query:
    """A kind to list in a place: HERE, EVERYWHERE or a namespace's name. With ``labels`` or
    ``fields`` the list is a part, and proves no absence."""

    api_version: str
    kind: str
    namespace: str
    labels: str = ""
    fields: str = ""


MANAGEMENT_QUERIES = (
    Query("v1", "Service", HERE),
    Query(_APPS, "KubernetesNodes", HERE),
    Query(_APPS, "Kubernetes", HERE),
    Query(_HELM, "HelmRelease", HERE),
    Query(_CAPI, "Cluster", HERE),
    Query(_CAPI, "MachineDeployment", HERE),
    Query(_CAPI, "MachineSet", HERE),
    Query(_CAPI, "Machine", HERE),
    Query(_CAPI, "MachineHealthCheck", HERE),
    Query(_INFRASTRUCTURE, "KubevirtMachine", HERE),
    Query(_INFRASTRUCTURE, "KubevirtMachineTemplate", HERE),
    Query("bootstrap.cluster.x-k8s.io/v1alpha3", "TalosConfigTemplate", HERE),
    Query(_KUBEVIRT, "VirtualMachine", HERE),
    Query(_KUBEVIRT, "VirtualMachineInstance", HERE),
    Query(_CDI, "DataVolume", HERE),
    Query("v1", "PersistentVolumeClaim", HERE),
    Query("v1", "Pod", HERE),
    Query("batch/v1", "Job", HERE),
    Query("v1", "Event", HERE),
    Query("v1", "ResourceQuota", HERE),
    Query("v1", "ConfigMap", HERE, labels="app.kubernetes.io/managed-by=Helm"),
    Query("controlplane.cluster.x-k8s.io/v1alpha1", "KamajiControlPlane", HERE),
    Query("kamaji.clastix.io/v1alpha1", "TenantControlPlane", HERE),
    Query(_CDI, "DataVolume", GOLDENS),
    Query("v1", "PersistentVolumeClaim", GOLDENS),
    Query("v1", "Pod", GOLDENS),
    Query("v1", "Event", GOLDENS),
    Query(_RBAC, "RoleBinding", GOLDENS),
    Query(_RBAC, "ClusterRole", EVERYWHERE, fields="metadata.name=cdi-copy-dv"),
    Query(_RBAC, "ClusterRoleBinding", EVERYWHERE),
    Query("storage.k8s.io/v1", "StorageClass", EVERYWHERE),
    Query(_CDI, "StorageProfile", EVERYWHERE),
    Query(_CDI, "CDI", EVERYWHERE),
    Query("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", EVERYWHERE),
    Query(_KUBEVIRT, "KubeVirt", EVERYWHERE),
    Query("v1", "Node", EVERYWHERE),
    Query("cozystack.io/v1alpha1", "Package", EVERYWHERE),
    Query("piraeus.io/v1", "LinstorSatellite", EVERYWHERE),
    Query("v1", "Pod", "cozy-linstor"),
    Query("v1", "Pod", OPERATOR),
    Query("v1", "Pod", EVERYWHERE, labels="kubevirt.io=virt-launcher"),
)
TENANT_QUERIES = (
    Query("v1", "Node", EVERYWHERE),
    Query("v1", "Event", EVERYWHERE),
    Query("apps/v1", "DaemonSet", EVERYWHERE),
    Query("apps/v1", "Deployment", EVERYWHERE),
    Query("v1", "Pod", EVERYWHERE),
    Query("nvidia.com/v1", "ClusterPolicy", EVERYWHERE),
    Query("node.k8s.io/v1", "RuntimeClass", EVERYWHERE),
    Query("storage.k8s.io/v1", "CSINode", EVERYWHERE),
    Query("apiregistration.k8s.io/v1", "APIService", EVERYWHERE),
    Query("certificates.k8s.io/v1", "CertificateSigningRequest", EVERYWHERE),
)


@dataclass(slots=True)
class Live:
    """One look at a lab. ``spent`` tells the seconds since it began, ``budget`` is how many it has;
    ``now`` the lab's time in epoch seconds, None where it has none yet."""

    namespace: str
    now: Callable[[], float | None]
    spent: Callable[[], float]
    budget: float
    say: Callable[[str], None] = lambda _: None
    objects: list[Thing] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    listings: list[Listing] = field(default_factory=list)
    unused: list[Unused] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether the time is up."""
        return self.spent() >= self.budget

    def case(self) -> Case:
        """What was seen so far."""
        return Case(
            tuple(self.objects),
            tuple(self.texts),
            tuple(self.listings),
            (*self.unused, *NOT_ASKED),
        )

    def skip(self, source: str, why: str) -> None:
        """Note something that was not asked or not answered."""
        self.unused.append(Unused(source, why))

    def list_all(self, kube: Kube, cluster: str, queries: Sequence[Query]) -> None:
        """List every kind; one that is refused or not served is noted, and the rest is asked."""
        for query in queries:
            place = self.namespace if query.namespace == HERE else query.namespace
            source = f"{cluster} {query.kind} in {place or 'all namespaces'}"
            if self.over:
                self.skip(source, f"not asked: {self.budget:.0f} s were up")
                continue
            self._list(kube, cluster, query, place, source)

    def _list(self, kube: Kube, cluster: str, query: Query, place: str, source: str) -> None:
        version, kind = query.api_version, query.kind
        try:
            found = kube.list(version, kind, place, labels=query.labels, fields=query.fields)
        except UnknownKind:
            self.skip(source, f"{cluster} serves no {version} {kind}")
            return
        except Refused as refused:
            self.skip(source, f"not allowed to list it ({refused.saw})")
            return
        except LabError as failed:
            self.skip(source, f"not answered ({failed.saw})")
            return
        at = self.now()
        known = {(one.cluster, one.kind, one.namespace, one.name) for one in self.objects}
        self.objects += [
            Thing(one, cluster, f"{cluster} API", at)
            for one in found
            if (cluster, kind, text_at(one, "metadata", "namespace"), name_of(one)) not in known
        ]
        if not (query.labels or query.fields):
            group = version.partition("/")[0] if "/" in version else ""
            self.listings.append(Listing(cluster, kind, place, f"{cluster} API", group))

    def logs(self, kube: Kube, cluster: str, wanted: Sequence[tuple[Obj, str]]) -> None:
        """The last lines of containers, of each at most LOG_LINES."""
        for number, (pod, container) in enumerate(wanted):
            source = log_source(cluster, pod, container)
            if self.over or number >= LOGS:
                why = f"{self.budget:.0f} s were up" if self.over else f"{LOGS} others were read"
                self.skip(source, f"not asked: {why}")
                continue
            try:
                self.texts.append(log_of(kube, cluster, pod, container, self.now))
            except LabError as failed:
                self.skip(source, f"no log ({failed.saw})")

    def nodes(self, kube: Kube) -> None:
        """The kernel of each of the tenant's nodes, through containers that run there already."""
        known = inside.doors(one.obj for one in self.objects if (one.kind, one.cluster) == _PODS)
        for number, of_node in enumerate(known.values()):
            for question in inside.OF_NODES:
                source = f"{' '.join(question.argv)} on {of_node[0].node}"
                if self.over or number >= NODES:
                    why = f"{self.budget:.0f} s were up" if self.over else f"{NODES} others were"
                    self.skip(source, f"not asked: {why}")
                    continue
                self._keep(inside.ask(kube, of_node, question), question)

    def hosts(self, logins: Mapping[str, Callable[[], NodeShell]]) -> None:
        """Each hypervisor host, logged in to by SSH."""
        for host, login in logins.items():
            if self.over:
                self.skip(f"host {host}", f"not asked: {self.budget:.0f} s were up")
                continue
            try:
                shell = login()
                for question in inside.OF_HOSTS:
                    self._keep(inside.ask_host(shell, host, question), question)
                self.texts.append(inside.vgif_of(shell, host, self.now() or 0.0))
            except LabError as failed:
                self.skip(f"host {host}", str(failed.saw))

    def _keep(self, answer: Text | Unused, question: inside.Question) -> None:
        if isinstance(answer, Text):
            self.texts.append(answer)
        elif not question.absent:
            self.unused.append(answer)

    def linstor(self, linstor: Linstor) -> None:
        """What the controller says of its nodes, pools, resources and errors."""
        for path in LINSTOR_PATHS:
            source = f"LINSTOR {path}"
            if self.over:
                self.skip(source, f"not asked: {self.budget:.0f} s were up")
                continue
            try:
                answer = linstor.get(path)
            except LabError as failed:
                self.skip(source, f"not answered ({failed.saw})")
                continue
            self.texts.append(
                Text(Kind.LINSTOR, answer.text, source, path, answer.at, cluster=MANAGEMENT)
            )

    def kernels(self, kube: Kube) -> None:
        """DRBD as the kernel below each satellite has it."""
        try:
            shells = satellites(kube)
        except LabError as failed:
            self.skip("LINSTOR's satellites", f"not found ({failed.saw})")
            return
        for node, shell in shells.items():
            if self.over:
                self.skip(f"{node}: drbdsetup status", f"not asked: {self.budget:.0f} s were up")
                continue
            try:
                reply = shell.run(["drbdsetup", "status", "--json"], timeout=10.0)
            except LabError as failed:
                self.skip(f"{node}: drbdsetup status", f"not answered ({failed.saw})")
                continue
            answer, source = output_of(reply), f"drbdsetup status on {node}"
            if answer.exit_code != 0:
                said = (answer.text or answer.problem).strip()[:160]
                self.skip(source, f"ended with {answer.exit_code}: {said}")
                continue
            self.texts.append(
                Text(Kind.DRBD, answer.stdout, source, node, reply.ended, cluster=MANAGEMENT)
            )
            if "StandAlone" in answer.stdout:
                self._kernel_log(node, shell)

    def _kernel_log(self, node: str, shell: ContainerShell) -> None:
        """The kernel's log of a storage node: only it tells why a connection is StandAlone."""
        source = f"dmesg of {node}"
        try:
            reply = shell.run(["dmesg"], timeout=10.0)
        except LabError as failed:
            self.skip(source, f"not answered ({failed.saw})")
            return
        answer = output_of(reply)
        if answer.exit_code != 0:
            self.skip(source, f"ended with {answer.exit_code}: {answer.text.strip()[:160]}")
            return
        self.texts.append(
            Text(Kind.DMESG, answer.stdout, source, node, reply.ended, cluster=MANAGEMENT)
        )


NOT_ASKED = (
    Unused(
        "the guests' services and extensions (talosctl)",
        "that takes a talosconfig: save them to a folder, and use --from",
    ),
    Unused("serial consoles", "a console has one reader: taking it takes it from somebody else"),
)
"""What a look at a lab leaves out, whatever the lab."""

VM_LABEL = "vm.kubevirt.io/name"
_TELLING = ("talos-csr-signer", "guest-console-log")
"""Containers of the management cluster whose logs tell of joining."""


def management(live: Live, kube: Kube) -> None:
    """Ask the management cluster: objects, then the logs that tell."""
    live.say("management cluster")
    live.list_all(kube, MANAGEMENT, MANAGEMENT_QUERIES)
    live.logs(kube, MANAGEMENT, list(telling_logs(MANAGEMENT, live.objects)))


def tenant(live: Live, kube: Kube) -> None:
    """Ask the tenant cluster: objects, then the logs of the operator's stuck containers."""
    live.say("tenant cluster")
    live.list_all(kube, TENANT, TENANT_QUERIES)
    live.logs(kube, TENANT, list(telling_logs(TENANT, live.objects)))
    live.nodes(kube)


def log_source(cluster: str, pod: Obj, container: str, *, previous: bool = False) -> str:
    """How a container's log is named."""
    before = "previous " if previous else ""
    return f"{cluster} {before}log of {_place(pod, container)}"


def log_of(
    kube: Kube,
    cluster: str,
    pod: Obj,
    container: str,
    now: Callable[[], float | None],
    *,
    previous: bool = False,
) -> Text:
    """A container's log, its beginning and its last lines; ``previous``: of its run before this.

    Raises LabError where there is none.
    """
    namespace, name = text_at(pod, "metadata", "namespace"), name_of(pod)
    first = kube.logs(namespace, name, container, previous=previous, limit_bytes=LOG_HEAD)
    data = first
    if len(first) >= LOG_HEAD:
        last = kube.logs(
            namespace, name, container, previous=previous, limit_bytes=LOG_BYTES, tail=LOG_LINES
        )
        data = first + b"\n" + last
    text = data.decode("utf-8", "backslashreplace")
    kind = Kind.CONSOLE if container == "guest-console-log" else Kind.LOG
    machine = mapped(pod, "metadata", "labels").get(VM_LABEL, "")
    node = _place(pod, container) if kind is Kind.LOG else machine
    source = log_source(cluster, pod, container, previous=previous)
    return Text(kind, text, source, node, now(), cut=True, cluster=cluster)


def telling_logs(cluster: str, objects: Iterable[Thing]) -> Iterator[tuple[Obj, str]]:
    """The containers of a cluster's pods whose logs tell: (pod, container)."""
    pods = (one.obj for one in objects if one.kind == "Pod" and one.cluster == cluster)
    for pod in pods:
        yield from _of_management(pod) if cluster == MANAGEMENT else _of_operator(pod)


def _place(pod: Obj, container: str) -> str:
    return f"{text_at(pod, 'metadata', 'namespace')}/{name_of(pod)}/{container}"


def _of_management(pod: Obj) -> Iterator[tuple[Obj, str]]:
    labels = mapped(pod, "metadata", "labels")
    if "cozystack.io/talos-reconcile" in labels:
        yield pod, "kubectl"
    elif labels.get("cdi.kubevirt.io") == "importer":
        yield pod, "importer"
    # KubeVirt 1.8 has the console's log in a sidecar among the init containers
    for one in (*listed(pod, "spec", "initContainers"), *listed(pod, "spec", "containers")):
        if text_at(one, "name") in _TELLING:
            yield pod, text_at(one, "name")


def _of_operator(pod: Obj) -> Iterator[tuple[Obj, str]]:
    """The stage in which a pod of the operator is stuck."""
    if text_at(pod, "metadata", "namespace") != OPERATOR:
        return
    for one in listed(pod, "status", "initContainerStatuses"):
        if not mapped(one, "state", "terminated"):
            yield pod, text_at(one, "name")
            break
