"""Requests: paths, methods, media types, validation of fields, who asks and whether they may."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.client import Api, config, named
from tests.conformance.clusters import CUSTOM
from tests.conformance.conftest import Space
from tests.conformance.test_objects import custom
from tests.conformance.test_patches import deployment

RBAC = "rbac.authorization.k8s.io/v1"


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/frobs",
        "/api/v1/namespaces/default/frobs/x",
        "/apis/nothing.example/v1/frobs",
        "/apis/apps/v9/deployments",
        f"/apis/{CUSTOM[0]}/{CUSTOM[1]}/frobs",
        "/api/v1/namespaces/default/configmaps/a/b/c",
    ],
)
def test_what_is_served_nowhere_is_404(api: Api, path: str) -> None:
    reply = api.get(path)
    assert reply.status == 404
    if reply.body.startswith(b"{"):
        refused = reply.refused
        assert (refused.reason, refused.message) == (
            "NotFound",
            "the server could not find the requested resource",
        )
        assert refused.details in ({}, {"causes": []})
    else:
        assert reply.body == b"404 page not found\n"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/configmaps"),
        ("POST", "/api/v1/namespaces/default/configmaps/a"),
        ("PUT", "/api/v1/namespaces/default/configmaps"),
        ("PATCH", "/api/v1/namespaces/default/configmaps"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    ],
)
def test_a_method_that_a_path_does_not_take_is_405(api: Api, method: str, path: str) -> None:
    refused = api.ask(method, path, {}).refused
    assert (refused.code, refused.reason) == (405, "MethodNotAllowed")
    assert refused.message == "the server does not allow this method on the requested resource"


@pytest.mark.parametrize(
    ("body", "media", "code"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'"x"', "application/json", 400),
        (b"a: [", "application/yaml", 400),
        (b"", "application/json", 400),
        (b"a=b", "application/x-www-form-urlencoded", 415),
        (b"{}", "text/plain", 415),
    ],
)
def test_bodies_that_cannot_be_read(
    api: Api, space: Space, body: bytes, media: str, code: int
) -> None:
    refused = api.post(space.configs(), body, media=media).refused
    reasons = {400: "BadRequest", 415: "UnsupportedMediaType"}
    assert (refused.code, refused.reason) == (code, reasons[code])


def test_a_body_may_be_yaml(api: Api, space: Space) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {day: '2026-01-01'}\n"
    made = api.post(space.configs(), text, media="application/yaml").made
    assert made["data"] == {"day": "2026-01-01"}


@pytest.mark.parametrize("word", ["y", "No", "on"])
def test_some_words_of_yaml_are_no_text(api: Api, space: Space, word: str) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {word}}}\n".encode()
    refused = api.post(space.configs(), text, media="application/yaml").refused
    assert refused.code == 400
    assert "cannot unmarshal bool" in refused.message


def test_a_body_without_a_media_type_is_json(api: Api, space: Space) -> None:
    body = json.dumps(config("a")).encode()
    reply = api.ask("POST", space.configs(), body, media=" ")
    assert reply.status in (201, 415)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health(api: Api, path: str) -> None:
    reply = api.get(path, accept="*/*")
    assert (reply.status, reply.body) == (200, b"ok")


def test_trailing_slashes_of_pages(api: Api) -> None:
    assert api.get("/version/").status == 200


# -- unknown fields


def strange(name: str) -> Any:
    return {**config(name, {"x": "1"}), "frob": 1}


def test_an_unknown_field_is_warned_of_and_dropped(api: Api, space: Space) -> None:
    reply = api.post(space.configs(), strange("a"))
    assert reply.status == 201
    assert "frob" not in reply.json
    assert reply.headers.get("Warning") == '299 - "unknown field \\"frob\\""'


def test_an_unknown_field_is_dropped_without_a_word_if_so_asked(api: Api, space: Space) -> None:
    reply = api.post(space.configs(), strange("a"), fieldValidation="Ignore")
    assert (reply.status, reply.headers.get("Warning")) == (201, None)
    assert "frob" not in reply.json


def test_an_unknown_field_is_refused_if_so_asked(api: Api, space: Space) -> None:
    refused = api.post(space.configs(), strange("a"), fieldValidation="Strict").refused
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
        'unknown field "frob"'
    )


def test_a_field_that_is_said_twice(api: Api, space: Space) -> None:
    body = (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},'
        b'"data":{"x":"1"},"data":{"x":"2"}}'
    )
    refused = api.post(space.configs(), body, fieldValidation="Strict").refused
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message.endswith('strict decoding error: duplicate field "data"')
    reply = api.post(space.configs(), body)
    assert reply.made["data"] == {"x": "2"}
    assert reply.headers.get("Warning") == '299 - "duplicate field \\"data\\""'


def test_a_field_validation_that_is_unknown(api: Api, space: Space) -> None:
    refused = api.post(space.configs(), config("a"), fieldValidation="Some").refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueNotSupported", "fieldValidation")]


def test_unknown_fields_deep_in_a_built_in_kind(api: Api, space: Space) -> None:
    body = deployment("a", {"name": "main", "image": "i:1", "imagee": "x"})
    refused = api.post(space.deployments(), body, fieldValidation="Strict").refused
    assert refused.code == 400
    assert 'unknown field "spec.template.spec.containers[0].imagee"' in refused.message


def test_unknown_fields_of_metadata(api: Api, space: Space) -> None:
    body = config("a", frob=1)
    refused = api.post(space.configs(), body, fieldValidation="Strict").refused
    assert 'unknown field "metadata.frob"' in refused.message
    made = api.post(space.configs(), body).made
    assert "frob" not in made["metadata"]


def test_unknown_fields_of_a_patch(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    refused = api.merge(space.configs("a"), {"frob": 1}, fieldValidation="Strict").refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert 'unknown field "frob"' in refused.message
    assert "frob" not in api.merge(space.configs("a"), {"frob": 1}).made


def test_a_custom_kind_that_keeps_all_knows_no_unknown_field(api: Api, space: Space) -> None:
    body = custom("a", spec={"frob": 1})
    made = api.post(space.customs(), body, fieldValidation="Strict").made
    assert made["spec"] == {"frob": 1}


@pytest.mark.parametrize(
    ("container", "told"),
    [
        ({"image": 5}, "number into Go struct field Container.{}.image of type string"),
        (
            {"ports": [{"containerPort": "80"}]},
            "string into Go struct field ContainerPort.{}.ports.containerPort of type int32",
        ),
        (
            {"ports": {}},
            "object into Go struct field Container.{}.ports of type []v1.ContainerPort",
        ),
        ({"tty": "yes"}, "string into Go struct field Container.{}.tty of type bool"),
    ],
)
def test_values_of_the_wrong_type_deep_in_a_built_in_kind(
    api: Api, space: Space, container: Any, told: str
) -> None:
    body = deployment("a", {"name": "main", "image": "i", **container})
    refused = api.post(space.deployments(), body).refused
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal '
        + told.format("spec.template.spec.containers")
    )


def test_several_strange_fields_are_each_told(api: Api, space: Space) -> None:
    body = {**config("a", frob=1), "more": 2}
    refused = api.post(space.configs(), body, fieldValidation="Strict").refused
    assert refused.message.endswith(
        'strict decoding error: unknown field "metadata.frob", unknown field "more"'
    )
    reply = api.post(space.configs(), body)
    assert reply.headers.get("Warning") == (
        '299 - "unknown field \\"metadata.frob\\"", 299 - "unknown field \\"more\\""'
    )


def test_a_custom_kind_s_metadata_has_no_strange_fields(api: Api, space: Space) -> None:
    body = custom("a", meta={"frob": 1})
    refused = api.post(space.customs(), body, fieldValidation="Strict").refused
    assert refused.message.endswith('strict decoding error: unknown field "metadata.frob"')
    assert "frob" not in api.post(space.customs(), body).made["metadata"]


def test_a_null_in_a_map_of_text_is_empty_text(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a", {"x": None, "y": "1"})).made
    assert made["data"] == {"x": "", "y": "1"}


def test_a_value_of_the_wrong_type_in_a_built_in_kind(api: Api, space: Space) -> None:
    refused = api.post(space.configs(), config("a", {"x": 1})).refused
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal '
        "number into Go struct field ConfigMap.data of type string"
    )


# -- who asks


def allow(api: Api, space: Space, user: str, *rules: Any) -> None:
    api.post(space.at(RBAC, "roles"), named(RBAC, "Role", user, rules=list(rules)))
    binding = named(
        RBAC,
        "RoleBinding",
        user,
        roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
        subjects=[{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": user}],
    )
    assert api.post(space.at(RBAC, "rolebindings"), binding).status == 201


def may(api: Api, **attributes: Any) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    at = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answered = api.post(at, review, who="alice").made
    return bool(answered["status"]["allowed"])


def test_who_has_no_certificate_is_401_or_anonymous(api: Api, space: Space) -> None:
    refused = api.get(space.configs(), who="", headers={"Authorization": "Bearer no"}).refused
    assert (refused.code, refused.reason, refused.message) == (401, "Unauthorized", "Unauthorized")


def test_who_may_not_is_403_and_told_what(api: Api, space: Space) -> None:
    refused = api.get(space.configs("a"), who="alice").refused
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        'configmaps "a" is forbidden: User "alice" cannot get resource "configmaps" in API group '
        f'"" in the namespace "{space.name}"'
    )
    assert refused.details == {"name": "a", "kind": "configmaps"}
    refused = api.get("/apis/apps/v1/deployments", who="alice").refused
    assert refused.message == (
        'deployments.apps is forbidden: User "alice" cannot list resource "deployments" in API '
        'group "apps" at the cluster scope'
    )
    refused = api.get("/metrics", who="alice").refused
    assert refused.message == 'forbidden: User "alice" cannot get path "/metrics"'


@pytest.mark.parametrize(
    ("method", "query", "verb"),
    [
        ("GET", {}, "list"),
        ("GET", {"watch": "1"}, "watch"),
        ("POST", {}, "create"),
        ("DELETE", {}, "deletecollection"),
    ],
)
def test_the_verb_that_a_request_needs(
    api: Api, space: Space, method: str, query: Any, verb: str
) -> None:
    refused = api.ask(method, space.configs(), {}, who="alice", **query).refused
    assert (refused.code, f'cannot {verb} resource "configmaps"' in refused.message) == (403, True)


def test_what_a_role_allows(api: Api, space: Space) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
    named_ = {**rule, "verbs": ["delete"], "resourceNames": ["a"]}
    below = {"apiGroups": ["apps"], "resources": ["deployments/scale"], "verbs": ["*"]}
    allow(api, space, "alice", rule, named_, below)
    api.post(space.configs(), config("a"))
    assert api.get(space.configs("a"), who="alice").status == 200
    assert api.get(space.configs(), who="alice").status == 200
    assert api.get("/api/v1/configmaps", who="alice").status == 403
    space_ = {"namespace": space.name}
    assert may(api, verb="get", resource="configmaps", **space_)
    assert not may(api, verb="create", resource="configmaps", **space_)
    assert may(api, verb="delete", resource="configmaps", name="a", **space_)
    assert not may(api, verb="delete", resource="configmaps", **space_)
    assert may(api, verb="get", group="apps", resource="deployments", subresource="scale", **space_)
    assert not may(api, verb="get", group="apps", resource="deployments", **space_)


def test_a_review_is_answered_not_stored(api: Api) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    reply = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    assert reply.status == 201
    assert reply.json["status"]["allowed"] is True
    assert reply.json["kind"] == "SelfSubjectAccessReview"
    empty = {**review, "spec": {}}
    refused = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", empty).refused
    assert (refused.code, refused.reason) == (422, "Invalid")


def whoami(api: Api, **more: Any) -> Any:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    at = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    return api.post(at, review, **more).made["status"]["userInfo"]


def test_who_am_i(api: Api) -> None:
    found = whoami(api, who="alice")
    assert found["username"] == "alice"
    assert found["groups"] == ["system:authenticated"]


def test_impersonation(api: Api, space: Space) -> None:
    found = whoami(api, headers={"Impersonate-User": "bob"})
    assert (found["username"], found["groups"]) == ("bob", ["system:authenticated"])
    headers = {"Impersonate-User": "bob", "Impersonate-Group": "crew"}
    assert whoami(api, headers=headers)["groups"] == ["crew", "system:authenticated"]
    account = f"system:serviceaccount:{space.name}:robot"
    assert sorted(whoami(api, headers={"Impersonate-User": account})["groups"]) == [
        "system:authenticated",
        "system:serviceaccounts",
        f"system:serviceaccounts:{space.name}",
    ]
    refused = api.get(space.configs(), headers={"Impersonate-User": "bob"}).refused
    assert 'User "bob" cannot list resource "configmaps"' in refused.message


def test_who_may_not_impersonate(api: Api, space: Space) -> None:
    refused = api.get(space.configs(), who="alice", headers={"Impersonate-User": "bob"}).refused
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert refused.message == (
        'users "bob" is forbidden: User "alice" cannot impersonate resource "users" in API group '
        '"" at the cluster scope'
    )


def test_impersonating_a_group_alone(api: Api, space: Space) -> None:
    reply = api.get(space.configs(), headers={"Impersonate-Group": "crew"})
    assert reply.status in (400, 500)
