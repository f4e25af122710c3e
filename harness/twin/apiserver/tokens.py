"""Bearer tokens of service accounts: signed, bound to their account, good for a while."""

from __future__ import annotations

import base64
import datetime
import hashlib
import hmac
import json
from typing import Any

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Obj
from harness.twin.apiserver.store import Admission, Store

ACCOUNT = "kubernetes.io/service-account.name"
SECRET_TYPE = "kubernetes.io/service-account-token"
_CLAIM = "kubernetes.io"
_SHORTEST, _USUAL = 600, 3600  # seconds


class Tokens:
    """Gives out and recognises the tokens of one cluster's service accounts.

    Their form is a JWT's. They expire in the cluster's own time, and end with the account (and
    the Secret) that they are bound to.
    """

    def __init__(self, store: Store, secret: bytes, ca_pem: bytes) -> None:
        self._store = store
        self._secret = hashlib.sha256(secret + store.name.encode()).digest()
        self._ca_pem = ca_pem

    def issue(self, namespace: str, name: str, *, seconds: int | None = None) -> str:
        """A token for a service account; ``seconds`` None: without an end. ApiError 404."""
        return self._signed(self._account(namespace, name), seconds=seconds)

    def request(self, namespace: str, name: str, body: Obj) -> Obj:
        """Answers a ``TokenRequest``. ApiError 404 for the account, 422 for its lifetime."""
        spec = body.get("spec") or {}
        if spec.get("boundObjectRef"):
            raise ApiError(
                422, "spec.boundObjectRef: Forbidden: this server binds to accounts only"
            )
        seconds = spec.get("expirationSeconds")
        if seconds is None:  # kubectl up to 1.31 sends a null
            seconds = _USUAL
        if not isinstance(seconds, int) or seconds < _SHORTEST:
            raise ApiError(
                422,
                f"spec.expirationSeconds: Invalid value: {seconds}: may not specify a duration "
                "less than 10 minutes",
            )
        token = self.issue(namespace, name, seconds=seconds)
        until = int(self._store.now()) + seconds
        status = {"token": token, "expirationTimestamp": _rfc3339(until)}
        return {**body, "spec": {**spec, "expirationSeconds": seconds}, "status": status}

    def resolve(self, token: str) -> tuple[str, str, str] | None:
        """(namespace, name, UID) of the account a token speaks for, or None if it is not good."""
        claims = self._verified(token)
        if claims is None or claims.get("exp", float("inf")) <= self._store.now():
            return None
        bound = claims[_CLAIM]
        namespace, account = bound["namespace"], bound["serviceaccount"]
        if not self._alive("ServiceAccount", namespace, account):
            return None
        if "secret" in bound and not self._alive("Secret", namespace, bound["secret"]):
            return None
        return namespace, account["name"], account["uid"]

    def fill(self, admission: Admission) -> Obj:
        """Admission: gives a new token Secret its token, as the token controller does.

        ApiError 422 where the Secret names no account, 404 where the account does not exist.
        """
        obj = admission.obj
        if not _wants_token(admission):
            return obj
        metadata = obj.get("metadata") or {}
        name = (metadata.get("annotations") or {}).get(ACCOUNT)
        if not name:
            raise ApiError(422, f"metadata.annotations[{ACCOUNT}]: Required value")
        account = self._account(metadata.get("namespace", ""), name)
        token = self._signed(account, seconds=None, secret=obj)
        data = {
            "ca.crt": _base64(self._ca_pem),
            "namespace": _base64(metadata.get("namespace", "").encode()),
            "token": _base64(token.encode()),
        }
        return {**obj, "data": {**(obj.get("data") or {}), **data}}

    def _account(self, namespace: str, name: str) -> Obj:
        account = self._store.find("v1", "ServiceAccount", namespace, name)
        if account is None:
            raise ApiError(404, f'serviceaccounts "{name}" not found')
        return account

    def _alive(self, kind: str, namespace: str, bound: dict[str, str]) -> bool:
        found = self._store.find("v1", kind, namespace, bound["name"])
        uid = bound.get("uid")
        return found is not None and uid in (None, found["metadata"]["uid"])

    def _signed(self, account: Obj, *, seconds: int | None, secret: Obj | None = None) -> str:
        metadata = account["metadata"]
        bound: Obj = {
            "namespace": metadata["namespace"],
            "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
        }
        if secret is not None:
            bound["secret"] = {"name": secret["metadata"]["name"]}
        now = int(self._store.now())
        subject = f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}"
        claims: Obj = {"iss": "twin", "sub": subject, "iat": now, _CLAIM: bound}
        if seconds is not None:
            claims["exp"] = now + seconds
        text = f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{_part(claims)}"
        return f"{text}.{self._signature(text)}"

    def _signature(self, text: str) -> str:
        return _urlsafe(hmac.digest(self._secret, text.encode(), "sha256"))

    def _verified(self, token: str) -> dict[str, Any] | None:
        text, _, signature = token.rpartition(".")
        if not text or not hmac.compare_digest(signature.encode(), self._signature(text).encode()):
            return None
        payload = text.split(".", 1)[1]
        claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=="))
        return claims


def _wants_token(admission: Admission) -> bool:
    obj = admission.obj
    return (
        admission.verb == "CREATE"
        and admission.resource.kind == "Secret"
        and not admission.resource.group
        and obj.get("type") == SECRET_TYPE
        and "token" not in (obj.get("data") or {})
    )


def _part(claims: dict[str, Any]) -> str:
    return _urlsafe(json.dumps(claims, separators=(",", ":"), sort_keys=True).encode())


def _urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _rfc3339(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
