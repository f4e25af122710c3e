"""Flux's helm-controller: HelmReleases to manifests, with its conditions, history and events.

Condition types, reasons and message shapes: objects.md section 3. Ready says that manifests were
applied and nothing about workers (waiting is disabled for both application kinds; for addons it is
not modelled). An addon's release is installed into its tenant cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.world import conditions
from harness.twin.world.chart_behaviour import RenderRefused
from harness.twin.world.charts import Charts
from harness.twin.world.conditions import Condition
from harness.twin.world.objects import (
    BOOTSTRAP,
    COZY,
    HELM,
    Obj,
    annotations_of,
    deep,
    digest,
    labels_of,
    rfc3339,
    terminating,
)
from harness.twin.world.podsecurity import ENFORCE
from harness.twin.world.pool_chart import TEMPLATE_LABEL
from harness.twin.world.projection import APPLICATION, APPLICATIONS, NODES
from harness.twin.world.reconcile import Activities, Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.cluster import Cluster
    from harness.twin.world.world import World

MANAGER = "helm-controller"
FINALIZER = "finalizers.fluxcd.io"
REQUESTED = "reconcile.fluxcd.io/requestedAt"
RELEASE_NAME = "meta.helm.sh/release-name"
RELEASE_NAMESPACE = "meta.helm.sh/release-namespace"
_HISTORY = 5


class HelmController:
    """Reconciles HelmReleases of applications and addons; others are left as they are."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._charts = Charts(world)
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
            self._write(release, mark)
        seconds = self._world.timings.draw("flux.notice")
        self._actions.start(f"pass {namespace}/{name}", seconds, lambda: self._unmark(release))

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
        if not self._is_due(release) or self._actions.running(self._key(release)):
            return
        missing = self._missing(release)
        if missing:
            self._wait_for(release, missing)
            return
        retry = f"retry {self._key(release)}"
        if self._actions.running(retry) and self._was_seen(release):
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
        self._write(release, conditions.false("Ready", "DependencyNotReady", text))
        metadata = release["metadata"]
        delay = self._world.timings.draw("helm.dependency")
        self._queue.add(metadata["namespace"], metadata["name"], delay)

    @staticmethod
    def _was_seen(release: Obj) -> bool:
        """Whether the last attempt was made with what the release says now."""
        status = release.get("status") or {}
        asked = annotations_of(release).get(REQUESTED, "")
        attempted = status.get("lastAttemptedGeneration")
        same = bool(attempted == release["metadata"].get("generation"))
        return same and bool(asked == status.get("lastHandledReconcileAt", ""))

    def _is_due(self, release: Obj) -> bool:
        status = release.get("status") or {}
        asked = annotations_of(release).get(REQUESTED, "")
        return (
            status.get("observedGeneration") != release["metadata"].get("generation")
            or status.get("lastAttemptedRevision") != self._charts.version(release)
            or status.get("lastAttemptedConfigDigest") != self._config_digest(release)
            or asked != status.get("lastHandledReconcileAt", "")
            or conditions.find(release, "Ready").get("status") != "True"
        )

    @staticmethod
    def _config_digest(release: Obj) -> str:
        return f"sha256:{digest(deep(release, 'spec', 'values') or {})}"

    @staticmethod
    def _action(release: Obj) -> str:
        deployed = deep(release, "status", "history")
        return "upgrade" if deployed else "install"

    def _begin(self, release: Obj) -> None:
        action = self._action(release)
        text = f"Running '{action}' action with timeout of {release['spec'].get('timeout', '5m')}0s"
        self._write(
            release,
            conditions.true("Reconciling", "Progressing", text),
            conditions.unknown("Ready", "Progressing", text),
        )
        seconds = self._world.timings.draw("helm.action")
        self._actions.start(self._key(release), seconds, lambda: self._act(release))

    def _act(self, release: Obj) -> None:
        current = self._cluster.current(release)
        if current is None or terminating(current):
            return
        try:
            manifests = self._render(current)
        except RenderRefused as refused:
            self._failed(current, refused.message, recorded=False)
            return
        try:
            self._install(current, manifests)
        except ApiError as refused:
            self._failed(current, refused.message, recorded=True)
            return
        self._succeeded(current, manifests)

    def _render(self, release: Obj) -> list[Obj]:
        return [self._marked(manifest, release) for manifest in self._charts.render(release)]

    @staticmethod
    def _marked(manifest: Obj, release: Obj) -> Obj:
        labels = {
            "app.kubernetes.io/managed-by": "Helm",
            "helm.toolkit.fluxcd.io/name": release["metadata"]["name"],
            "helm.toolkit.fluxcd.io/namespace": release["metadata"]["namespace"],
        }
        namespace, name = Charts.identity(release)
        notes = {RELEASE_NAME: name, RELEASE_NAMESPACE: namespace}
        metadata = {
            **manifest["metadata"],
            "labels": {**labels_of(manifest), **labels},
            "annotations": {**annotations_of(manifest), **notes},
        }
        return {**manifest, "metadata": metadata}

    def _install(self, release: Obj, manifests: list[Obj]) -> None:
        for manifest in manifests:
            self._check_owner(release, manifest)
        target = self._charts.target(release)
        self._ensure_namespace(release, target)
        for manifest in manifests:
            target.store.apply(manifest, manager=MANAGER)
        wanted = [_entry(manifest) for manifest in manifests]
        for entry in _inventory(release):
            if entry not in wanted:
                self._discard(release, entry)

    def _ensure_namespace(self, release: Obj, target: Cluster) -> None:
        name, _ = Charts.identity(release)
        asked = deep(release, "spec", "install", "createNamespace")
        if asked and target.find("v1", "Namespace", "", name) is None:
            # objects.md section 9: the addon's namespace allows privileged pods
            labels = {"kubernetes.io/metadata.name": name, ENFORCE: "privileged"}
            metadata = {"name": name, "labels": labels}
            made = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            target.create(made, manager=MANAGER)

    def _check_owner(self, release: Obj, manifest: Obj) -> None:
        metadata, (_, name) = manifest["metadata"], Charts.identity(release)
        namespace = metadata.get("namespace", "")
        found = self._charts.target(release).find(
            manifest["apiVersion"], manifest["kind"], namespace, metadata["name"]
        )
        holder = annotations_of(found).get(RELEASE_NAME, "") if found else name
        if holder != name:
            what = f'{manifest["kind"]} "{metadata["name"]}" in namespace "{namespace}"'
            raise ApiError(
                409,
                f"Unable to continue with install: {what} exists and cannot be imported into the "
                f"current release: invalid ownership metadata; annotation validation error: key "
                f'"{RELEASE_NAME}" must equal "{name}": '
                f'current value is "{holder}"',
            )

    def _discard(self, release: Obj, entry: Obj) -> None:
        found = self._inventoried(release, entry)
        if found is not None:
            self._charts.target(release).delete(found, manager=MANAGER)

    def _inventoried(self, release: Obj, entry: Obj) -> Obj | None:
        namespace, name, group, kind = entry["id"].split("_")
        api_version = f"{group}/{entry['v']}" if group else entry["v"]
        return self._charts.target(release).find(api_version, kind, namespace, name)

    def revisit(self) -> None:
        """Look at every release again: the charts are of another version."""
        for release in self._cluster.all(HELM, "HelmRelease"):
            self._queue.add(release["metadata"]["namespace"], release["metadata"]["name"])

    def adopt(self, release: Obj) -> None:
        """Make a release one that was installed before the story begins, and what it installs."""
        self._cluster.add_finalizer(release, FINALIZER, manager=MANAGER)
        manifests = self._render(release) if self._charts.name(release) != NODES.chart else []
        self._install(release, manifests)
        self._cluster.status(
            release, lambda stored: self._installed(stored, "install", manifests), manager=MANAGER
        )
        for manifest in manifests:
            if manifest["kind"] == "HelmRelease":
                made = self._cluster.find(HELM, "HelmRelease", *_place(manifest))
                if made is not None:
                    self.adopt(made)

    # -- what came of it

    def _write(self, release: Obj, *found: Condition) -> None:
        now = self._world.engine.now
        self._cluster.status(
            release,
            lambda stored: conditions.write(stored, now, *found, metav1=True),
            manager=MANAGER,
        )

    def _told(self, release: Obj, action: str, outcome: str) -> str:
        revision = len(deep(release, "status", "history") or ()) + 1
        version = f".v{revision}" if outcome == "succeeded" else ""
        name = f"{'/'.join(Charts.identity(release))}{version}"
        chart = f"{self._charts.name(release)}@{self._charts.version(release)}"
        return f"Helm {action} {outcome} for release {name} with chart {chart}"

    def _attempted(self, stored: Obj, action: str) -> None:
        status = stored.setdefault("status", {})
        generation = stored["metadata"].get("generation", 1)
        status["observedGeneration"] = generation
        status["lastAttemptedGeneration"] = generation
        status["lastAttemptedReleaseAction"] = action
        status["lastAttemptedRevision"] = self._charts.version(stored)
        status["lastAttemptedConfigDigest"] = self._config_digest(stored)
        asked = annotations_of(stored).get(REQUESTED)
        if asked:
            status["lastHandledReconcileAt"] = asked
        conditions.drop(stored, "Reconciling")

    def _succeeded(self, release: Obj, manifests: list[Obj]) -> None:
        action = self._action(release)
        text = self._told(release, action, "succeeded")
        self._cluster.status(
            release, lambda stored: self._installed(stored, action, manifests), manager=MANAGER
        )
        self._cluster.events.normal(release, f"{action.capitalize()}Succeeded", text, MANAGER)

    def _installed(self, stored: Obj, action: str, manifests: list[Obj]) -> None:
        text = self._told(stored, action, "succeeded")
        self._attempted(stored, action)
        status = stored["status"]
        for counter in ("failures", "installFailures", "upgradeFailures"):
            status.pop(counter, None)
        status["inventory"] = {"entries": [_entry(manifest) for manifest in manifests]}
        self._record(stored, action, "deployed", manifests)
        reason = f"{action.capitalize()}Succeeded"
        good = [conditions.true(kind, reason, text) for kind in ("Ready", "Released")]
        conditions.write(stored, self._world.engine.now, *good, metav1=True)

    def _failed(self, release: Obj, why: str, *, recorded: bool) -> None:
        action = self._action(release)
        text = f"{self._told(release, action, 'failed')}: {why}"
        reason = f"{action.capitalize()}Failed"

        def change(stored: Obj) -> None:
            self._attempted(stored, action)
            status = stored["status"]
            for counter in ("failures", f"{action}Failures"):
                status[counter] = status.get(counter, 0) + 1
            # a chart that refuses to render never becomes a release of Helm's
            if recorded:
                self._record(stored, action, "failed", [])
            bad = [conditions.false(kind, reason, text) for kind in ("Ready", "Released")]
            conditions.write(stored, self._world.engine.now, *bad, metav1=True)

        self._cluster.status(release, change, manager=MANAGER)
        self._cluster.events.warning(release, reason, text, MANAGER)
        metadata = release["metadata"]
        delay = self._world.timings.draw("helm.retry")
        self._actions.start(
            f"retry {self._key(release)}",
            delay,
            lambda: self.reconcile(metadata["namespace"], metadata["name"]),
        )

    def _record(self, stored: Obj, action: str, state: str, manifests: list[Obj]) -> None:
        """A new snapshot at the head of the history; what was deployed is superseded."""
        history = stored["status"].get("history") or []
        now = rfc3339(self._world.engine.now)
        if state == "deployed":
            for entry in history:
                if entry["status"] == "deployed":
                    entry["status"] = "superseded"
        namespace, name = Charts.identity(stored)
        snapshot = {
            "name": name,
            "namespace": namespace,
            "version": history[0]["version"] + 1 if history else 1,
            "status": state,
            "chartName": self._charts.name(stored),
            "chartVersion": self._charts.version(stored),
            "configDigest": self._config_digest(stored),
            "digest": f"sha256:{digest(manifests)}",
            "firstDeployed": history[-1]["firstDeployed"] if history else now,
            "lastDeployed": now,
            "action": action,
        }
        stored["status"]["history"] = [snapshot, *history][:_HISTORY]

    # -- uninstall

    def _uninstall(self, release: Obj) -> None:
        key = self._key(release)
        self._actions.stop(key)
        self._actions.stop(f"retry {key}")
        if not self._actions.running(f"un{key}"):
            seconds = self._world.timings.draw("helm.uninstall")
            self._actions.start(f"un{key}", seconds, lambda: self._take_down(release))

    def _take_down(self, release: Obj) -> None:
        current = self._cluster.current(release)
        if current is None:
            return
        target = self._charts.target(current)
        for obj in reversed(self._left(current)):
            target.delete(obj, manager=MANAGER)
        if self._left(current):
            # Helm waits for what it deleted to be gone
            seconds = self._world.timings.draw("helm.uninstall")
            key = f"un{self._key(release)}"
            self._actions.start(key, seconds, lambda: self._take_down(release))
            return
        self._delete_templates(current)
        text = f"Helm uninstall succeeded for release {'/'.join(Charts.identity(current))}"
        self._cluster.events.normal(current, "UninstallSucceeded", text, MANAGER)
        self._cluster.drop_finalizer(current, FINALIZER, manager=MANAGER)

    def _left(self, release: Obj) -> list[Obj]:
        entries = _inventory(release)
        return [found for e in entries if (found := self._inventoried(release, e)) is not None]

    def _delete_templates(self, release: Obj) -> None:
        """Delete the Talos templates that the release's Job made: they are not Helm's own."""
        name, namespace = release["metadata"]["name"], release["metadata"]["namespace"]
        fixed = [
            entry["id"].split("_")[1]
            for entry in _inventory(release)
            if entry["id"].endswith("_MachineDeployment")
        ]
        for template in self._cluster.all(BOOTSTRAP, "TalosConfigTemplate", namespace):
            ours = labels_of(template).get(TEMPLATE_LABEL) == name
            if ours or template["metadata"]["name"] in fixed:
                self._cluster.delete(template, manager=MANAGER)


def _entry(manifest: Obj) -> Obj:
    metadata = manifest["metadata"]
    group, _, version = manifest["apiVersion"].rpartition("/")
    identity = "_".join((metadata.get("namespace", ""), metadata["name"], group, manifest["kind"]))
    return {"id": identity, "v": version}


def _place(obj: Obj) -> tuple[str, str]:
    return obj["metadata"]["namespace"], obj["metadata"]["name"]


def _inventory(release: Obj) -> list[Obj]:
    return list(deep(release, "status", "inventory", "entries") or ())
