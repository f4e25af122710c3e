"""Faults of workers that do not join although a machine is asked for, and of who is listening."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.apiserver.store import Admission
from harness.twin.faults.consequences import NO_GUEST, NO_HOST
from harness.twin.faults.model import ALL_POOLS, GPU_POOLS, Fault
from harness.twin.faults.requests import MANAGER, both, disk_rules
from harness.twin.world.hostsystem import HostSystem
from harness.twin.world.kubernetes_chart import GPU_NAMESPACE
from harness.twin.world.landscape import HOSTS
from harness.twin.world.launcher import CONSOLE_LOG
from harness.twin.world.objects import meta

if TYPE_CHECKING:
    from harness.twin.world.world import World

DOWNLOADING = (*GPU_POOLS, "plain")
"""The pools of inventory/twin.yaml whose disks are downloaded."""
SLOW_IMPORT = (1440.0, 1500.0)
"""Seconds: longer than nodeStartupTimeout's 20 minutes, within the 29 that a worker has to join."""
NOBODY_JOINED = NO_GUEST | {"no-hidden-helper", "operator-live", "passthrough"}
"""Unknown where machines run and none is a Node: nobody sees their cards, or an operator."""
TAKEN_AFTER = 5.0
"""Seconds after which somebody else has the console."""


def _import_slowly(world: World) -> None:
    world.timings.override("import.transfer", *SLOW_IMPORT)


def _remediate_all(world: World) -> None:
    """Somebody's policy lets a health check replace every machine of a pool at once."""

    def write(admission: Admission) -> Obj:
        asked = admission.obj
        if admission.resource.kind != "MachineHealthCheck" or admission.verb == "DELETE":
            return asked
        return {**asked, "spec": {**asked["spec"], "maxUnhealthy": "100%"}}

    world.management.admission.append(write)


def _virtual_hosts(world: World) -> None:
    """The hosts are machines of a cloud themselves, on AMD processors, and their KVM has no vgif:
    what those processors do not do for a guest, the outer hypervisor does, a thousand times."""
    nested = HostSystem(vendor="amd", vgif=False, virtual=True, steal=0.02)
    world.hosts.systems.update(dict.fromkeys(HOSTS, nested))


def _log_consoles(world: World) -> None:
    """The platform no longer switches the console's log off, and its container does not come up."""

    def allow(kubevirt: Obj) -> None:
        del kubevirt["spec"]["configuration"]["virtualMachineOptions"]

    world.management.edit(
        "kubevirt.io/v1", "KubeVirt", "cozy-kubevirt", "kubevirt", allow, manager=MANAGER
    )
    world.hosts.broken_sidecars.add(CONSOLE_LOG)


def _take_consoles(world: World) -> None:
    world.console_taken_after = TAKEN_AFTER


def _same_namespace(world: World) -> None:
    """The platform's own operator, for cards that are passed through: in a namespace of the very
    name, and with pods that would be wrong in a tenant cluster."""
    labels = {"app": "nvidia-driver-daemonset", "app.kubernetes.io/component": "nvidia-driver"}
    image = "nvcr.io/nvidia/driver:595.45.04-ubuntu24.04"
    pod = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "nvidia-driver-ctr", "image": image}]},
    }
    world.cluster.create(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": meta("nvidia-driver-daemonset", GPU_NAMESPACE, labels=labels),
            "spec": {"selector": {"matchLabels": labels}, "template": pod},
        },
        manager=MANAGER,
    )
    for name, app in (("nvidia-driver-daemonset-x2x7c", labels["app"]), *_SANDBOX):
        found = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta(name, GPU_NAMESPACE, labels={"app": app}),
            "spec": {"containers": [{"name": app, "image": image}]},
        }
        world.cluster.create(found, manager=MANAGER)


_SANDBOX = (
    ("nvidia-sandbox-validator-9fk2d", "nvidia-sandbox-validator"),
    ("nvidia-operator-validator-7kq4m", "nvidia-operator-validator"),
    ("nvidia-device-plugin-daemonset-p8d2w", "nvidia-device-plugin-daemonset"),
)


FAULTS = (
    Fault(
        id="mhc-deletes-slow-joiner",
        sentence="An image takes 24 minutes to import, and the health check gives a worker 20.",
        seen="Machines come and go, HealthCheckSucceeded False NodeStartupTimeout; each import "
        "begins anew and would have ended within the join budget",
        wrong_diagnosis="a fault of the image",
        breaks=frozenset({"node-joins"}),
        blinds=NO_HOST | {"disk-phases", "passthrough"},
        where=DOWNLOADING,
        edit=both(_import_slowly, _remediate_all),
        source="CZ (hack/e2e-chainsaw/_lib/run-kubernetes.sh)",
    ),
    Fault(
        id="nocloud-image",
        sentence="The chart's image is of the platform nocloud, which reads no config drive.",
        seen="on the console maintenance mode, and no complaint; VMI Running, no Node",
        wrong_diagnosis="DHCP",
        breaks=frozenset({"disk-source", "node-joins"}),
        blinds=NOBODY_JOINED,
        where=DOWNLOADING,
        edit=disk_rules(platform="nocloud"),
        source="TAL, CZ (uptime_and_diagnosis.md section 6)",
    ),
    Fault(
        id="vgif-nested-stall",
        sentence="The hosts are machines themselves, and their kvm_amd runs without vgif.",
        seen="on the host /sys/module/kvm_amd/parameters/vgif is 0; the guest's console goes on, "
        "an hour for a minute; VMI Running, no Node in time",
        wrong_diagnosis="the registry, or egress",
        breaks=frozenset({"node-joins"}),
        blinds=NOBODY_JOINED,
        where=ALL_POOLS,
        edit=_virtual_hosts,
        source="S-OSI, CZ #3513",
    ),
    Fault(
        id="console-log-wedge",
        sentence="The platform lets consoles be logged, and the container for it comes up nowhere.",
        seen="virt-launcher PodInitializing, guest-console-log CrashLoopBackOff; VMI Scheduling",
        wrong_diagnosis="whatever feature was new in that run",
        breaks=frozenset({"node-joins"}),
        blinds=NO_HOST | {"passthrough"},
        where=ALL_POOLS,
        edit=_log_consoles,
        source="kubevirt#15989",
    ),
    Fault(
        id="wrong-cluster-queried",
        sentence="The management cluster has a cozy-gpu-operator of its own, driver pods and all.",
        seen="in the tenant cluster nothing of it: whoever reads the other cluster's pods reads "
        "wrong ones",
        wrong_diagnosis="the operator brings its own driver",
        breaks=frozenset(),
        where=GPU_POOLS,
        edit=_same_namespace,
        source="objects.md section 9 (inferred)",
        harmless=True,
    ),
    Fault(
        id="console-stolen",
        sentence="Somebody attaches to each console that is attached to, a few seconds later.",
        seen="the capture ends without a word while the VMI runs on; the log is shorter",
        wrong_diagnosis="the guest is quiet",
        breaks=frozenset(),
        blinds=frozenset({"reboots-told"}),
        where=ALL_POOLS,
        edit=_take_consoles,
        source="KV pkg/virt-handler/rest/console.go",
    ),
)
