"""Who may do what: users, and the RBAC objects in the store that decide.

Matching follows the API server's RBAC authorizer: rules of ClusterRoleBindings everywhere, rules
of RoleBindings in their own namespace; nothing is denied, what no rule allows is forbidden.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Obj
from harness.twin.apiserver.store import Change, Store

GROUP = "rbac.authorization.k8s.io"
_API = f"{GROUP}/v1"
MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
_ACCOUNT = "system:serviceaccount:"
# What the bootstrap policy of an API server lets every authenticated user do (its ClusterRoles
# system:discovery, system:public-info-viewer and system:basic-user).
_OPEN_PATHS = (
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/livez/*",
    "/readyz",
    "/readyz/*",
    "/openapi",
    "/openapi/*",
    "/version",
)
_SELF_REVIEWS = {
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authentication.k8s.io", "selfsubjectreviews"),
}


@dataclass(frozen=True, slots=True)
class User:
    """Who asks. ``groups`` holds ``system:authenticated`` for everyone recognised."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked: a verb on a resource, or (``path`` set) on a path that is no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def certificate_user(subject: Iterator[tuple[str, str]]) -> User | None:
    """The user a client certificate names: CN its name, each O a group. None without a CN."""
    parts = list(subject)
    names = [value for key, value in parts if key == "commonName"]
    groups = [value for key, value in parts if key == "organizationName"]
    return User(names[-1], (*groups, AUTHENTICATED)) if names else None


def account_user(namespace: str, name: str, uid: str = "") -> User:
    """The user that a service account is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"{_ACCOUNT}{namespace}:{name}", groups, uid)


class Access:
    """Decides for one cluster. Decisions are kept until an RBAC object changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decided: dict[tuple[User, Attributes], bool] = {}
        self.close: Callable[[], None] = store.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.resource.group == GROUP:
            self._decided.clear()

    def require(self, user: User, asked: Attributes) -> None:
        """ApiError 403, worded as the API words it, unless the user may."""
        if not self.allows(user, asked):
            raise forbidden(user, asked)

    def allows(self, user: User, asked: Attributes) -> bool:
        """Whether the user may."""
        known = self._decided.get((user, asked))
        if known is None:
            if len(self._decided) >= 65536:
                self._decided.clear()
            known = self._decided[user, asked] = self._decide(user, asked)
        return known

    def reason(self, user: User, asked: Attributes) -> str:
        """By which binding the user may, as the authorizer words it; "" for who may everything."""
        for rule, grant in self._grants(user, asked.namespace):
            if _permits(rule, asked):
                return f"RBAC: allowed by {grant}" if grant else ""
        return ""

    def rules(self, user: User, namespace: str) -> Iterator[Obj]:
        """Every rule that holds for the user in a namespace ("": cluster-wide rules only)."""
        return (rule for rule, _ in self._grants(user, namespace))

    def _grants(self, user: User, namespace: str) -> Iterator[tuple[Obj, str]]:
        """Each rule with the binding that gives it to the user, in words."""
        if MASTERS in user.groups:
            yield {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}, ""
            yield {"verbs": ["*"], "nonResourceURLs": ["*"]}, ""
        if AUTHENTICATED in user.groups:
            yield from ((rule, _BOOTSTRAP_GRANT) for rule in _BOOTSTRAP)
        for binding in self._store.all(_API, "ClusterRoleBinding"):
            subject = _bound(binding, user, "")
            if subject is not None:
                grant = _grant(binding, subject, "")
                yield from ((rule, grant) for rule in self._rules_of(binding, ""))
        for binding in self._store.all(_API, "RoleBinding", namespace) if namespace else ():
            subject = _bound(binding, user, namespace)
            if subject is not None:
                grant = _grant(binding, subject, namespace)
                yield from ((rule, grant) for rule in self._rules_of(binding, namespace))

    def _decide(self, user: User, asked: Attributes) -> bool:
        return any(_permits(rule, asked) for rule in self.rules(user, asked.namespace))

    def _rules_of(self, binding: Obj, namespace: str) -> Iterator[Obj]:
        reference = binding.get("roleRef") or {}
        kind, name = reference.get("kind", ""), reference.get("name", "")
        if kind not in ("ClusterRole", "Role"):
            return
        role = self._store.find(_API, kind, namespace if kind == "Role" else "", name)
        if role is None:
            return
        yield from role.get("rules") or ()
        selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
        for other in self._store.all(_API, "ClusterRole") if selectors else ():
            if any(_selects(selector, other) for selector in selectors):
                yield from other.get("rules") or ()


def forbidden(user: User, asked: Attributes) -> ApiError:
    """403 as an API server words it."""
    if asked.path:
        return ApiError(
            403,
            f'forbidden: User "{user.name}" cannot {asked.verb} path "{asked.path}"',
            details={},
        )
    qualified = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    full = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    which = f'{qualified} "{asked.name}"' if asked.name else qualified
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    return ApiError(
        403,
        f'{which} is forbidden: User "{user.name}" cannot {asked.verb} resource "{full}" '
        f'in API group "{asked.group}" {where}',
        details={key: value for key, value in details.items() if value},
    )


def unauthorized() -> ApiError:
    """401: no credentials, or none that hold."""
    return ApiError(401, "Unauthorized")


def attributes_of(spec: Mapping[str, Any]) -> Attributes:
    """What an access review's spec asks about. ApiError 422 unless it asks exactly one thing."""
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if (resource is None) == (path is None):
        raise ApiError(
            422,
            "spec: Invalid value: exactly one of nonResourceAttributes or resourceAttributes "
            "must be specified",
        )
    if path is not None:
        return Attributes(path.get("verb", ""), path=path.get("path", ""))
    wanted = resource or {}
    keys = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(**{key: str(wanted.get(key, "")) for key in keys})


_BOOTSTRAP: tuple[Obj, ...] = (
    {"verbs": ["get"], "nonResourceURLs": list(_OPEN_PATHS)},
    *(
        {"verbs": ["create"], "apiGroups": [group], "resources": [resource]}
        for group, resource in sorted(_SELF_REVIEWS)
    ),
)


_BOOTSTRAP_GRANT = (
    'ClusterRoleBinding "system:basic-user" of ClusterRole "system:basic-user" to Group '
    f'"{AUTHENTICATED}"'
)


def _grant(binding: Obj, subject: Obj, namespace: str) -> str:
    """A binding as Kubernetes' RBAC authorizer names it (its ``rule.go``)."""
    reference, name = binding.get("roleRef") or {}, binding["metadata"]["name"]
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    bound = f"{name}/{namespace}" if namespace else name
    who = subject.get("name", "")
    if subject.get("kind") == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    role = f'{reference.get("kind", "")} "{reference.get("name", "")}"'
    return f'{kind} "{bound}" of {role} to {subject.get("kind", "")} "{who}"'


def _permits(rule: Obj, asked: Attributes) -> bool:
    if not _has(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        return any(_path_fits(url, asked.path) for url in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("apiGroups"), asked.group)
        and _resource_fits(rule.get("resources") or (), asked)
        and (not names or asked.name in names)
    )


def _has(values: Any, wanted: str) -> bool:
    return "*" in (values or ()) or wanted in (values or ())


def _resource_fits(resources: Any, asked: Attributes) -> bool:
    if not asked.subresource:
        return _has(resources, asked.resource)
    full, every = f"{asked.resource}/{asked.subresource}", f"*/{asked.subresource}"
    return any(value in ("*", full, every) for value in resources)


def _path_fits(pattern: str, path: str) -> bool:
    return pattern == path or (pattern.endswith("*") and path.startswith(pattern[:-1]))


def _bound(binding: Obj, user: User, namespace: str) -> Obj | None:
    """The first subject of a binding that the user is."""
    subjects: Iterable[Obj] = binding.get("subjects") or ()
    return next((one for one in subjects if _is(one, user, namespace)), None)


def _is(subject: Obj, user: User, namespace: str) -> bool:
    kind, name = subject.get("kind"), subject.get("name", "")
    if kind == "ServiceAccount":
        return user.name == f"{_ACCOUNT}{subject.get('namespace') or namespace}:{name}"
    return (kind == "User" and name == user.name) or (kind == "Group" and name in user.groups)


def _selects(selector: Obj, role: Obj) -> bool:
    labels = role.get("metadata", {}).get("labels") or {}
    wanted = selector.get("matchLabels") or {}
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())
