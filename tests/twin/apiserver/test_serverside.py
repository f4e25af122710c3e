from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.fieldpaths import (
    Shape,
    difference,
    fields,
    from_fields_v1,
    shown,
    to_fields_v1,
    without,
)
from harness.twin.apiserver.resources import Obj, Projection, Registry, Resource
from harness.twin.apiserver.store import Admission, Identities, Options, Revisions, Store

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
KEYS = {
    "spec.containers": "name",
    "spec.containers.env": "name",
    "spec.containers.ports": "containerPort,protocol",
    "spec.set": "",
}
NAMESPACE = Resource("", "v1", "Namespace", "namespaces", False, status=True, builtin=True)
SHAPE = Shape(KEYS, frozenset({"metadata", "spec", "status"}))
POD = Resource(
    "",
    "v1",
    "Pod",
    "pods",
    status=True,
    builtin=True,
    scale=True,
    list_keys=KEYS,
    present=SHAPE.present,
)
CONFIG = Resource("", "v1", "ConfigMap", "configmaps", builtin=True)


def view_shown(stored: Obj) -> Obj:
    return {"metadata": dict(stored["metadata"]), "spec": stored.get("data", {})}


def view_kept(said: Obj, stored: Obj | None) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**said["metadata"]},
        "data": said.get("spec", {}),
    }


VIEW = Resource(
    "view.io",
    "v1",
    "View",
    "views",
    projection=Projection(("v1", "ConfigMap"), view_shown, view_kept, lambda name: name),
)


class Time:
    now = 1767225600.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def store(time: Time) -> Store:
    return new_store(time)


def new_store(time: Time) -> Store:
    made = Store(
        "lab",
        Registry((NAMESPACE, POD, CONFIG, VIEW)),
        now=time,
        revisions=Revisions(),
        identities=Identities(3),
    )
    made.create(NAMESPACE, {"metadata": {"name": "a"}})
    return made


def apply(
    store: Store,
    manager: str,
    spec: Obj,
    *,
    force: bool = False,
    resource: Resource = POD,
    subresource: str = "",
    dry_run: bool = False,
    **more: Any,
) -> Obj:
    metadata = more.pop("metadata", {})
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": "p", "namespace": "a", **metadata},
        "spec": spec,
        **more,
    }
    return store.patch(
        resource,
        "a",
        "p",
        body,
        content_type=APPLY,
        subresource=subresource,
        options=Options(manager=manager, force=force, dry_run=dry_run),
    )


def merge(store: Store, manager: str, body: Obj, subresource: str = "") -> Obj:
    return store.patch(
        POD,
        "a",
        "p",
        body,
        content_type=MERGE,
        subresource=subresource,
        options=Options(manager=manager),
    )


def owners(obj: Obj) -> dict[tuple[str, str], Obj]:
    return {
        (entry["manager"], entry["operation"]): entry["fieldsV1"]
        for entry in obj["metadata"].get("managedFields", [])
    }


# -- one manager


def test_apply_creates_and_records_who_owns_what(store: Store) -> None:
    made = apply(store, "one", {"nodeName": "n"}, metadata={"labels": {"l": "1"}})
    assert made["spec"] == {"nodeName": "n"}
    assert made["metadata"]["managedFields"] == [
        {
            "manager": "one",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:labels": {"f:l": {}}},
                "f:spec": {"f:nodeName": {}},
            },
        }
    ]


def test_apply_again_changes_nothing(store: Store, time: Time) -> None:
    made = apply(store, "one", {"nodeName": "n", "containers": [{"name": "a", "image": "1"}]})
    time.now += 60
    again = apply(store, "one", {"nodeName": "n", "containers": [{"name": "a", "image": "1"}]})
    assert again is made


def test_what_is_left_out_goes(store: Store) -> None:
    apply(
        store, "one", {"a": {"b": 1, "c": 2}, "d": [1]}, metadata={"labels": {"x": "1", "y": "2"}}
    )
    done = apply(store, "one", {"a": {"b": 1}}, metadata={"labels": {"y": "2"}})
    assert done["spec"] == {"a": {"b": 1}}
    assert done["metadata"]["labels"] == {"y": "2"}


def test_keyed_items_left_out_go_and_order_is_as_applied(store: Store) -> None:
    apply(store, "one", {"containers": [{"name": "a"}, {"name": "b", "image": "1"}]})
    done = apply(store, "one", {"containers": [{"name": "c"}, {"name": "b", "image": "2"}]})
    assert done["spec"]["containers"] == [{"name": "c"}, {"name": "b", "image": "2"}]


def test_server_metadata_and_null_are_owned_by_nobody(store: Store) -> None:
    made = apply(store, "one", {"x": None, "y": 1}, metadata={"generation": 5})
    assert owners(made)["one", "Apply"] == {"f:spec": {"f:y": {}}}
    assert "x" not in made["spec"]


# -- several managers


def test_two_managers_own_their_own_fields(store: Store) -> None:
    apply(store, "one", {"a": 1})
    done = apply(store, "two", {"b": 2})
    assert done["spec"] == {"a": 1, "b": 2}
    assert owners(done) == {
        ("one", "Apply"): {"f:spec": {"f:a": {}}},
        ("two", "Apply"): {"f:spec": {"f:b": {}}},
    }


def test_changing_what_another_applied_conflicts(store: Store) -> None:
    apply(store, "one", {"a": 1})
    before = store.revision
    with pytest.raises(ApiError) as told:
        apply(store, "two", {"a": 2})
    assert (told.value.code, told.value.reason) == (409, "Conflict")
    assert told.value.message == ('Apply failed with 1 conflict: conflict with "one": .spec.a')
    assert told.value.details["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".spec.a"}
    ]
    assert store.revision == before


def test_conflict_with_a_plain_writer_names_its_version(store: Store) -> None:
    store.create(
        POD,
        {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "image": "1"}]}},
        namespace="a",
        options=Options(manager="kubectl-create"),
    )
    with pytest.raises(ApiError) as told:
        apply(store, "two", {"containers": [{"name": "a", "image": "2"}]})
    assert told.value.message == (
        'Apply failed with 1 conflict: conflict with "kubectl-create" using v1: '
        '.spec.containers[name="a"].image'
    )


def test_several_conflicts_are_all_named(store: Store) -> None:
    apply(store, "one", {"a": 1, "b": 1})
    apply(store, "two", {"c": 1})
    with pytest.raises(ApiError) as told:
        apply(store, "three", {"a": 2, "b": 2, "c": 2})
    assert told.value.message == (
        "Apply failed with 3 conflicts: "
        'conflicts with "one":\n- .spec.a\n- .spec.b\nconflicts with "two":\n- .spec.c'
    )


def test_force_takes_over(store: Store) -> None:
    apply(store, "one", {"a": 1, "b": 1})
    done = apply(store, "two", {"a": 2}, force=True)
    assert done["spec"] == {"a": 2, "b": 1}
    assert owners(done) == {
        ("one", "Apply"): {"f:spec": {"f:b": {}}},
        ("two", "Apply"): {"f:spec": {"f:a": {}}},
    }
    gone = apply(store, "one", {"b": 1})
    assert gone["spec"] == {"a": 2, "b": 1}


def test_equal_values_are_shared_and_stay_until_the_last_owner_lets_go(store: Store) -> None:
    apply(store, "one", {"a": 1, "x": 0})
    apply(store, "two", {"a": 1, "y": 0})
    left = apply(store, "one", {"x": 0})
    assert left["spec"] == {"a": 1, "x": 0, "y": 0}
    left = apply(store, "two", {"y": 0})
    assert left["spec"] == {"x": 0, "y": 0}


def test_item_that_another_owns_a_part_of_stays(store: Store) -> None:
    apply(store, "one", {"containers": [{"name": "a", "image": "1"}]})
    apply(store, "two", {"containers": [{"name": "a", "env": [{"name": "E", "value": "x"}]}]})
    done = apply(store, "one", {"containers": []})
    assert done["spec"]["containers"] == [{"name": "a", "env": [{"name": "E", "value": "x"}]}]


def test_item_that_a_plain_writer_changed_keeps_its_name(store: Store) -> None:
    apply(store, "one", {"containers": [{"name": "a", "image": "1", "tty": True}]})
    body = {"spec": {"containers": [{"name": "a", "image": "2", "tty": True}]}}
    merge(store, "hand", body)
    done = apply(store, "one", {"containers": []})
    assert done["spec"]["containers"] == [{"name": "a", "image": "2"}]


def test_items_of_others_keep_their_place(store: Store) -> None:
    apply(store, "one", {"containers": [{"name": "a"}, {"name": "c"}]})
    done = apply(store, "two", {"containers": [{"name": "b"}]})
    assert [item["name"] for item in done["spec"]["containers"]] == ["a", "c", "b"]


def test_scalar_of_another_does_not_become_a_map(store: Store) -> None:
    apply(store, "one", {"a": 1})
    with pytest.raises(ApiError) as told:
        apply(store, "two", {"a": {"b": 1}})
    assert told.value.message.endswith('conflict with "one": .spec.a')


def test_what_nobody_owns_stays_when_its_map_is_no_longer_applied_empty(store: Store) -> None:
    def seed(asked: Admission) -> Obj:
        return {**asked.obj, "spec": {"seeded": 1, **asked.obj.get("spec", {})}}

    store.admission.append(seed)
    assert apply(store, "one", {})["spec"] == {"seeded": 1}
    store.admission.clear()
    assert apply(store, "one", {"a": 1})["spec"] == {"seeded": 1, "a": 1}


def test_atomic_list_is_one_field(store: Store) -> None:
    apply(store, "one", {"args": ["a"]})
    with pytest.raises(ApiError) as told:
        apply(store, "two", {"args": ["a", "b"]})
    assert told.value.details["causes"][0]["field"] == ".spec.args"


def test_set_is_owned_member_by_member(store: Store) -> None:
    apply(store, "one", {"set": ["a"]})
    both = apply(store, "two", {"set": ["b"]})
    assert sorted(both["spec"]["set"]) == ["a", "b"]
    assert apply(store, "one", {"set": []})["spec"]["set"] == ["b"]


def test_list_with_two_keys(store: Store) -> None:
    port = {"containerPort": 53, "protocol": "UDP"}
    other = {"containerPort": 53, "protocol": "TCP", "name": "dns"}
    apply(store, "one", {"containers": [{"name": "a", "ports": [port]}]})
    done = apply(store, "two", {"containers": [{"name": "a", "ports": [other]}]})
    assert len(done["spec"]["containers"][0]["ports"]) == 2


# -- plain writes


def test_plain_update_takes_what_it_changes(store: Store, time: Time) -> None:
    apply(store, "one", {"a": 1, "b": 1})
    time.now += 5
    done = merge(store, "hand", {"spec": {"a": 2}})
    assert owners(done) == {
        ("one", "Apply"): {"f:spec": {"f:b": {}}},
        ("hand", "Update"): {"f:spec": {"f:a": {}}},
    }
    entry = done["metadata"]["managedFields"][1]
    assert (entry["operation"], entry["time"]) == ("Update", "2026-01-01T00:00:05Z")
    with pytest.raises(ApiError) as told:
        apply(store, "one", {"a": 1, "b": 1})
    assert told.value.message.endswith('conflict with "hand" using v1: .spec.a')


def test_plain_update_to_the_same_value_takes_nothing(store: Store) -> None:
    made = apply(store, "one", {"a": 1})
    assert merge(store, "hand", {"spec": {"a": 1}}) is made


def test_field_removed_by_a_plain_update_is_nobodys(store: Store) -> None:
    apply(store, "one", {"a": 1, "b": 1})
    merge(store, "hand", {"spec": {"a": None}})
    assert apply(store, "two", {"a": 3})["spec"] == {"a": 3, "b": 1}


def test_writers_before_the_first_apply_are_remembered(store: Store) -> None:
    store.create(
        POD,
        {"metadata": {"name": "p"}, "spec": {"a": 1, "b": 1, "c": 1}},
        namespace="a",
        options=Options(manager="maker"),
    )
    merge(store, "hand", {"spec": {"b": 2}})
    assert "managedFields" not in merge(store, "maker", {"spec": {"d": 1}})["metadata"]
    done = apply(store, "one", {"z": 1})
    assert owners(done) == {
        ("one", "Apply"): {"f:spec": {"f:z": {}}},
        ("hand", "Update"): {"f:spec": {"f:b": {}}},
        ("maker", "Update"): {"f:spec": {"f:a": {}, "f:c": {}, "f:d": {}}},
    }


def test_status_is_owned_by_who_wrote_it_through_the_subresource(store: Store) -> None:
    apply(store, "one", {"a": 1})
    done = merge(store, "kubelet", {"status": {"phase": "Running"}}, subresource="status")
    entry = next(e for e in done["metadata"]["managedFields"] if e["manager"] == "kubelet")
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {"f:status": {"f:phase": {}}}
    with pytest.raises(ApiError) as told:
        apply(store, "two", {}, subresource="status", status={"phase": "Failed"})
    assert 'conflict with "kubelet" with subresource "status" using v1' in told.value.message


def test_apply_to_the_main_resource_leaves_the_status(store: Store) -> None:
    done = apply(store, "one", {"a": 1}, status={"phase": "Forged"})
    assert done["status"] == {"phase": "Pending"}
    assert owners(done) == {("one", "Apply"): {"f:spec": {"f:a": {}}}}


def test_apply_to_scale(store: Store) -> None:
    apply(store, "one", {"replicas": 1})
    with pytest.raises(ApiError):
        apply(store, "scaler", {"replicas": 3}, subresource="scale")
    scaled = apply(store, "scaler", {"replicas": 3}, subresource="scale", force=True)
    assert (scaled["kind"], scaled["spec"]) == ("Scale", {"replicas": 3})


# -- managedFields written by a client


def test_client_may_hand_fields_over_by_writing_managed_fields(store: Store) -> None:
    made = apply(store, "one", {"a": 1})
    entries = [{**made["metadata"]["managedFields"][0], "manager": "two"}]
    done = store.patch(
        POD,
        "a",
        "p",
        [{"op": "replace", "path": "/metadata/managedFields", "value": entries}],
        content_type="application/json-patch+json",
    )
    assert owners(done) == {("two", "Apply"): {"f:spec": {"f:a": {}}}}
    assert "a" not in apply(store, "two", {}).get("spec", {})


def test_update_that_carries_managed_fields_along_keeps_them(store: Store) -> None:
    made = apply(store, "one", {"a": 1})
    done = store.replace(
        POD, "a", "p", {**made, "spec": {"a": 1, "b": 1}}, options=Options(manager="hand")
    )
    assert owners(done) == {
        ("one", "Apply"): {"f:spec": {"f:a": {}}},
        ("hand", "Update"): {"f:spec": {"f:b": {}}},
    }


# -- refusals


@pytest.mark.parametrize(
    ("code", "change"),
    [
        (400, {"kind": "Other"}),
        (400, {"apiVersion": ""}),
        (400, {"metadata": {"name": "q"}}),
        (400, {"metadata": {"managedFields": [{"manager": "x"}]}}),
    ],
)
def test_configuration_that_is_none(store: Store, code: int, change: Obj) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}, **change}
    with pytest.raises(ApiError) as told:
        store.patch(POD, "a", "p", body, content_type=APPLY, options=Options(manager="m"))
    assert told.value.code == code


def test_manager_is_required(store: Store) -> None:
    with pytest.raises(ApiError) as told:
        apply(store, "", {"a": 1})
    assert told.value.code == 422
    assert "fieldManager: Required value" in told.value.message


def test_stale_version_conflicts(store: Store) -> None:
    made = apply(store, "one", {"a": 1})
    version = made["metadata"]["resourceVersion"]
    apply(store, "one", {"a": 2}, metadata={"resourceVersion": version})
    with pytest.raises(ApiError) as told:
        apply(store, "one", {"a": 3}, metadata={"resourceVersion": version})
    assert told.value.code == 409


def test_dry_run_leaves_object_and_owners(store: Store) -> None:
    apply(store, "one", {"a": 1})
    would = apply(store, "two", {"a": 2}, force=True, dry_run=True)
    assert would["spec"] == {"a": 2}
    assert store.get(POD, "a", "p")["spec"] == {"a": 1}
    with pytest.raises(ApiError):
        apply(store, "two", {"a": 2})


def test_object_made_anew_has_new_owners(store: Store) -> None:
    apply(store, "one", {"a": 1})
    store.delete(POD, "a", "p")
    assert owners(apply(store, "two", {"a": 2})) == {("two", "Apply"): {"f:spec": {"f:a": {}}}}


# -- a projection


def test_projection_is_applied_to_with_ownership(store: Store) -> None:
    assert apply(store, "one", {"a": 1}, resource=VIEW)["spec"] == {"a": 1}
    assert apply(store, "two", {"b": 1}, resource=VIEW)["spec"] == {"a": 1, "b": 1}
    with pytest.raises(ApiError) as told:
        apply(store, "two", {"a": 2, "b": 1}, resource=VIEW)
    assert told.value.message.endswith('conflict with "one": .spec.a')
    assert apply(store, "one", {}, resource=VIEW)["spec"] == {"b": 1}
    assert store.get(CONFIG, "a", "p")["data"] == {"b": 1}


def test_plain_update_of_a_projection_takes_what_it_changes(store: Store) -> None:
    apply(store, "one", {"a": 1}, resource=VIEW)
    options = Options(manager="hand")
    store.patch(VIEW, "a", "p", {"spec": {"a": 2}}, content_type=MERGE, options=options)
    with pytest.raises(ApiError) as told:
        apply(store, "one", {"a": 1}, resource=VIEW)
    assert told.value.message.endswith('conflict with "hand" using view.io/v1: .spec.a')


# -- paths

NAMES = st.sampled_from(["a", "b", "c"])
LEAVES = st.integers(0, 2) | st.sampled_from(["", "x"])
ITEMS = st.lists(
    st.fixed_dictionaries({"name": NAMES}, optional={"v": LEAVES}),
    max_size=3,
    unique_by=lambda item: item["name"],
)
MAPS = st.recursive(
    st.dictionaries(NAMES, LEAVES, min_size=1, max_size=3),
    lambda inner: st.dictionaries(NAMES, inner | LEAVES, min_size=1, max_size=3),
    max_leaves=6,
)
PARTS = {"containers": ITEMS, "m": MAPS, "n": LEAVES}
SPECS = st.fixed_dictionaries({}, optional=PARTS)
FILLED = st.fixed_dictionaries({"z": LEAVES}, optional=PARTS)  # never an empty map


@given(spec=SPECS)
def test_fields_v1_and_paths_are_two_forms_of_one_thing(spec: Obj) -> None:
    paths = fields({"spec": spec}, SHAPE)
    assert set(from_fields_v1(to_fields_v1(paths))) == paths


@given(old=FILLED, new=FILLED)
def test_difference_names_what_came_and_what_went(old: Obj, new: Obj) -> None:
    changed, removed = difference({"spec": old}, {"spec": new}, SHAPE)
    before, after = (fields({"spec": spec}, SHAPE, nodes=True) for spec in (old, new))
    emptied = {("f:spec", "f:containers")}  # a list's own path counts while it is empty
    assert changed <= after
    assert removed <= before
    assert after - before - emptied <= changed
    assert before - after - emptied <= removed


def test_path_as_text_and_removal() -> None:
    path = ("f:spec", "f:containers", 'k:{"name":"a"}', "f:image")
    assert shown(path) == '.spec.containers[name="a"].image'
    assert shown(("f:spec", 'v:"x"')) == '.spec[="x"]'
    tree = {"spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}]}, "n": 1}
    assert without(tree, path) == {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}, "n": 1}
    assert without(tree, path[:3]) == {"spec": {"containers": [{"name": "b"}]}, "n": 1}
    assert tree["spec"]["containers"][0] == {"name": "a", "image": "1"}


@settings(max_examples=60, deadline=None)
@given(first=SPECS, second=SPECS)
def test_sole_manager_gets_exactly_what_it_applies(first: Obj, second: Obj) -> None:
    store = new_store(Time())
    apply(store, "one", first)
    done = apply(store, "one", second)
    assert fields({"spec": done["spec"]}, SHAPE) == fields({"spec": second}, SHAPE)
    assert difference({"spec": second}, {"spec": done["spec"]}, SHAPE) == (set(), set())
    assert apply(store, "one", second) is done


@settings(max_examples=60, deadline=None)
@given(theirs=FILLED, ours=FILLED, later=FILLED)
def test_nobody_loses_a_field_without_force(theirs: Obj, ours: Obj, later: Obj) -> None:
    store = new_store(Time())
    apply(store, "they", theirs)
    for config in (ours, later):
        try:
            done = apply(store, "we", config)
        except ApiError as refusal:
            assert refusal.code == 409
            done = store.get(POD, "a", "p")
        changed, removed = difference({"spec": theirs}, {"spec": done["spec"]}, SHAPE)
        lost = (changed | removed) & fields({"spec": theirs}, SHAPE)
        assert lost <= {("f:spec", "f:containers")}
