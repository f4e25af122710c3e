"""Kinds that are a question: posted, answered, never stored (who am I, may I, may they)."""

from __future__ import annotations

from collections.abc import Callable

from harness.twin.apiserver.access import Access, Attributes, User, account_user, attributes_of
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.tokens import Tokens

AUTHORIZATION, AUTHENTICATION = "authorization.k8s.io", "authentication.k8s.io"


class Reviews:
    """Answers the review kinds of one cluster."""

    def __init__(self, access: Access, tokens: Tokens) -> None:
        self._access = access
        self._tokens = tokens
        self._answers: dict[tuple[str, str], Callable[[Obj, User, str], Obj]] = {
            (AUTHORIZATION, "SelfSubjectAccessReview"): self._self_access,
            (AUTHORIZATION, "SubjectAccessReview"): self._subject_access,
            (AUTHORIZATION, "LocalSubjectAccessReview"): self._local_access,
            (AUTHORIZATION, "SelfSubjectRulesReview"): self._rules,
            (AUTHENTICATION, "SelfSubjectReview"): self._whoami,
            (AUTHENTICATION, "TokenReview"): self._token,
        }

    def answer(self, resource: Resource, obj: Obj, user: User, namespace: str) -> Obj:
        """The review with its status filled in. ApiError 400 or 422 for one that asks nothing."""
        if (obj.get("kind"), obj.get("apiVersion")) != (resource.kind, resource.api_version):
            raise ApiError(
                400,
                f"the object provided is {obj.get('apiVersion')} {obj.get('kind')}, "
                f"not {resource.api_version} {resource.kind}",
            )
        status = self._answers[resource.group, resource.kind](obj, user, namespace)
        return {**obj, "metadata": obj.get("metadata") or {}, "status": status}

    def _self_access(self, obj: Obj, user: User, namespace: str) -> Obj:
        del namespace
        return self._verdict(user, attributes_of(obj.get("spec") or {}))

    def _subject_access(self, obj: Obj, user: User, namespace: str) -> Obj:
        del user, namespace
        spec = obj.get("spec") or {}
        return self._verdict(_subject(spec), attributes_of(spec))

    def _local_access(self, obj: Obj, user: User, namespace: str) -> Obj:
        del user
        spec = obj.get("spec") or {}
        asked = attributes_of(spec)
        if asked.path or asked.namespace != namespace:
            raise ApiError(
                422,
                "spec.resourceAttributes.namespace: Invalid value: must match metadata.namespace",
            )
        return self._verdict(_subject(spec), asked)

    def _verdict(self, user: User, asked: Attributes) -> Obj:
        allowed = self._access.allows(user, asked)
        reason = self._access.reason(user, asked) if allowed else ""
        return {"allowed": allowed, **({"reason": reason} if reason else {})}

    def _rules(self, obj: Obj, user: User, namespace: str) -> Obj:
        del namespace
        wanted = (obj.get("spec") or {}).get("namespace", "")
        if not wanted:
            raise ApiError(400, "no namespace on request")
        rules = list(self._access.rules(user, wanted))
        return {
            "resourceRules": [rule for rule in rules if "nonResourceURLs" not in rule],
            "nonResourceRules": [rule for rule in rules if "nonResourceURLs" in rule],
            "incomplete": False,
        }

    def _whoami(self, obj: Obj, user: User, namespace: str) -> Obj:
        del obj, namespace
        return {"userInfo": _info(user)}

    def _token(self, obj: Obj, user: User, namespace: str) -> Obj:
        del user, namespace
        account = self._tokens.resolve(str((obj.get("spec") or {}).get("token", "")))
        if account is None:
            return {"authenticated": False, "error": "the token is not good", "user": {}}
        return {"authenticated": True, "user": _info(account_user(*account))}


def _subject(spec: Obj) -> User:
    name, groups = spec.get("user", ""), spec.get("groups") or ()
    if not name and not groups:
        raise ApiError(422, "spec.user: Invalid value: at least one of user or group must be given")
    return User(name, tuple(groups), spec.get("uid", ""))


def _info(user: User) -> Obj:
    info: Obj = {"username": user.name, "groups": list(user.groups)}
    return {**info, "uid": user.uid} if user.uid else info
