from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.selectors import matcher, parse_fields, parse_labels, selects

EVENT = Resource("", "v1", "Event", "events", field_selectors=("involvedObject.name", "type"))
POD = Resource(
    "",
    "v1",
    "Pod",
    "pods",
    field_selectors=("spec.nodeName", "status.phase", "spec.hostNetwork"),
)
NODE = Resource(
    "", "v1", "Node", "nodes", namespaced=False, field_selectors=("spec.unschedulable",)
)


def labelled(**labels: str) -> Obj:
    return {"metadata": {"name": "x", "namespace": "a", "labels": labels}}


def chosen(resource: Resource, obj: Obj, labels: str = "", fields: str = "") -> bool:
    found = matcher(resource, labels, fields)
    return found is None or found(obj)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web", True),
        ("app=db", False),
        ("app!=web", False),
        ("app!=db", True),
        ("absent!=db", True),
        ("app in (db, web)", True),
        ("app in (db)", False),
        ("app notin (db,cache)", True),
        ("app notin (web)", False),
        ("absent notin (web)", True),
        ("app", True),
        ("absent", False),
        ("!app", False),
        ("!absent", True),
        ("! absent", True),
        ("empty=", True),
        ("empty in (,x)", True),
        ("app=", False),
        ("n>3", True),
        ("n<3", False),
        ("app>3", False),
        ("absent<3", False),
        ("app=web,n=4,!absent", True),
        ("app=web,app in (db,cache)", False),
        ("in=1", True),
    ],
)
def test_label_selectors(selector: str, *, expected: bool) -> None:
    obj = labelled(app="web", n="4", empty="", **{"in": "1"})
    assert chosen(POD, obj, labels=selector) is expected


def test_prefixed_keys() -> None:
    obj = labelled(**{"app.kubernetes.io/name": "web"})
    assert chosen(POD, obj, labels="app.kubernetes.io/name=web")
    assert not chosen(POD, obj, labels="!app.kubernetes.io/name")


def test_object_without_labels() -> None:
    bare: Obj = {"metadata": {"name": "x"}}
    assert not chosen(POD, bare, labels="app")
    assert chosen(POD, bare, labels="app!=web")


@pytest.mark.parametrize(
    "selector", ["app=web,", ",", "app in web", "app in (a", "=x", "a b", "n>x", "app=(x)", "a=b=c"]
)
def test_text_that_is_no_label_selector_is_a_bad_request(selector: str) -> None:
    with pytest.raises(ApiError) as told:
        matcher(POD, selector)
    assert told.value.code == 400


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("metadata.name=p", True),
        ("metadata.name==p", True),
        ("metadata.name!=p", False),
        ("metadata.namespace=a", True),
        ("spec.nodeName=n1,status.phase=Running", True),
        ("spec.nodeName=n1,status.phase!=Running", False),
        ("spec.hostNetwork=true", True),
        ("spec.nodeName=", False),
    ],
)
def test_field_selectors(selector: str, *, expected: bool) -> None:
    pod = {
        "metadata": {"name": "p", "namespace": "a"},
        "spec": {"nodeName": "n1", "hostNetwork": True},
        "status": {"phase": "Running"},
    }
    assert chosen(POD, pod, fields=selector) is expected


def test_missing_field_reads_as_empty() -> None:
    pod: Obj = {"metadata": {"name": "p"}, "spec": None}
    assert chosen(POD, pod, fields="spec.nodeName=")
    assert chosen(POD, pod, fields="status.phase!=Running")


def test_dotted_field_of_a_kind() -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"name": "vm.1"}, "type": "Warning"}
    assert chosen(EVENT, event, fields="involvedObject.name=vm.1,type!=Normal")


def test_escaped_value() -> None:
    event = {"metadata": {"name": "e"}, "involvedObject": {"name": "a,b=c"}}
    assert chosen(EVENT, event, fields=r"involvedObject.name=a\,b\=c")


@pytest.mark.parametrize(
    ("resource", "fields"),
    [(POD, "spec.other=1"), (EVENT, "status.phase=1"), (NODE, "metadata.namespace=a")],
)
def test_field_that_a_kind_cannot_be_chosen_by(resource: Resource, fields: str) -> None:
    with pytest.raises(ApiError) as told:
        matcher(resource, "", fields)
    name = fields.partition("=")[0]
    assert (told.value.code, told.value.message) == (400, f"field label not supported: {name}")


@pytest.mark.parametrize("fields", ["metadata.name", "=x", ",metadata.name=x"])
def test_text_that_is_no_field_selector_is_a_bad_request(fields: str) -> None:
    with pytest.raises(ApiError) as told:
        parse_fields(fields)
    assert told.value.code == 400


@given(st.text(max_size=40) | st.text("ab=!,() intno<>/.", max_size=40))
def test_any_text_parses_or_is_refused(text: str) -> None:
    for parse in (parse_labels, parse_fields):
        try:
            parse(text)
        except ApiError as refusal:
            assert refusal.code == 400


VALUES = st.sampled_from(["", "a", "b"])
LABELS = st.dictionaries(st.sampled_from("xyz"), VALUES)


@given(key=st.sampled_from("xyz"), value=VALUES, labels=LABELS)
def test_negations_are_complements(key: str, value: str, labels: dict[str, str]) -> None:
    obj = labelled(**labels)
    for positive, negative in (
        (f"{key}={value}", f"{key}!={value}"),
        (f"{key} in (a,b)", f"{key} notin (a,b)"),
        (key, f"!{key}"),
    ):
        assert chosen(POD, obj, labels=positive) is not chosen(POD, obj, labels=negative)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "Exists"}]}, False),
    ],
)
def test_label_selector_objects(selector: Any, *, expected: bool) -> None:
    assert selects(selector, {"a": "1"}) is expected


def test_unknown_operator_is_a_bad_request() -> None:
    with pytest.raises(ApiError):
        selects({"matchExpressions": [{"key": "a", "operator": "Near"}]}, {})
