"""Of which cluster: told by what only one can hold, by neighbours, or not; two of one sort."""

from __future__ import annotations

from pathlib import Path

from harness.diagnose.case import MANAGEMENT, TENANT, UNKNOWN, Kind
from harness.diagnose.reading import describe_unused
from tests.diagnose.reading.reading_files import read, whys

VMI = """\
NAMESPACE   NAME      AGE   PHASE     IP         NODENAME   READY
tenant-a    work-1    1h    Running   10.0.0.9   hv-1       True
"""
NODES = """\
NAME     STATUS   ROLES    AGE   VERSION
work-1   Ready    <none>   1h    v1.35.0
hv-1     Ready    <none>   9d    v1.34.2
mist     Ready    <none>   9d    v1.34.2
"""
GPU = """\
NAMESPACE           NAME                               READY   STATUS    RESTARTS   AGE
cozy-gpu-operator   nfd                                1/1     Running   0          1h
"""
PLUGIN = (
    GPU
    + """\
cozy-gpu-operator   nvidia-device-plugin-daemonset-x   1/1     Running   0          1h
"""
)


def namespace(uid: str) -> str:
    return f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: kube-system\n  uid: {uid}\n---\n"


def release(name: str) -> str:
    head = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata:\n"
    return f"{head}  name: {name}\n  namespace: cozy-system\n  uid: {name}\n---\n"


def clusters(tmp_path: Path, files: dict[str, str]) -> dict[tuple[str, str], str]:
    case = read(tmp_path, files)
    return {(thing.kind, thing.name): thing.cluster for thing in case.objects}


def test_nodes_are_told_by_the_virtual_machines(tmp_path: Path) -> None:
    found = clusters(tmp_path, {"vmi.txt": VMI, "nodes.txt": NODES})
    assert found["Node", "work-1"] == TENANT
    assert found["Node", "hv-1"] == MANAGEMENT
    assert found["Node", "mist"] == UNKNOWN
    assert found["VirtualMachineInstance", "work-1"] == MANAGEMENT


def test_neighbours_tell_where_they_agree(tmp_path: Path) -> None:
    assert clusters(tmp_path / "1", {"p.txt": PLUGIN})["Pod", "nfd"] == TENANT
    sub = {"t/p.txt": GPU, "t/q.txt": PLUGIN.replace("nfd", "other")}
    assert clusters(tmp_path / "2", sub)["Pod", "nfd"] == TENANT
    mixed = {"t/p.txt": GPU, "t/q.txt": PLUGIN.replace("nfd", "other"), "t/v.txt": VMI}
    assert clusters(tmp_path / "3", mixed)["Pod", "nfd"] == UNKNOWN
    flat = {"p.txt": GPU, "v.txt": VMI}
    assert clusters(tmp_path / "4", flat)["Pod", "nfd"] == UNKNOWN


def test_what_cannot_be_told_is_said(tmp_path: Path) -> None:
    assert "nothing tells whether management or tenant: 1 objects (Pod)" in whys(
        read(tmp_path, {"p.txt": GPU})
    )


def test_a_folder_may_say_it_but_not_by_a_namespaces_name(tmp_path: Path) -> None:
    assert clusters(tmp_path, {"mgmt/p.txt": GPU})["Pod", "nfd"] == MANAGEMENT
    assert clusters(tmp_path / "x", {"tenant-a/p.txt": GPU})["Pod", "nfd"] == UNKNOWN


def test_a_listing_is_of_the_cluster_of_its_neighbours(tmp_path: Path) -> None:
    text = (
        "$ kubectl --kubeconfig t.conf get ds -A\nNo resources found\n"
        f"$ kubectl --kubeconfig t.conf get pods -A\n{PLUGIN}"
        f"$ kubectl get vmi -A\n{VMI}$ kubectl get ds -A\nNo resources found\n$ \n"
    )
    case = read(tmp_path, {"s.txt": text})
    found = [(one.kind, one.cluster) for one in case.listings]
    assert found == [
        ("DaemonSet", TENANT),
        ("Pod", TENANT),
        ("VirtualMachineInstance", MANAGEMENT),
        ("DaemonSet", MANAGEMENT),
    ]


def test_texts_are_of_the_machine_that_their_file_names(tmp_path: Path) -> None:
    dmesg = "[    0.000000] Linux version 6.18.34-talos\n[    1.000000] x\n"
    case = read(
        tmp_path, {"vmi.txt": VMI, "dmesg_work-1.txt": dmesg, "hv-1/dmesg": dmesg, "d": dmesg}
    )
    found = {text.source: (text.node, text.cluster) for text in case.of(Kind.DMESG)}
    assert found == {
        "dmesg_work-1.txt": ("work-1", TENANT),
        "hv-1/dmesg": ("hv-1", MANAGEMENT),
        "d": ("", UNKNOWN),
    }


def test_two_management_clusters_are_not_merged(tmp_path: Path) -> None:
    files = {
        "lab-a/ns.yaml": namespace("u-a"),
        "lab-a/hr.yaml": release("one") + release("two"),
        "lab-b/ns.yaml": namespace("u-b"),
        "lab-b/hr.yaml": release("three"),
    }
    case = read(tmp_path, files)
    assert {thing.name for thing in case.objects} == {"kube-system", "one", "two"}
    (said,) = [line for line in describe_unused(case) if line.startswith("lab-b")]
    assert "another management cluster than that of lab-a" in said
    assert "u-a" in said
    assert "u-b" in said


def test_one_class_made_anew_is_no_other_cluster_but_all_of_them_are(tmp_path: Path) -> None:
    def classes(*names: str, uid: str) -> str:
        head = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\n"
        head += "provisioner: linstor.csi.linbit.com\n"
        return "".join(
            f"{head}metadata:\n  name: {name}\n  uid: {uid}-{name}\n---\n" for name in names
        )

    one = {"a/sc.yaml": classes("local", uid="a"), "b/sc.yaml": classes("local", uid="b")}
    assert len(read(tmp_path / "1", one).objects) == 2
    two = {
        "a/sc.yaml": classes("local", "replicated", uid="a"),
        "b/sc.yaml": classes("local", "replicated", uid="b"),
    }
    assert len(read(tmp_path / "2", two).objects) == 2


def test_a_new_object_of_the_same_name_is_no_other_cluster(tmp_path: Path) -> None:
    vmi = "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata:\n  name: w\n"
    files = {
        f"{day}/vmi.yaml": f"{vmi}  namespace: tenant-a\n  uid: {day}\n---\n"
        for day in ("mon", "tue")
    }
    assert len(read(tmp_path, files).objects) == 2
