"""Deletion: answers, finalizers, preconditions, propagation, collections, namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.client import Api, Obj, config, named, names, version
from tests.conformance.clusters import CUSTOM
from tests.conformance.conftest import Space
from tests.conformance.test_objects import custom

HOLD = "example.org/hold"
# What a garbage collector or a namespace controller does; beside the real API server none runs.
CONTROLLED = pytest.mark.parametrize("cluster", ["twin"], indirect=True, scope="session")


def test_an_object_that_goes_at_once_is_answered_by_a_status(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a")).made
    reply = api.delete(space.configs("a"))
    assert reply.status == 200
    status = reply.json
    assert (status["kind"], status["apiVersion"], status["status"]) == ("Status", "v1", "Success")
    assert status["details"] == {
        "name": "a",
        "kind": "configmaps",
        "uid": made["metadata"]["uid"],
    }
    assert api.get(space.configs("a")).status == 404


@pytest.mark.parametrize(
    ("plural", "made"),
    [
        ("services", named("v1", "Service", "a", spec={"ports": [{"port": 80}]})),
        ("serviceaccounts", named("v1", "ServiceAccount", "a")),
        ("resourcequotas", named("v1", "ResourceQuota", "a")),
    ],
)
def test_some_kinds_are_handed_back(api: Api, space: Space, plural: str, made: Obj) -> None:
    assert api.post(space.at("v1", plural), made).status == 201
    reply = api.delete(space.at("v1", plural, "a"))
    assert (reply.status, reply.json["kind"]) == (200, made["kind"])
    assert reply.json["metadata"]["name"] == "a"
    assert api.get(space.at("v1", plural, "a")).status == 404


def test_what_is_not_there_cannot_be_deleted(api: Api, space: Space) -> None:
    refused = api.delete(space.configs("nobody")).refused
    assert (refused.code, refused.message) == (404, 'configmaps "nobody" not found')


def test_a_finalizer_holds_an_object(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a", finalizers=[HOLD])).made
    reply = api.delete(space.configs("a"))
    assert reply.status == 200
    marked = reply.json
    assert marked["kind"] == "ConfigMap"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert version(marked) != version(made)
    assert api.get(space.configs("a")).json == marked
    again = api.delete(space.configs("a"))
    assert (again.status, version(again.json)) == (200, version(marked))
    freed = api.merge(space.configs("a"), {"metadata": {"finalizers": None}})
    assert freed.status == 200
    assert api.get(space.configs("a")).status == 404


def test_deletion_counts_as_a_generation(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a", meta={"finalizers": [HOLD]}))
    marked = api.delete(space.customs("a")).json
    assert marked["metadata"]["generation"] == 2
    assert api.delete(space.customs("a")).json["metadata"]["generation"] == 2


def test_an_object_that_is_going_takes_no_new_finalizer(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", finalizers=[HOLD]))
    api.delete(space.configs("a"))
    body = {"metadata": {"finalizers": [HOLD, "example.org/more"]}}
    refused = api.merge(space.configs("a"), body).refused
    # a real server may tell the same cause twice
    assert (refused.code, set(refused.causes)) == (
        422,
        {("FieldValueForbidden", "metadata.finalizers")},
    )
    assert refused.message == (
        'ConfigMap "a" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added '
        'if the object is being deleted, found new finalizers []string{"example.org/more"}'
    )


def test_an_object_that_is_going_can_be_changed(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1"}, finalizers=[HOLD]))
    api.delete(space.configs("a"))
    changed = api.merge(space.configs("a"), {"data": {"x": "2"}}).made
    assert changed["data"] == {"x": "2"}
    assert changed["metadata"]["deletionTimestamp"]


def test_a_name_in_use_by_what_is_going(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", finalizers=[HOLD]))
    api.delete(space.configs("a"))
    refused = api.post(space.configs(), config("a")).refused
    assert (refused.code, refused.reason) == (409, "AlreadyExists")
    assert refused.message == 'object is being deleted: configmaps "a" already exists'


def test_a_deletion_timestamp_cannot_be_taken_back(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", finalizers=[HOLD]))
    marked = api.delete(space.configs("a")).json
    kept = api.merge(space.configs("a"), {"metadata": {"deletionTimestamp": None}}).made
    assert kept["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]


def test_a_deletion_timestamp_cannot_be_given(api: Api, space: Space) -> None:
    asked = config("a", deletionTimestamp="2030-01-01T00:00:00Z")
    made = api.post(space.configs(), asked).made
    assert "deletionTimestamp" not in made["metadata"]


# -- preconditions and options


def test_a_delete_may_name_the_uid_it_means(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a")).made
    refused = api.delete(space.configs("a"), {"preconditions": {"uid": "other"}}).refused
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does '
        f"not match the UID in record ({made['metadata']['uid']}). The object might have been "
        "deleted and then recreated"
    )
    uid = {"preconditions": {"uid": made["metadata"]["uid"]}}
    assert api.delete(space.configs("a"), uid).status == 200


def test_another_custom_object_than_meant_is_not_deleted(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a"))
    refused = api.delete(space.customs("a"), {"preconditions": {"uid": "other"}}).refused
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message.startswith(
        f'Operation cannot be fulfilled on {CUSTOM[2]}.{CUSTOM[0]} "a": the UID in the precondition'
    )
    assert refused.details == {"name": "a", "group": CUSTOM[0], "kind": CUSTOM[2]}


def test_a_delete_may_name_the_version_it_means(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a")).made
    now = api.merge(space.configs("a"), {"data": {"x": "1"}}).made
    stale = {"preconditions": {"resourceVersion": version(made)}}
    refused = api.delete(space.configs("a"), stale).refused
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == (
        'Operation cannot be fulfilled on ConfigMap "a": the ResourceVersion in the precondition '
        f"({version(made)}) does not match the ResourceVersion in record ({version(now)}). The "
        "object might have been modified"
    )


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"propagationPolicy": "Sideways"}, "propagationPolicy"),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, "propagationPolicy"),
        ({"gracePeriodSeconds": -5}, None),
        ({"dryRun": ["Some"]}, "dryRun"),
    ],
)
def test_delete_options_that_are_refused(
    api: Api, space: Space, options: Any, field: str | None
) -> None:
    api.post(space.configs(), config("a"))
    reply = api.delete(space.configs("a"), options)
    if field is None:
        assert reply.status == 200
        return
    refused = reply.refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert [f for _, f in refused.causes] == [field]


def test_delete_options_may_stand_in_the_query(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    marked = api.delete(space.configs("a"), propagationPolicy="Foreground").json
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]
    assert marked["metadata"]["deletionTimestamp"]


def test_what_holds_an_owner_in_foreground_deletion(api: Api, space: Space) -> None:
    owner = api.post(space.configs(), config("owner", finalizers=[HOLD])).made
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    dependent = config("dependent", ownerReferences=[reference], finalizers=[HOLD])
    api.post(space.configs(), dependent)
    marked = api.delete(space.configs("owner"), {"propagationPolicy": "Foreground"}).json
    assert sorted(marked["metadata"]["finalizers"]) == [HOLD, "foregroundDeletion"]
    assert marked["metadata"]["deletionTimestamp"]


def test_orphaning_holds_the_owner_until_its_dependents_are_let_go(api: Api, space: Space) -> None:
    api.post(space.configs(), config("owner", finalizers=[HOLD]))
    marked = api.delete(space.configs("owner"), {"propagationPolicy": "Orphan"}).json
    assert marked["metadata"]["deletionTimestamp"]
    assert sorted(marked["metadata"]["finalizers"]) == [HOLD, "orphan"]


@CONTROLLED
@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_dependents_go_with_their_owner(api: Api, space: Space, policy: str) -> None:
    owner = api.post(space.configs(), config("owner")).made
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    api.post(space.configs(), config("dependent", ownerReferences=[reference]))
    assert api.delete(space.configs("owner"), {"propagationPolicy": policy}).status == 200
    assert names(api.get(space.configs()).made) == []


@CONTROLLED
def test_orphans_stay_and_lose_their_reference(api: Api, space: Space) -> None:
    owner = api.post(space.configs(), config("owner")).made
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }
    api.post(space.configs(), config("dependent", ownerReferences=[reference]))
    api.delete(space.configs("owner"), {"propagationPolicy": "Orphan"})
    (left,) = api.get(space.configs()).made["items"]
    assert left["metadata"]["name"] == "dependent"
    assert "ownerReferences" not in left["metadata"]


# -- pods have grace


def running(api: Api, space: Space, name: str, grace: int = 30) -> None:
    spec = {
        "containers": [{"name": "main", "image": "i"}],
        "nodeName": "n1",
        "terminationGracePeriodSeconds": grace,
    }
    assert api.post(space.pods(), named("v1", "Pod", name, spec=spec)).status == 201
    api.merge(space.pods(f"{name}/status"), {"status": {"phase": "Running"}})


def test_a_pod_on_a_node_has_time_to_stop(api: Api, space: Space) -> None:
    running(api, space, "a", 45)
    marked = api.delete(space.pods("a")).json
    assert marked["kind"] == "Pod"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 45
    shorter = api.delete(space.pods("a"), {"gracePeriodSeconds": 5}).json
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    longer = api.delete(space.pods("a"), {"gracePeriodSeconds": 60}).json
    assert longer["metadata"]["deletionGracePeriodSeconds"] == 5
    gone = api.delete(space.pods("a"), {"gracePeriodSeconds": 0})
    assert gone.status == 200
    assert api.get(space.pods("a")).status == 404


def test_a_pod_on_no_node_goes_at_once(api: Api, space: Space) -> None:
    spec = {"containers": [{"name": "main", "image": "i"}]}
    api.post(space.pods(), named("v1", "Pod", "a", spec=spec))
    assert api.delete(space.pods("a")).status == 200
    assert api.get(space.pods("a")).status == 404


def test_a_pod_that_has_ended_goes_at_once(api: Api, space: Space) -> None:
    running(api, space, "a")
    api.merge(space.pods("a/status"), {"status": {"phase": "Succeeded"}})
    assert api.delete(space.pods("a")).status == 200
    assert api.get(space.pods("a")).status == 404


# -- collections


def test_a_collection_is_deleted_by_selector(api: Api, space: Space) -> None:
    for name, label in (("a", "x"), ("b", "x"), ("c", "y")):
        api.post(space.configs(), config(name, labels={"l": label}))
    reply = api.delete(space.configs(), labelSelector="l=x")
    assert reply.status == 200
    assert reply.json["kind"] == "ConfigMapList"
    assert sorted(names(reply.json)) == ["a", "b"]
    assert names(api.get(space.configs()).made) == ["c"]
    api.delete(space.configs(), fieldSelector="metadata.name=c")
    assert names(api.get(space.configs()).made) == []


def test_a_collection_in_a_dry_run_stays(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    assert api.delete(space.configs(), dryRun="All").status == 200
    assert names(api.get(space.configs()).made) == ["a"]


def test_a_collection_across_namespaces_cannot_be_deleted(api: Api) -> None:
    refused = api.delete("/api/v1/configmaps").refused
    assert (refused.code, refused.reason) == (405, "MethodNotAllowed")
    assert refused.message == "the server does not allow this method on the requested resource"


# -- namespaces


def test_a_namespace_that_is_going_takes_nothing_new(api: Api, space: Space) -> None:
    api.post(space.configs(), config("held", finalizers=[HOLD]))
    marked = api.delete(f"/api/v1/namespaces/{space.name}")
    assert marked.status == 200
    assert marked.json["kind"] == "Namespace"
    assert marked.json["status"]["phase"] == "Terminating"
    assert marked.json["metadata"]["deletionTimestamp"]
    refused = api.post(space.configs(), config("more")).refused
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        f'configmaps "more" is forbidden: unable to create new content in namespace {space.name} '
        "because it is being terminated"
    )
    assert refused.causes == [("NamespaceTerminating", "metadata.namespace")]
    changed = api.merge(space.configs("held"), {"data": {"x": "1"}})
    assert changed.status == 200


@CONTROLLED
def test_a_namespace_goes_with_its_content(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    api.delete(f"/api/v1/namespaces/{space.name}")
    assert api.get(f"/api/v1/namespaces/{space.name}").status == 404


def test_a_namespace_is_active_and_labelled_by_its_name(api: Api, space: Space) -> None:
    made = api.get(f"/api/v1/namespaces/{space.name}").made
    assert made["status"] == {"phase": "Active"}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": space.name}
    assert made["spec"] == {"finalizers": ["kubernetes"]}


def test_the_namespaces_that_the_system_needs_stay(api: Api) -> None:
    refused = api.delete("/api/v1/namespaces/default").refused
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        'namespaces "default" is forbidden: this namespace may not be deleted'
    )


def test_the_namespaces_as_a_collection_stay(api: Api) -> None:
    refused = api.delete("/api/v1/namespaces").refused
    assert (refused.code, refused.reason) == (405, "MethodNotAllowed")
