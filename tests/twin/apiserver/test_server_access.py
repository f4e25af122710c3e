"""Who may: certificates, tokens, RBAC objects, reviews, impersonation."""

from __future__ import annotations

import base64
from typing import Any

import pytest

CM = "/api/v1/namespaces/default/configmaps"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RBAC = "rbac.authorization.k8s.io/v1"
READ = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}
ACCOUNT = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "bot", "namespace": "default"},
}


def message(answer: Any) -> Any:
    assert answer.json["kind"] == "Status"
    return answer.json["message"]


def can(cluster: Any, user: str, **attributes: Any) -> Any:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    answer = cluster.post(REVIEW, body, user=user)
    assert answer.status == 201
    return answer.json["status"]["allowed"]


@pytest.mark.parametrize("path", [CM, "/version", "/nowhere", "/api/v1/pods?watch=true"])
@pytest.mark.parametrize("credentials", [{}, {"authorization": "Bearer nonsense"}])
def test_without_credentials_everything_is_401(cluster: Any, path: str, credentials: Any) -> None:
    answer = cluster.get(path, user="", **credentials)
    assert (answer.status, answer.json["reason"]) == (401, "Unauthorized")


def test_masters_may_do_all_and_others_nothing(cluster: Any) -> None:
    assert cluster.get(CM, user="root", groups=("system:masters",)).status == 200
    assert cluster.get(CM, user="jane").status == 403


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        (
            "GET",
            CM,
            'configmaps is forbidden: User "jane" cannot list resource "configmaps" in API group '
            '"" in the namespace "default"',
        ),
        (
            "GET",
            "/api/v1/namespaces/default/pods/web/log",
            'pods "web" is forbidden: User "jane" cannot get resource "pods/log" in API group "" '
            'in the namespace "default"',
        ),
        (
            "GET",
            "/apis/example.org/v1/widgets?watch=1",
            'widgets.example.org is forbidden: User "jane" cannot watch resource "widgets" in API '
            'group "example.org" at the cluster scope',
        ),
        (
            "GET",
            "/apis/nobody.example.org/v1/gadgets",
            'gadgets.nobody.example.org is forbidden: User "jane" cannot list resource "gadgets" '
            'in API group "nobody.example.org" at the cluster scope',
        ),
        ("GET", "/metrics", 'forbidden: User "jane" cannot get path "/metrics"'),
    ],
)
def test_a_refusal_is_worded_as_the_api_words_it(
    cluster: Any, method: str, path: str, said: str
) -> None:
    answer = cluster.ask(method, path, user="jane")
    assert (answer.status, answer.json["reason"], message(answer)) == (403, "Forbidden", said)


def test_every_user_may_discover(cluster: Any) -> None:
    for path in ("/api", "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/version", "/readyz"):
        assert cluster.get(path, user="jane").status == 200


def test_a_role_holds_in_its_namespace_and_a_cluster_role_everywhere(cluster: Any) -> None:
    cluster.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    cluster.allow("jane", READ, namespace="default")
    cluster.allow("joe", READ)
    other = "/api/v1/namespaces/other/configmaps"
    assert [cluster.get(path, user="jane").status for path in (CM, other)] == [200, 403]
    assert cluster.get("/api/v1/configmaps", user="jane").status == 403
    assert [cluster.get(path, user="joe").status for path in (CM, other)] == [200, 200]
    assert cluster.post(CM, {}, user="joe").status == 403


def test_a_cluster_role_bound_in_a_namespace_holds_there_only(cluster: Any) -> None:
    cluster.allow("joe", READ)
    binding = {
        "apiVersion": RBAC,
        "kind": "RoleBinding",
        "metadata": {"name": "jane", "namespace": "default"},
        "roleRef": {"kind": "ClusterRole", "name": "joe"},
        "subjects": [{"kind": "User", "name": "jane"}],
    }
    cluster.make(binding)
    assert cluster.get(CM, user="jane").status == 200
    assert cluster.get("/api/v1/configmaps", user="jane").status == 403


def test_decisions_follow_the_rbac_objects_at_once(cluster: Any) -> None:
    assert cluster.get(CM, user="jane").status == 403
    cluster.allow("jane", READ)
    assert cluster.get(CM, user="jane").status == 200
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/jane"
    assert cluster.ask("DELETE", path).status == 200
    assert cluster.get(CM, user="jane").status == 403


def test_rules_name_objects_and_subresources(cluster: Any) -> None:
    cluster.pod("web")
    cluster.config_map("a")
    named = {**READ, "resourceNames": ["a"]}
    logs = {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]}
    cluster.allow("jane", named, logs)
    assert cluster.get(f"{CM}/a", user="jane").status == 200
    assert cluster.get(f"{CM}/b", user="jane").status == 403
    assert cluster.get(f"{CM}?fieldSelector=metadata.name%3Da", user="jane").status == 200
    assert cluster.get("/api/v1/namespaces/default/pods/web/log", user="jane").status == 200
    assert cluster.get("/api/v1/namespaces/default/pods/web", user="jane").status == 403


def test_groups_come_from_the_certificate(cluster: Any) -> None:
    cluster.allow("jane", READ)
    subjects = [{"kind": "Group", "name": "readers"}]
    patch = {"subjects": subjects}
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/jane"
    cluster.ask("PATCH", path, patch, content_type="application/merge-patch+json")
    assert cluster.get(CM, user="ann", groups=("readers", "others")).status == 200
    assert cluster.get(CM, user="jane").status == 403


def test_an_aggregated_role_has_the_rules_of_those_it_selects(cluster: Any) -> None:
    cluster.allow("jane")
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/jane"
    selectors = [{"matchLabels": {"to": "jane"}}]
    patch = {"aggregationRule": {"clusterRoleSelectors": selectors}}
    cluster.ask("PATCH", path, patch, content_type="application/merge-patch+json")
    assert cluster.get(CM, user="jane").status == 403
    metadata = {"name": "part", "labels": {"to": "jane"}}
    cluster.make({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": metadata, "rules": [READ]})
    assert cluster.get(CM, user="jane").status == 200


def token_of(cluster: Any, seconds: int = 3600) -> Any:
    cluster.make(ACCOUNT)
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }
    return cluster.post("/api/v1/namespaces/default/serviceaccounts/bot/token", body)


def bearer(token: Any) -> Any:
    return {"user": "", "authorization": f"Bearer {token}"}


def test_a_requested_token_speaks_for_its_account_until_it_expires(cluster: Any) -> None:
    answer = token_of(cluster)
    assert (answer.status, answer.json["status"]["expirationTimestamp"]) == (
        201,
        "2026-01-01T01:00:00Z",
    )
    token = answer.json["status"]["token"]
    assert 'User "system:serviceaccount:default:bot"' in message(cluster.get(CM, **bearer(token)))
    subject = {"kind": "ServiceAccount", "namespace": "default", "name": "bot"}
    cluster.allow("bot", READ)
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/bot"
    patch = {"subjects": [subject]}
    cluster.ask("PATCH", path, patch, content_type="application/merge-patch+json")
    assert cluster.get(CM, **bearer(token)).status == 200
    assert cluster.get(CM, **bearer(token[:-4] + "AAAA")).status == 401
    cluster.now += 3601
    assert cluster.get(CM, **bearer(token)).status == 401


def test_a_token_ends_with_its_account(cluster: Any) -> None:
    token = token_of(cluster).json["status"]["token"]
    account = "/api/v1/namespaces/default/serviceaccounts/bot"
    assert cluster.get("/version", **bearer(token)).status == 200
    cluster.ask("DELETE", account)
    assert cluster.get("/version", **bearer(token)).status == 401
    cluster.make(ACCOUNT)
    assert cluster.get("/version", **bearer(token)).status == 401, "another account of that name"


def test_a_token_request_is_refused_where_it_cannot_be_honoured(cluster: Any) -> None:
    assert token_of(cluster, seconds=60).status == 422
    missing = "/api/v1/namespaces/default/serviceaccounts/missing/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    assert cluster.post(missing, body).status == 404


def test_a_token_secret_is_filled_and_its_token_ends_with_it(cluster: Any) -> None:
    cluster.make(ACCOUNT)
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {
            "name": "bot-token",
            "annotations": {"kubernetes.io/service-account.name": "bot"},
        },
    }
    path = "/api/v1/namespaces/default/secrets"
    data = cluster.post(path, secret).json["data"]
    assert base64.b64decode(data["ca.crt"]) == cluster.authority.ca_pem
    token = base64.b64decode(data["token"]).decode()
    assert cluster.get("/version", **bearer(token)).status == 200
    cluster.ask("DELETE", f"{path}/bot-token")
    assert cluster.get("/version", **bearer(token)).status == 401


def test_a_token_secret_without_an_account_is_refused(cluster: Any) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/service-account-token",
        "metadata": {"name": "s"},
    }
    assert cluster.post("/api/v1/namespaces/default/secrets", secret).status == 422


def test_self_review_answers_for_whoever_asks(cluster: Any) -> None:
    cluster.allow("jane", READ, namespace="default")
    wanted = {"verb": "get", "resource": "configmaps", "namespace": "default"}
    assert can(cluster, "jane", **wanted)
    assert not can(cluster, "jane", **{**wanted, "verb": "delete"})
    assert not can(cluster, "jane", **{**wanted, "namespace": "other"})
    assert can(cluster, "admin", verb="*", resource="*", group="*")


def test_a_review_of_another_subject_is_for_those_who_may_ask(cluster: Any) -> None:
    cluster.allow("jane", READ)
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "jane", "resourceAttributes": {"verb": "get", "resource": "configmaps"}},
    }
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    assert cluster.post(path, body).json["status"]["allowed"] is True
    assert cluster.post(path, body, user="jane").status == 403
    del body["spec"]["resourceAttributes"]
    assert cluster.post(path, body).status == 422


def test_a_review_says_by_which_binding(cluster: Any) -> None:
    cluster.allow("jane", READ)
    cluster.allow("joe", READ, namespace="default")
    account = {"kind": "ServiceAccount", "name": "bot", "namespace": "default"}
    cluster.make(
        {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": {"name": "bots", "namespace": "default"},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "jane"},
            "subjects": [account],
        }
    )
    asked = {"verb": "get", "resource": "configmaps", "namespace": "default"}

    def reason(user: str, *groups: str) -> Any:
        spec = {"user": user, "groups": list(groups), "resourceAttributes": asked}
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return cluster.post(path, {**kind, "spec": spec}).json["status"].get("reason")

    head = "RBAC: allowed by "
    assert reason("jane") == f'{head}ClusterRoleBinding "jane" of ClusterRole "jane" to User "jane"'
    assert reason("joe") == f'{head}RoleBinding "joe/default" of Role "joe" to User "joe"'
    assert reason("system:serviceaccount:default:bot") == (
        f'{head}RoleBinding "bots/default" of ClusterRole "jane" to ServiceAccount "bot/default"'
    )
    assert reason("x", "system:masters") is None
    assert reason("nobody") is None


def test_whoami(cluster: Any) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info = cluster.post(path, body, user="jane", groups=("a",)).json["status"]["userInfo"]
    assert info == {"username": "jane", "groups": ["a", "system:authenticated"]}


def test_a_token_review_recognises_tokens(cluster: Any) -> None:
    token = token_of(cluster).json["status"]["token"]
    path = "/apis/authentication.k8s.io/v1/tokenreviews"

    def review(text: str) -> Any:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": text},
        }
        return cluster.post(path, body).json["status"]

    assert review(token)["user"]["username"] == "system:serviceaccount:default:bot"
    assert review("other")["authenticated"] is False


def test_impersonation_is_for_those_who_may(cluster: Any) -> None:
    cluster.allow("jane", READ)
    assert cluster.get(CM, impersonate_user="jane").status == 200
    assert cluster.get(CM, impersonate_user="joe").status == 403
    assert 'cannot impersonate resource "users"' in message(
        cluster.get(CM, user="jane", impersonate_user="admin")
    )
    masters = {"impersonate_user": "x", "impersonate_group": "system:masters"}
    assert cluster.get("/api/v1/secrets", **masters).status == 200
    assert cluster.get(CM, user="jane", **masters).status == 403
    assert cluster.get(CM, impersonate_group="a").status == 400
