from __future__ import annotations

import copy
from typing import Any

import pytest

from harness.facts.joining import JoinObjects, JoinTrack, Stage, join_track

Obj = dict[str, Any]

ASKED = 1767225600.0  # 2026-01-01T00:00:00Z
BUDGET = 1740.0


def obj(kind: str, name: str, **rest: Any) -> Obj:
    metadata = {"name": name, "namespace": "ns", "uid": f"uid-{name}", **rest.pop("metadata", {})}
    return {"kind": kind, "metadata": metadata, **rest}


def said(kind: str, status: str, reason: str = "", message: str = "", at: str = "") -> Obj:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": at,
    }


def node(status: str, at: str = "2026-01-01T00:01:30Z", uid: str = "uid-node") -> Obj:
    conditions = [said("Ready", status, "KubeletNotReady", "cni plugin not initialized", at)]
    return obj("Node", "w1", metadata={"uid": uid}, status={"conditions": conditions})


def owner(kind: str, name: str) -> Obj:
    return {"ownerReferences": [{"kind": kind, "uid": f"uid-{name}"}]}


MACHINE = obj(
    "Machine",
    "m1",
    spec={
        "infrastructureRef": {"kind": "KubevirtMachine", "name": "k1"},
        "bootstrap": {"dataSecretName": "s"},
    },
    status={"nodeRef": {"name": "w1"}, "conditions": [said("NodeHealthy", "False", "Waiting")]},
)
VOLUMES = [{"dataVolume": {"name": "d1"}}, {"name": "cloudinitvolume"}]
WORKER = JoinObjects(
    machines=[MACHINE],
    kubevirt_machines=[obj("KubevirtMachine", "k1")],
    virtual_machines=[
        obj(
            "VirtualMachine",
            "vm1",
            metadata=owner("KubevirtMachine", "k1"),
            spec={"template": {"spec": {"volumes": VOLUMES}}},
            status={"printableStatus": "Starting"},
        )
    ],
    data_volumes=[
        obj("DataVolume", "d0", status={"phase": "Pending"}),
        obj("DataVolume", "d1", status={"phase": "Succeeded"}),
    ],
    vmis=[
        obj(
            "VirtualMachineInstance",
            "vm1",
            metadata={**owner("VirtualMachine", "vm1"), "uid": "uid-vmi"},
            status={"phase": "Running"},
        )
    ],
    pods=[
        obj(
            "Pod",
            "virt-launcher-vm1-abcde",
            metadata={"labels": {"kubevirt.io/created-by": "uid-vmi"}},
            status={"phase": "Running"},
        )
    ],
    nodes=[node("True")],
)


def but(**changed: list[Obj]) -> JoinObjects:
    values = {name: getattr(WORKER, name) for name in JoinObjects.__slots__}
    return JoinObjects(**{**values, **changed})


def edited(source: list[Obj], *path: str | int, value: Any) -> list[Obj]:
    made = copy.deepcopy(source)
    at: Any = made
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return made


def tracks(objects: JoinObjects, at: float = ASKED + 2000.0) -> tuple[JoinTrack, ...]:
    return join_track(objects, since=ASKED, at=at, budget=BUDGET, cluster="management")


def track(objects: JoinObjects) -> JoinTrack:
    (only,) = tracks(objects)
    return only


def test_a_ready_worker() -> None:
    found = track(WORKER)
    assert (found.machine, found.node, found.stage) == ("m1", "w1", Stage.READY)
    assert (found.seconds, found.waited, found.budget) == (90.0, 2000.0, BUDGET)
    assert (found.stuck_kind, found.stuck_name, found.why, found.events) == ("", "", "", ())
    assert found.origin.source == "management Node ns/w1"


def test_the_first_ready_counts_not_the_one_after_a_reboot() -> None:
    late = node("True", at="2026-01-01T01:10:00Z")
    assert track(but(nodes=[late])).seconds == 4200.0
    history = [node("False"), node("True"), node("False", at="2026-01-01T01:09:00Z"), late]
    assert track(but(nodes=history)).seconds == 90.0


def test_another_node_of_the_name_does_not_count() -> None:
    before = node("True", uid="uid-past")
    assert track(but(nodes=[before, node("True", at="2026-01-01T00:10:00Z")])).seconds == 600.0


def test_a_ready_without_a_time_is_not_dated() -> None:
    found = track(but(nodes=[node("True", at="")]))
    assert (found.stage, found.seconds) == (Stage.READY, None)


@pytest.mark.parametrize(
    ("at", "seconds"),
    [
        ("2025-12-31T23:20:00Z", None),  # another clock, or a node that was there before
        ("2025-12-31T23:59:58Z", None),
        ("2025-12-31T23:59:59Z", 0.0),  # whole seconds: the moment of the request itself
        ("2026-01-01T00:00:00Z", 0.0),
    ],
)
def test_a_ready_older_than_the_request_is_no_join_in_no_time(
    at: str, seconds: float | None
) -> None:
    found = track(but(nodes=[node("True", at=at)]))
    assert (found.stage, found.seconds) == (Stage.READY, seconds)


def test_a_node_is_found_by_the_vmis_name_until_it_is_referred_to() -> None:
    machines = edited(WORKER.machines, 0, "status", value={})
    nodes = edited([node("True")], 0, "metadata", "name", value="vm1")
    assert track(but(machines=machines, nodes=nodes)).node == "vm1"


no_vmi: dict[str, Any] = {"vmis": [], "pods": [], "nodes": []}
pending = edited(WORKER.vmis, 0, "status", "phase", value="Pending")
down: dict[str, Any] = {"vmis": pending, "nodes": []}


def having(kind: str, name: str, *conditions: Obj) -> Obj:
    return obj(kind, name, status={"conditions": list(conditions)})


def set_to(source: list[Obj], index: int, phase: str, *conditions: Obj) -> list[Obj]:
    return edited(source, index, "status", value={"phase": phase, "conditions": list(conditions)})


unready = having("MachineDeployment", "md", said("MachineSetReady", "False", "X"))


@pytest.mark.parametrize(
    ("objects", "stage", "stuck", "why"),
    [
        (
            but(nodes=[node("False")]),
            Stage.REGISTERED,
            ("Node", "w1"),
            "Ready=False KubeletNotReady: cni plugin not initialized",
        ),
        (
            but(nodes=[]),
            Stage.RUNNING,
            ("VirtualMachineInstance", "vm1"),
            "the guest runs, no Node registered; NodeHealthy=False Waiting",
        ),
        (
            but(
                **down,
                data_volumes=set_to(
                    WORKER.data_volumes,
                    1,
                    "ImportInProgress",
                    said("Running", "False", "Error", "no route"),
                ),
            ),
            Stage.CREATED,
            ("DataVolume", "d1"),
            "phase ImportInProgress; Running=False Error: no route",
        ),
        (
            but(
                nodes=[],
                vmis=set_to(
                    WORKER.vmis,
                    0,
                    "Pending",
                    said("Synchronized", "False", "FailedCreate", "not permitted"),
                ),
                data_volumes=edited(WORKER.data_volumes, 1, "status", "phase", value="Pending"),
            ),
            Stage.CREATED,
            ("VirtualMachineInstance", "vm1"),
            "Synchronized=False FailedCreate: not permitted",
        ),
        (
            but(
                **down,
                pods=set_to(
                    WORKER.pods,
                    0,
                    "Pending",
                    said("PodScheduled", "False", "Unschedulable", "Insufficient x"),
                ),
            ),
            Stage.CREATED,
            ("Pod", "virt-launcher-vm1-abcde"),
            "phase Pending; PodScheduled=False Unschedulable: Insufficient x",
        ),
        (
            but(**down),
            Stage.CREATED,
            ("VirtualMachineInstance", "vm1"),
            "phase Pending; no condition Ready",
        ),
        (
            but(**no_vmi),
            Stage.CREATED,
            ("VirtualMachine", "vm1"),
            "Starting; no condition Failure",
        ),
        (
            but(
                **no_vmi,
                virtual_machines=[],
                kubevirt_machines=set_to(
                    WORKER.kubevirt_machines,
                    0,
                    "",
                    said("VMProvisioned", "False", "VMCreateFailed", "denied"),
                ),
            ),
            Stage.BOOTSTRAPPED,
            ("KubevirtMachine", "k1"),
            "VMProvisioned=False VMCreateFailed: denied",
        ),
        (
            but(**no_vmi, virtual_machines=[], kubevirt_machines=[]),
            Stage.BOOTSTRAPPED,
            ("Machine", "m1"),
            "no condition InfrastructureReady",
        ),
        (
            but(
                **no_vmi,
                virtual_machines=[],
                machines=edited(WORKER.machines, 0, "spec", "bootstrap", value={}),
            ),
            Stage.MACHINE,
            ("Machine", "m1"),
            "no condition BootstrapReady",
        ),
        (
            JoinObjects(
                machine_sets=[
                    having(
                        "MachineSet",
                        "ms",
                        said("MachinesCreated", "False", "BootstrapTemplateCloningFailed"),
                    )
                ],
                machine_deployments=[unready],
            ),
            Stage.REQUESTED,
            ("MachineSet", "ms"),
            "MachinesCreated=False BootstrapTemplateCloningFailed",
        ),
        (
            JoinObjects(machine_sets=[obj("MachineSet", "ms")], machine_deployments=[unready]),
            Stage.REQUESTED,
            ("MachineDeployment", "md"),
            "no Machine; MachineSetReady=False X",
        ),
        (
            JoinObjects(
                helm_releases=[
                    having("HelmRelease", "hr", said("Ready", "True", "InstallSucceeded"))
                ]
            ),
            Stage.REQUESTED,
            ("HelmRelease", "hr"),
            "no MachineDeployment; Ready=True InstallSucceeded",
        ),
        (JoinObjects(), Stage.REQUESTED, ("", ""), "the pool has no HelmRelease"),
    ],
)
def test_where_a_worker_is_stuck(
    objects: JoinObjects, stage: Stage, stuck: tuple[str, str], why: str
) -> None:
    found = track(objects)
    assert (found.stage, (found.stuck_kind, found.stuck_name), found.why) == (stage, stuck, why)
    assert found.seconds is None


def test_a_machine_being_deleted_is_not_followed() -> None:
    leaving = copy.deepcopy(MACHINE)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:05:00Z"
    assert [t.machine for t in tracks(but(machines=[leaving, MACHINE]))] == ["m1"]
    assert track(but(machines=[leaving])).machine == ""


def test_one_track_a_machine_by_name() -> None:
    second = copy.deepcopy(MACHINE)
    second["metadata"]["name"] = "m0"
    assert [t.machine for t in tracks(but(machines=[MACHINE, second]))] == ["m0", "m1"]


def test_the_stuck_objects_last_events_oldest_first() -> None:
    def event(number: int, **about: str) -> Obj:
        return {
            "involvedObject": about,
            "reason": "FailedCreate",
            "message": f"try {number}",
            "lastTimestamp": f"2026-01-01T00:00:{number:02}Z",
        }

    its = [event(n, uid="uid-vmi") for n in range(12, 0, -1)]
    others = [event(30, uid="uid-x"), event(31, kind="Pod", name="vm1")]
    named = event(40, kind="VirtualMachineInstance", name="vm1")
    found = track(but(**down, events=[*its, *others, named]))
    assert found.events[-1] == "FailedCreate: try 40"
    assert found.events[0] == "FailedCreate: try 4"
    assert len(found.events) == 10


def test_a_vm_without_an_owner_is_found_by_its_name() -> None:
    vms = edited(WORKER.virtual_machines, 0, "metadata", "ownerReferences", value=[])
    machines = edited(WORKER.machines, 0, "spec", "infrastructureRef", "name", value="vm1")
    owners = edited(WORKER.kubevirt_machines, 0, "metadata", "name", value="vm1")
    unreferred = edited(machines, 0, "status", value={})
    changed = but(machines=unreferred, kubevirt_machines=owners, virtual_machines=vms, nodes=[])
    assert track(changed).stage is Stage.RUNNING


def test_owners_come_before_names() -> None:
    namesake = obj("VirtualMachine", "k1", status={"printableStatus": "Stopped"})
    found = track(but(**no_vmi, virtual_machines=[namesake, *WORKER.virtual_machines]))
    assert found.stuck_name == "vm1"
    found = track(but(**no_vmi, virtual_machines=[namesake]))
    assert found.stuck_name == "k1"
