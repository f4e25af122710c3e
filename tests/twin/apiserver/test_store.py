from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Obj, Projection, Registry, Resource
from harness.twin.apiserver.store import (
    Admission,
    Change,
    Identities,
    Options,
    Revisions,
    Store,
)

EPOCH = 1767225600.0
MERGE = "application/merge-patch+json"
NAMESPACE = Resource("", "v1", "Namespace", "namespaces", False, status=True, builtin=True)
POD = Resource(
    "",
    "v1",
    "Pod",
    "pods",
    status=True,
    builtin=True,
    field_selectors=("spec.nodeName", "status.phase"),
)
NODE = Resource("", "v1", "Node", "nodes", namespaced=False, status=True, builtin=True)
CONFIG = Resource("", "v1", "ConfigMap", "configmaps", builtin=True, generation=False)
THING = Resource("lab.io", "v1", "Thing", "things", status=True, scale=True)


def app_shown(stored: Obj) -> Obj | None:
    if stored["metadata"].get("labels", {}).get("shows") != "app":
        return None
    metadata = {k: v for k, v in stored["metadata"].items() if k != "labels"}
    metadata["name"] = metadata["name"].removeprefix("app-")
    return {
        "metadata": metadata,
        "spec": stored["spec"].get("values", {}),
        "status": {"ready": stored.get("status", {}).get("replicas", 0)},
    }


def app_kept(shown: Obj, stored: Obj | None) -> Obj:
    before = stored or {"spec": {}, "metadata": {}}
    labels = {**before["metadata"].get("labels", {}), "shows": "app"}
    return {
        **before,
        "apiVersion": "lab.io/v1",
        "kind": "Thing",
        "metadata": {**shown["metadata"], "labels": labels},
        "spec": {**before["spec"], "values": shown.get("spec", {})},
    }


APP = Resource(
    "apps.lab.io",
    "v1",
    "App",
    "apps",
    status=True,
    projection=Projection(("lab.io/v1", "Thing"), app_shown, app_kept, lambda name: f"app-{name}"),
)


class Time:
    def __init__(self) -> None:
        self.now = EPOCH

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


def new_store(time: Callable[[], float] = lambda: EPOCH, **options: Any) -> Store:
    registry = Registry((NAMESPACE, POD, NODE, CONFIG, THING, APP))
    store = Store(
        "lab", registry, now=time, revisions=Revisions(), identities=Identities(7), **options
    )
    store.create(NAMESPACE, {"metadata": {"name": "a"}})
    return store


@pytest.fixture
def store(time: Time) -> Store:
    return new_store(time)


def thing(name: str = "x", **fields: Any) -> Obj:
    head = {"apiVersion": "lab.io/v1", "kind": "Thing", "metadata": {"name": name}}
    return {**head, "spec": {"replicas": 1}, **fields}


def pod(name: str = "p", node: str = "", **metadata: Any) -> Obj:
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": name, "namespace": "a", **metadata}, "spec": spec}


@contextmanager
def refused(code: int, reason: str = "") -> Iterator[pytest.ExceptionInfo[ApiError]]:
    with pytest.raises(ApiError) as told:
        yield told
    assert (told.value.code, told.value.reason) == (code, reason or told.value.reason)


# -- create


def test_created_object_carries_what_the_server_gives(store: Store) -> None:
    made = store.create(THING, thing(), namespace="a")
    metadata = made["metadata"]
    assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert metadata["generation"] == 1
    assert metadata["resourceVersion"] == str(store.revision)
    assert len(metadata["uid"]) == 36
    assert metadata["namespace"] == "a"
    assert store.get(THING, "a", "x") is made


def test_created_object_is_independent_of_what_was_sent(store: Store) -> None:
    sent = thing()
    made = store.create(THING, sent, namespace="a")
    sent["spec"]["replicas"] = 99
    assert made["spec"]["replicas"] == 1


def test_status_is_not_taken_on_create_of_a_kind_with_the_subresource(store: Store) -> None:
    made = store.create(THING, thing(status={"phase": "Forged"}), namespace="a")
    assert "status" not in made
    config = {"metadata": {"name": "c", "namespace": "a"}, "status": {"x": 1}}
    assert store.create(CONFIG, config)["status"] == {"x": 1}


def test_generation_is_absent_where_the_kind_has_none(store: Store) -> None:
    made = store.create(CONFIG, {"metadata": {"name": "c", "namespace": "a"}})
    assert "generation" not in made["metadata"]


def test_generate_name(store: Store) -> None:
    sent = {**thing(), "metadata": {"generateName": "worker-"}}
    names = {store.create(THING, sent, namespace="a")["metadata"]["name"] for _ in range(20)}
    assert len(names) == 20
    for name in names:
        assert name.startswith("worker-")
        assert len(name) == len("worker-") + 5


def test_same_seed_gives_the_same_objects() -> None:
    def made() -> Obj:
        return new_store().create(
            THING, {**thing(), "metadata": {"generateName": "w-"}}, namespace="a"
        )

    assert made() == made()


def test_create_again_is_already_exists(store: Store) -> None:
    store.create(THING, thing(), namespace="a")
    with refused(409, "AlreadyExists") as told:
        store.create(THING, thing(), namespace="a")
    assert told.value.message == 'things.lab.io "x" already exists'


def test_namespace_must_exist(store: Store) -> None:
    with refused(404) as told:
        store.create(THING, thing(), namespace="nowhere")
    assert told.value.message == 'namespaces "nowhere" not found'


def test_namespace_of_object_and_request_must_agree(store: Store) -> None:
    store.create(NAMESPACE, {"metadata": {"name": "b"}})
    with refused(400):
        store.create(POD, pod(), namespace="b")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("Capital", "metadata.name"),
        ("with_underscore", "metadata.name"),
        ("-leading", "metadata.name"),
        ("x" * 254, "metadata.name"),
        ("", "metadata.name"),
    ],
)
def test_bad_names_are_invalid(store: Store, name: str, field: str) -> None:
    with refused(422, "Invalid") as told:
        store.create(POD, pod(name))
    assert told.value.details["causes"][0]["field"] == field
    assert told.value.message.startswith(f'Pod "{name}" is invalid: metadata.name: ')


def test_name_of_85_characters_is_fine_but_not_as_a_label(store: Store) -> None:
    name = "talos-worker-" + "0" * 64 + "-v1.13.6"
    assert store.create(POD, pod(name))["metadata"]["name"] == name
    with refused(422) as told:
        store.create(POD, pod("q", labels={"image": name}))
    assert "must be no more than 63 characters" in told.value.message


def test_label_that_is_no_string_cannot_be_decoded(store: Store) -> None:
    with refused(400) as told:
        store.create(POD, pod(labels={"a": 1}))
    assert "cannot unmarshal number" in told.value.message


def test_custom_object_must_say_its_kind(store: Store) -> None:
    with refused(400):
        store.create(THING, {"metadata": {"name": "x"}}, namespace="a")
    with refused(400):
        store.create(THING, {**thing(), "kind": "Other"}, namespace="a")


def test_dry_run_stores_nothing(store: Store) -> None:
    before = store.revision
    made = store.create(THING, thing(), namespace="a", options=Options(dry_run=True))
    assert made["metadata"]["name"] == "x"
    assert store.find("lab.io/v1", "Thing", "a", "x") is None
    assert store.revision == before


def test_what_is_no_json_is_an_error_of_the_caller(store: Store) -> None:
    with pytest.raises(TypeError, match="not set"):
        store.create(THING, thing(spec={"ports": {1, 2}}), namespace="a")


def test_kind_that_is_not_served(store: Store) -> None:
    stranger = Resource("other.io", "v1", "Other", "others")
    with refused(404):
        store.get(stranger, "a", "x")
    with refused(404):
        store.list(stranger)


# -- update


def test_replace_with_a_stale_version_conflicts(store: Store) -> None:
    first = store.create(THING, thing(), namespace="a")
    store.patch(THING, "a", "x", {"spec": {"replicas": 2}}, content_type=MERGE)
    with refused(409, "Conflict") as told:
        store.replace(THING, "a", "x", {**first, "spec": {"replicas": 3}})
    assert told.value.message.startswith(
        'Operation cannot be fulfilled on things.lab.io "x": the object has been modified'
    )


def test_replace_of_a_custom_object_needs_a_version_and_a_builtin_does_not(store: Store) -> None:
    store.create(THING, thing(), namespace="a")
    with refused(422) as told:
        store.replace(THING, "a", "x", thing())
    assert "must be specified for an update" in told.value.message
    store.create(CONFIG, {"metadata": {"name": "c", "namespace": "a"}, "data": {"k": "1"}})
    changed = store.replace(CONFIG, "a", "c", {"metadata": {"name": "c"}, "data": {"k": "2"}})
    assert changed["data"] == {"k": "2"}


def test_replace_drops_what_is_left_out_but_not_the_identity(store: Store) -> None:
    old = store.create(THING, thing(metadata={"name": "x", "labels": {"l": "1"}}), namespace="a")
    version = old["metadata"]["resourceVersion"]
    new = store.replace(
        THING, "a", "x", {**thing(), "metadata": {"name": "x", "resourceVersion": version}}
    )
    assert "labels" not in new["metadata"]
    for field in ("uid", "creationTimestamp", "namespace"):
        assert new["metadata"][field] == old["metadata"][field]


def test_halves_of_status(store: Store) -> None:
    store.create(THING, thing(), namespace="a")
    both = {"spec": {"replicas": 5}, "status": {"phase": "Up"}}
    main = store.patch(THING, "a", "x", both, content_type=MERGE)
    assert main["spec"]["replicas"] == 5
    assert "status" not in main
    both = {"spec": {"replicas": 7}, "status": {"phase": "Up"}, "metadata": {"labels": {"a": "b"}}}
    half = store.patch(THING, "a", "x", both, content_type=MERGE, subresource="status")
    assert half["spec"]["replicas"] == 5
    assert half["status"] == {"phase": "Up"}
    assert "labels" not in half["metadata"]


def test_generation_counts_the_spec_only(store: Store) -> None:
    store.create(THING, thing(), namespace="a")

    def generation(body: Obj, subresource: str = "") -> int:
        made = store.patch(THING, "a", "x", body, content_type=MERGE, subresource=subresource)
        return int(made["metadata"]["generation"])

    assert generation({"metadata": {"labels": {"a": "b"}}}) == 1
    assert generation({"status": {"n": 1}}, "status") == 1
    assert generation({"spec": {"replicas": 2}}) == 2
    assert generation({"spec": {"replicas": None}}) == 3
    assert generation({"extra": True}) == 4
    assert generation({"extra": None}) == 5


def test_write_that_changes_nothing_makes_no_revision(store: Store) -> None:
    sent = thing(spec={"replicas": 1, "text": "several words", "size": 123456, "list": [1, {}]})
    old = store.create(THING, sent, namespace="a")
    same = json.loads(json.dumps(old))
    before = store.revision
    assert store.patch(THING, "a", "x", {"spec": {"replicas": 1}}, content_type=MERGE) is old
    assert store.replace(THING, "a", "x", same) is old
    assert store.edit("lab.io/v1", "Thing", "a", "x", lambda o: None, manager="m") is old
    assert store.apply(same, manager="m") is old
    assert store.revision == before


def test_true_and_one_differ(store: Store) -> None:
    store.create(THING, thing(spec={"on": 1}), namespace="a")
    new = store.patch(THING, "a", "x", {"spec": {"on": True}}, content_type=MERGE)
    assert new["spec"]["on"] is True


def test_patch_conflicts_only_where_it_names_a_version(store: Store) -> None:
    old = store.create(THING, thing(), namespace="a")
    store.patch(THING, "a", "x", {"spec": {"n": 1}}, content_type=MERGE)
    store.patch(THING, "a", "x", {"spec": {"n": 2}}, content_type=MERGE)
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}}
    with refused(409):
        store.patch(THING, "a", "x", stale, content_type=MERGE)


@pytest.mark.parametrize("field", ["uid", "creationTimestamp", "generation", "deletionTimestamp"])
def test_server_metadata_cannot_be_written(store: Store, field: str) -> None:
    old = store.create(THING, thing(), namespace="a")
    value: Any = 77 if field == "generation" else "2020-01-01T00:00:00Z"
    body = {"metadata": {field: value, "labels": {"n": "1"}}}
    if field == "uid":
        with refused(409):
            store.patch(THING, "a", "x", body, content_type=MERGE)
    else:
        new = store.patch(THING, "a", "x", body, content_type=MERGE)
        assert new["metadata"].get(field) == old["metadata"].get(field)


def test_name_cannot_be_changed(store: Store) -> None:
    store.create(THING, thing(), namespace="a")
    with refused(400):
        store.patch(THING, "a", "x", {"metadata": {"name": "y"}}, content_type=MERGE)


def test_objects_handed_out_before_are_not_changed(store: Store) -> None:
    old = store.create(THING, thing(spec={"deep": {"list": [{"a": 1}]}}), namespace="a")
    text = json.dumps(old)
    store.edit(
        "lab.io/v1",
        "Thing",
        "a",
        "x",
        lambda o: o["spec"]["deep"]["list"][0].update(a=2),
        manager="m",
    )
    store.patch(THING, "a", "x", {"spec": {"deep": {"more": 1}}}, content_type=MERGE)
    assert json.dumps(old) == text


def test_edit_does_not_keep_what_the_caller_still_holds(store: Store) -> None:
    store.create(THING, thing(), namespace="a")
    held: Obj = {"phase": "Up"}
    store.edit(
        "lab.io/v1",
        "Thing",
        "a",
        "x",
        lambda o: o.update(status=held),
        manager="m",
        subresource="status",
    )
    held["phase"] = "Down"
    assert store.get(THING, "a", "x")["status"] == {"phase": "Up"}


def test_apply_lays_labels_over_and_keeps_finalizers(store: Store) -> None:
    store.create(
        THING,
        thing(metadata={"name": "x", "labels": {"mine": "1"}, "finalizers": ["hold.io/it"]}),
        namespace="a",
    )
    desired = thing(metadata={"name": "x", "namespace": "a", "labels": {"yours": "2"}})
    new = store.apply({**desired, "spec": {"other": 1}}, manager="m")
    assert new["metadata"]["labels"] == {"mine": "1", "yours": "2"}
    assert new["metadata"]["finalizers"] == ["hold.io/it"]
    assert new["spec"] == {"other": 1}


def test_admission_changes_refuses_and_sees_both_states(store: Store) -> None:
    seen: list[tuple[str, str]] = []

    def hook(asked: Admission) -> Obj:
        seen.append((asked.verb, asked.subresource))
        if asked.obj.get("spec", {}).get("replicas") == 13:
            raise ApiError(403, "unlucky")
        if asked.verb == "CREATE":
            return {**asked.obj, "spec": {**asked.obj["spec"], "seeded": True}}
        return asked.obj

    store.admission.append(hook)
    assert store.create(THING, thing(), namespace="a")["spec"]["seeded"] is True
    before = store.revision
    with refused(403):
        store.patch(THING, "a", "x", {"spec": {"replicas": 13}}, content_type=MERGE)
    assert store.revision == before
    store.patch(THING, "a", "x", {"status": {"n": 1}}, content_type=MERGE, subresource="status")
    store.delete(THING, "a", "x")
    assert seen == [("CREATE", ""), ("UPDATE", ""), ("UPDATE", "status"), ("DELETE", "")]


def test_scale(store: Store) -> None:
    store.create(THING, thing(), namespace="a")
    shown = store.scale(THING, "a", "x")
    assert (shown["apiVersion"], shown["kind"]) == ("autoscaling/v1", "Scale")
    assert shown["spec"] == {"replicas": 1}
    body = {"spec": {"replicas": 4}}
    patched = store.patch(THING, "a", "x", body, content_type=MERGE, subresource="scale")
    assert patched["spec"] == {"replicas": 4}
    assert store.get(THING, "a", "x")["spec"]["replicas"] == 4
    with refused(409):
        store.replace(THING, "a", "x", {**shown, "spec": {"replicas": 9}}, subresource="scale")
    replaced = store.replace(
        THING, "a", "x", {**patched, "spec": {"replicas": 9}}, subresource="scale"
    )
    assert replaced["spec"] == {"replicas": 9}
    with refused(422):
        store.patch(
            THING, "a", "x", {"spec": {"replicas": -1}}, content_type=MERGE, subresource="scale"
        )
    with refused(404):
        store.scale(POD, "a", "x")


# -- delete


def test_delete_is_gone_at_once_without_finalizers(store: Store) -> None:
    made = store.create(THING, thing(), namespace="a")
    last, gone = store.delete(THING, "a", "x")
    assert gone
    assert int(last["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    with refused(404) as told:
        store.get(THING, "a", "x")
    assert told.value.message == 'things.lab.io "x" not found'


def test_finalizers_hold_an_object(store: Store, time: Time) -> None:
    store.create(THING, thing(metadata={"name": "x", "finalizers": ["f.io/a"]}), namespace="a")
    time.now += 60
    held, gone = store.delete(THING, "a", "x")
    assert not gone
    assert held["metadata"]["deletionTimestamp"] == "2026-01-01T00:01:00Z"
    again, gone = store.delete(THING, "a", "x")
    assert (again, gone) == (held, False)
    with refused(422):
        store.patch(
            THING, "a", "x", {"metadata": {"finalizers": ["f.io/a", "f.io/b"]}}, content_type=MERGE
        )
    with refused(409) as told:
        store.create(THING, thing(), namespace="a")
    assert told.value.message.startswith("object is being deleted: ")
    changes: list[Change] = []
    store.subscribe(changes.append)
    store.patch(THING, "a", "x", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert [change.type for change in changes] == ["DELETED"]
    assert store.find("lab.io/v1", "Thing", "a", "x") is None


def test_preconditions_of_delete(store: Store) -> None:
    made = store.create(THING, thing(), namespace="a")
    with refused(409):
        store.delete(THING, "a", "x", options=Options(precondition_uid="another"))
    with refused(409):
        store.delete(THING, "a", "x", options=Options(precondition_version="1"))
    options = Options(
        precondition_uid=made["metadata"]["uid"],
        precondition_version=made["metadata"]["resourceVersion"],
    )
    assert store.delete(THING, "a", "x", options=options)[1]


def test_dry_run_of_delete(store: Store) -> None:
    store.create(THING, thing(), namespace="a")
    store.delete(THING, "a", "x", options=Options(dry_run=True))
    assert store.find("lab.io/v1", "Thing", "a", "x") is not None


def test_pod_on_a_node_gets_its_grace(store: Store) -> None:
    store.create(POD, pod(node="n1"))
    held, gone = store.delete(POD, "a", "p")
    assert not gone
    assert held["metadata"]["deletionGracePeriodSeconds"] == 30
    assert held["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    store.patch(POD, "a", "p", {"status": {"n": 1}}, content_type=MERGE, subresource="status")
    assert store.find("v1", "Pod", "a", "p") is not None
    shorter, _ = store.delete(POD, "a", "p", options=Options(grace=5))
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer, _ = store.delete(POD, "a", "p", options=Options(grace=20))
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    assert store.delete(POD, "a", "p", options=Options(grace=0))[1]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_without_a_node_or_one_that_ended_goes_at_once(store: Store, phase: str) -> None:
    store.create(POD, pod())
    assert store.delete(POD, "a", "p")[1]
    store.create(POD, pod(node="n1"))
    body = {"status": {"phase": phase}}
    store.patch(POD, "a", "p", body, content_type=MERGE, subresource="status")
    assert store.delete(POD, "a", "p")[1]


def test_delete_collection_takes_what_is_selected(store: Store) -> None:
    for name, label in (("x", "1"), ("y", "2"), ("z", "1")):
        store.create(THING, thing(metadata={"name": name, "labels": {"l": label}}), namespace="a")
    gone = store.delete_collection(THING, "a", labels="l=1")
    assert [obj["metadata"]["name"] for obj in gone] == ["x", "z"]
    assert [obj["metadata"]["name"] for obj in store.all("lab.io/v1", "Thing")] == ["y"]


# -- namespaces


def test_namespace_is_active_and_labelled(store: Store) -> None:
    found = store.get(NAMESPACE, "", "a")
    assert found["status"]["phase"] == "Active"
    assert found["metadata"]["labels"]["kubernetes.io/metadata.name"] == "a"


def test_deleting_a_namespace_empties_it(store: Store) -> None:
    store.create(NAMESPACE, {"metadata": {"name": "ab"}})
    store.create(THING, thing(), namespace="a")
    store.create(THING, thing(), namespace="ab")
    store.create(POD, pod())
    assert store.delete(NAMESPACE, "", "a")[0]["status"]["phase"] == "Terminating"
    assert store.find("v1", "Namespace", "", "a") is None
    assert [obj["metadata"]["namespace"] for obj in store.all("lab.io/v1", "Thing")] == ["ab"]
    assert store.all("v1", "Pod") == []


def test_namespace_waits_for_what_is_held_and_takes_nothing_new(store: Store) -> None:
    store.create(THING, thing(metadata={"name": "x", "finalizers": ["f.io/a"]}), namespace="a")
    store.create(POD, pod(node="n"))
    held, gone = store.delete(NAMESPACE, "", "a")
    assert not gone
    assert held["status"]["phase"] == "Terminating"
    with refused(403, "Forbidden") as told:
        store.create(THING, thing("y"), namespace="a")
    assert told.value.details["causes"][0]["reason"] == "NamespaceTerminating"
    store.patch(THING, "a", "x", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert store.find("v1", "Namespace", "", "a") is not None
    store.delete(POD, "a", "p", options=Options(grace=0))
    assert store.find("v1", "Namespace", "", "a") is None


def test_system_namespaces_stay(store: Store) -> None:
    store.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
    with refused(403):
        store.delete(NAMESPACE, "", "kube-system")


# -- lists


def test_list_selects_and_orders(store: Store) -> None:
    store.create(NAMESPACE, {"metadata": {"name": "b"}})
    for space, name in (("b", "one"), ("a", "two"), ("a", "one")):
        store.create(
            THING, thing(metadata={"name": name, "labels": {"of": space}}), namespace=space
        )
    everything = store.list(THING)
    assert [(o["metadata"]["namespace"], o["metadata"]["name"]) for o in everything.items] == [
        ("a", "one"),
        ("a", "two"),
        ("b", "one"),
    ]
    assert everything.revision == store.revision
    assert len(store.list(THING, "b").items) == 1
    assert len(store.list(THING, labels="of=a").items) == 2
    assert len(store.list(THING, fields="metadata.name=one").items) == 2


def test_pages_show_one_revision(store: Store) -> None:
    for i in range(6):
        store.create(THING, thing(f"x{i}"), namespace="a")
    first = store.list(THING, "a", limit=2)
    assert first.remaining == 4
    store.delete(THING, "a", "x4")
    for replicas in (8, 9):
        store.patch(THING, "a", "x5", {"spec": {"replicas": replicas}}, content_type=MERGE)
    store.create(THING, thing("x55"), namespace="a")
    rest = store.list(THING, "a", limit=10, continue_token=first.continue_token)
    assert [obj["metadata"]["name"] for obj in rest.items] == ["x2", "x3", "x4", "x5"]
    assert rest.items[-1]["spec"]["replicas"] == 1
    assert rest.revision == first.revision
    assert rest.continue_token == ""


def test_page_of_a_selection_does_not_count_what_is_left(store: Store) -> None:
    for i in range(3):
        store.create(THING, thing(metadata={"name": f"x{i}", "labels": {"a": "b"}}), namespace="a")
    page = store.list(THING, labels="a=b", limit=1)
    assert page.continue_token
    assert page.remaining is None


def test_token_expires_with_the_history_and_garbage_is_refused() -> None:
    store = new_store(history=4)
    for i in range(3):
        store.create(THING, thing(f"x{i}"), namespace="a")
    token = store.list(THING, limit=1).continue_token
    for i in range(6):
        store.patch(THING, "a", "x0", {"spec": {"replicas": 10 + i}}, content_type=MERGE)
    with refused(410, "Expired"):
        store.list(THING, limit=1, continue_token=token)
    for garbage in ("x", "!!!", "bm9uc2Vuc2U", "é"):
        with refused(400):
            store.list(THING, continue_token=garbage)


# -- following


def test_listeners_hear_in_commit_order_even_when_one_writes(store: Store) -> None:
    heard: list[tuple[str, str]] = []

    def controller(change: Change) -> None:
        if change.type == "ADDED" and change.resource is THING:
            store.create(POD, pod(change.obj["metadata"]["name"]))

    store.subscribe(controller)
    stop = store.subscribe(lambda c: heard.append((c.type, c.resource.kind)))
    store.create(THING, thing(), namespace="a")
    assert heard == [("ADDED", "Thing"), ("ADDED", "Pod")]
    stop()
    store.create(THING, thing("y"), namespace="a")
    assert len(heard) == 2


def test_change_carries_before_and_after(store: Store) -> None:
    changes: list[Change] = []
    store.subscribe(changes.append)
    made = store.create(THING, thing(), namespace="a")
    new = store.patch(THING, "a", "x", {"spec": {"replicas": 2}}, content_type=MERGE)
    store.delete(THING, "a", "x")
    assert [(c.type, c.obj, c.old) for c in changes[:2]] == [
        ("ADDED", made, None),
        ("MODIFIED", new, made),
    ]
    assert changes[2].old is new
    assert int(changes[2].obj["metadata"]["resourceVersion"]) == changes[2].revision


def test_history_is_bounded_and_says_so() -> None:
    store = new_store(history=4)
    store.create(THING, thing(), namespace="a")
    start = store.revision
    for i in range(4):
        store.patch(THING, "a", "x", {"spec": {"replicas": 10 + i}}, content_type=MERGE)
    assert len(store.since(THING, start)) == 4
    with refused(410, "Expired"):
        store.since(THING, start - 1)
    with refused(504):
        store.since(THING, store.revision + 1)


def test_revisions_can_be_shared() -> None:
    revisions, registry = Revisions(), Registry((NODE,))
    one, two = (
        Store(n, registry, now=lambda: EPOCH, revisions=revisions, identities=Identities(i))
        for i, n in enumerate("ab")
    )
    first = one.create(NODE, {"metadata": {"name": "n"}})
    second = two.create(NODE, {"metadata": {"name": "n"}})
    assert [o["metadata"]["resourceVersion"] for o in (first, second)] == ["1", "2"]
    assert first["metadata"]["uid"] != second["metadata"]["uid"]
    assert one.since(NODE, 1) == []


def test_encoded_is_the_object_and_is_cached(store: Store) -> None:
    made = store.create(THING, thing(spec={"text": "ü"}), namespace="a")
    assert json.loads(store.encoded(made)) == made
    assert store.encoded(made) is store.encoded(made)
    new = store.patch(THING, "a", "x", {"spec": {"text": "o"}}, content_type=MERGE)
    assert json.loads(store.encoded(new)) == new


WRITES = st.lists(
    st.tuples(
        st.sampled_from(["create", "patch", "status", "delete", "hold", "release"]),
        st.sampled_from(["x", "y", "z"]),
        st.integers(0, 3),
    ),
    max_size=40,
)


def do_write(store: Store, what: str, name: str, number: int) -> None:
    def patch(body: Obj, subresource: str = "") -> None:
        store.patch(THING, "a", name, body, content_type=MERGE, subresource=subresource)

    try:
        if what == "create":
            store.create(THING, thing(name, spec={"n": number}), namespace="a")
        elif what == "patch":
            patch({"spec": {"n": number}})
        elif what == "status":
            patch({"status": {"n": number}}, "status")
        elif what == "delete":
            store.delete(THING, "a", name)
        else:
            patch({"metadata": {"finalizers": ["f.io/a"] if what == "hold" else None}})
    except ApiError as refusal:
        assert refusal.code in (404, 409, 422)


@settings(max_examples=60, deadline=None)
@given(before=WRITES, after=WRITES)
def test_replay_from_any_revision_gives_the_listing(before: list[Any], after: list[Any]) -> None:
    store = new_store()
    for write in before:
        do_write(store, *write)
    start = store.list(THING, "a")
    copy = {obj["metadata"]["name"]: obj for obj in start.items}
    for write in after:
        do_write(store, *write)
    last = start.revision
    for change in store.since(THING, start.revision):
        name = change.obj["metadata"]["name"]
        assert change.revision > last
        assert change.obj["metadata"]["resourceVersion"] == str(change.revision)
        assert copy.get(name) == change.old
        assert (change.type == "ADDED") == (name not in copy)
        last = change.revision
        if change.type == "DELETED":
            del copy[name]
        else:
            copy[name] = change.obj
    assert sorted(copy.items()) == [
        (o["metadata"]["name"], o) for o in store.list(THING, "a").items
    ]


@settings(max_examples=30, deadline=None)
@given(before=WRITES, after=WRITES)
def test_second_page_is_what_the_first_call_would_have_shown(
    before: list[Any], after: list[Any]
) -> None:
    store = new_store()
    for write in before:
        do_write(store, *write)
    whole = store.list(THING, "a")
    first = store.list(THING, "a", limit=1)
    for write in after:
        do_write(store, *write)
    seen = list(first.items)
    token = first.continue_token
    while token:
        page = store.list(THING, "a", limit=1, continue_token=token)
        seen += page.items
        token = page.continue_token
    assert seen == whole.items


# -- projections


def app(name: str = "web", **spec: Any) -> Obj:
    return {
        "apiVersion": "apps.lab.io/v1",
        "kind": "App",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_projection_shows_and_keeps(store: Store) -> None:
    made = store.create(APP, app(size=1), namespace="a")
    stored = store.get(THING, "a", "app-web")
    assert (made["kind"], made["metadata"]["name"], made["spec"]) == ("App", "web", {"size": 1})
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        assert made["metadata"][field] == stored["metadata"][field]
    new = store.patch(APP, "a", "web", {"spec": {"size": 2}}, content_type=MERGE)
    assert new["spec"] == {"size": 2}
    assert store.get(THING, "a", "app-web")["spec"]["values"] == {"size": 2}
    assert store.list(APP, "a").items == [new]
    with refused(409):
        store.replace(APP, "a", "web", {**made, "spec": {"size": 3}})
    assert store.replace(APP, "a", "web", {**new, "spec": {"size": 3}})["spec"] == {"size": 3}
    last, gone = store.delete(APP, "a", "web")
    assert (gone, last["kind"]) == (True, "App")
    assert store.all("lab.io/v1", "Thing") == []


def test_projection_follows_the_stored_kind(store: Store) -> None:
    store.create(THING, thing("app-db"), namespace="a")
    assert store.list(APP).items == []
    start = store.revision
    heard: list[Change] = []
    store.subscribe(heard.append)
    label = {"metadata": {"labels": {"shows": "app"}}}
    store.patch(THING, "a", "app-db", label, content_type=MERGE)
    status = {"status": {"replicas": 3}}
    store.patch(THING, "a", "app-db", status, content_type=MERGE, subresource="status")
    assert store.get(APP, "a", "db")["status"] == {"ready": 3}
    store.patch(THING, "a", "app-db", {"metadata": {"labels": None}}, content_type=MERGE)
    assert [change.type for change in store.since(APP, start)] == ["ADDED", "MODIFIED", "DELETED"]
    assert [c.type for c in heard if c.resource is APP] == ["ADDED", "MODIFIED", "DELETED"]
    with refused(404):
        store.get(APP, "a", "db")


def test_projection_that_is_served_later_shows_what_is_there(store: Store) -> None:
    registry = Registry((NAMESPACE, THING))
    late = Store(
        "late", registry, now=lambda: EPOCH, revisions=Revisions(), identities=Identities(1)
    )
    late.create(NAMESPACE, {"metadata": {"name": "a"}})
    labels = {"shows": "app"}
    late.create(THING, thing(metadata={"name": "app-x", "labels": labels}), namespace="a")
    registry.add(APP)
    assert [obj["metadata"]["name"] for obj in late.list(APP).items] == ["x"]


def test_projection_is_read_as_it_is_now() -> None:
    weather = {"now": "fair"}
    projection = Projection(
        ("v1", "ConfigMap"),
        lambda stored: {"metadata": dict(stored["metadata"]), "status": dict(weather)},
        lambda shown, stored: stored or {},
        lambda name: name,
    )
    view = Resource("w.io", "v1", "Weather", "weathers", projection=projection)
    registry = Registry((NAMESPACE, CONFIG, view))
    store = Store("w", registry, now=lambda: EPOCH, revisions=Revisions(), identities=Identities(1))
    store.create(NAMESPACE, {"metadata": {"name": "a"}})
    store.create(CONFIG, {"metadata": {"name": "c", "namespace": "a"}})
    assert store.get(view, "a", "c")["status"] == {"now": "fair"}
    weather["now"] = "foul"
    assert store.get(view, "a", "c")["status"] == {"now": "foul"}
    weather["now"] = "fair"
    assert store.list(view).items[0]["status"] == {"now": "fair"}


def test_projection_write_that_changes_nothing(store: Store) -> None:
    store.create(APP, app(size=1), namespace="a")
    before = store.revision
    store.patch(APP, "a", "web", {"spec": {"size": 1}}, content_type=MERGE)
    desired = app(size=1)
    desired["metadata"]["namespace"] = "a"
    store.apply(desired, manager="m")
    assert store.revision == before


def test_projection_with_finalizer_stays(store: Store) -> None:
    store.create(APP, app(), namespace="a")
    body = {"metadata": {"finalizers": ["f.io/a"]}}
    store.patch(THING, "a", "app-web", body, content_type=MERGE)
    held, gone = store.delete(APP, "a", "web")
    assert not gone
    assert held["metadata"]["deletionTimestamp"]


def test_rejected_projection_write_stores_nothing(store: Store) -> None:
    def hook(asked: Admission) -> Obj:
        if asked.resource.kind == "App" and asked.obj["spec"].get("bad"):
            raise ApiError(403, "no")
        return asked.obj

    store.admission.append(hook)
    with refused(403):
        store.create(APP, app(bad=True), namespace="a")
    assert store.all("lab.io/v1", "Thing") == []
