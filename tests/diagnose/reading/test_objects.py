"""Objects in YAML and JSON: whole, listed, run together, cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.diagnose.reading import Limits, read_folder
from tests.diagnose.reading.reading_files import folder, one, read, whys

SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: kubernetes-prod
  namespace: tenant-acme
  uid: 7d0d6f0e-5b1c-4f26-b1e6-0c8a0f6c2f55
spec:
  ports:
  - port: 6443
  - port: 8132
  type: ClusterIP
status:
  loadBalancer: {}
"""
LIST = """\
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    name: one
    namespace: default
    uid: u1
  status:
    phase: Running
- apiVersion: v1
  kind: Pod
  metadata:
    name: two
    namespace: default
    uid: u2
  status:
    phase: Pending
kind: List
metadata:
  resourceVersion: ""
"""


def named(tmp_path: Path, text: str | bytes, name: str = "capture.txt") -> list[str]:
    return [thing.name for thing in read(tmp_path, {name: text}).objects]


def test_what_ends_a_file_is_whole_but_for_its_last_branch(tmp_path: Path) -> None:
    thing = one(read(tmp_path, {"svc.yaml": SERVICE}))
    assert [port["port"] for port in thing.obj["spec"]["ports"]] == [6443, 8132]
    assert not thing.whole
    assert thing.knows("spec", "ports")
    assert thing.knows("metadata", "labels")
    assert not thing.knows("status", "conditions")
    assert thing.source == "svc.yaml:1"


@pytest.mark.parametrize("closing", ["---\n", "...\n", "$ date\nMon\n", "```\n"])
def test_what_is_followed_by_something_is_whole(tmp_path: Path, closing: str) -> None:
    thing = read(tmp_path, {"svc.yaml": SERVICE + closing}).objects[0]
    assert thing.whole


def test_documents_with_and_without_separators(tmp_path: Path) -> None:
    other = SERVICE.replace("kubernetes-prod", "other")
    expected = ["kubernetes-prod", "other", "kubernetes-prod"]
    assert named(tmp_path, f"{SERVICE}---\n{other}{SERVICE}") == expected


def test_a_list_gives_its_items_whole(tmp_path: Path) -> None:
    case = read(tmp_path, {"pods.yaml": LIST})
    assert [(thing.name, thing.whole) for thing in case.objects] == [("one", True), ("two", True)]


def test_a_list_cut_inside_an_item_keeps_those_before_and_tells_the_cut(tmp_path: Path) -> None:
    case = read(tmp_path, {"pods.yaml": LIST[: LIST.index("phase: Pending")]})
    assert [thing.name for thing in case.objects] == ["one"]
    assert "pods.yaml:11: cut inside this object" in whys(case)


def test_a_line_cut_at_the_end_is_left_out(tmp_path: Path) -> None:
    case = read(tmp_path, {"pod.yaml": SERVICE + "# and th"})
    assert "ends inside a line" in whys(case)
    cut = SERVICE[: SERVICE.index("ClusterIP") + 3]
    thing = one(read(tmp_path, {"pod.yaml": cut}))
    assert "type" not in thing.obj["spec"]


def test_a_block_of_text_at_the_end_may_go_on(tmp_path: Path) -> None:
    text = SERVICE.replace("status:\n  loadBalancer: {}\n", "status:\n  message: |\n    first\n")
    thing = one(read(tmp_path, {"svc.yaml": text}))
    assert "message" not in thing.obj["status"]


def test_json_lists_typed_lists_and_values_run_together(tmp_path: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "u"}}
    bare = {"metadata": {"name": "b", "uid": "v"}}
    typed = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [bare]}
    text = json.dumps(pod) + "\n" + json.dumps(typed, indent=4)
    case = read(tmp_path, {"x.txt": text})
    assert [(thing.kind, thing.name, thing.whole) for thing in case.objects] == [
        ("Pod", "a", True),
        ("Pod", "b", True),
    ]


def test_json_cut_in_the_middle(tmp_path: Path) -> None:
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": name}}
        for name in ("a", "b")
    ]
    text = json.dumps({"apiVersion": "v1", "items": pods, "kind": "List"}, indent=4)
    case = read(tmp_path, {"x.json": text[: text.index('"b"')]})
    assert [thing.name for thing in case.objects] == ["a"]
    assert "cut inside this object" in whys(case)


def test_what_somebody_wrote_lacks_nothing_for_certain(tmp_path: Path) -> None:
    written = "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\nspec: {}\n---\n"
    thing = one(read(tmp_path, {"svc.yaml": written}))
    assert thing.shown == frozenset()


def test_an_error_of_the_api_and_what_is_no_object_are_told(tmp_path: Path) -> None:
    status = (
        '{"kind": "Status", "apiVersion": "v1", "metadata": {}, "message": "pods is forbidden"}'
    )
    config = "apiVersion: v1\nkind: Config\nusers: []\n"
    case = read(tmp_path, {"a.json": status, "b.yaml": config})
    assert case.objects == ()
    assert "an error of the API: pods is forbidden" in whys(case)
    assert "a Config without a name" in whys(case)


def test_secrets_are_not_kept(tmp_path: Path) -> None:
    secret = (
        "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n  uid: u\n  annotations:\n"
        '    kubectl.kubernetes.io/last-applied-configuration: \'{"data": "aHVudGVyMg=="}\'\n'
        "data:\n  password: aHVudGVyMg==\n---\n"
    )
    thing = one(read(tmp_path, {"s.yaml": secret}))
    assert "aHVudGVyMg" not in str(thing.obj)
    assert list(thing.obj["data"]) == ["password"]


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: A\nmetadata: &m\n  name: x\nspec: [*m, *m]\n",
        "a: &a [x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{two}: &{two} [{','.join(['*' + one_] * 9)}]\n"
            for one_, two in zip("abcdefgh", "bcdefghi", strict=True)
        )
        + "apiVersion: v1\nkind: A\nmetadata:\n  name: x\n",
        "apiVersion: v1\nkind: A\nmetadata:\n  name: x\nspec: " + "[" * 5000,
        '{"apiVersion": "v1", "kind": "A", "metadata": {"name": "x"}, "a": ' + "[" * 5000,
    ],
    ids=["aliases", "laughs", "yaml-depth", "json-depth"],
)
def test_what_is_made_to_burst_does_not(tmp_path: Path, text: str) -> None:
    case = read(tmp_path, {"x.yaml": text + "\n---\n"})
    assert len(case.objects) <= 1


@pytest.mark.parametrize("last", ["self: *m\n", "list: [*m]\n"])
def test_what_holds_itself_is_refused_wherever_the_text_ends(tmp_path: Path, last: str) -> None:
    text = f"apiVersion: v1\nkind: Pod\nmetadata: &m\n  name: y\n  {last}"
    for end in ("", "---\n"):
        case = read(tmp_path / f"e{len(end)}", {"x.yaml": text + end})
        assert case.objects == ()
        assert "too large or too deep" in whys(case)


def test_an_object_too_deep_to_be_one_is_told(tmp_path: Path) -> None:
    deep = SERVICE.replace("{}", "[" * 150 + "]" * 150) + "---\n"
    case = read(tmp_path, {"x.yaml": deep})
    assert case.objects == ()
    assert "too large or too deep" in whys(case)


def test_one_object_in_many_captures_is_there_once(tmp_path: Path) -> None:
    case = read(tmp_path, {"a.yaml": LIST, "b.yaml": LIST})
    assert len(case.objects) == 2


def test_of_a_large_file_the_beginning_is_read_and_the_rest_told(tmp_path: Path) -> None:
    pod = "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p{}\n    uid: u\n"
    text = "apiVersion: v1\nitems:\n" + "".join(pod.format(i) for i in range(2000)) + "kind: List\n"
    case = read_folder(folder(tmp_path, {"p.yaml": text}), Limits(structured=20_000))
    assert 0 < len(case.objects) < 400
    assert "its first 20.0 kB were used" in whys(case)
