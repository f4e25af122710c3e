"""The one interface to a machine's operating system, and its default: a privileged pod on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from harness.reach.errors import ApiRefused, LabError
from harness.reach.execs import Reply, run_in_pod

if TYPE_CHECKING:
    from harness.reach.kube import Kube

__all__ = ["NodeShell", "PodShell", "Reply"]

Obj = dict[str, Any]

MANAGED_BY = "app.kubernetes.io/managed-by"
RUN = "hil.dev/run"
COMPONENT = "app.kubernetes.io/component"
ENFORCE = "pod-security.kubernetes.io/enforce"
CONTAINER = "shell"


class NodeShell(Protocol):
    """Runs commands on one machine. Arguments are a list and are never joined into a line."""

    @property
    def where(self) -> str:
        """The machine, as an origin's source names it ("guest <node>")."""

    @property
    def root(self) -> str:
        """Where `run` finds the host's own files: what goes before a path of the host's root."""

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        """Run a command beside the host, seeing its processes. Seconds of the runner's time."""

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        """Run a command of the host's own root. Talos has no shell there."""


class PodShell:
    """A privileged pod, bound to one node past the scheduler, with the host's root at /host.

    It tolerates every taint and uses the host's network, so that it comes up on a node that is
    not Ready. Made by `open`.
    """

    root = "/host"

    def __init__(self, kube: Kube, node: str, namespace: str, name: str) -> None:
        self.node = node
        self.namespace = namespace
        self.name = name
        self._kube = kube

    @classmethod
    def open(
        cls,
        kube: Kube,
        node: str,
        *,
        run: str,
        image: str,
        wait_running: Callable[[Kube, str, str], object],
        namespace: str = "hil-shell",
        labels: Mapping[str, str] | None = None,
    ) -> PodShell:
        """The run's shell on a node: the one that is there, else a new one.

        ``run`` is the id of the run that owns pod and namespace; ``image`` needs ``chroot`` and
        ``sleep``; ``wait_running(kube, namespace, name)`` returns when the pod runs and raises
        otherwise. Raises LabError where the namespace is someone else's and not privileged.
        """
        owner = {**(labels or {}), MANAGED_BY: "hil", RUN: run, COMPONENT: "node-shell"}
        _ensure_namespace(kube, namespace, {MANAGED_BY: "hil", RUN: run})
        name = _existing(kube, namespace, node, owner)
        if not name:
            made = kube.create(_pod(node, namespace, image, owner))
            name = made["metadata"]["name"]
        wait_running(kube, namespace, name)
        return cls(kube, node, namespace, name)

    @property
    def where(self) -> str:
        """The machine, as an origin's source names it."""
        return f"guest {self.node}"

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        """Run a command in the pod: the host's processes, the pod's files, the host at /host."""
        return run_in_pod(
            self._kube, self.namespace, self.name, argv, container=CONTAINER, timeout=timeout
        )

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        """Run a command of the host's own root, through ``chroot /host``."""
        return self.run(["chroot", self.root, *argv], timeout=timeout)

    def close(self) -> None:
        """Delete the pod; one that is already gone is fine."""
        self._kube.delete("v1", "Pod", self.namespace, self.name)


def _ensure_namespace(kube: Kube, name: str, owner: dict[str, str]) -> None:
    found = kube.get("v1", "Namespace", "", name)
    if found is None:
        metadata = {"name": name, "labels": {**owner, ENFORCE: "privileged"}}
        try:
            kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        except ApiRefused as refused:
            # another shell of this lab made it between the two requests
            if refused.reason != "AlreadyExists":
                raise
        return
    labels = found["metadata"].get("labels") or {}
    if labels.get(ENFORCE) == "privileged":
        return
    if labels.get(MANAGED_BY) != "hil":
        raise LabError(
            f"put a privileged pod into namespace {name} of {kube.name}",
            f"it is not ours and its label {ENFORCE} is {labels.get(ENFORCE)!r}",
            f"label it {ENFORCE}=privileged, or name another namespace",
        )
    kube.merge("v1", "Namespace", "", name, {"metadata": {"labels": {ENFORCE: "privileged"}}})


def _existing(kube: Kube, namespace: str, node: str, owner: Mapping[str, str]) -> str:
    """The name of this run's living pod on the node, or ""."""
    # the node is compared here: its name may be longer than a label's value can be
    selector = ",".join(f"{key}={value}" for key, value in sorted(owner.items()))
    for pod in kube.list("v1", "Pod", namespace, labels=selector):
        ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        leaving = pod["metadata"].get("deletionTimestamp")
        if pod["spec"].get("nodeName") == node and not ended and not leaving:
            return str(pod["metadata"]["name"])
    return ""


def _pod(node: str, namespace: str, image: str, labels: Mapping[str, str]) -> Obj:
    mount = {
        "name": "host",
        "mountPath": PodShell.root,
        "readOnly": True,
        "mountPropagation": "HostToContainer",
    }
    container = {
        "name": CONTAINER,
        "image": image,
        "command": ["sleep", "2147483647"],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "volumeMounts": [mount],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "hil-shell-",
            "namespace": namespace,
            "labels": dict(labels),
        },
        "spec": {
            "nodeName": node,
            "hostPID": True,
            "hostNetwork": True,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "volumes": [{"name": "host", "hostPath": {"path": "/", "type": "Directory"}}],
        },
    }
