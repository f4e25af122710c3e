"""Who is asking: a client certificate, a bearer token, and impersonation on top of either."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from multidict import CIMultiDictProxy

from harness.twin.apiserver.access import (
    AUTHENTICATED,
    Access,
    Attributes,
    User,
    account_user,
    certificate_user,
    unauthorized,
)
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.tokens import Tokens

_ACCOUNT = "system:serviceaccount:"
_PREFIX = "impersonate-"


Headers = CIMultiDictProxy[str]


class Authenticator:
    """Recognises the users of one cluster."""

    def __init__(self, access: Access, tokens: Tokens) -> None:
        self._access = access
        self._tokens = tokens

    def user(self, certificate: Mapping[str, Any] | None, headers: Headers) -> User:
        """The user a request comes from.

        ``certificate`` is the verified client certificate as the ssl module gives it. ApiError
        401 without credentials that hold, 403 for an impersonation that is not allowed.
        """
        user = _of_certificate(certificate["subject"]) if certificate else None
        if user is None:
            user = self._of_token(headers.get("Authorization", ""))
        for name in headers:
            if name[:12].lower() == _PREFIX:
                return self._impersonated(user, headers)
        return user

    def _of_token(self, authorization: str) -> User:
        scheme, _, token = authorization.partition(" ")
        account = self._tokens.resolve(token.strip()) if scheme.lower() == "bearer" else None
        if account is None:
            raise unauthorized()
        return account_user(*account)

    def _impersonated(self, user: User, headers: Headers) -> User:
        name = headers.get("Impersonate-User", "")
        if not name:
            raise ApiError(400, "impersonation of groups or extras needs Impersonate-User")
        groups = headers.getall("Impersonate-Group", [])
        for header in headers:
            if header.lower().startswith((_PREFIX + "extra-", _PREFIX + "uid")):
                raise ApiError(400, f"this server does not impersonate by {header}")
        self._access.require(user, _impersonation(name))
        for group in groups:
            self._access.require(user, Attributes("impersonate", resource="groups", name=group))
        if name.startswith(_ACCOUNT) and not groups:
            return account_user(*name.removeprefix(_ACCOUNT).split(":", 1))
        return User(name, (*groups, AUTHENTICATED))


def _impersonation(name: str) -> Attributes:
    parts = name.removeprefix(_ACCOUNT).split(":")
    if name.startswith(_ACCOUNT) and len(parts) == 2:
        return Attributes(
            "impersonate", resource="serviceaccounts", namespace=parts[0], name=parts[1]
        )
    return Attributes("impersonate", resource="users", name=name)


@lru_cache(maxsize=1024)
def _of_certificate(subject: tuple[tuple[tuple[str, str], ...], ...]) -> User | None:
    return certificate_user(pair for part in subject for pair in part)
