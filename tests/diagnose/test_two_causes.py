"""What is well in one place says nothing of another, and one cause does not hide the next."""

from __future__ import annotations

import json
from typing import Any

from harness.diagnose.case import MANAGEMENT, TENANT, Kind, Text, Thing
from harness.diagnose.findings import Standing
from harness.diagnose.ranking import diagnose
from tests.diagnose.made import (
    L40S,
    NVIDIA,
    VANILLA,
    case,
    here,
    moment,
    named,
    obj,
    pool,
    service,
    standings,
    text,
    there,
    whole,
)


def drbd(name: str, role: str, host: str, *, suspended: bool = False) -> Text:
    """One resource as drbdsetup has it on a host."""
    status = [
        {
            "name": name,
            "node-id": 0,
            "role": role,
            "suspended": suspended,
            "suspended-quorum": suspended,
            "devices": [
                {"volume": 0, "minor": 1, "disk-state": "UpToDate", "quorum": not suspended}
            ],
            "connections": [],
        }
    ]
    return text(Kind.DRBD, json.dumps(status) + "\n", host, cluster=MANAGEMENT)


def tainted() -> list[Thing]:
    taints = [{"key": "drbd.linbit.com/lost-quorum", "effect": "NoSchedule"}]
    return here(obj("Node", "hv-9", "", spec={"taints": taints}))


def test_a_disk_that_is_well_does_not_clear_another() -> None:
    well, lost = drbd("pvc-1", "Primary", "hv-1"), drbd("pvc-2", "Primary", "hv-2", suspended=True)
    assert named([well, lost]) == ["quorum-lost"]
    found = standings(diagnose(case([well], tainted())))
    assert found["quorum-lost"] is Standing.POSSIBLE, "the host with the taint was not looked at"


def test_a_secondary_says_nothing_of_the_primarys_quorum() -> None:
    silent = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    made = pool("p", VANILLA)
    for one in made:
        if one.kind == "Node":
            one.obj["status"]["conditions"] = silent
        if one.kind == "VirtualMachineInstance":
            one.obj["spec"] = {"volumes": [{"name": "system", "dataVolume": {"name": "disk-1"}}]}
    claim = here(obj("PersistentVolumeClaim", "disk-1", spec={"volumeName": "pvc-1"}))
    parts = made, claim
    assert standings(diagnose(case(*parts, [drbd("pvc-1", "Secondary", "hv-2")]))) == {
        "quorum-lost": Standing.POSSIBLE
    }
    there_too = standings(diagnose(case(*parts, [drbd("pvc-1", "Primary", "hv-1")])))
    assert there_too["quorum-lost"] is Standing.EXCLUDED


def replica(node: str, *peers: str) -> dict[str, Any]:
    connections = {peer: {"connected": True, "message": "Connected"} for peer in peers}
    layer = {"type": "DRBD", "drbd": {"connections": connections}}
    return {"name": "pvc-1", "node_name": node, "flags": [], "layer_object": layer, "volumes": []}


def test_a_list_of_some_nodes_makes_no_replica_missing() -> None:
    drbd_class = here(
        {
            "kind": "StorageClass",
            "metadata": {"name": "replicated"},
            "provisioner": "linstor.csi.linbit.com",
            "parameters": {
                "linstor.csi.linbit.com/autoPlace": "2",
                "linstor.csi.linbit.com/layerList": "drbd storage",
                "property.linstor.csi.linbit.com/DrbdOptions/auto-quorum": "suspend-io",
            },
        }
    )
    spec = {"volumeName": "pvc-1", "storageClassName": "replicated"}
    claim = here(obj("PersistentVolumeClaim", "disk-1", spec=spec))
    part = [text(Kind.LINSTOR, json.dumps([replica("hv-1", "hv-2")]))]
    alone = [text(Kind.LINSTOR, json.dumps([replica("hv-1")]))]
    assert named(drbd_class, claim, part) == []
    assert named(drbd_class, claim, alone) == ["replica-missing"]


SERVICES = (
    "NODE   SERVICE                   STATE     HEALTH   LAST CHANGE\n"
    "w      ext-nvidia-persistenced   Running   OK       1m ago\n"
    "w      ext-nvidia-cdi-gen        Waiting   ?        1m ago\n"
)


def test_a_port_that_is_missing_does_not_explain_another_service_away() -> None:
    waits = [text(Kind.TALOS_SERVICES, SERVICES, "w")]
    assert set(named(service(6443, 8132), waits)) == {"port-50001-missing", "cdi-file-not-made"}


def test_an_operator_that_has_made_nothing_yet_may_bring_a_driver() -> None:
    values = {"driver": {"enabled": True}, "toolkit": {"enabled": True}}
    release = here(obj("HelmRelease", "kubernetes-lab-gpu-operator", spec={"values": values}))
    sets = whole("DaemonSet", cluster=TENANT)
    plugin = there(obj("DaemonSet", "nvidia-device-plugin-daemonset", "cozy-gpu-operator"))
    cause = "operator-brings-driver"
    assert standings(diagnose(case(release, sets)))[cause] is Standing.POSSIBLE
    assert standings(diagnose(case(release, sets, plugin)))[cause] is Standing.EXCLUDED


def marked(machine: str, seconds: float, kind: str = "Machine") -> list[Thing]:
    about = {"kind": kind, "name": machine}
    said = f"Machine {machine} has been marked as unhealthy"
    return here(
        obj(
            "Event",
            f"{machine}.1",
            reason="MachineMarkedUnhealthy",
            message=said,
            involvedObject=about,
            firstTimestamp=moment(seconds),
        )
    )


def test_a_machine_is_replaced_while_another_only_reboots() -> None:
    cycling = pool("p", VANILLA, reboots=(900.0, 1500.0))
    assert named(cycling, marked("kubernetes-lab-other-w", 300)) == ["replaced-by-health-check"]


def test_a_machine_that_had_no_time_to_join_is_a_timeout_that_is_too_short() -> None:
    created = here(
        obj(
            "Event",
            "set.1",
            reason="SuccessfulCreate",
            message='Created machine "kubernetes-lab-p-w"',
            involvedObject={"kind": "MachineSet", "name": "kubernetes-lab-p-abcde"},
            firstTimestamp=moment(1500),
        )
    )
    check = here(obj("MachineHealthCheck", "kubernetes-lab-p", spec={"nodeStartupTimeout": "20m"}))
    early = marked("kubernetes-lab-p-w", 300)
    assert named(created, check, early) == ["startup-timeout-too-short"]


def test_a_disk_that_bears_no_mark_is_held_against_the_golden_that_it_is_cloned_from() -> None:
    golden = obj(
        "PersistentVolumeClaim",
        "talos-worker-x",
        "cozy-public",
        spec={"storageClassName": "replicated"},
    )
    name = "kubernetes-lab-p-w-system"
    source = {"pvc": {"namespace": "cozy-public", "name": "talos-worker-x"}}
    volume = obj("DataVolume", name, spec={"source": source})
    claim = obj("PersistentVolumeClaim", name, spec={"storageClassName": "local"})
    made = pool("p", VANILLA, values={"storageClass": ""})
    found = named(made, here(golden, volume, claim))
    assert found[0] == "default-class-moved"
    assert {"class-mismatch", "cloned-disk-unmarked"} <= set(found)


def test_cards_that_hami_offers_do_not_clear_the_validator() -> None:
    node = "kubernetes-lab-gpu-w"
    says = Text(
        Kind.LOG,
        "No pre-installed driver detected on the host\n",
        "log",
        "cozy-gpu-operator/nvidia-operator-validator-1/driver-validation",
    )
    validator = obj(
        "Pod", "nvidia-operator-validator-1", "cozy-gpu-operator", spec={"nodeName": node}
    )
    works = text(
        Kind.SMI_LIST, "GPU 0: NVIDIA L40S (UUID: GPU-1c0a52f8-3f4e-7a11-9d2b-6a5e0f1b2c3d)\n", node
    )
    values = {"addons": {"gpuOperator": {"enabled": True}, "hami": {"enabled": True}}}
    hami = here(obj("HelmRelease", "kubernetes-lab", spec={"values": values}))
    parts = pool("gpu", NVIDIA, L40S), there(validator), [says, works]
    assert "driver-not-detected" not in named(*parts)
    assert {"driver-not-detected", "hami-on"} <= set(named(*parts, hami))
