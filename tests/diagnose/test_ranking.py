"""A cause is named on what discriminates, and on nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.diagnose.case import MANAGEMENT, TENANT, Case, Kind, Thing
from harness.diagnose.findings import Cause, Seen, Sign, Standing, Weight
from harness.diagnose.ranking import diagnose
from harness.diagnose.view import View
from tests.diagnose.made import (
    L40S,
    NVIDIA,
    VANILLA,
    case,
    here,
    named,
    obj,
    pool,
    service,
    standings,
    text,
    there,
    whole,
)

TIMER = (4206.0, 4207.0)


def sign(weight: Weight, *subjects: str) -> Sign:
    def find(_: View) -> Iterator[Seen]:
        yield from (Seen(f"{weight} {one}", subject=one) for one in subjects)

    return Sign(weight, "look", "shows", find)


def cause(*signs: Sign) -> Cause:
    return Cause("it", "f", "t", "s", signs, "w", "why", "c", "cmd")


@pytest.mark.parametrize(
    ("signs", "standing"),
    [
        ([sign(Weight.PROVES, "a")], Standing.NAMED),
        ([sign(Weight.FITS, "a"), sign(Weight.FITS, "b")], Standing.POSSIBLE),
        ([sign(Weight.PROVES, "a"), sign(Weight.RULES_OUT, "a")], Standing.CONTRADICTED),
        ([sign(Weight.PROVES, "a"), sign(Weight.RULES_OUT, "b")], Standing.NAMED),
        ([sign(Weight.PROVES, "a"), sign(Weight.RULES_OUT, "")], Standing.CONTRADICTED),
        ([sign(Weight.PROVES, "a"), sign(Weight.AGAINST, "a")], Standing.NAMED),
        ([sign(Weight.FITS, "a"), sign(Weight.RULES_OUT, "a")], Standing.EXCLUDED),
        ([sign(Weight.FITS, "a"), sign(Weight.RULES_OUT, "b")], Standing.POSSIBLE),
    ],
)
def test_where_the_evidence_leaves_a_cause(signs: list[Sign], standing: Standing) -> None:
    (found,) = diagnose(Case(), [cause(*signs)], ()).ranked
    assert found.standing is standing


def test_what_only_speaks_against_it_is_no_finding() -> None:
    assert not diagnose(Case(), [cause(sign(Weight.RULES_OUT, "a"))], ()).ranked


def test_nothing_at_all_is_nothing() -> None:
    found = diagnose(Case())
    assert not found.ranked
    assert not found.noticed


# -- the schematic and port 50001: look at the Service before you conclude anything


def test_port_50001_missing_is_told_apart_from_the_schematic() -> None:
    everywhere = [*pool("gpu", NVIDIA, L40S, reboots=TIMER), *pool("p", VANILLA, reboots=TIMER)]
    found = diagnose(case(service(6443, 8132), everywhere))
    assert [one.cause.id for one in found.named] == ["port-50001-missing"]
    assert standings(found)["nvidia-image-without-card"] is Standing.EXCLUDED


def test_the_schematic_is_told_apart_from_port_50001() -> None:
    pools = [*pool("gpu", NVIDIA, L40S), *pool("p", NVIDIA, reboots=TIMER)]
    found = diagnose(case(service(6443, 8132, 50001), pools))
    assert [one.cause.id for one in found.named] == ["nvidia-image-without-card"]
    assert standings(found)["port-50001-missing"] is Standing.EXCLUDED


def test_both_can_hold_at_once() -> None:
    pools = [*pool("gpu", NVIDIA, L40S, reboots=TIMER), *pool("p", NVIDIA, reboots=TIMER)]
    found = named(service(6443, 8132), pools)
    assert found == ["port-50001-missing", "nvidia-image-without-card"]


def test_ports_that_are_not_shown_are_not_missing() -> None:
    (whole_one,) = service(6443, 8132)
    row = Thing(whole_one.obj, MANAGEMENT, "svc.txt", shown=frozenset({("status", "phase")}))
    assert named([row]) == []


def test_a_schematic_of_which_nothing_is_known_proves_nothing() -> None:
    pools = [*pool("p", NVIDIA, reboots=TIMER)]
    found = diagnose(case(service(6443, 8132, 50001), pools, known=False))
    assert not found.named
    assert standings(found)["nvidia-image-without-card"] is Standing.POSSIBLE


def test_a_card_that_is_served_tells_what_its_schematic_holds() -> None:
    pools = [*pool("gpu", NVIDIA, L40S), *pool("p", NVIDIA)]
    assert named(pools, known=False) == ["nvidia-image-without-card"]


def test_talosctl_services_name_it_without_any_schematic() -> None:
    said = "n1  ext-nvidia-persistenced  Waiting  ?  Waiting for file /sys/bus/pci/drivers/nvidia"
    services = [text(Kind.TALOS_SERVICES, said, "kubernetes-lab-p-w")]
    pools = pool("p", "ab" * 32, reboots=TIMER)
    assert named(services, pools) == ["nvidia-image-without-card"]


# -- memory


def test_other_uptimes_are_no_timer() -> None:
    found = diagnose(case(pool("p", VANILLA, reboots=(1310.0, 2875.0, 640.0))))
    assert standings(found)["out-of-memory"] is Standing.POSSIBLE
    assert [one.symptom.id for one in found.noticed] == ["reboots"]


def test_a_panic_for_memory_names_it() -> None:
    said = "[ 640.000001] Kernel panic - not syncing: System is deadlocked on memory\n"
    dmesg = [text(Kind.CONSOLE, said, "kubernetes-lab-p-w")]
    assert named(dmesg, pool("p", VANILLA, reboots=(1310.0, 640.0))) == ["out-of-memory"]


def test_page_cache_is_no_memory_pressure() -> None:
    meminfo = [text(Kind.MEMINFO, "MemFree: 20 kB\nMemAvailable: 9000000 kB\n", "n")]
    kill = "[ 12.0] Memory cgroup out of memory: Killed process 5 (java) total-vm:1kB\n"
    assert named(meminfo, [text(Kind.DMESG, kill, "n")]) == []


# -- what is not whole


def test_absence_needs_a_listing() -> None:
    values = {"osImage": {"builtin": {"schematicID": VANILLA, "version": "v1.13.6"}}}
    pools = pool("p", VANILLA, values=values)
    template = [one for one in pools if one.kind != "KubevirtMachineTemplate"]
    assert "golden-absent" not in named(template)
    assert "golden-absent" in named(template, whole("DataVolume", namespace="cozy-public"))


def test_a_cut_text_shows_what_is_there_and_no_absence() -> None:
    node = "kubernetes-lab-gpu-w"
    gpu = pool("gpu", NVIDIA, L40S, allocatable={"cpu": "4"}, reboots=TIMER)
    table = "ext4 1 0 - Live 0x0000000000000000\n"
    cut = [text(Kind.MODULES, table, node, cut=True)]
    full = [text(Kind.MODULES, table, node)]
    assert named(gpu, cut) == []
    assert named(gpu, full) == ["boot-waits-for-driver"]


def test_a_node_whose_allocatable_is_not_shown_offers_nobody_knows_what() -> None:
    pools = [one for one in pool("gpu", NVIDIA, L40S) if one.kind != "Node"]
    row = Thing(obj("Node", "kubernetes-lab-gpu-w", ""), TENANT, "nodes.txt", shown=frozenset())
    found = diagnose(case(pools, [row]))
    assert not found.noticed
    assert not found.named


def test_the_other_cluster_of_the_same_namespace_name_is_not_asked() -> None:
    daemonset = obj("DaemonSet", "nvidia-driver-daemonset", "cozy-gpu-operator")
    assert named(here(daemonset)) == []
    assert named(there(daemonset)) == ["operator-brings-driver"]


def test_keys_that_only_yaml_has_are_let_pass() -> None:
    pools = pool("gpu", NVIDIA, L40S)
    for one in pools:
        one.obj.setdefault("spec", {})[True] = {1: "x", "y": 2}
    assert named(pools, service(6443, 8132)) == ["port-50001-missing"]


def test_objects_of_no_shape_at_all_are_let_pass() -> None:
    junk: list[object] = [None, "x", 5, [], ["x"], {"name": 5}, [None], [[]]]
    kinds = {one.kind for one in (*pool("gpu", NVIDIA, L40S), *service(1))}
    kinds |= {"DataVolume", "PersistentVolumeClaim", "StorageClass", "Event", "DaemonSet"}
    kinds |= {"ClusterRole", "ClusterPolicy", "KubeVirt", "CDI", "MachineSet", "Cluster"}
    for one in junk:
        made = [
            Thing(
                {"kind": kind, "metadata": {"name": "cdi-copy-dv", "namespace": key}, key: one},
                cluster,
            )
            for kind in kinds
            for cluster in (MANAGEMENT, TENANT)
            for key in ("spec", "status", "rules", "parameters", "metadata")
        ]
        diagnose(case(made))
