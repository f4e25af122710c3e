"""Pods that try a card: a fresh one, one without a card, one that runs CUDA, one made too early.

A device plugin's answer is decided when a pod is admitted, so that a pod older than a working node
never gets its libraries and must be made anew (S-DOC; gpu_path 6). None of these pods has anything
that could bring a driver by another way. What keeps one from running is left in the pod, where
observers read it; what keeps one from being made is an Unread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.bringup.ownership import MANAGED
from harness.facts.fact import Origin, Unread
from harness.facts.gpunode import RESOURCE
from harness.facts.objects import mapped, name_of, text_at
from harness.facts.probes import CONTAINER
from harness.observe import operator
from harness.reach.errors import ApiRefused
from harness.reach.history import Obj

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

NAMESPACE = "hil-probe"
PROBE_OF = "hil.dev/probe-of"
"""Label of a probe: the pool it was made for. Who holds that pool's Lease may delete it."""

POD_BUDGET = 300.0
"""Seconds that a probe may take to be scheduled, to pull its image and to start."""
CUDA_BUDGET = 600.0
"""Seconds until the CUDA program has ended: its image is the larger one."""
GONE_BUDGET = 120.0
"""Seconds for deleted probes to go."""
FOR_EVER = ("sleep", "2147483647")

_ENFORCE = "pod-security.kubernetes.io/enforce"
_HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Made:
    """A probe that was made, or why it was not. ``advertised`` as in `facts.probes.EarlyPod`."""

    pod: str
    advertised: str | None = None
    refused: Unread | None = None


class ProbePods:
    """The probes of one pool. ``early`` are those made during bring-up, by node."""

    def __init__(self, pool: HeldPool) -> None:
        self._pool = pool
        self._kube = pool.lab.tenant
        self._clock = pool.lab.clock
        self._runs = pool.lab.inventory.probes(pool.name)
        self.early: dict[str, Made] = {}

    def prepare(self) -> None:
        """Delete what an earlier run left of this pool, and see that the namespace is there.

        The namespace comes long before its first pod: its service account is made behind it, and
        pods without one are refused.
        """
        self.ensure_namespace()
        self.clear()

    def ensure_namespace(self) -> None:
        """See that the namespace is there."""
        if self._kube.get("v1", "Namespace", "", NAMESPACE) is None:
            metadata = {"name": NAMESPACE, "labels": {**MANAGED, _ENFORCE: "baseline"}}
            try:
                self._kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
            except ApiRefused as refused:
                # another run of this lab made it between the two requests
                if refused.reason != "AlreadyExists":
                    raise

    def make_early(self, node: str) -> None:
        """A pod with a card as its limit, bound to a node that does not offer one yet.

        Past the scheduler, which would wait for the offer. What the node offered just before is
        kept with it, for whoever judges whether it was early enough.
        """
        seen = operator.gpu_node(self._kube, node, now=self._clock.now)
        if isinstance(seen, Unread):
            self.early[node] = Made("", refused=seen)
            return
        spec = {**self._sleeper(cards=1), "nodeName": node, "tolerations": [{"operator": "Exists"}]}
        made = self._make("early", spec)
        self.early[node] = Made(made.pod, seen.allocatable, made.refused)

    def fresh(self, node: str) -> Made:
        """A pod with one card as its limit, once it runs or the budget is over."""
        return self._run("fresh", {**self._sleeper(cards=1), **self._on(node)})

    def control(self, node: str) -> Made:
        """The same without a limit."""
        return self._run("control", {**self._sleeper(cards=0), **self._on(node)})

    def cuda(self, node: str) -> Made:
        """A pod with one card that runs one program, once it ended or the budget is over."""
        runs = self._runs
        spec = {**_spec(runs.cuda_image, runs.cuda_command, cards=1), **self._on(node)}
        return self._run("cuda", spec, until=("Succeeded", "Failed"), budget=CUDA_BUDGET)

    def delete(self, made: Made) -> None:
        """Delete a probe and see it go: until then its card is not free."""
        if made.pod:
            self._kube.delete("v1", "Pod", NAMESPACE, made.pod)
            self._wait_gone({made.pod})

    def clear(self) -> None:
        """Delete every probe of this pool and see them go."""
        left = self._kube.list("v1", "Pod", NAMESPACE, labels=f"{PROBE_OF}={self._pool.name}")
        for pod in left:
            self._kube.delete("v1", "Pod", NAMESPACE, name_of(pod))
        if left:
            self._wait_gone({name_of(pod) for pod in left})

    def _run(
        self,
        kind: str,
        spec: Obj,
        until: tuple[str, ...] = ("Running", "Succeeded", "Failed"),
        budget: float = POD_BUDGET,
    ) -> Made:
        made = self._make(kind, spec)
        feed = self._pool.lab.observatory.feed(self._kube, "v1", "Pod", NAMESPACE)

        def reached() -> bool:
            return text_at(feed.object(made.pod) or {}, "status", "phase") in until

        if made.pod:
            self._pool.wait(reached, budget, f"pod {NAMESPACE}/{made.pod} to be {until[0]}")
        return made

    def _make(self, kind: str, spec: Obj) -> Made:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": f"hil-{kind}-",
                "namespace": NAMESPACE,
                "labels": {**MANAGED, PROBE_OF: self._pool.name},
            },
            "spec": spec,
        }
        try:
            return Made(name_of(self._kube.create(pod)))
        except ApiRefused as refused:
            what = f"Pod {NAMESPACE}/hil-{kind}-"
            origin = Origin(self._clock.now(), f"{self._kube.name} {what}", "")
            return Made("", refused=Unread(origin, what, f"the API would not make it: {refused}"))

    def _sleeper(self, *, cards: int) -> Obj:
        return _spec(self._runs.image, FOR_EVER, cards=cards)

    def _on(self, node: str) -> Obj:
        """Let the scheduler choose this node, by the name that the node calls itself."""
        found = self._pool.watched.nodes.object(node) or {}
        host = text_at(mapped(found, "metadata", "labels"), _HOSTNAME)
        return {"nodeSelector": {_HOSTNAME: host or node}}

    def _wait_gone(self, names: set[str]) -> None:
        feed = self._pool.lab.observatory.feed(self._kube, "v1", "Pod", NAMESPACE)

        def gone() -> bool:
            return not names & {name_of(pod) for pod in feed.objects()}

        self._pool.wait(gone, GONE_BUDGET, f"pods {', '.join(sorted(names))} to be gone")


def _spec(image: str, command: tuple[str, ...], *, cards: int) -> Obj:
    container: Obj = {"name": CONTAINER, "image": image}
    limits: Mapping[str, str] = {RESOURCE: str(cards)} if cards else {}
    container |= {"command": list(command)} if command else {}
    container |= {"resources": {"limits": dict(limits)}} if limits else {}
    return {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [container],
    }
