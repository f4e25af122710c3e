"""What captures do not hold is said, and what is not understood is not taken for seen."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.diagnose.case import Case, Kind, Text
from harness.diagnose.coverage import WANTED, missing
from harness.diagnose.findings import Standing
from harness.diagnose.ranking import diagnose
from harness.diagnose.reading import read_folder
from tests.diagnose.made import case, here, obj, service, standings, text, there, whole


def titles(of: Case) -> list[str]:
    return [one.source for one in missing(of)]


def test_nothing_is_there_and_all_of_it_is_missed() -> None:
    assert titles(case()) == [one.title for one in WANTED]


def test_an_empty_list_is_looked_at_and_a_part_is_named() -> None:
    assert "the control plane's Service" not in titles(case(whole("Service")))
    found = titles(case(here(obj("DataVolume", "a"), obj("StorageClass", "b", ""))))
    assert "disks, goldens and classes (no PersistentVolumeClaim)" in found
    assert "the hosts" in titles(case(there(obj("Node", "w", "")))), "a worker is no host"
    assert "a worker's kernel log or console" not in titles(case([text(Kind.CONSOLE, "x")]))


def test_captures_in_which_all_is_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (made,) = service(6443, 8132, 50001)
    (tmp_path / "service.json").write_text(json.dumps({"apiVersion": "v1", **made.obj}))
    assert cli.main(["diagnose", "--from", str(tmp_path)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Nothing is found wrong" in said and "What was not looked at stands below" in said
    assert "DRBD as the hosts' kernels have it: not among the captures" in said


def test_errors_alone_are_nothing_that_was_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = "Error from server (Forbidden): datavolumes.cdi.kubevirt.io is forbidden"
    (tmp_path / "a.txt").write_text(f"$ kubectl get dv -n cozy-public\n{said}\n")
    assert cli.main(["diagnose", "--from", str(tmp_path)]) == 2
    assert "holds nothing that can be used" in capsys.readouterr().err
    assert diagnose(case([Text(Kind.UNKNOWN, said)])).looked_at == 0


DISKS = (
    "$ kubectl get dv -A\n"
    "NAMESPACE     NAME             PHASE              PROGRESS   RESTARTS   AGE\n"
    "cozy-public   talos-worker-x   ImportInProgress   N/A        {}         {}\n"
)


@pytest.mark.parametrize(
    ("restarts", "age", "noticed", "possible"),
    [
        ("34", "9h", ["disk-not-made"], {"golden-import-retrying", "image-too-large-for-disk"}),
        ("0", "9h", ["disk-not-made"], set()),
        ("0", "4m10s", [], set()),
    ],
)
def test_a_row_that_has_stood_for_long_is_noticed(
    tmp_path: Path, restarts: str, age: str, noticed: list[str], possible: set[str]
) -> None:
    (tmp_path / "dv.txt").write_text(DISKS.format(restarts, age))
    found = diagnose(read_folder(tmp_path))
    assert [one.symptom.id for one in found.noticed] == noticed
    assert {one.cause.id for one in found.of(Standing.POSSIBLE)} == possible


def test_a_worker_whose_row_says_that_it_is_not_ready(tmp_path: Path) -> None:
    head = "NAME     STATUS     ROLES    AGE   VERSION\n"
    (tmp_path / "nodes.txt").write_text(f"{head}worker   NotReady   <none>   3h    v1.33.1\n")
    assert [one.symptom.id for one in diagnose(read_folder(tmp_path)).noticed] == ["node-not-ready"]


@pytest.mark.parametrize(
    ("line", "standing"),
    [
        (
            'User "system:anonymous" cannot create resource "certificatesigningrequests"',
            Standing.NAMED,
        ),
        ('nodes "w" is forbidden: User "system:anonymous" cannot get', Standing.NAMED),
        ('err="User \\"system:anonymous\\" cannot create resource \\"nodes\\""', Standing.NAMED),
        ('"HTTP" verb="GET" URI="/api/v1/nodes/w" user="system:anonymous"', Standing.NAMED),
        (
            'leases.coordination.k8s.io "w" is forbidden: User "system:anonymous" cannot get '
            'resource "leases" in the namespace "kube-node-lease"',
            Standing.NAMED,
        ),
        ('forbidden: User "system:anonymous" cannot get path "/"', Standing.POSSIBLE),
        # whose machine is called so, or who only looks in
        ('talos-node-1 apiserver: URI="/metrics" user="system:anonymous"', Standing.POSSIBLE),
        ('"system:anonymous" URI="/healthz" userAgent="kubelet-csr-approver"', Standing.POSSIBLE),
        (
            'leases "x" is forbidden: User "system:anonymous" cannot get resource "leases" in '
            'the namespace "kube-system"',
            Standing.POSSIBLE,
        ),
    ],
)
def test_who_asks_as_nobody(line: str, standing: Standing) -> None:
    found = standings(diagnose(case([text(Kind.LOG, f"{line}\n")])))
    assert found == {"bootstrap-token-missing": standing}


def test_two_clusters_side_by_side_prove_no_absence(tmp_path: Path) -> None:
    def classes(uid: str) -> dict[str, Any]:
        made = [
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name, "uid": f"{uid}-{name}"},
                "provisioner": "linstor.csi.linbit.com",
            }
            for name in ("local", "replicated")
        ]
        return {"apiVersion": "v1", "kind": "List", "items": made}

    listed = "$ kubectl get dv -n cozy-public\nNo resources found in cozy-public namespace.\n$ \n"
    (tmp_path / "one.json").write_text(json.dumps(classes("a")))
    (tmp_path / "dv.txt").write_text(listed)
    assert [one.kind for one in read_folder(tmp_path).listings] == ["DataVolume"]
    (tmp_path / "two.json").write_text(json.dumps(classes("b")))
    found = read_folder(tmp_path)
    assert not found.listings
    assert any("side by side" in one.why for one in found.unused)
