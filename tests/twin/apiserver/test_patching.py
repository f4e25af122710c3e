from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.apiserver import strategic
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.patching import json_patch, merge_patch, patched
from harness.twin.apiserver.resources import Obj, Resource

POD = Resource(
    "",
    "v1",
    "Pod",
    "pods",
    builtin=True,
    list_keys={
        "spec.containers": "name",
        "spec.containers.env": "name",
        "spec.containers.ports": "containerPort,protocol",
        "spec.tolerations": "key",
    },
)
THING = Resource("lab.io", "v1", "Thing", "things")

SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
NAMES = st.sampled_from(["a", "b", "c"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)
MAPS = st.dictionaries(NAMES, VALUES, max_size=3)


def rfc7386(target: Any, patch: Any) -> Any:
    """The pseudo-code of RFC 7386 section 2, on copies."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    out = copy.deepcopy(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = rfc7386(out.get(name), value)
    return out


# -- merge patch


@given(target=MAPS, patch=MAPS)
def test_merge_patch_is_what_the_rfc_says_and_leaves_its_target(target: Obj, patch: Obj) -> None:
    before = copy.deepcopy((target, patch))
    assert merge_patch(target, patch) == rfc7386(target, patch)
    assert (target, patch) == before


@given(target=MAPS, patch=MAPS)
def test_merge_patch_twice_is_merge_patch_once(target: Obj, patch: Obj) -> None:
    once = merge_patch(target, patch)
    assert merge_patch(once, patch) == once


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "c"}, {"a": {"b": 1, "x": None}}, {"a": {"b": 1}}),
    ],
)
def test_merge_patch_examples_of_the_rfc(target: Obj, patch: Obj, expected: Obj) -> None:
    assert merge_patch(target, patch) == expected


# -- JSON patch


def test_json_patch_applies_in_order_to_a_copy() -> None:
    target = {"a": [1, 2], "b": {"c": 1}}
    done = json_patch(
        target,
        [
            {"op": "test", "path": "/b/c", "value": 1},
            {"op": "add", "path": "/a/-", "value": 3},
            {"op": "remove", "path": "/a/0"},
            {"op": "move", "from": "/b/c", "path": "/d"},
            {"op": "copy", "from": "/d", "path": "/e~1f"},
        ],
    )
    assert done == {"a": [2, 3], "b": {}, "d": 1, "e/f": 1}
    assert target == {"a": [1, 2], "b": {"c": 1}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/absent", "value": 2},
        {"op": "remove", "path": "/absent"},
        {"op": "replace", "path": "/absent/deep", "value": 1},
        {"op": "add", "path": "/absent/deep", "value": 1},
        {"op": "add", "path": "/list/7", "value": 1},
        {"op": "replace", "path": "/list/x", "value": 1},
        {"op": "move", "from": "/absent", "path": "/b"},
        {"path": "/a"},
        {"op": "fly", "path": "/a"},
        {"op": "add", "path": "/a"},
        {"op": "move", "path": "/a"},
    ],
)
def test_json_patch_that_does_not_fit_is_unprocessable(operation: Obj) -> None:
    with pytest.raises(ApiError) as told:
        json_patch({"a": 1, "list": [1]}, [operation])
    assert (told.value.code, told.value.reason) == (422, "Invalid")
    assert told.value.details["causes"][0]["message"]


@pytest.mark.parametrize(
    "body",
    [
        {"op": "add"},
        "text",
        [1],
        [{"op": "add", "path": 5, "value": 1}],
    ],
)
def test_what_is_no_json_patch_is_a_bad_request(body: Any) -> None:
    with pytest.raises(ApiError) as told:
        json_patch({"a": 1}, body)
    assert told.value.code == 400


POINTERS = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "~0", ""]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
OPERATIONS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
        "path": POINTERS,
    },
    optional={"from": POINTERS, "value": VALUES},
)


@given(target=MAPS, operations=st.lists(OPERATIONS, max_size=4))
def test_any_json_patch_applies_or_is_refused(target: Obj, operations: list[Obj]) -> None:
    before = copy.deepcopy(target)
    try:
        json_patch(target, operations)
    except ApiError as refusal:
        assert refusal.code in (400, 422)
    assert target == before


# -- which patch a kind takes


def test_custom_kinds_refuse_strategic_merge() -> None:
    with pytest.raises(ApiError) as told:
        patched(THING, {}, {}, "application/strategic-merge-patch+json")
    assert (told.value.code, told.value.reason) == (415, "UnsupportedMediaType")
    assert "application/merge-patch+json" in told.value.message


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", ""])
def test_other_content_types_are_refused(content_type: str) -> None:
    with pytest.raises(ApiError) as told:
        patched(POD, {}, {}, content_type)
    assert told.value.code == 415


def test_parameters_of_a_content_type_do_not_matter() -> None:
    done = patched(THING, {"a": 1}, {"a": 2}, "application/merge-patch+json; charset=utf-8")
    assert done == {"a": 2}


def test_list_as_a_merge_patch_is_a_bad_request() -> None:
    with pytest.raises(ApiError) as told:
        patched(THING, {"a": 1}, [{"op": "add"}], "application/merge-patch+json")
    assert told.value.code == 400


def test_json_patch_that_leaves_no_object() -> None:
    with pytest.raises(ApiError) as told:
        patched(
            THING, {}, [{"op": "replace", "path": "", "value": 1}], "application/json-patch+json"
        )
    assert told.value.code == 422


# -- strategic merge


def pod(*containers: Obj, **spec: Any) -> Obj:
    return {"metadata": {"name": "p"}, "spec": {"containers": list(containers), **spec}}


def merged(target: Obj, patch: Obj) -> Obj:
    before = copy.deepcopy((target, patch))
    done = strategic.merge(target, patch, POD.list_keys)
    assert (target, patch) == before
    return done


def test_replace_sets_what_a_map_lacks() -> None:
    assert json_patch({"a": 1}, [{"op": "replace", "path": "/b", "value": 2}]) == {"a": 1, "b": 2}


def test_keyed_lists_merge_by_key_and_grow() -> None:
    target = pod({"name": "a", "image": "1", "env": [{"name": "E", "value": "x"}]}, {"name": "b"})
    patch = {
        "spec": {
            "containers": [
                {"name": "c", "image": "3"},
                {"name": "a", "env": [{"name": "F", "value": "y"}]},
            ]
        }
    }
    # what is new and patched comes first, as tests/conformance has it from a real API server
    assert merged(target, patch)["spec"]["containers"] == [
        {"name": "c", "image": "3"},
        {
            "name": "a",
            "image": "1",
            "env": [{"name": "F", "value": "y"}, {"name": "E", "value": "x"}],
        },
        {"name": "b"},
    ]


def test_other_lists_are_replaced() -> None:
    target = pod({"name": "a", "command": ["x", "y"]})
    done = merged(target, {"spec": {"containers": [{"name": "a", "command": ["z"]}]}})
    assert done["spec"]["containers"][0]["command"] == ["z"]


def test_delete_directive_of_an_item_and_of_a_map() -> None:
    target = pod({"name": "a"}, {"name": "b"}, nodeSelector={"x": "1"})
    patch = {
        "spec": {
            "containers": [{"name": "a", "$patch": "delete"}],
            "nodeSelector": {"$patch": "delete"},
        }
    }
    assert merged(target, patch)["spec"] == {"containers": [{"name": "b"}]}


def test_replace_directive_of_a_list_and_of_a_map() -> None:
    target = pod({"name": "a"}, {"name": "b"}, nodeSelector={"x": "1"})
    patch = {
        "spec": {
            "containers": [{"name": "c"}, {"$patch": "replace"}],
            "nodeSelector": {"$patch": "replace", "y": "2"},
        }
    }
    assert merged(target, patch)["spec"] == {
        "containers": [{"name": "c"}],
        "nodeSelector": {"y": "2"},
    }


def test_retain_keys() -> None:
    target = {"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"x": 1}}}}
    patch = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    assert merged(target, patch) == {"spec": {"strategy": {"type": "Recreate"}}}


def test_primitive_lists_of_metadata() -> None:
    target = {"metadata": {"finalizers": ["a", "b"]}}
    assert merged(target, {"metadata": {"finalizers": ["b", "c"]}}) == {
        "metadata": {"finalizers": ["a", "b", "c"]}
    }
    gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert merged(target, gone) == {"metadata": {"finalizers": ["b"]}}


def test_set_element_order() -> None:
    target = pod({"name": "a"}, {"name": "b"}, {"name": "c"})
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
            "containers": [{"name": "c", "image": "3"}],
        }
    }
    assert merged(target, patch)["spec"]["containers"] == [
        {"name": "b"},
        {"name": "c", "image": "3"},
        {"name": "a"},
    ]


def test_null_removes_and_is_not_stored() -> None:
    target = {"spec": {"a": 1, "b": {"c": 1}}}
    assert merged(target, {"spec": {"a": None, "b": {"c": None}, "d": {"e": None}}}) == {
        "spec": {"b": {}, "d": {}}
    }


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        ({"spec": {"$patch": "explode"}}, 500),
        ({"spec": {"$unheard/of": []}}, 400),
        ({"spec": {"containers": [{"image": "no name"}]}}, 500),
        ({"spec": {"$retainKeys": "type"}}, 400),
    ],
)
def test_directives_that_cannot_be_followed_are_refused(patch: Obj, code: int) -> None:
    with pytest.raises(ApiError) as told:
        merged(pod({"name": "a"}), patch)
    assert told.value.code == code


@given(target=MAPS, patch=MAPS)
def test_strategic_merge_without_keyed_lists_twice_is_once(target: Obj, patch: Obj) -> None:
    once = strategic.merge(target, patch, {})
    assert strategic.merge(once, patch, {}) == once
