"""Tables of kubectl: which kind, which fields, and when a kind was listed whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.diagnose.case import Thing
from harness.facts.objects import condition
from tests.diagnose.reading.reading_files import CAPTURES, one, read, whys

PODS = """\
NAMESPACE   NAME    READY   STATUS             RESTARTS        AGE
default     web     1/1     Running            26 (5m12s ago)  31h
default     ai-0    0/1     CrashLoopBackOff   7 (12s ago)     31h
gpu         val-x   0/1     Init:0/4           0               2h
"""
HEADED = "$ kubectl get pods -A\n" + PODS + "$ date\nMon Jun  1\n"


def things(tmp_path: Path, text: str, name: str = "x.txt") -> dict[str, Thing]:
    return {thing.name: thing for thing in read(tmp_path, {name: text}).objects}


def captured(tmp_path: Path, name: str) -> dict[str, Thing]:
    return things(tmp_path, (CAPTURES / name).read_text(), name)


def test_pods_say_their_phase_and_restarts_and_nothing_more(tmp_path: Path) -> None:
    pods = things(tmp_path, PODS)
    web = pods["web"]
    assert (web.kind, web.namespace, web.obj["status"]["phase"]) == ("Pod", "default", "Running")
    assert web.obj["status"]["containerStatuses"] == [{"ready": True, "restartCount": 26}]
    assert not web.knows("metadata", "labels")
    assert web.knows("status", "phase")
    assert web.obj["hil.row"]["AGE"] == "31h"
    state = pods["ai-0"].obj["status"]["containerStatuses"][0]["state"]
    assert state == {"waiting": {"reason": "CrashLoopBackOff"}}
    assert pods["val-x"].obj["status"]["phase"] == "Pending"
    several = things(tmp_path, PODS.replace("1/1 ", "2/2 "))["web"].obj["status"]
    assert several["containerStatuses"] == [{"ready": True}, {"ready": True}]


def test_a_service_shows_all_its_ports(tmp_path: Path) -> None:
    service = captured(tmp_path, "management-svc.txt")["kubernetes-lab"]
    assert [port["port"] for port in service.obj["spec"]["ports"]] == [6443, 8132, 50001]
    assert service.knows("spec", "ports")


@pytest.mark.parametrize(
    ("name", "kind", "path", "value"),
    [
        ("management-dv.txt", "DataVolume", ("status", "phase"), "Succeeded"),
        ("management-machines.txt", "Machine", ("status", "phase"), "Running"),
        ("management-vmi.txt", "VirtualMachineInstance", ("status", "nodeName"), "hv-1"),
        ("management-pvc.txt", "PersistentVolumeClaim", ("spec", "storageClassName"), "replicated"),
        ("tenant-ds.txt", "DaemonSet", ("status", "desiredNumberScheduled"), 1),
    ],
)
def test_other_kinds(
    tmp_path: Path, name: str, kind: str, path: tuple[str, str], value: object
) -> None:
    found = [thing for thing in captured(tmp_path, name).values() if thing.kind == kind]
    assert found
    assert any(thing.obj.get(path[0], {}).get(path[1]) == value for thing in found)
    assert any(thing.knows(*path) for thing in found)


def test_releases_and_nodes_have_conditions(tmp_path: Path) -> None:
    release = captured(tmp_path, "management-hr.txt")["kubernetes-lab"]
    ready = condition(release.obj, "Ready")
    assert ready["status"] == "True"
    assert ready["message"].startswith("Helm install succeeded for release")
    nodes = captured(tmp_path, "management-nodes-wide.txt")
    assert condition(nodes["hv-1"].obj, "Ready")["status"] == "True"
    assert nodes["hv-1"].obj["status"]["nodeInfo"]["osImage"] == "Talos (v1.13.6)"
    down = things(
        tmp_path, "NAME  STATUS    ROLES  AGE  VERSION\nhv-9  NotReady  <none>  1d   v1.3\n"
    )
    assert "status" not in condition(down["hv-9"].obj, "Ready")


EVENTS = """\
NAMESPACE   LAST SEEN           TYPE      REASON     OBJECT        MESSAGE
default     3m (x14 over 70m)   Warning   Rebooted   node/kube-1   has  been rebooted
"""
ALL = """\
NAME        READY   STATUS    RESTARTS   AGE
pod/web-1   1/1     Running   0          5m

NAME          TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE
service/web   ClusterIP   10.0.0.1     <none>        80/TCP    5m

NAME                  READY   UP-TO-DATE   AVAILABLE   AGE
deployment.apps/web   1/1     1            1           5m
"""


def test_events(tmp_path: Path) -> None:
    event = one(read(tmp_path, {"ev.txt": EVENTS}))
    assert event.obj["involvedObject"]["kind"] == "Node"
    assert (event.obj["reason"], event.obj["count"]) == ("Rebooted", 14)
    assert event.obj["message"] == "has  been rebooted"
    assert event.name == "ev.txt:2"


def test_several_tables_and_names_with_their_kind(tmp_path: Path) -> None:
    case = read(tmp_path, {"all.txt": ALL})
    assert [thing.kind for thing in case.objects] == ["Pod", "Service", "Deployment"]


def test_without_a_heading(tmp_path: Path) -> None:
    rows = "".join(PODS.splitlines(keepends=True)[1:])
    assert set(things(tmp_path, rows)) == {"web", "ai-0", "val-x"}
    asked = "$ kubectl get nodes --no-headers\nhv-1   Ready   <none>   30m   v1.34.2\n$ \n"
    assert things(tmp_path, asked)["hv-1"].kind == "Node"


def test_a_table_that_a_terminal_wrapped(tmp_path: Path) -> None:
    wrapped = "".join(
        line[:60] + "\n" + line[60:] if len(line) > 61 else line
        for line in PODS.splitlines(keepends=True)
    )
    pods = things(tmp_path, wrapped)
    assert set(pods) == {"web", "ai-0", "val-x"}
    assert pods["web"].obj["hil.row"]["AGE"] == "31h"


def test_a_heading_that_could_be_of_several_kinds_is_told(tmp_path: Path) -> None:
    text = "NAME   READY   AGE\nfoo    True    5m\n"
    case = read(tmp_path, {"x.txt": text})
    assert case.objects == ()
    assert "not recognised" in whys(case)
    assert one(
        read(tmp_path, {"x.txt": "", "sts.txt": "NAME  READY  AGE\nfoo   1/1    5m\n"})
    ).kind == ("StatefulSet")


def test_a_row_that_is_cut_is_not_used(tmp_path: Path) -> None:
    assert set(things(tmp_path, PODS[:-12])) == {"web", "ai-0"}


# -- listings


def listings(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    return [(one.kind, one.namespace) for one in read(tmp_path, {"t.txt": text}).listings]


def test_all_of_a_kind_were_listed(tmp_path: Path) -> None:
    assert listings(tmp_path, HEADED) == [("Pod", "")]
    named = HEADED.replace(" -A", " -n default")
    assert listings(tmp_path, named) == [("Pod", "default")]


@pytest.mark.parametrize(
    "command",
    [
        "kubectl get pods -A -l app=x",
        "kubectl get pods -A --field-selector=status.phase=Running",
        "kubectl get pods web ai-0",
        "kubectl get pods -A -w",
        "kubectl get pods -A | grep -v Completed",
        "kubectl get pods -A | head",
        "kubectl get pods",
        "kubectl get pods -A --odd-option",
        "kubectl get pods -A \\",
        "kubectl describe pods -A",
        "kubectl get pods -A; kubectl get ds -A",
    ],
)
def test_what_may_be_a_part_is_no_listing(tmp_path: Path, command: str) -> None:
    assert listings(tmp_path, HEADED.replace("kubectl get pods -A", command)) == []


def test_a_table_without_its_command_or_its_end_is_no_listing(tmp_path: Path) -> None:
    assert listings(tmp_path, PODS) == []
    assert listings(tmp_path, "$ kubectl get pods -A\n" + PODS) == []
    assert listings(tmp_path, HEADED.replace("$ date", "[exit 1]\n$ date")) == []
    error = "Error from server (Timeout): the server was unable to return a response\n$ date"
    assert listings(tmp_path, HEADED.replace("$ date", error)) == []
    assert listings(tmp_path, HEADED.replace("2h\n", "2h\n%!odd line\n")) == []


def test_none_were_found(tmp_path: Path) -> None:
    none = "$ kubectl get ds -n gpu-operator\nNo resources found in gpu-operator namespace.\n"
    assert listings(tmp_path, none) == [("DaemonSet", "gpu-operator")]
    assert listings(tmp_path, none[:-15]) == []
    assert listings(tmp_path, none.replace("get ds", "get ds -l app=x")) == []
    everywhere = "$ kubectl get ds -A\nNo resources found\n"
    assert listings(tmp_path, everywhere) == []
    assert listings(tmp_path, everywhere + "$ date\n") == [("DaemonSet", "")]


def test_a_list_in_yaml_or_json_with_its_command(tmp_path: Path) -> None:
    pod = "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n    uid: u\n"
    text = (
        f"$ kubectl get pods -A -o yaml\napiVersion: v1\nitems:\n{pod}kind: List\nmetadata: {{}}\n"
    )
    assert listings(tmp_path, text) == [("Pod", "")]
    assert listings(tmp_path, text[: text.index("kind: List")]) == []
    json_ = '$ kubectl get pods -A -o json\n{"apiVersion": "v1", "items": [], "kind": "List"}\n'
    assert listings(tmp_path, json_) == [("Pod", "")]
    more = json_.replace('"List"', '"List", "metadata": {"continue": "x"}')
    assert listings(tmp_path, more) == []
    assert listings(tmp_path, json_[:-3]) == []
