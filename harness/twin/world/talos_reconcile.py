"""The Job of a pool's release: it waits for the control plane and writes the TalosConfigTemplate.

Steps and limits: objects.md section 5. The Job's script is what counts: the machine config in its
heredoc, with its blanks filled from the cluster, becomes the template's ``data``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.store import Admission
from harness.twin.world import conditions, pods
from harness.twin.world.objects import (
    BOOTSTRAP,
    CONTROL_PLANE,
    Obj,
    controller_of,
    decode,
    deep,
    labels_of,
    meta,
    owner,
    rfc3339,
    terminating,
)
from harness.twin.world.pool_chart import RECONCILE_LABEL, TEMPLATE_LABEL
from harness.twin.world.reconcile import Activities, Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

MANAGER = "job-controller"
MOST_POLLS = 120
_HEREDOC = re.compile(r"<<EOF\n(?P<text>.*?)\nEOF$", re.DOTALL | re.MULTILINE)
_ASSIGNED = re.compile(r"^(?P<name>[A-Z_]+)=(?P<value>\S+)$", re.MULTILINE)
_BLANK = re.compile(r"\$(?P<name>[A-Z][A-Z_]*)")


def immutable_template(question: Admission) -> Obj:
    """The webhook that keeps a TalosConfigTemplate's spec as it was made (objects.md section 5)."""
    changed = (
        question.verb == "UPDATE"
        and question.resource.kind == "TalosConfigTemplate"
        and question.old is not None
        and question.obj.get("spec") != question.old.get("spec")
    )
    if changed:
        name = question.obj["metadata"]["name"]
        raise ApiError(
            403,
            'admission webhook "vtalosconfigtemplate.cluster.x-k8s.io" denied the request: '
            f'TalosConfigTemplate.bootstrap.cluster.x-k8s.io "{name}" is invalid: spec: Invalid '
            "value: TalosConfigTemplate.Spec is immutable",
            reason="Forbidden",
        )
    return question.obj


class Jobs:
    """The Job controller of the management cluster, and what talos-reconcile Jobs do."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._work = Activities(world.engine)
        self._polls: dict[str, int] = {}  # pod UID to polls made
        self._queue = Queue(
            world.engine, MANAGER, self._reconcile, lambda: world.timings.draw("capi.step")
        )
        self._cluster.on("batch/v1", "Job", self._hear)
        self._cluster.on("v1", "Pod", self._hear_pod)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def _hear_pod(self, change: Change) -> None:
        reference = controller_of(change.obj)
        if reference.get("kind") != "Job":
            return
        self._queue.add(change.obj["metadata"]["namespace"], reference["name"])
        phase = deep(change.obj, "status", "phase")
        if phase == "Running" and RECONCILE_LABEL in labels_of(change.obj):
            uid, pod = change.obj["metadata"]["uid"], change.obj
            seconds = self._world.timings.draw("reconcile.job")
            if uid not in self._polls and self._work.start(uid, seconds, lambda: self._try(pod)):
                self._polls[uid] = 0

    # -- the Job

    def _reconcile(self, namespace: str, name: str) -> None:
        job = self._cluster.find("batch/v1", "Job", namespace, name)
        if job is None or terminating(job) or conditions.find(job, "Failed"):
            return
        if conditions.holds(job, "Complete"):
            self._expire(job)
            return
        mine = [
            pod
            for pod in self._cluster.all("v1", "Pod", namespace)
            if controller_of(pod).get("uid") == job["metadata"]["uid"]
        ]
        failed = sum(1 for pod in mine if deep(pod, "status", "phase") == "Failed")
        if any(deep(pod, "status", "phase") == "Succeeded" for pod in mine):
            self._complete(job, failed)
        elif failed > deep(job, "spec", "backoffLimit"):
            self._give_up(job, failed)
        elif failed == len(mine):
            self._start_pod(job, failed)

    def _start_pod(self, job: Obj, failed: int) -> None:
        started = deep(job, "status", "startTime") or rfc3339(self._world.engine.now)
        status: Obj = {"active": 1, "startTime": started}
        if failed:
            status["failed"] = failed
        self._cluster.status(job, lambda stored: stored.update(status=status), manager=MANAGER)
        # the Job controller backs off 10 s, 20 s, 40 s ... up to 6 minutes
        delay = min(10.0 * 2 ** (failed - 1), 360.0) if failed else 0.0
        self._work.start(f"pod {job['metadata']['uid']}", delay, lambda: self._create_pod(job))

    def _create_pod(self, job: Obj) -> None:
        if self._cluster.current(job) is None:
            return
        metadata = job["metadata"]
        template = deep(job, "spec", "template")
        labels = {
            **labels_of(template),
            "batch.kubernetes.io/job-name": metadata["name"],
            "batch.kubernetes.io/controller-uid": metadata["uid"],
            "job-name": metadata["name"],
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": f"{metadata['name']}-",
                "namespace": metadata["namespace"],
                "labels": labels,
                "ownerReferences": [owner(job)],
            },
            "spec": template["spec"],
        }
        made = self._cluster.create(pod, manager=MANAGER)
        text = f"Created pod: {made['metadata']['name']}"
        self._cluster.events.normal(job, "SuccessfulCreate", text, MANAGER)

    def _complete(self, job: Obj, failed: int) -> None:
        now = self._world.engine.now

        def change(stored: Obj) -> None:
            status = stored.setdefault("status", {})
            status.pop("active", None)
            status |= {"succeeded": 1, "completionTime": rfc3339(now)}
            if failed:
                status["failed"] = failed
            conditions.write(stored, now, conditions.true("Complete", "CompletionsReached"))

        self._cluster.status(job, change, manager=MANAGER)
        self._cluster.events.normal(job, "Completed", "Job completed", MANAGER)

    def _give_up(self, job: Obj, failed: int) -> None:
        text = "Job has reached the specified backoff limit"

        def change(stored: Obj) -> None:
            stored.setdefault("status", {}).pop("active", None)
            stored["status"]["failed"] = failed
            lost = conditions.true("Failed", "BackoffLimitExceeded", text)
            conditions.write(stored, self._world.engine.now, lost)

        self._cluster.status(job, change, manager=MANAGER)
        self._cluster.events.warning(job, "BackoffLimitExceeded", text, MANAGER)

    def _expire(self, job: Obj) -> None:
        seconds = deep(job, "spec", "ttlSecondsAfterFinished")
        if seconds is not None:
            self._work.start(
                f"ttl {job['metadata']['uid']}",
                float(seconds),
                lambda: self._cluster.delete(job, manager="ttl-after-finished-controller"),
            )

    # -- the program in the talos-reconcile pod

    def _try(self, pod: Obj) -> None:
        current = self._cluster.current(pod)
        if current is None or terminating(current) or pods.finished(current):
            return
        container = current["spec"]["containers"][0]
        cluster = next(e["value"] for e in container["env"] if e["name"] == "CLUSTER")
        blanks, missing = self._facts(cluster, current["metadata"]["namespace"])
        if missing:
            self._wait(current, missing)
            return
        self._world.hosts.say(current, "prerequisites are there")
        try:
            self._apply(current, container["command"][-1], cluster, blanks)
        except ApiError as refused:
            self._world.hosts.say(current, f"Error from server: {refused.message}")
            self._world.hosts.finish(current, exit_code=1)
            return
        self._world.hosts.finish(current)

    def _wait(self, pod: Obj, missing: str) -> None:
        uid = pod["metadata"]["uid"]
        self._polls[uid] += 1
        self._world.hosts.say(pod, f"waiting for {missing} ({self._polls[uid]}/{MOST_POLLS})")
        if self._polls[uid] >= MOST_POLLS:
            self._world.hosts.finish(pod, exit_code=1)
            return
        seconds = self._world.timings.draw("reconcile.poll")
        self._work.start(uid, seconds, lambda: self._try(pod))

    def _facts(self, cluster: str, namespace: str) -> tuple[dict[str, str], str]:
        """What fills the blanks; or which prerequisite is missing."""
        service = self._cluster.find("v1", "Service", namespace, cluster)
        address = deep(service or {}, "spec", "clusterIP")
        if not address:
            return {}, f"a ClusterIP of Service {cluster}"
        facts = {"SERVICE_IP": str(address)}
        wanted = (
            (f"{cluster}-talos-ca", {"TALOS_CA_CRT": "tls.crt"}),
            (f"{cluster}-ca", {"CA_CRT": "ca.crt"}),
            (
                f"{cluster}-talos-secrets",
                {
                    "TALOS_TOKEN": "token",
                    "CLUSTER_ID": "clusterId",
                    "CLUSTER_SECRET": "clusterSecret",
                    "BOOTSTRAP_TOKEN": "bootstrapToken",
                },
            ),
        )
        for name, keys in wanted:
            data = deep(self._cluster.find("v1", "Secret", namespace, name) or {}, "data") or {}
            lacking = [key for key in keys.values() if not data.get(key)]
            if lacking:
                return {}, f"Secret {name} with {', '.join(lacking)}"
            certificate = name.endswith("-ca")
            facts |= {
                blank: data[key] if certificate else decode(data[key])
                for blank, key in keys.items()
            }
        return facts, ""

    def _apply(self, pod: Obj, script: str, cluster: str, blanks: dict[str, str]) -> None:
        found = _HEREDOC.search(script)
        assigned = {m["name"]: m["value"] for m in _ASSIGNED.finditer(script)}
        text = found["text"] if found else ""
        # what the shell does with a variable that is not set: nothing is left of it
        data = _BLANK.sub(lambda blank: blanks.get(blank["name"], ""), text) + "\n"
        namespace, release = pod["metadata"]["namespace"], labels_of(pod)[RECONCILE_LABEL]
        hashed = self._world.chart.content_named
        metadata = meta(
            assigned["TEMPLATE"],
            namespace,
            labels={TEMPLATE_LABEL: release} if hashed else {},
        )
        control_plane = self._cluster.find(CONTROL_PLANE, "KamajiControlPlane", namespace, cluster)
        if hashed and control_plane is not None:
            metadata["ownerReferences"] = [owner(control_plane)]
        spec = {"generateType": "none", "talosVersion": _minor(assigned["TALOS_VERSION"])}
        template = {
            "apiVersion": BOOTSTRAP,
            "kind": "TalosConfigTemplate",
            "metadata": metadata,
            "spec": {"template": {"spec": {**spec, "data": data}}},
        }
        self._cluster.store.apply(template, manager="kubectl")
        name = metadata["name"]
        line = f"talosconfigtemplate.bootstrap.cluster.x-k8s.io/{name} serverside-applied"
        self._world.hosts.say(pod, line)
        if hashed:
            self._prune(namespace, release, name)

    def _prune(self, namespace: str, release: str, keep: str) -> None:
        """Delete templates of the release that no MachineSet or MachineDeployment uses."""
        used = self._world.templates_in_use(namespace)
        for template in self._cluster.all(BOOTSTRAP, "TalosConfigTemplate", namespace):
            name = template["metadata"]["name"]
            ours = labels_of(template).get(TEMPLATE_LABEL) == release
            if ours and name != keep and name not in used:
                self._cluster.delete(template, manager="kubectl")


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
