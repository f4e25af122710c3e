"""Signs of life of a node: its Lease every 10 s, its status every 5 minutes (kubelet defaults)."""

from __future__ import annotations

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.store import Options
from harness.twin.engine import Timer
from harness.twin.world.cluster import Cluster
from harness.twin.world.objects import Obj, owner, rfc3339, rfc3339_micro

LEASES = "kube-node-lease"
LEASE = "coordination.k8s.io/v1"
RENEW = 10.0
REPORT = 300.0
_MANAGER = "kubelet"
_OPTIONS = Options(manager=_MANAGER)


class Heartbeat:
    """Beats for one node from `start` until `stop`; a node that is gone stops it by itself."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._cluster = cluster
        self._node = node
        self._timers: list[Timer] = []
        self._resource = cluster.store.registry.by_kind(LEASE, "Lease")

    def start(self) -> None:
        """First beat now."""
        self.stop()
        engine = self._cluster.engine
        self._renew()
        self._timers = [
            engine.every(RENEW, self._renew, f"lease of {self._node}"),
            engine.every(REPORT, self._report, f"status of {self._node}"),
        ]

    def stop(self) -> None:
        """No further beats; the Lease stays as it was."""
        for timer in self._timers:
            timer.cancel()
        self._timers = []

    def _renew(self) -> None:
        store = self._cluster.store
        lease = store.find(LEASE, "Lease", LEASES, self._node)
        if lease is None:
            self._create()
            return
        moment = rfc3339_micro(self._cluster.engine.now)
        renewed = {**lease, "spec": {**lease["spec"], "renewTime": moment}}
        store.replace(self._resource, LEASES, self._node, renewed, options=_OPTIONS)

    def _create(self) -> None:
        node = self._cluster.find("v1", "Node", "", self._node)
        if node is None:
            self.stop()
            return
        lease = {
            "apiVersion": LEASE,
            "kind": "Lease",
            "metadata": {
                "name": self._node,
                "namespace": LEASES,
                "ownerReferences": [owner(node, controller=False)],
            },
            "spec": {
                "holderIdentity": self._node,
                "leaseDurationSeconds": 40,
                "renewTime": rfc3339_micro(self._cluster.engine.now),
            },
        }
        try:
            self._cluster.create(lease, manager=_MANAGER)
        except ApiError:
            return  # somebody deleted the namespace; the next beat tries again

    def _report(self) -> None:
        node = self._cluster.find("v1", "Node", "", self._node)
        if node is None:
            self.stop()
            return

        def beat(stored: Obj) -> None:
            for condition in (stored.get("status") or {}).get("conditions") or ():
                if "lastHeartbeatTime" in condition:
                    condition["lastHeartbeatTime"] = rfc3339(self._cluster.engine.now)

        self._cluster.status(node, beat, manager=_MANAGER)


def node_conditions(now: float, *, ready: bool, message: str = "") -> list[Obj]:
    """The five conditions a kubelet and its CNI report."""
    healthy = (
        ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    )
    found = [_condition(kind, "False", reason, text, now) for kind, reason, text in healthy]
    if ready:
        posting = "kubelet is posting ready status"
        found.append(_condition("Ready", "True", "KubeletReady", posting, now))
    else:
        found.append(_condition("Ready", "False", "KubeletNotReady", message, now))
    return found


def _condition(kind: str, status: str, reason: str, message: str, now: float) -> Obj:
    moment = rfc3339(now)
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": moment,
        "lastTransitionTime": moment,
    }
