"""Ask the management cluster about one pool, and return facts.

A pool is ``kubernetes-<cluster>-<pool>``: its MachineDeployment names the templates in use, and
everything below is found through references, owners and labels (objects 1). Every function raises
reach's LabError where the cluster cannot be asked, and returns Unread where an object on the way
is not there. ``now`` gives the lab's time in epoch seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.facts import apid, chain, machineconfig
from harness.facts import pool as pool_facts
from harness.facts import poolstate as state_facts
from harness.facts import vmi as vmi_facts
from harness.facts.apid import ControlPlanePorts
from harness.facts.fact import Origin, Unread
from harness.facts.machineconfig import InstallImage, RenderedModules
from harness.facts.objects import (
    Obj,
    mapped,
    name_of,
    origin_of,
    text_at,
)
from harness.facts.pool import BootSource, NodeState, PoolRequest
from harness.facts.poolstate import PoolState
from harness.facts.vmi import LauncherGpu, VmiGpus, VmiRefusal
from harness.observe.guest import output_of
from harness.reach.execs import Reply, run_in_pod
from harness.reach.kube import Kube

__all__ = [
    "Worker",
    "boot_source",
    "bootstrap_template",
    "control_plane_ports",
    "install_image",
    "launcher_gpus",
    "node_states",
    "pool_state",
    "reconcile_jobs",
    "release_name",
    "rendered_modules",
    "request_read_back",
    "vmi_gpus",
    "workers",
]

Now = Callable[[], float]
Execute = Callable[[Kube, str, str, Sequence[str]], Reply]

CAPI = "cluster.x-k8s.io/v1beta1"
HELM = "helm.toolkit.fluxcd.io/v2"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io/v1alpha1"
KUBEVIRT = "kubevirt.io/v1"
DATA_VOLUMES = "cdi.kubevirt.io/v1beta1"
DEPLOYMENT_LABEL = "cluster.x-k8s.io/deployment-name"
LAUNCHER = "kubevirt.io=virt-launcher"


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker of a pool: its objects as found, each empty where there is none yet."""

    machine: Obj
    virtual_machine: Obj = field(default_factory=dict)
    vmi: Obj = field(default_factory=dict)
    launcher: Obj = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The Machine's name."""
        return name_of(self.machine)

    @property
    def node(self) -> str:
        """The tenant Node's name, "" until the Machine refers to one."""
        return text_at(self.machine, "status", "nodeRef", "name")


def request_read_back(
    kube: Kube, namespace: str, cluster: str, pool: str, *, now: Now
) -> PoolRequest | Unread:
    """What the pool's HelmRelease holds, not what its CR shows."""
    name = release_name(cluster, pool)
    release = kube.get(HELM, "HelmRelease", namespace, name)
    if release is None:
        return _absent(kube, now, f"HelmRelease {namespace}/{name}")
    return pool_facts.pool_request(release, at=now(), cluster=kube.name)


def rendered_modules(
    kube: Kube, namespace: str, cluster: str, pool: str, *, now: Now
) -> RenderedModules | Unread:
    """The modules declared by the TalosConfigTemplate that the pool uses."""
    template = bootstrap_template(kube, namespace, cluster, pool, now=now)
    if isinstance(template, Unread):
        return template
    text, source = _config_of(template, kube)
    return machineconfig.rendered_modules(text, at=now(), source=source)


def install_image(
    kube: Kube, namespace: str, cluster: str, pool: str, *, now: Now
) -> InstallImage | Unread:
    """The installer named by the TalosConfigTemplate that the pool uses."""
    template = bootstrap_template(kube, namespace, cluster, pool, now=now)
    if isinstance(template, Unread):
        return template
    text, source = _config_of(template, kube)
    return machineconfig.install_image(text, at=now(), source=source)


def boot_source(
    kube: Kube, namespace: str, cluster: str, pool: str, *, now: Now
) -> BootSource | Unread:
    """The disk source named by the KubevirtMachineTemplate that the pool uses."""
    template = _referred(kube, namespace, cluster, pool, now, ("infrastructureRef",))
    if isinstance(template, Unread):
        return template
    return pool_facts.boot_source(template, at=now(), cluster=kube.name)


def control_plane_ports(
    kube: Kube, namespace: str, cluster: str, *, now: Now
) -> ControlPlanePorts | Unread:
    """The ports of the Service that stands before the tenant's control plane."""
    name = f"kubernetes-{cluster}"
    service = kube.get("v1", "Service", namespace, name)
    return apid.control_plane_ports(service, namespace, name, at=now(), cluster=kube.name)


def workers(kube: Kube, namespace: str, cluster: str, pool: str) -> tuple[Worker, ...]:
    """The pool's workers that are not being deleted, by Machine name."""
    name = _deployment_name(cluster, pool)
    machines = kube.list(CAPI, "Machine", namespace, labels=f"{DEPLOYMENT_LABEL}={name}")
    owners = kube.list(INFRASTRUCTURE, "KubevirtMachine", namespace)
    vms = kube.list(KUBEVIRT, "VirtualMachine", namespace)
    vmis = kube.list(KUBEVIRT, "VirtualMachineInstance", namespace)
    pods = kube.list("v1", "Pod", namespace, labels=LAUNCHER)
    return tuple(_worker(one, owners, vms, vmis, pods) for one in chain.staying(machines))


def vmi_gpus(
    kube: Kube, namespace: str, cluster: str, pool: str, *, now: Now
) -> tuple[VmiGpus | VmiRefusal | Unread, ...]:
    """What each worker's VMI asks for, or why it is refused; in the order of `workers`."""
    return tuple(
        vmi_facts.vmi_gpus(worker.vmi, at=now(), cluster=kube.name)
        if worker.vmi
        else _absent(kube, now, f"the VMI of Machine {namespace}/{worker.name}")
        for worker in workers(kube, namespace, cluster, pool)
    )


def launcher_gpus(
    kube: Kube, namespace: str, cluster: str, pool: str, *, now: Now, execute: Execute | None = None
) -> tuple[LauncherGpu | Unread, ...]:
    """What each worker's virt-launcher was given; in the order of `workers`.

    The device plugin sets PCI_RESOURCE_* when the container starts, so that the pod's spec need
    not show it: where it does not, ``env`` is run in the compute container.
    """
    return tuple(
        _launcher_gpu(kube, namespace, worker, now, execute or _in_compute)
        for worker in workers(kube, namespace, cluster, pool)
    )


def node_states(tenant: Kube, *, now: Now) -> tuple[NodeState, ...]:
    """Every Node of the tenant cluster, by name."""
    nodes = sorted(tenant.list("v1", "Node"), key=name_of)
    return tuple(pool_facts.node_state(one, at=now(), cluster=tenant.name) for one in nodes)


def pool_state(
    management: Kube, tenant: Kube, namespace: str, cluster: str, pool: str, *, now: Now
) -> PoolState | Unread:
    """What the pool consists of now, to be compared with another moment.

    Templates are those that the MachineDeployment refers to; Nodes those of the pool's Machines.
    """
    name = release_name(cluster, pool)
    release = management.get(HELM, "HelmRelease", namespace, name)
    if release is None:
        return _absent(management, now, f"HelmRelease {namespace}/{name}")
    bootstrap = bootstrap_template(management, namespace, cluster, pool, now=now)
    machine = _referred(management, namespace, cluster, pool, now, ("infrastructureRef",))
    if isinstance(bootstrap, Unread):
        return bootstrap
    if isinstance(machine, Unread):
        return machine
    staff = workers(management, namespace, cluster, pool)
    volumes = management.list(DATA_VOLUMES, "DataVolume", namespace)
    names = {one.node for one in staff}
    return state_facts.pool_state(
        pool,
        release=release,
        bootstrap=bootstrap,
        machine=machine,
        jobs=reconcile_jobs(management, namespace, cluster, pool),
        machines=[one.machine for one in staff],
        vmis=[one.vmi for one in staff if one.vmi],
        data_volumes=[
            disk for one in staff for disk in chain.disks_of(one.virtual_machine, volumes)
        ],
        nodes=[one for one in tenant.list("v1", "Node") if name_of(one) in names],
        cluster=cluster,
        at=now(),
        where=management.name,
    )


def reconcile_jobs(kube: Kube, namespace: str, cluster: str, pool: str) -> list[Obj]:
    """The Jobs that apply the pool's machine configuration; they go 600 s after their end.

    Named ``<release>-talos-reconcile-<pool>``, cut to 56 characters, and six hex digits.
    """
    release = release_name(cluster, pool)
    begins = f"{release}-talos-reconcile-{pool}"[:56]
    jobs = kube.list("batch/v1", "Job", namespace)
    return [
        one
        for one in jobs
        if name_of(one).startswith(f"{begins}-") and len(name_of(one)) == len(begins) + 7
    ]


def release_name(cluster: str, pool: str) -> str:
    """The name of the HelmRelease that renders a pool."""
    return f"kubernetes-nodes-{cluster}-{pool}"


def _deployment_name(cluster: str, pool: str) -> str:
    return f"kubernetes-{cluster}-{pool}"


def _absent(kube: Kube, now: Now, what: str) -> Unread:
    return Unread(Origin(now(), f"{kube.name} {what}", ""), what, "it is not there")


def bootstrap_template(
    kube: Kube, namespace: str, cluster: str, pool: str, *, now: Now
) -> Obj | Unread:
    """The TalosConfigTemplate that the pool's MachineDeployment refers to."""
    return _referred(kube, namespace, cluster, pool, now, ("bootstrap", "configRef"))


def _referred(
    kube: Kube, namespace: str, cluster: str, pool: str, now: Now, path: tuple[str, ...]
) -> Obj | Unread:
    """The template that the pool's MachineDeployment refers to at a path of its Machine spec."""
    name = _deployment_name(cluster, pool)
    deployment = kube.get(CAPI, "MachineDeployment", namespace, name)
    if deployment is None:
        return _absent(kube, now, f"MachineDeployment {namespace}/{name}")
    where = ".".join(("spec.template.spec", *path))
    reference = mapped(deployment, "spec", "template", "spec", *path)
    version, kind, target = (text_at(reference, key) for key in ("apiVersion", "kind", "name"))
    if not (version and kind and target):
        origin = origin_of(deployment, now(), kube.name)
        return Unread(origin, where, f"no whole reference: {reference!r}")
    home = text_at(reference, "namespace") or namespace
    template = kube.get(version, kind, home, target)
    if template is None:
        return _absent(kube, now, f"{kind} {home}/{target} of MachineDeployment {name}")
    return template


def _config_of(template: Obj, kube: Kube) -> tuple[str, str]:
    """A template's machine configuration and the source to name for it."""
    home, name = text_at(template, "metadata", "namespace"), name_of(template)
    data = text_at(template, "spec", "template", "spec", "data")
    return data, f"{kube.name} {text_at(template, 'kind')} {home}/{name}"


def _worker(
    machine: Obj, owners: list[Obj], vms: list[Obj], vmis: list[Obj], pods: list[Obj]
) -> Worker:
    vm = chain.vm_of(chain.kubevirt_machine_of(machine, owners), vms)
    vmi = chain.vmi_of(vm, vmis)
    return Worker(machine, vm, vmi, chain.launcher_of(vmi, pods))


def _launcher_gpu(
    kube: Kube, namespace: str, worker: Worker, now: Now, execute: Execute
) -> LauncherGpu | Unread:
    pod = worker.launcher
    if not pod:
        return _absent(kube, now, f"the virt-launcher pod of Machine {namespace}/{worker.name}")
    env = vmi_facts.declared_env(pod)
    declared = any(name.startswith(vmi_facts.PREFIX) for name in env)
    if not declared and text_at(pod, "status", "phase") == "Running":
        output = output_of(execute(kube, namespace, name_of(pod), ["env"]))
        source = f"{kube.name} Pod {namespace}/{name_of(pod)}:env"
        said = vmi_facts.read_env(output, at=now(), source=source)
        if isinstance(said, Unread):
            return said
        env = said
    hosts = () if text_at(pod, "spec", "nodeName") else kube.list("v1", "Node")
    return vmi_facts.launcher_gpu(pod, env, at=now(), cluster=kube.name, hosts=hosts)


def _in_compute(kube: Kube, namespace: str, pod: str, argv: Sequence[str]) -> Reply:
    return run_in_pod(kube, namespace, pod, argv, container="compute")
