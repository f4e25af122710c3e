from __future__ import annotations

from typing import Any

from harness.facts.surroundings import DEPLOYMENT_LABEL, Surroundings, surroundings

Obj = dict[str, Any]


def obj(kind: str, name: str, spec: Any = None, **metadata: Any) -> Obj:
    return {
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-{name}", **metadata},
        "spec": spec or {},
    }


def deployment(name: str) -> Obj:
    reference = {
        "infrastructureRef": {"kind": "KubevirtMachineTemplate", "name": f"{name}-k"},
        "bootstrap": {"configRef": {"kind": "TalosConfigTemplate", "name": f"{name}-b"}},
    }
    annotations = {"meta.helm.sh/release-name": f"release-{name}"}
    return obj(
        "MachineDeployment", name, {"template": {"spec": reference}}, annotations=annotations
    )


def machine(pool: str, name: str) -> Obj:
    made = obj(
        "Machine", name, {"infrastructureRef": {"name": f"vm-{name}"}},
        labels={DEPLOYMENT_LABEL: pool},
    )  # fmt: skip
    return {**made, "status": {"nodeRef": {"name": f"node-{name}"}}}


def node(name: str, boot: str) -> Obj:
    return {**obj("Node", name), "status": {"nodeInfo": {"bootID": boot}}}


def look(**more: Any) -> Surroundings:
    given: dict[str, Any] = {
        "deployments": [deployment("md0"), deployment("md0-gpu"), deployment("scratch")],
        "releases": [obj("HelmRelease", f"release-{one}", {"values": one}) for one in ("md0", "x")],
        "templates": [obj("KubevirtMachineTemplate", "md0-k", {"a": 1})],
        "machines": [machine("md0", "m1"), machine("md0-gpu", "m2")],
        "vmis": [obj("VirtualMachineInstance", "vm-m1", labels={DEPLOYMENT_LABEL: "md0"})],
        "data_volumes": [
            obj("DataVolume", "d1", ownerReferences=[{"kind": "VirtualMachine", "name": "vm-m1"}]),
            obj("DataVolume", "md0-looks-alike"),
        ],
        "nodes": [node("node-m1", "b1"), node("node-m2", "b2"), node("other", "b3")],
        "leaving_out": "scratch",
        **more,
    }
    return surroundings(**given, at=1.0, where="management")


def test_each_pool_has_what_belongs_to_it_and_no_more() -> None:
    found = look()
    assert [one.name for one in found.pools] == ["md0", "md0-gpu"]
    first = found.of("md0")
    assert first is not None
    assert sorted(first.parts) == [
        "DataVolume d1",
        "KubevirtMachineTemplate md0-k",
        "Machine m1",
        "TalosConfigTemplate md0-b",
        "VirtualMachineInstance vm-m1",
        "boot of node-m1",
    ]
    assert first.parts["boot of node-m1"] == "b1"
    assert first.parts["Machine m1"] == "uid-m1"
    second = found.of("md0-gpu")
    assert second is not None
    assert "Machine m1" not in second.parts and "boot of node-m2" in second.parts
    assert found.of("scratch") is None


def test_a_templates_content_counts_not_its_name_alone() -> None:
    changed = look(templates=[obj("KubevirtMachineTemplate", "md0-k", {"a": 2})])
    before, after = look().of("md0"), changed.of("md0")
    assert before is not None and after is not None
    key = "KubevirtMachineTemplate md0-k"
    assert before.parts[key] != after.parts[key]


def test_what_a_release_was_told_is_known_by_its_values() -> None:
    told = look(releases=[obj("HelmRelease", "release-md0", {"values": "other"})])
    before, after = look().of("md0"), told.of("md0")
    assert before is not None and after is not None
    assert before.values and before.values != after.values
    alone = look().of("md0-gpu")
    assert alone is not None and alone.values == ""


def test_nothing_there_is_nobody_there() -> None:
    empty: dict[str, Any] = {
        key: [] for key in ("deployments", "releases", "templates", "machines", "vmis")
    }
    assert look(**empty, data_volumes=[], nodes=[]).pools == ()


def test_a_pool_says_whether_it_is_up_and_whether_it_goes() -> None:
    coming = deployment("md0")
    coming["spec"]["replicas"] = 2
    coming["status"] = {"readyReplicas": 1}
    going = obj("HelmRelease", "release-md0-gpu", deletionTimestamp="2026-01-01T00:00:00Z")
    found = look(deployments=[coming, deployment("md0-gpu")], releases=[going])
    assert [(one.ready, one.going) for one in found.pools] == [(False, False), (True, True)]
    coming["status"] = {"readyReplicas": 2}
    leaves = {**coming, "metadata": {**coming["metadata"], "deletionTimestamp": "now"}}
    assert [(one.ready, one.going) for one in look(deployments=[leaves]).pools] == [(True, True)]
