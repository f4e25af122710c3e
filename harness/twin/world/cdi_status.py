"""What a DataVolume's status says: phase, progress, restarts and the three conditions.

Phases, reasons and messages: objects.md section 7, clone_path.md section 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world import conditions
from harness.twin.world.cdi_shapes import (
    CLONE_ERROR,
    CLONE_PHASE,
    CONDITION,
    MANAGER,
    POD_PHASE,
    RESTARTS,
    source_of,
)
from harness.twin.world.conditions import Condition
from harness.twin.world.objects import Obj, annotations_of, deep

if TYPE_CHECKING:
    from harness.twin.world.world import World

_UNBOUND = ("Pending", "WaitForFirstConsumer", "PendingPopulation")
# how the clone populator's phases show on the DataVolume (CDI clone-controller-base.go)
CLONE_PHASES = {
    "": "CloneScheduled",
    "Pending": "CloneScheduled",
    "CSIClone": "CSICloneInProgress",
    "Snapshot": "SnapshotForSmartCloneInProgress",
    "SnapshotClone": "CloneFromSnapshotSourceInProgress",
    "HostClone": "CloneInProgress",
    "PrepClaim": "PrepClaimInProgress",
    "Rebind": "RebindInProgress",
    "Succeeded": "Succeeded",
}
_TOLD = {
    "CloneScheduled": "Cloning from {source} into {target} scheduled",
    "CloneInProgress": "Cloning from {source} into {target} in progress",
    "CSICloneInProgress": "CSI Volume clone in progress (for pvc {source})",
    "SnapshotForSmartCloneInProgress": (
        "Creating snapshot for smart-clone is in progress (for pvc {source})"
    ),
    "CloneFromSnapshotSourceInProgress": (
        "Creating PVC from snapshot source is in progress (for pvc {source})"
    ),
    "PrepClaimInProgress": "Prepping PersistentVolumeClaim for DataVolume {target}",
    "RebindInProgress": "Rebinding PersistentVolumeClaim for DataVolume {target}",
    "Succeeded": "Successfully cloned from {source} into {target}",
}


class VolumeStatus:
    """Writes the status of DataVolumes, and says once what an Event says once."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._said: dict[tuple[str, str], None] = {}

    def show(
        self,
        volume: Obj,
        phase: str,
        running: str,
        message: str,
        *,
        reason: str = "",
        progress: str = "N/A",
        restarts: int | None = None,
        bound: bool | None = None,
    ) -> None:
        """The state of an import. ``bound``: of the claim, told by the phase where not given."""
        name = volume["metadata"]["name"]
        has = phase not in _UNBOUND if bound is None else bound
        found = _states(phase, running, message, reason, name, bound=has)
        self._write(volume, phase, found, progress=progress, restarts=restarts)

    def refuse(self, volume: Obj, reason: str, message: str) -> None:
        """No claim can be made of a DataVolume for now: it stays Pending, and says why."""
        found = [
            conditions.false("Bound", reason, message),
            conditions.false("Ready", ""),
            conditions.false("Running", ""),
        ]
        self._write(volume, "Pending", found, claimed=False)
        self._cluster.events.warning(volume, reason, message, "datavolume-controller")

    def lose(self, volume: Obj) -> None:
        """The claim has lost its volume: the one way to Failed."""
        found = [
            conditions.false("Bound", "ClaimLost", "Claim Lost"),
            conditions.false("Ready", ""),
        ]
        self._write(volume, "Failed", found)

    def show_clone(self, volume: Obj, claim: Obj) -> None:
        """The state of a clone, as the annotations of its claim tell it."""
        notes = annotations_of(claim)
        step = notes.get(CLONE_PHASE, "")
        before = deep(volume, "status", "phase")
        # an error leaves the phase as it was
        phase = CLONE_PHASES.get(step) or before or "CloneScheduled"
        self.show_copy(volume, claim, phase)

    def show_copy(self, volume: Obj, claim: Obj, phase: str) -> None:
        """The same with the phase given: of a clone that no populator does."""
        found = _copied(claim, phase)
        before = deep(volume, "status", "phase")
        self._write(volume, phase, found, progress="100.0%" if phase == "Succeeded" else "N/A")
        if phase != before and phase in _TOLD:
            where = "/".join(source_of(volume))
            own = f"{volume['metadata']['namespace']}/{volume['metadata']['name']}"
            reason = "CloneSucceeded" if phase == "Succeeded" else phase
            text = _TOLD[phase].format(source=where, target=own)
            self.say_once(volume, reason, text, "datavolume-pvc-clone-controller")

    def say_once(
        self, volume: Obj, reason: str, text: str, by: str = "datavolume-import-controller"
    ) -> None:
        """An Event, once in a DataVolume's life."""
        key = (volume["metadata"]["uid"], reason)
        if key not in self._said:
            self._said[key] = None
            self._cluster.events.normal(volume, reason, text, by)

    def _write(
        self,
        volume: Obj,
        phase: str,
        found: list[Condition],
        *,
        progress: str = "N/A",
        restarts: int | None = None,
        claimed: bool = True,
    ) -> None:
        name, now = volume["metadata"]["name"], self._world.engine.now

        def change(stored: Obj) -> None:
            status = stored.setdefault("status", {})
            status |= {"phase": phase, **({"claimName": name} if claimed else {})}
            if progress != "N/A" or "progress" not in status:
                status["progress"] = progress
            if restarts is not None:
                status["restartCount"] = restarts
            conditions.write(stored, now, *found)

        self._cluster.status(volume, change, manager=MANAGER)


def _states(
    phase: str, running: str, message: str, reason: str, name: str, *, bound: bool
) -> list[Condition]:
    done = phase == "Succeeded"
    working = {"True": ("True", "Pod is running"), "False": ("False", reason)}
    status, why = working.get(running, ("False", reason))
    return [
        conditions.true("Bound", "Bound", f"PVC {name} Bound")
        if bound
        else conditions.false("Bound", "Pending", f"PVC {name} Pending"),
        conditions.true("Ready") if done else conditions.false("Ready", "TransferRunning"),
        Condition("Running", status, why, message),
    ]


def _copied(claim: Obj, phase: str) -> list[Condition]:
    name, notes = claim["metadata"]["name"], annotations_of(claim)
    running = notes.get(f"{CONDITION}.running") == "true"
    bound = deep(claim, "status", "phase") == "Bound"
    ready = conditions.false("Ready", "TransferRunning" if running else "")
    return [
        conditions.true("Bound", "Bound", f"PVC {name} Bound")
        if bound
        else conditions.false("Bound", "Pending", f"PVC {name} Pending"),
        conditions.true("Ready") if phase == "Succeeded" else ready,
        Condition(
            "Running",
            "True" if running else "False",
            notes.get(f"{CONDITION}.running.reason", ""),
            notes.get(f"{CONDITION}.running.message", ""),
        ),
    ]


def running_notes(*, running: bool, reason: str, message: str) -> dict[str, str]:
    """The annotations of a claim that say how far what fills it has come."""
    return {
        f"{CONDITION}.running": "true" if running else "false",
        f"{CONDITION}.running.message": message,
        f"{CONDITION}.running.reason": reason,
    }


def clone_notes(step: str, error: str = "") -> dict[str, str]:
    """The annotations of a claim at a step of its clone; ``error`` only at the step Error."""
    states = {
        "Succeeded": (False, "Completed", "Clone Complete"),
        "Pending": (False, "Pending", "Clone Pending"),
        "Error": (False, "Error", error),
    }
    running, reason, message = states.get(step, (True, "Populator is running", ""))
    notes = {CLONE_PHASE: step, **running_notes(running=running, reason=reason, message=message)}
    return notes | ({CLONE_ERROR: error} if step == "Error" else {})


def import_notes(claim: Obj, pod_phase: str, running: str, message: str) -> dict[str, str]:
    """The annotations that an importer's progress leaves on a bound claim."""
    return {
        POD_PHASE: pod_phase,
        RESTARTS: annotations_of(claim).get(RESTARTS, "0"),
        f"{CONDITION}.running": running,
        f"{CONDITION}.running.message": message,
        f"{CONDITION}.running.reason": "Completed" if running == "false" else "Pod is running",
        f"{CONDITION}.bound": "true",
        f"{CONDITION}.bound.message": "",
        f"{CONDITION}.bound.reason": "Bound",
    }
