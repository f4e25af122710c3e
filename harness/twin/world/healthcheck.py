"""MachineHealthCheck and WorkloadMonitor: who counts workers, and who replaces them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.twin.world import conditions
from harness.twin.world.capi import is_ready
from harness.twin.world.objects import (
    CAPI,
    COZY,
    Obj,
    deep,
    labels_of,
    parse_rfc3339,
    selected,
    terminating,
)
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

MANAGER = "capi-controller-manager"
_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_PART = re.compile(r"([0-9.]+)([hms])")


def seconds(duration: str) -> float:
    """A Go duration (``20m``, ``1h30m``) in seconds; 0.0 for an empty one."""
    return sum(float(count) * _UNITS[unit] for count, unit in _PART.findall(duration))


class HealthChecks:
    """The MachineHealthCheck controller."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._queue = Queue(
            world.engine,
            "machinehealthcheck",
            self.reconcile,
            lambda: world.timings.draw("capi.step"),
        )
        world.revisit_when_resumed(CAPI, "MachineHealthCheck", self._queue)
        self._cluster.on(CAPI, "MachineHealthCheck", self._hear)
        self._cluster.on(CAPI, "Machine", self._hear_machine)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def _hear_machine(self, change: Change) -> None:
        for check in self._cluster.all(
            CAPI, "MachineHealthCheck", change.obj["metadata"]["namespace"]
        ):
            if selected(change.obj, _match(check)):
                self._queue.hear_of(check)

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a MachineHealthCheck."""
        check = self._cluster.find(CAPI, "MachineHealthCheck", namespace, name)
        if check is None or terminating(check) or self._world.is_paused(check):
            return
        machines = [
            machine
            for machine in self._cluster.all(CAPI, "Machine", namespace)
            if selected(machine, _match(check))
        ]
        unhealthy: list[tuple[Obj, str]] = []
        soonest = 0.0
        for machine in machines:
            reason, wait = self._verdict(check, machine)
            if reason:
                unhealthy.append((machine, reason))
            elif wait:
                soonest = min(soonest, wait) if soonest else wait
        allowed = self._allowed(check, len(machines))
        self._report(check, machines, len(unhealthy), allowed)
        for machine, reason in unhealthy if len(unhealthy) <= allowed else []:
            self._remediate(machine, reason)
        if soonest:
            self._queue.add(namespace, name, soonest)

    def _verdict(self, check: Obj, machine: Obj) -> tuple[str, float]:
        """Why a Machine is to be replaced, or seconds until that may be so (0.0: never as is)."""
        if terminating(machine):
            return "", 0.0
        if not deep(machine, "status", "nodeRef"):
            startup = seconds(deep(check, "spec", "nodeStartupTimeout") or "10m")
            return self._overdue(
                machine["metadata"]["creationTimestamp"], startup, "NodeStartupTimeout"
            )
        tenant = self._world.tenant_of(deep(machine, "spec", "clusterName") or "")
        name = deep(machine, "status", "nodeRef", "name")
        node = tenant.find("v1", "Node", "", name) if tenant else None
        if node is None:
            return "NodeNotFound", 0.0
        for rule in deep(check, "spec", "unhealthyConditions") or ():
            found = conditions.find(node, rule["type"])
            if found and found["status"] == rule["status"]:
                since, limit = found["lastTransitionTime"], seconds(rule["timeout"])
                return self._overdue(since, limit, "UnhealthyNode")
        return "", 0.0

    def _overdue(self, since: str, limit: float, reason: str) -> tuple[str, float]:
        left = parse_rfc3339(since) + limit - self._world.engine.now
        return (reason, 0.0) if left <= 0 else ("", left)

    @staticmethod
    def _allowed(check: Obj, expected: int) -> int:
        # objects.md 2.1: a share is rounded down, so a pool of one is never remediated at 50 %
        most = str(deep(check, "spec", "maxUnhealthy") or "100%")
        return expected * int(most[:-1]) // 100 if most.endswith("%") else int(most)

    def _report(self, check: Obj, machines: list[Obj], unhealthy: int, allowed: int) -> None:
        now = self._world.engine.now
        healthy = sum(1 for machine in machines if is_ready(machine))
        if unhealthy > allowed:
            text = (
                f"Remediation is not allowed, the number of not started or unhealthy machines "
                f"exceeds maxUnhealthy (total: {len(machines)}, unhealthy: {unhealthy}, "
                f"maxUnhealthy: {deep(check, 'spec', 'maxUnhealthy')})"
            )
            verdict = conditions.false("RemediationAllowed", "TooManyUnhealthy", text, "Warning")
        else:
            verdict = conditions.true("RemediationAllowed")

        def change(stored: Obj) -> None:
            stored.setdefault("status", {}).update(
                expectedMachines=len(machines),
                currentHealthy=healthy,
                remediationsAllowed=max(allowed - unhealthy, 0),
                observedGeneration=stored["metadata"]["generation"],
                targets=[machine["metadata"]["name"] for machine in machines],
            )
            conditions.write(stored, now, verdict)

        self._cluster.status(check, change, manager=MANAGER)

    def _remediate(self, machine: Obj, reason: str) -> None:
        failed = conditions.false("HealthCheckSucceeded", reason, "", "Warning")
        waiting = conditions.false("OwnerRemediated", "WaitingForRemediation", "", "Warning")
        self._cluster.conditions(machine, failed, waiting, manager=MANAGER)
        text = f"Machine {machine['metadata']['name']} has been marked as unhealthy"
        self._cluster.events.normal(machine, "MachineMarkedUnhealthy", text, "machinehealthcheck")


class Monitors:
    """The WorkloadMonitor controller: counts the pods a monitor selects."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._queue = Queue(
            world.engine, "workloadmonitor", self.reconcile, lambda: world.timings.draw("capi.step")
        )
        self._cluster.on(COZY, "WorkloadMonitor", self._hear)
        self._cluster.on("v1", "Pod", self._hear_pod)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def _hear_pod(self, change: Change) -> None:
        if not labels_of(change.obj):
            return
        namespace = change.obj["metadata"]["namespace"]
        for monitor in self._cluster.all(COZY, "WorkloadMonitor", namespace):
            if selected(change.obj, deep(monitor, "spec", "selector") or {}):
                self._queue.hear_of(monitor)

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a WorkloadMonitor."""
        monitor = self._cluster.find(COZY, "WorkloadMonitor", namespace, name)
        if monitor is None or terminating(monitor):
            return
        match = deep(monitor, "spec", "selector") or {}
        chosen = [pod for pod in self._cluster.all("v1", "Pod", namespace) if selected(pod, match)]
        available = sum(1 for pod in chosen if conditions.holds(pod, "Ready"))
        operational = available >= int(deep(monitor, "spec", "minReplicas") or 0)

        def change(stored: Obj) -> None:
            stored.setdefault("status", {}).update(
                observedReplicas=len(chosen),
                availableReplicas=available,
                operational=operational,
            )

        self._cluster.status(monitor, change, manager="cozystack-controller")


def _match(check: Obj) -> dict[str, str]:
    return deep(check, "spec", "selector", "matchLabels") or {}
