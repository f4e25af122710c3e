"""What helm-controller writes of an attempt: conditions, history, counters, Events.

Condition types, reasons, message shapes and the history's fields: objects.md section 3. Counters
begin anew where what is attempted is not what failed before (FLX ``internal/action/reset.go``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world import conditions
from harness.twin.world.charts import Charts
from harness.twin.world.conditions import Condition
from harness.twin.world.helm_manifests import MANAGER, entry_of, inventory
from harness.twin.world.objects import Obj, annotations_of, deep, digest, rfc3339

if TYPE_CHECKING:
    from harness.twin.world.world import World

REQUESTED = "reconcile.fluxcd.io/requestedAt"
_HISTORY = 5
_COUNTERS = ("failures", "installFailures", "upgradeFailures")


class Records:
    """Writes the status of HelmReleases."""

    def __init__(self, world: World, charts: Charts) -> None:
        self._world = world
        self._cluster = world.cluster
        self._charts = charts

    # -- what was attempted before

    def is_due(self, release: Obj) -> bool:
        """Whether a release says something that the last attempt was not made with, or failed."""
        status = release.get("status") or {}
        return (
            status.get("observedGeneration") != release["metadata"].get("generation")
            or self._differs(release)
            or _asked(release) != status.get("lastHandledReconcileAt", "")
            or conditions.find(release, "Ready").get("status") != "True"
        )

    def was_seen(self, release: Obj) -> bool:
        """Whether the last attempt was made with what the release says now."""
        status = release.get("status") or {}
        attempted = status.get("lastAttemptedGeneration")
        same = bool(attempted == release["metadata"].get("generation"))
        return same and bool(_asked(release) == status.get("lastHandledReconcileAt", ""))

    def _differs(self, release: Obj) -> bool:
        """Whether chart or values are not those of the last attempt."""
        status = release.get("status") or {}
        return bool(
            status.get("lastAttemptedRevision") != self._charts.version(release)
            or status.get("lastAttemptedConfigDigest") != _config_digest(release)
        )

    # -- what comes of one

    def write(self, release: Obj, *found: Condition) -> None:
        """Set conditions."""
        now = self._world.engine.now
        self._cluster.status(
            release,
            lambda stored: conditions.write(stored, now, *found, metav1=True),
            manager=MANAGER,
        )

    def succeeded(self, release: Obj, manifests: list[Obj]) -> None:
        """The attempt with this version of the release applied these manifests."""
        action = action_of(release)
        text = self._told(release, action, "succeeded")
        self.installed(release, manifests)
        self._cluster.events.normal(release, f"{action.capitalize()}Succeeded", text, MANAGER)

    def installed(self, release: Obj, manifests: list[Obj]) -> None:
        """The same without its Event."""
        action = action_of(release)
        text = self._told(release, action, "succeeded")
        reason = f"{action.capitalize()}Succeeded"

        def change(stored: Obj) -> None:
            self._attempted(stored, release, action)
            status = stored["status"]
            for counter in _COUNTERS:
                status.pop(counter, None)
            status["inventory"] = {"entries": [entry_of(manifest) for manifest in manifests]}
            self._record(stored, release, action, "deployed", manifests)
            good = [conditions.true(kind, reason, text) for kind in ("Ready", "Released")]
            conditions.write(stored, self._world.engine.now, *good, metav1=True)

        self._cluster.status(release, change, manager=MANAGER)

    def failed(self, release: Obj, why: str, manifests: list[Obj] | None) -> None:
        """The attempt failed; ``manifests`` is None where nothing was even rendered.

        What was applied before stays so; a chart that refuses to render never becomes a release
        of Helm's, and so no entry of the history.
        """
        action = action_of(release)
        text = f"{self._told(release, action, 'failed')}: {why}"
        reason = f"{action.capitalize()}Failed"

        def change(stored: Obj) -> None:
            self._attempted(stored, release, action)
            self._count(stored["status"], release, action)
            if manifests is not None:
                self._record(stored, release, action, "failed", manifests)
                entries = [entry_of(one) for one in manifests]
                older = [one for one in inventory(release) if one not in entries]
                stored["status"]["inventory"] = {"entries": [*entries, *older]}
            bad = [conditions.false(kind, reason, text) for kind in ("Ready", "Released")]
            conditions.write(stored, self._world.engine.now, *bad, metav1=True)

        self._cluster.status(release, change, manager=MANAGER)
        tail = f"Last Helm logs:\n\npreparing {action} for {Charts.identity(release)[1]}"
        self._cluster.events.warning(release, reason, f"{text}\n\n{tail}", MANAGER)

    def _count(self, status: Obj, release: Obj, action: str) -> None:
        before = deep(release, "status", "lastAttemptedGeneration")
        if before != release["metadata"].get("generation") or self._differs(release):
            for counter in _COUNTERS:
                status.pop(counter, None)
        for counter in ("failures", f"{action}Failures"):
            status[counter] = status.get(counter, 0) + 1

    def _told(self, release: Obj, action: str, outcome: str) -> str:
        version = f".v{_next_version(release)}" if outcome == "succeeded" else ""
        name = f"{'/'.join(Charts.identity(release))}{version}"
        chart = f"{self._charts.name(release)}@{self._charts.version(release)}"
        return f"Helm {action} {outcome} for release {name} with chart {chart}"

    def _attempted(self, stored: Obj, release: Obj, action: str) -> None:
        """The release may say something else by now: what counts is what was attempted."""
        status = stored.setdefault("status", {})
        generation = release["metadata"].get("generation", 1)
        status["observedGeneration"] = generation
        status["lastAttemptedGeneration"] = generation
        status["lastAttemptedReleaseAction"] = action
        status["lastAttemptedRevision"] = self._charts.version(release)
        status["lastAttemptedConfigDigest"] = _config_digest(release)
        if _asked(release):
            status["lastHandledReconcileAt"] = _asked(release)
        conditions.drop(stored, "Reconciling")

    def _record(
        self, stored: Obj, release: Obj, action: str, state: str, manifests: list[Obj]
    ) -> None:
        """A new snapshot at the head of the history; what was deployed is superseded."""
        history = stored["status"].get("history") or []
        now = rfc3339(self._world.engine.now)
        for entry in history if state == "deployed" else ():
            if entry["status"] == "deployed":
                entry["status"] = "superseded"
        namespace, name = Charts.identity(release)
        snapshot = {
            "name": name,
            "namespace": namespace,
            "version": _next_version(stored),
            "status": state,
            "chartName": self._charts.name(release),
            "chartVersion": self._charts.version(release),
            "configDigest": _config_digest(release),
            "digest": f"sha256:{digest(manifests)}",
            "firstDeployed": history[-1]["firstDeployed"] if history else now,
            "lastDeployed": now,
            "action": action,
        }
        stored["status"]["history"] = [snapshot, *history][:_HISTORY]


def action_of(release: Obj) -> str:
    """``install`` or ``upgrade``: what an attempt at a release is."""
    return "upgrade" if deep(release, "status", "history") else "install"


def _asked(release: Obj) -> str:
    return annotations_of(release).get(REQUESTED, "")


def _config_digest(release: Obj) -> str:
    return f"sha256:{digest(deep(release, 'spec', 'values') or {})}"


def _next_version(release: Obj) -> int:
    history = deep(release, "status", "history")
    return int(history[0]["version"]) + 1 if history else 1
