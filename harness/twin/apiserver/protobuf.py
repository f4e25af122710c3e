"""Reads the few kinds that kubectl posts in protobuf and in no other form.

From 1.32 on `kubectl auth can-i`, `auth whoami`, `create token` and `create` of a namespace,
configmap, secret, serviceaccount, role or rolebinding send protobuf, and do not fall back on 415
(lab/python_kube_stack.md 3.3 names the first of them, the RBAC kinds were seen with 1.33). Field
numbers are those of the public `generated.proto` files of k8s.io/api and k8s.io/apimachinery.
"""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable, Iterator
from typing import Any

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Obj

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\x00"

# A field is (JSON name, type). Types: str, bytes, bool, int, time, the name of a message;
# in [] repeated, in {} a map from strings.
_MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "Time": {1: ("seconds", "int"), 2: ("nanos", "int")},
    "ObjectMeta": {
        1: ("name", "str"),
        2: ("generateName", "str"),
        3: ("namespace", "str"),
        4: ("selfLink", "str"),
        5: ("uid", "str"),
        6: ("resourceVersion", "str"),
        7: ("generation", "int"),
        8: ("creationTimestamp", "time"),
        9: ("deletionTimestamp", "time"),
        10: ("deletionGracePeriodSeconds", "int"),
        11: ("labels", "{str}"),
        12: ("annotations", "{str}"),
        13: ("ownerReferences", "[OwnerReference]"),
        14: ("finalizers", "[str]"),
    },
    "OwnerReference": {
        1: ("kind", "str"),
        3: ("name", "str"),
        4: ("uid", "str"),
        5: ("apiVersion", "str"),
        6: ("controller", "bool"),
        7: ("blockOwnerDeletion", "bool"),
    },
    "ObjectReference": {
        1: ("kind", "str"),
        2: ("namespace", "str"),
        3: ("name", "str"),
        4: ("uid", "str"),
        5: ("apiVersion", "str"),
        6: ("resourceVersion", "str"),
        7: ("fieldPath", "str"),
    },
    "LocalObjectReference": {1: ("name", "str")},
    "Namespace": {
        1: ("metadata", "ObjectMeta"),
        2: ("spec", "NamespaceSpec"),
        3: ("status", "NamespaceStatus"),
    },
    "NamespaceSpec": {1: ("finalizers", "[str]")},
    "NamespaceStatus": {1: ("phase", "str")},
    "ConfigMap": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "{str}"),
        3: ("binaryData", "{bytes}"),
        4: ("immutable", "bool"),
    },
    "Secret": {
        1: ("metadata", "ObjectMeta"),
        2: ("data", "{bytes}"),
        3: ("type", "str"),
        4: ("stringData", "{str}"),
        5: ("immutable", "bool"),
    },
    "ServiceAccount": {
        1: ("metadata", "ObjectMeta"),
        2: ("secrets", "[ObjectReference]"),
        3: ("imagePullSecrets", "[LocalObjectReference]"),
        4: ("automountServiceAccountToken", "bool"),
    },
    "Role": {1: ("metadata", "ObjectMeta"), 2: ("rules", "[PolicyRule]")},
    "ClusterRole": {1: ("metadata", "ObjectMeta"), 2: ("rules", "[PolicyRule]")},
    "PolicyRule": {
        1: ("verbs", "[str]"),
        2: ("apiGroups", "[str]"),
        3: ("resources", "[str]"),
        4: ("resourceNames", "[str]"),
        5: ("nonResourceURLs", "[str]"),
    },
    "RoleBinding": {
        1: ("metadata", "ObjectMeta"),
        2: ("subjects", "[Subject]"),
        3: ("roleRef", "RoleRef"),
    },
    "ClusterRoleBinding": {
        1: ("metadata", "ObjectMeta"),
        2: ("subjects", "[Subject]"),
        3: ("roleRef", "RoleRef"),
    },
    "Subject": {
        1: ("kind", "str"),
        2: ("apiGroup", "str"),
        3: ("name", "str"),
        4: ("namespace", "str"),
    },
    "RoleRef": {1: ("apiGroup", "str"), 2: ("kind", "str"), 3: ("name", "str")},
    "SelfSubjectAccessReview": {
        1: ("metadata", "ObjectMeta"),
        2: ("spec", "SelfSubjectAccessReviewSpec"),
        3: ("status", "SubjectAccessReviewStatus"),
    },
    "SelfSubjectAccessReviewSpec": {
        1: ("resourceAttributes", "ResourceAttributes"),
        2: ("nonResourceAttributes", "NonResourceAttributes"),
    },
    "SubjectAccessReview": {
        1: ("metadata", "ObjectMeta"),
        2: ("spec", "SubjectAccessReviewSpec"),
        3: ("status", "SubjectAccessReviewStatus"),
    },
    "SubjectAccessReviewSpec": {
        1: ("resourceAttributes", "ResourceAttributes"),
        2: ("nonResourceAttributes", "NonResourceAttributes"),
        3: ("user", "str"),
        4: ("groups", "[str]"),
        6: ("uid", "str"),
    },
    "ResourceAttributes": {
        1: ("namespace", "str"),
        2: ("verb", "str"),
        3: ("group", "str"),
        4: ("version", "str"),
        5: ("resource", "str"),
        6: ("subresource", "str"),
        7: ("name", "str"),
    },
    "NonResourceAttributes": {1: ("path", "str"), 2: ("verb", "str")},
    "SubjectAccessReviewStatus": {
        1: ("allowed", "bool"),
        2: ("reason", "str"),
        3: ("evaluationError", "str"),
        4: ("denied", "bool"),
    },
    "SelfSubjectRulesReview": {
        1: ("metadata", "ObjectMeta"),
        2: ("spec", "SelfSubjectRulesReviewSpec"),
        3: ("status", "SubjectRulesReviewStatus"),
    },
    "SelfSubjectRulesReviewSpec": {1: ("namespace", "str")},
    "SubjectRulesReviewStatus": {3: ("incomplete", "bool"), 4: ("evaluationError", "str")},
    "SelfSubjectReview": {1: ("metadata", "ObjectMeta"), 2: ("status", "SelfSubjectReviewStatus")},
    "SelfSubjectReviewStatus": {1: ("userInfo", "UserInfo")},
    "UserInfo": {1: ("username", "str"), 2: ("uid", "str"), 3: ("groups", "[str]")},
    "TokenRequest": {
        1: ("metadata", "ObjectMeta"),
        2: ("spec", "TokenRequestSpec"),
        3: ("status", "TokenRequestStatus"),
    },
    "TokenRequestSpec": {
        1: ("audiences", "[str]"),
        3: ("boundObjectRef", "BoundObjectReference"),
        4: ("expirationSeconds", "int"),
    },
    "BoundObjectReference": {
        1: ("kind", "str"),
        2: ("apiVersion", "str"),
        3: ("name", "str"),
        4: ("uid", "str"),
    },
    "TokenRequestStatus": {1: ("token", "str"), 2: ("expirationTimestamp", "time")},
    "Eviction": {1: ("metadata", "ObjectMeta"), 2: ("deleteOptions", "DeleteOptions")},
    "DeleteOptions": {
        1: ("gracePeriodSeconds", "int"),
        2: ("preconditions", "Preconditions"),
        3: ("orphanDependents", "bool"),
        4: ("propagationPolicy", "str"),
        5: ("dryRun", "[str]"),
    },
    "Preconditions": {1: ("uid", "str"), 2: ("resourceVersion", "str")},
    "TypeMeta": {1: ("apiVersion", "str"), 2: ("kind", "str")},
    "Unknown": {
        1: ("typeMeta", "TypeMeta"),
        2: ("raw", "raw"),
        3: ("contentEncoding", "str"),
        4: ("contentType", "str"),
    },
}
KINDS = frozenset(
    {
        ("v1", "Namespace"),
        ("v1", "ConfigMap"),
        ("v1", "Secret"),
        ("v1", "ServiceAccount"),
        ("v1", "DeleteOptions"),
        ("meta.k8s.io/v1", "DeleteOptions"),
        ("policy/v1", "Eviction"),
        ("authentication.k8s.io/v1", "SelfSubjectReview"),
        ("authentication.k8s.io/v1", "TokenRequest"),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview"),
        ("authorization.k8s.io/v1", "SubjectAccessReview"),
        ("rbac.authorization.k8s.io/v1", "Role"),
        ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    }
)


class _Malformed(Exception):
    """The bytes are not the message they say they are."""


def decode(data: bytes) -> Obj:
    """The object that a protobuf body carries, as its JSON form.

    Raises ApiError 415 for a kind (or a field) this server does not read in protobuf, and 400 for
    bytes that are not Kubernetes protobuf.
    """
    if not data.startswith(_MAGIC):
        raise ApiError(400, "the body is not Kubernetes protobuf: its magic number is missing")
    try:
        envelope = _message("Unknown", memoryview(data)[len(_MAGIC) :])
        meta = envelope.get("typeMeta", {})
        api_version, kind = str(meta.get("apiVersion", "")), str(meta.get("kind", ""))
        if (api_version, kind) not in KINDS:
            raise _unread(f"{api_version} {kind}")
        obj = _message(kind, memoryview(envelope.get("raw", b"")))
    except (_Malformed, UnicodeDecodeError) as broken:
        raise ApiError(400, f"the body is not Kubernetes protobuf: {broken}") from broken
    return {"apiVersion": api_version, "kind": kind, **obj}


def _unread(what: str) -> ApiError:
    return ApiError(
        415,
        f"this server does not read {what} in protobuf; send it as application/json",
    )


def _message(name: str, data: memoryview) -> Obj:
    fields = _MESSAGES[name]
    found: Obj = {}
    for number, value in _fields(data):
        if number not in fields:
            raise _unread(f"field {number} of {name}")
        key, kind = fields[number]
        if kind.startswith("["):
            found.setdefault(key, []).append(_value(kind[1:-1], value))
        elif kind.startswith("{"):
            entry = dict(_fields(_bytes(value)))
            word = _value("str", entry.get(1, b""))
            found.setdefault(key, {})[word] = _value(kind[1:-1], entry.get(2, b""))
        else:
            found[key] = _value(kind, value)
    return {key: value for key, value in found.items() if value not in ("", None)}


def _value(kind: str, value: int | bytes | memoryview) -> Any:
    reader = _SCALARS.get(kind)
    return reader(value) if reader is not None else _message(kind, _bytes(value))


def _bytes(value: int | bytes | memoryview) -> memoryview:
    if isinstance(value, int):
        raise _Malformed("a number stands where bytes belong")
    return memoryview(value)


def _int(value: int | bytes | memoryview) -> int:
    if not isinstance(value, int):
        raise _Malformed("bytes stand where a number belongs")
    return value - (1 << 64) if value >> 63 else value


def _time(value: int | bytes | memoryview) -> str | None:
    seconds = _message("Time", _bytes(value)).get("seconds", 0)
    if not seconds:
        return None
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


_SCALARS: dict[str, Callable[[int | bytes | memoryview], Any]] = {
    "str": lambda value: bytes(_bytes(value)).decode(),
    "bytes": lambda value: base64.b64encode(_bytes(value)).decode(),
    "raw": lambda value: bytes(_bytes(value)),
    "bool": lambda value: bool(_int(value)),
    "int": _int,
    "time": _time,
}


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise _Malformed(f"field {number} is cut short")
            yield number, data[at : at + size]
            at += size
        else:
            raise _Malformed(f"field {number} has wire type {wire}")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value & ((1 << 64) - 1), at
        shift += 7
    raise _Malformed("a number is cut short")
