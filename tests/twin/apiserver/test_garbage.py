from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Obj, Registry, Resource
from harness.twin.apiserver.store import (
    Admission,
    Change,
    Identities,
    Options,
    Revisions,
    Store,
)

MERGE = "application/merge-patch+json"
NAMESPACE = Resource("", "v1", "Namespace", "namespaces", False, status=True, builtin=True)
NODE = Resource("", "v1", "Node", "nodes", namespaced=False, builtin=True)
SET = Resource("apps", "v1", "ReplicaSet", "replicasets", builtin=True)
POD = Resource("", "v1", "Pod", "pods", builtin=True)


@pytest.fixture
def store() -> Store:
    return new_store()


def new_store() -> Store:
    made = Store(
        "lab",
        Registry((NAMESPACE, NODE, SET, POD)),
        now=lambda: 1767225600.0,
        revisions=Revisions(),
        identities=Identities(5),
    )
    for name in ("a", "b"):
        made.create(NAMESPACE, {"metadata": {"name": name}})
    return made


def owned(*owners: Obj, block: bool = False) -> list[Obj]:
    return [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]


def make(store: Store, resource: Resource, name: str, namespace: str = "a", **metadata: Any) -> Obj:
    return store.create(resource, {"metadata": {"name": name, **metadata}}, namespace=namespace)


def there(store: Store) -> list[str]:
    found = store.all("apps/v1", "ReplicaSet") + store.all("v1", "Pod")
    return [obj["metadata"]["name"] for obj in found]


def test_dependents_go_with_their_owner_down_the_chain(store: Store) -> None:
    top = make(store, SET, "top")
    middle = make(store, SET, "middle", ownerReferences=owned(top))
    make(store, POD, "leaf", ownerReferences=owned(middle))
    make(store, POD, "other")
    changes: list[Change] = []
    store.subscribe(changes.append)
    store.delete(SET, "a", "top")
    assert there(store) == ["other"]
    assert [c.obj["metadata"]["name"] for c in changes] == ["top", "middle", "leaf"]
    assert {c.type for c in changes} == {"DELETED"}


def test_dependent_with_another_owner_stays_and_forgets_the_one_gone(store: Store) -> None:
    one, two = make(store, SET, "one"), make(store, SET, "two")
    make(store, POD, "p", ownerReferences=owned(one, two))
    store.delete(SET, "a", "one")
    assert store.get(POD, "a", "p")["metadata"]["ownerReferences"] == owned(two)
    store.delete(SET, "a", "two")
    assert there(store) == []


def test_orphans_stay_without_a_reference(store: Store) -> None:
    one = make(store, SET, "one")
    make(store, POD, "p", ownerReferences=owned(one))
    held, _ = store.delete(SET, "a", "one", options=Options(propagation="Orphan"))
    assert held["metadata"]["finalizers"] == ["orphan"]
    assert there(store) == ["p"]
    assert "ownerReferences" not in store.get(POD, "a", "p")["metadata"]


def test_dependent_with_a_finalizer_waits_for_it(store: Store) -> None:
    one = make(store, SET, "one")
    make(store, POD, "p", ownerReferences=owned(one), finalizers=["f.io/a"])
    assert store.delete(SET, "a", "one")[1]
    assert store.get(POD, "a", "p")["metadata"]["deletionTimestamp"]
    store.patch(POD, "a", "p", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert there(store) == []


def test_foreground_owner_waits_for_what_blocks_it(store: Store) -> None:
    one = make(store, SET, "one")
    make(store, POD, "p", ownerReferences=owned(one, block=True), finalizers=["f.io/a"])
    held, gone = store.delete(SET, "a", "one", options=Options(propagation="Foreground"))
    assert not gone
    assert held["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert held["metadata"]["deletionTimestamp"]
    assert store.get(POD, "a", "p")["metadata"]["deletionTimestamp"]
    store.patch(POD, "a", "p", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert there(store) == []


def test_foreground_goes_at_once_when_nothing_holds(store: Store) -> None:
    top = make(store, SET, "top")
    middle = make(store, SET, "middle", ownerReferences=owned(top, block=True))
    make(store, POD, "leaf", ownerReferences=owned(middle, block=True))
    changes: list[Change] = []
    store.subscribe(changes.append)
    store.delete(SET, "a", "top", options=Options(propagation="Foreground"))
    assert there(store) == []
    deleted = [c.obj["metadata"]["name"] for c in changes if c.type == "DELETED"]
    assert deleted == ["leaf", "middle", "top"]


def test_foreground_does_not_wait_for_what_does_not_block(store: Store) -> None:
    one = make(store, SET, "one")
    make(store, POD, "p", ownerReferences=owned(one), finalizers=["f.io/a"])
    store.delete(SET, "a", "one", options=Options(propagation="Foreground"))
    assert there(store) == ["p"]


def test_foreground_owner_is_let_go_by_a_dependent_that_drops_its_reference(store: Store) -> None:
    one = make(store, SET, "one")
    make(store, POD, "p", ownerReferences=owned(one, block=True), finalizers=["f.io/a"])
    store.delete(SET, "a", "one", options=Options(propagation="Foreground"))
    store.patch(POD, "a", "p", {"metadata": {"ownerReferences": None}}, content_type=MERGE)
    assert store.find("apps/v1", "ReplicaSet", "a", "one") is None


def test_object_born_without_a_living_owner_goes(store: Store) -> None:
    one = make(store, SET, "one")
    store.delete(SET, "a", "one")
    make(store, POD, "p", ownerReferences=owned(one))
    assert there(store) == []


def test_owner_of_the_same_name_but_another_uid_is_no_owner(store: Store) -> None:
    one = make(store, SET, "one")
    make(store, POD, "p", ownerReferences=owned(one), finalizers=["f.io/a"])
    store.delete(SET, "a", "one")
    make(store, SET, "one")
    assert store.get(POD, "a", "p")["metadata"]["deletionTimestamp"]


def test_owner_in_another_namespace_counts_as_gone(store: Store) -> None:
    one = make(store, SET, "one", namespace="b")
    make(store, POD, "p", ownerReferences=owned(one))
    assert there(store) == ["one"]


def test_cluster_wide_owner(store: Store) -> None:
    node = store.create(NODE, {"metadata": {"name": "n"}})
    make(store, POD, "p", ownerReferences=owned(node))
    assert there(store) == ["p"]
    store.delete(NODE, "", "n")
    assert there(store) == []


def test_owner_of_a_kind_that_is_not_served_keeps_its_dependent(store: Store) -> None:
    stranger = {"apiVersion": "o.io/v1", "kind": "Other", "metadata": {"name": "x", "uid": "u"}}
    make(store, POD, "p", ownerReferences=owned(stranger))
    assert there(store) == ["p"]


def test_reference_must_be_whole(store: Store) -> None:
    one = make(store, SET, "one")
    reference = {**owned(one)[0], "uid": ""}
    with pytest.raises(ApiError) as told:
        make(store, POD, "p", ownerReferences=[reference])
    assert told.value.code == 422
    assert told.value.details["causes"][0]["field"] == "metadata.ownerReferences.uid"


def test_adopted_object_follows_its_new_owner(store: Store) -> None:
    make(store, POD, "p")
    one = make(store, SET, "one")
    body = {"metadata": {"ownerReferences": owned(one)}}
    store.patch(POD, "a", "p", body, content_type=MERGE)
    store.delete(SET, "a", "one")
    assert there(store) == []


def test_object_that_admission_protects_stays(store: Store) -> None:
    def protect(asked: Admission) -> Obj:
        if asked.verb == "DELETE" and asked.obj["metadata"]["name"] == "p":
            raise ApiError(403, "protected")
        return asked.obj

    store.admission.append(protect)
    one = make(store, SET, "one")
    make(store, POD, "p", ownerReferences=owned(one))
    make(store, POD, "q", ownerReferences=owned(one))
    assert store.delete(SET, "a", "one")[1]
    assert there(store) == ["p"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["make", "delete", "foreground", "orphan", "hold", "release"]),
        st.integers(0, 5),
        st.sets(st.integers(0, 5), max_size=2),
        st.booleans(),
    ),
    max_size=30,
)


@settings(max_examples=80, deadline=None)
@given(steps=STEPS)
def test_nothing_outlives_its_owners(steps: list[Any]) -> None:
    store = new_store()
    for what, number, parents, block in steps:
        name = f"s{number}"
        found = [store.find("apps/v1", "ReplicaSet", "a", f"s{p}") for p in parents]
        try:
            if what == "make":
                references = owned(*(p for p in found if p), block=block)
                make(store, SET, name, ownerReferences=references)
            elif what in ("hold", "release"):
                finalizers = ["f.io/a"] if what == "hold" else None
                body = {"metadata": {"finalizers": finalizers}}
                store.patch(SET, "a", name, body, content_type=MERGE)
            else:
                policy = {"delete": "Background"}.get(what, what.capitalize())
                store.delete(SET, "a", name, options=Options(propagation=policy))
        except ApiError as refusal:
            assert refusal.code in (404, 409, 422)
    left = store.all("apps/v1", "ReplicaSet")
    alive = {obj["metadata"]["uid"] for obj in left}
    for obj in left:
        metadata = obj["metadata"]
        uids = {reference["uid"] for reference in metadata.get("ownerReferences", [])}
        assert not uids or uids & alive or metadata.get("deletionTimestamp")
        if metadata.get("deletionTimestamp"):
            assert metadata.get("finalizers")
