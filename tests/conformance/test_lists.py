"""Lists: selectors, pages, versions."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.conformance.client import Api, config, named, names, version
from tests.conformance.clusters import CUSTOM, Cluster
from tests.conformance.conftest import Space
from tests.conformance.test_objects import custom

LABELS = {
    "a": {"env": "prod", "tier": "1"},
    "b": {"env": "test", "tier": "2"},
    "c": {"env": "prod"},
    "d": {},
}


def labelled(api: Api, space: Space) -> None:
    for name, labels in LABELS.items():
        assert api.post(space.configs(), config(name, labels=labels)).status == 201


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("env=prod", "ac"),
        ("env==prod", "ac"),
        ("env!=prod", "bd"),
        ("env in (prod, test)", "abc"),
        ("env notin (prod)", "bd"),
        ("env", "abc"),
        ("!env", "d"),
        ("tier>1", "b"),
        ("tier<2", "a"),
        ("env=prod,tier", "a"),
        ("env=", ""),
        ("env in ()", ""),
        ("env notin (prod,)", "bd"),
        ("", "abcd"),
        (" env = prod ", "ac"),
    ],
)
def test_label_selectors(api: Api, space: Space, selector: str, chosen: str) -> None:
    labelled(api, space)
    listed = api.get(space.configs(), labelSelector=selector).made
    assert "".join(names(listed)) == chosen


@pytest.mark.parametrize(
    "selector",
    ["env in prod", "env=a b", "=x", "env in (a", "a>x", "!env=prod", "env=prod,", "Ä=x", "a/b/c"],
)
def test_a_label_selector_that_does_not_parse_is_400(api: Api, space: Space, selector: str) -> None:
    refused = api.get(space.configs(), labelSelector=selector).refused
    assert (refused.code, refused.reason) == (400, "BadRequest")


def test_how_a_bad_label_selector_is_told(api: Api, space: Space) -> None:
    message = api.get(space.configs(), labelSelector="env in prod").refused.message
    assert message.startswith("unable to parse requirement: ")


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("metadata.name=a", "a"),
        ("metadata.name==a", "a"),
        ("metadata.name!=a", "bcd"),
        ("metadata.name=a,metadata.name!=b", "a"),
        ("metadata.name=a,metadata.name=b", ""),
        ("", "abcd"),
    ],
)
def test_field_selectors(api: Api, space: Space, selector: str, chosen: str) -> None:
    labelled(api, space)
    listed = api.get(space.configs(), fieldSelector=selector).made
    assert "".join(names(listed)) == chosen


def test_a_field_that_cannot_be_selected_by_is_400(api: Api, space: Space) -> None:
    refused = api.get(space.configs(), fieldSelector="data.x=1").refused
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message == (
        '"data.x" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )
    refused = api.get(space.customs(), fieldSelector="spec.x=1").refused
    assert refused.message.endswith("field label not supported: spec.x")
    refused = api.get(space.pods(), fieldSelector="spec.x=1").refused
    assert refused.message.endswith("field label not supported: spec.x")


def test_a_field_selector_that_does_not_parse_is_400(api: Api, space: Space) -> None:
    refused = api.get(space.configs(), fieldSelector="metadata.name").refused
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message.endswith(
        "invalid selector: 'metadata.name'; can't understand 'metadata.name'"
    )


def test_pods_are_selected_by_node_and_phase(api: Api, space: Space) -> None:
    for name, node in (("a", "n1"), ("b", "n2"), ("c", "")):
        spec = {"containers": [{"name": "main", "image": "i"}], "restartPolicy": "Never"}
        spec |= {"nodeName": node} if node else {}
        assert api.post(space.pods(), named("v1", "Pod", name, spec=spec)).status == 201

    def chosen(selector: str) -> list[str]:
        return names(api.get(space.pods(), fieldSelector=selector).made)

    assert chosen("spec.nodeName=n1") == ["a"]
    assert chosen("spec.nodeName=") == ["c"]
    assert chosen("spec.nodeName!=n1") == ["b", "c"]
    assert chosen("spec.restartPolicy=Never,spec.nodeName!=") == ["a", "b"]
    api.merge(space.pods("a/status"), {"status": {"phase": "Running"}})
    assert chosen("status.phase=Running") == ["a"]
    assert chosen("metadata.namespace=" + space.name) == ["a", "b", "c"]


# -- pages


def test_pages_are_one_list(api: Api, space: Space) -> None:
    labelled(api, space)
    first = api.get(space.configs(), limit=3).made
    assert names(first) == ["a", "b", "c"]
    assert first["metadata"]["remainingItemCount"] == 1
    api.post(space.configs(), config("e"))
    api.delete(space.configs("d"))
    rest = api.get(space.configs(), limit=3, **{"continue": first["metadata"]["continue"]}).made
    assert names(rest) == ["d"]
    assert version(rest) == version(first)
    assert not {"continue", "remainingItemCount"} & rest["metadata"].keys()


def test_what_is_left_is_not_counted_with_a_selector(api: Api, space: Space) -> None:
    labelled(api, space)
    first = api.get(space.configs(), limit=1, labelSelector="env=prod").made
    assert first["metadata"]["continue"]
    assert "remainingItemCount" not in first["metadata"]


def test_a_limit_that_everything_fits_in_leaves_no_token(api: Api, space: Space) -> None:
    labelled(api, space)
    assert "continue" not in api.get(space.configs(), limit=4).made["metadata"]


def test_a_token_that_is_none_is_400(api: Api, space: Space) -> None:
    refused = api.get(space.configs(), limit=1, **{"continue": "nonsense"}).refused
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message.startswith("invalid continue token: continue key is not valid")


def test_a_token_with_a_version_is_refused(api: Api, space: Space) -> None:
    labelled(api, space)
    token = api.get(space.configs(), limit=1).made["metadata"]["continue"]
    refused = api.get(space.configs(), limit=1, resourceVersion=1, **{"continue": token}).refused
    assert refused.code == 400
    assert "specifying resource version is not allowed when using continue" in refused.message


def test_a_token_that_is_too_old_is_410(cluster: Cluster, space: Space) -> None:
    api = cluster.api
    labelled(api, space)
    token = api.get(space.configs(), limit=1).made["metadata"]["continue"]
    cluster.forget()
    refused = api.get(space.configs(), limit=1, **{"continue": token}).refused
    assert (refused.code, refused.reason) == (410, "Expired")
    assert refused.message.startswith("The provided continue parameter is too old")


def test_an_expired_answer_offers_a_way_to_go_on(cluster: Cluster, space: Space) -> None:
    api = cluster.api
    labelled(api, space)
    token = api.get(space.configs(), limit=1).made["metadata"]["continue"]
    cluster.forget()
    expired = api.get(space.configs(), limit=1, **{"continue": token}).json
    onward = expired["metadata"]["continue"]
    rest = api.get(space.configs(), limit=5, **{"continue": onward}).made
    assert names(rest) == ["b", "c", "d"]


# -- versions


def test_lists_at_least_as_new_as_a_version(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a")).made
    for query in (
        {"resourceVersion": "0"},
        {"resourceVersion": version(made)},
        {"resourceVersion": version(made), "resourceVersionMatch": "NotOlderThan"},
    ):
        listed = api.get(space.configs(), **query).made
        if query["resourceVersion"] != "0":
            assert names(listed) == ["a"]


def test_a_list_at_an_exact_version_is_the_past(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1"}))
    made = api.post(space.configs(), config("b")).made
    api.merge(space.configs("a"), {"data": {"x": "2"}})
    api.post(space.configs(), config("c"))
    listed = api.get(
        space.configs(), resourceVersion=version(made), resourceVersionMatch="Exact"
    ).made
    assert names(listed) == ["a", "b"]
    assert listed["items"][0]["data"] == {"x": "1"}
    assert version(listed) == version(made)


def test_a_page_at_an_exact_version(api: Api, space: Space) -> None:
    labelled(api, space)
    made = api.get(space.configs()).made
    api.delete(space.configs("b"))
    first = api.get(
        space.configs(), resourceVersion=version(made), resourceVersionMatch="Exact", limit=2
    ).made
    assert names(first) == ["a", "b"]
    rest = api.get(space.configs(), **{"continue": first["metadata"]["continue"]}).made
    assert names(rest) == ["c", "d"]


def test_an_exact_version_that_is_too_old_is_410(cluster: Cluster, space: Space) -> None:
    made = cluster.api.post(space.configs(), config("a")).made
    cluster.forget()
    refused = cluster.api.get(
        space.configs(), resourceVersion=version(made), resourceVersionMatch="Exact"
    ).refused
    assert (refused.code, refused.reason) == (410, "Expired")
    assert refused.message == "The resourceVersion for the provided list is too old."


def test_a_version_that_is_still_to_come_times_out(api: Api, space: Space) -> None:
    ahead = str(int(version(api.get(space.configs()).made)) + 100_000)
    refused = api.get(space.configs(), resourceVersion=ahead).refused
    assert (refused.code, refused.reason) == (504, "Timeout")
    assert refused.message.startswith(f"Timeout: Too large resource version: {ahead}, current: ")
    assert refused.causes == [("ResourceVersionTooLarge", "")]
    assert refused.details["retryAfterSeconds"] == 1
    refused = api.get(space.configs("x"), resourceVersion=ahead).refused
    assert (refused.code, refused.reason) == (504, "Timeout")


@pytest.mark.parametrize(
    ("query", "code", "told"),
    [
        ({"resourceVersion": "nonsense"}, 400, "Invalid value"),
        ({"resourceVersionMatch": "Exact"}, 422, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422, "resourceVersionMatch"),
        ({"resourceVersionMatch": "Some", "resourceVersion": "1"}, 422, "resourceVersionMatch"),
        ({"sendInitialEvents": "true"}, 422, "sendInitialEvents"),
        ({"limit": "many"}, 400, "many"),
        ({"timeoutSeconds": "soon"}, 400, "soon"),
    ],
)
def test_list_parameters_that_are_refused(
    api: Api, space: Space, query: Any, code: int, told: str
) -> None:
    refused = api.get(space.configs(), **query).refused
    assert (refused.code, told in refused.message) == (code, True), refused


def test_all_namespaces_at_once(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a", meta={"labels": {"of": space.name}}))
    listed = api.get(
        f"/apis/{CUSTOM[0]}/{CUSTOM[1]}/{CUSTOM[3]}", labelSelector=f"of={space.name}"
    ).made
    assert [i["metadata"]["namespace"] for i in listed["items"]] == [space.name]


def test_a_negative_limit_is_no_limit(api: Api, space: Space) -> None:
    labelled(api, space)
    assert len(api.get(space.configs(), limit=0).made["items"]) == 4
    assert len(api.get(space.configs(), limit=-1).made["items"]) == 4


def test_names_are_percent_decoded(api: Api) -> None:
    role = named("rbac.authorization.k8s.io/v1", "ClusterRole", "some:role", rules=[])
    at = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    api.post(at, role)
    found = api.get(f"{at}/{quote('some:role', safe='')}").made
    assert found["metadata"]["name"] == "some:role"
    api.delete(f"{at}/some:role")
