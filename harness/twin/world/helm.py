"""Flux's helm-controller: HelmReleases to manifests, with its conditions, history and events.

Condition types, reasons and message shapes: objects.md section 3. Ready says that manifests were
applied and nothing about workers (waiting is disabled for both application kinds; of what others
wait for, DataVolumes are modelled). An addon's release is installed into its tenant cluster. What
Helm does with manifests is in `helm_manifests`, what is written of it in `helm_history`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.world import conditions
from harness.twin.world.chart_behaviour import RenderRefused
from harness.twin.world.charts import Charts
from harness.twin.world.healthcheck import seconds
from harness.twin.world.helm_history import Records, action_of
from harness.twin.world.helm_manifests import MANAGER, Manifests
from harness.twin.world.objects import COZY, HELM, Obj, deep, labels_of, terminating
from harness.twin.world.projection import APPLICATION, APPLICATIONS, NODES
from harness.twin.world.reconcile import Activities, Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

FINALIZER = "finalizers.fluxcd.io"


class HelmController:
    """Reconciles HelmReleases of applications and addons; others are left as they are."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._charts = Charts(world)
        self._manifests = Manifests(world.cluster, self._charts)
        self._records = Records(world, self._charts)
        self._actions = Activities(world.engine)
        self._queue = Queue(
            world.engine, MANAGER, self.reconcile, lambda: world.timings.draw("flux.notice")
        )
        self._cluster.on(HELM, "HelmRelease", self._hear)
        self._cluster.on(COZY, "WorkloadMonitor", self._hear_monitor)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED" and change.resource.api_version == HELM:
            self._queue.hear(change)

    def _hear_monitor(self, change: Change) -> None:
        """Look again at the release of an application whose workloads changed."""
        before = deep(change.old or {}, "status", "operational")
        if change.type == "MODIFIED" and deep(change.obj, "status", "operational") == before:
            return
        labels = labels_of(change.obj)
        for application in APPLICATIONS:
            if application.kind == labels.get(f"{APPLICATION}.kind"):
                name = application.release(labels.get(f"{APPLICATION}.name", ""))
                self._pass(change.obj["metadata"]["namespace"], name)

    def _pass(self, namespace: str, name: str) -> None:
        """A reconcile that finds nothing to do: it leaves only its passing mark."""
        release = self._cluster.find(HELM, "HelmRelease", namespace, name)
        if release is None or terminating(release) or not conditions.find(release, "Ready"):
            return
        if not conditions.find(release, "Reconciling"):
            mark = conditions.true("Reconciling", "Progressing", "Fulfilling prerequisites")
            self._records.write(release, mark)
        took = self._world.timings.draw("flux.notice")
        self._actions.start(f"pass {namespace}/{name}", took, lambda: self._unmark(release))

    def _unmark(self, release: Obj) -> None:
        if not self._actions.running(self._key(release)):
            self._cluster.status(
                release, lambda stored: conditions.drop(stored, "Reconciling"), manager=MANAGER
            )

    @staticmethod
    def _key(release: Obj) -> str:
        return f"helm {release['metadata']['uid']}"

    # -- install and upgrade

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a release."""
        release = self._cluster.find(HELM, "HelmRelease", namespace, name)
        if release is None or not self._charts.name(release):
            return
        if terminating(release):
            self._uninstall(release)
            return
        if deep(release, "spec", "suspend"):
            return
        if FINALIZER not in (release["metadata"].get("finalizers") or ()):
            self._cluster.add_finalizer(release, FINALIZER, manager=MANAGER)
            return
        if not self._records.is_due(release) or self._actions.running(self._key(release)):
            return
        missing = self._missing(release)
        if missing:
            self._wait_for(release, missing)
            return
        retry = f"retry {self._key(release)}"
        if self._actions.running(retry) and self._records.was_seen(release):
            return
        self._actions.stop(retry)
        self._begin(release)

    def _missing(self, release: Obj) -> str:
        """The first dependency that is not Ready, as namespace/name; "" where there is none."""
        for needed in deep(release, "spec", "dependsOn") or ():
            namespace = needed.get("namespace") or release["metadata"]["namespace"]
            found = self._cluster.find(HELM, "HelmRelease", namespace, needed["name"])
            if found is None or not conditions.holds(found, "Ready"):
                return f"{namespace}/{needed['name']}"
        return ""

    def _wait_for(self, release: Obj, missing: str) -> None:
        text = f"dependency '{missing}' is not ready"
        self._records.write(release, conditions.false("Ready", "DependencyNotReady", text))
        metadata = release["metadata"]
        delay = self._world.timings.draw("helm.dependency")
        self._queue.add(metadata["namespace"], metadata["name"], delay)

    def _begin(self, release: Obj) -> None:
        action = action_of(release)
        text = f"Running '{action}' action with timeout of {release['spec'].get('timeout', '5m')}0s"
        self._records.write(
            release,
            conditions.true("Reconciling", "Progressing", text),
            conditions.unknown("Ready", "Progressing", text),
        )
        took = self._world.timings.draw("helm.action")
        self._actions.start(self._key(release), took, lambda: self._act(release))

    def _act(self, release: Obj) -> None:
        current = self._cluster.current(release)
        if current is None or terminating(current):
            return
        try:
            manifests = self._manifests.render(current)
        except RenderRefused as refused:
            self._failed(current, refused.message, None)
            return
        try:
            self._manifests.install(current, manifests)
        except ApiError as refused:
            self._failed(current, refused.message, manifests)
            return
        timeout = seconds(str(deep(current, "spec", "timeout") or "5m"))
        self._settle(current, manifests, self._world.engine.now + timeout)

    def _settle(self, release: Obj, manifests: list[Obj], deadline: float) -> None:
        """Succeed as soon as nothing is waited for any more."""
        current = self._cluster.current(release)
        if current is None or terminating(current):
            return
        awaited = self._manifests.awaited(release, manifests)
        if not awaited:
            self._records.succeeded(release, manifests)
        elif self._world.engine.now >= deadline:
            listed = ", ".join(f"{one} status: 'InProgress'" for one in awaited)
            self._failed(release, f"timeout waiting for: [{listed}]", manifests)
        else:
            delay = self._world.timings.draw("helm.wait")
            again = partial(self._settle, release, manifests, deadline)
            self._actions.start(self._key(release), delay, again)

    def _failed(self, release: Obj, why: str, manifests: list[Obj] | None) -> None:
        self._records.failed(release, why, manifests)
        metadata, action = release["metadata"], action_of(release)
        asked = str(deep(release, "spec", action, "strategy", "retryInterval") or "")
        self._actions.start(
            f"retry {self._key(release)}",
            seconds(asked) or self._world.timings.draw("helm.retry"),
            lambda: self.reconcile(metadata["namespace"], metadata["name"]),
        )

    def revisit(self) -> None:
        """Look at every release again: the charts are of another version."""
        for release in self._cluster.all(HELM, "HelmRelease"):
            self._queue.add(release["metadata"]["namespace"], release["metadata"]["name"])

    def adopt(self, release: Obj) -> None:
        """Make a release one that was installed before the story begins, and what it installs."""
        self._cluster.add_finalizer(release, FINALIZER, manager=MANAGER)
        known = self._charts.name(release)
        manifests = self._manifests.render(release) if known != NODES.chart else []
        self._manifests.install(release, manifests)
        self._records.installed(release, manifests)
        for manifest in manifests:
            if manifest["kind"] == "HelmRelease":
                made = self._cluster.find(HELM, "HelmRelease", *_place(manifest))
                if made is not None:
                    self.adopt(made)

    # -- uninstall

    def _uninstall(self, release: Obj) -> None:
        key = self._key(release)
        self._actions.stop(key)
        self._actions.stop(f"retry {key}")
        if not self._actions.running(f"un{key}"):
            took = self._world.timings.draw("helm.uninstall")
            self._actions.start(f"un{key}", took, lambda: self._take_down(release))

    def _take_down(self, release: Obj) -> None:
        current = self._cluster.current(release)
        if current is None:
            return
        self._manifests.delete_left(current)
        if self._manifests.left(current):
            # Helm waits for what it deleted to be gone
            took = self._world.timings.draw("helm.uninstall")
            key = f"un{self._key(release)}"
            self._actions.start(key, took, lambda: self._take_down(release))
            return
        self._manifests.delete_templates(current)
        text = f"Helm uninstall succeeded for release {'/'.join(Charts.identity(current))}"
        self._cluster.events.normal(current, "UninstallSucceeded", text, MANAGER)
        self._cluster.drop_finalizer(current, FINALIZER, manager=MANAGER)


def _place(obj: Obj) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]
