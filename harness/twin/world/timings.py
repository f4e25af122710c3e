"""How long things take: one table, drawn from with one seeded generator for each entry.

Sources name where a figure was seen; "order" marks an order of magnitude that no source gives.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Span:
    """A duration in seconds, drawn evenly from [low, high]."""

    low: float
    high: float
    source: str


TABLE: dict[str, Span] = {
    # Flux and the chart
    "flux.notice": Span(0.2, 0.8, "order: a watch event and a queue"),
    "helm.action": Span(2.0, 4.5, "order: render and apply of a small chart"),
    "helm.retry": Span(30.0, 30.0, "objects.md 2: retryInterval 30 s by flag default"),
    "helm.wait": Span(2.0, 5.0, "order: Helm looks again at what it waits for"),
    "package.reconcile": Span(2.0, 5.0, "order: the platform's release, then the package's"),
    "helm.dependency": Span(30.0, 30.0, "FLX: requeue-dependency is 30 s by flag default"),
    "helm.uninstall": Span(1.0, 2.5, "order"),
    "reconcile.job": Span(2.0, 5.0, "order: kubectl apply; polls prerequisites every 5 s"),
    "reconcile.poll": Span(5.0, 5.0, "objects.md 5: polls up to 120 x 5 s"),
    # pods of the management cluster
    "scheduler": Span(0.02, 0.1, "order"),
    "pod.start": Span(1.5, 4.0, "order: image already on the host"),
    "launcher.start": Span(4.0, 7.0, "order: compute container of virt-launcher"),
    "importer.start": Span(4.0, 8.0, "order: two volumes to attach"),
    # hypervisors
    "host.boot": Span(95.0, 140.0, "order: a server's firmware, then Talos' kernel"),
    "host.kubelet": Span(12.0, 20.0, "order: Talos' services, then the kubelet"),
    "ha.taint": Span(1.0, 5.0, "order: the HA controller on the node looks every few seconds"),
    "satellite.up": Span(2.0, 5.0, "order: the satellite connects, and brings its resources up"),
    # LINSTOR's controller and what looks at it
    "linstor.ping": Span(5.0, 6.0, "LIN: a ping each second, a satellite is lost after five"),
    "linstor.reconnect": Span(0.5, 10.0, "LIN: tries to reconnect every ten seconds"),
    "linstor.report": Span(0.1, 0.6, "order: an event of DRBD's, the satellite, the controller"),
    "linstor.operator": Span(1.0, 10.0, "order: one reconcile of Piraeus' operator"),
    "zfs.free": Span(20.0, 60.0, "order: ZFS frees a deleted volume's blocks in the background"),
    # Cluster API
    "capi.step": Span(0.1, 0.4, "order: one reconcile"),
    "bootstrap.secret": Span(0.4, 1.2, "order"),
    "capk.step": Span(0.2, 0.8, "order"),
    "capk.provider-id": Span(2.0, 5.0, "VMI Ready to nodeRef 20-35 s (CZ #4020, #3961), a part"),
    "capi.node-ref": Span(0.5, 2.0, "the same, another part"),
    # storage and CDI
    "claim.bind": Span(1.0, 3.0, "order: LINSTOR places three replicas"),
    "import.transfer": Span(40.0, 60.0, "brief: HTTP import of a worker disk; S-OSI: 108 s golden"),
    "import.retry": Span(10.0, 20.0, "order: kubelet restarts the importer with back-off"),
    "import.finish": Span(1.0, 2.5, "order"),
    "import.populate": Span(90.0, 100.0, "S-OSI: golden import to Succeeded 108 s, its main part"),
    "cdi.step": Span(0.1, 0.4, "order: one reconcile of CDI's controllers"),
    "cdi.retry": Span(5.0, 15.0, "order: a controller's back-off"),
    "claim.retry": Span(10.0, 20.0, "order: the provisioner's and the resizer's back-off"),
    "claim.rebind": Span(0.2, 0.8, "order: the binder sees a volume that was handed over"),
    "claim.expand": Span(2.0, 5.0, "order: LINSTOR resizes three replicas"),
    "quota.step": Span(0.05, 0.2, "order: status of a ResourceQuota"),
    "clone.scheduled": Span(0.3, 0.8, "order: the populator takes a claim up"),
    "clone.csi": Span(32.0, 38.0, "S-OSI: two worker disks in 43 s, the storage layer's part"),
    "clone.snapshot": Span(4.0, 8.0, "order: a snapshot of one volume"),
    "clone.restore": Span(32.0, 38.0, "order: as a clone, from the snapshot"),
    "clone.copy": Span(80.0, 120.0, "order: 6 GiB through the pod network"),
    "prep.program": Span(0.2, 0.6, "order: a pod that prints a line"),
    # KubeVirt
    "virt.step": Span(0.1, 0.5, "order: one reconcile of virt-controller"),
    "virt.handoff": Span(1.5, 4.0, "order: virt-handler defines and starts the domain"),
    "virt.shutdown": Span(4.0, 10.0, "order: the guest obeys the power button"),
    "virt.refused": Span(5.0, 15.0, "order: rate-limited retry of a refused launch"),
    "agent.connect": Span(3.0, 8.0, "order: qemu-guest-agent after the guest is up"),
    # the tenant's nodes and pods
    "node.cni": Span(8.0, 15.0, "S-OSI: Node Ready about 66 s after creation, its last part"),
    "tenant.pull": Span(2.0, 6.0, "order: a small image from a registry"),
    "tenant.cached": Span(0.5, 1.5, "order: the image is on the node"),
    "container.program": Span(0.3, 1.0, "order: a small program"),
    "container.retry": Span(10.0, 15.0, "kubelet: the next sync after an error, 10 s and jitter"),
    "endpoints.step": Span(0.1, 0.5, "order: one reconcile of kube-controller-manager"),
    "csi.register": Span(0.5, 2.0, "order: the registrar's socket, seen by the kubelet"),
    "csi.provision": Span(0.5, 1.5, "order: external-provisioner, one call to the other cluster"),
    "csi.attach": Span(4.0, 9.0, "order: a disk plugged into a running VM, and mounted"),
    "apiservice.step": Span(0.5, 2.0, "order: the aggregator looks when endpoints change"),
    "metrics.first": Span(15.0, 20.0, "order: two scrapes of kubelets, 15 s apart by default"),
    "metrics.scrape": Span(60.0, 60.0, "15 s by default; here less often, for fewer writes"),
    "tenant.kill": Span(0.3, 1.0, "order: a process that obeys SIGTERM"),
    "daemonset.step": Span(0.1, 0.5, "order: one reconcile of kube-controller-manager"),
    "daemonset.retry": Span(10.0, 20.0, "order: back-off after a pod that was refused"),
    # the GPU operator in the tenant and its operands
    "operator.step": Span(0.3, 1.5, "order: one reconcile through all states"),
    "operator.retry": Span(5.0, 5.0, "GPO: RequeueAfter 5 s"),
    "nfd.scan": Span(1.0, 4.0, "order: a worker's first pass, and the master's write"),
    "nfd.rescan": Span(0.0, 60.0, "order: NFD looks again every 60 s by default"),
    "operand.start": Span(2.0, 5.0, "order: a large image, mostly on the node already"),
    "validator.program": Span(0.6, 1.6, "order: nvidia-smi in a container"),
    "cuda.program": Span(1.5, 3.5, "order: vectorAdd with a fresh CUDA context"),
    "plugin.start": Span(1.0, 2.5, "order: NVML, CDI spec, registration with the kubelet"),
    "gfd.scan": Span(1.0, 3.0, "order: labels through NFD"),
    "node.drain": Span(1.0, 3.0, "order"),
    "pod.kill": Span(0.5, 2.0, "order"),
}

CLONE: tuple[str, ...] = (
    "cdi.step",
    "clone.scheduled",
    "clone.csi",
    "clone.snapshot",
    "clone.restore",
    "claim.expand",
    "claim.rebind",
    "scheduler",
    "pod.start",
    "prep.program",
)
"""What a clone on the storage layer takes its time for, step by step."""


class Timings:
    """Draws durations. ``override`` fixes one, for tests and faults."""

    def __init__(self, rng: Callable[[str], random.Random]) -> None:
        self._rng = rng
        self._generators: dict[str, random.Random] = {}
        self._fixed: dict[str, Span] = {}

    def draw(self, name: str) -> float:
        """Seconds for one entry of the table. Raises KeyError for a name that is not there."""
        span = self._fixed.get(name) or TABLE[name]
        if name not in self._generators:
            self._generators[name] = self._rng(f"timing {name}")
        return self._generators[name].uniform(span.low, span.high)

    def override(self, name: str, low: float, high: float | None = None) -> None:
        """From now on ``name`` takes between ``low`` and ``high`` seconds."""
        if name not in TABLE:
            raise KeyError(name)
        self._fixed[name] = Span(low, low if high is None else high, "override")
