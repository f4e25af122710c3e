"""What makes an object acceptable: names, labels, required metadata; 422 as the API words it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Obj, Resource

_LABEL_PATTERN: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_PATTERN: Final = rf"{_LABEL_PATTERN}(\.{_LABEL_PATTERN})*"
_NAME_PATTERN: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE_PATTERN: Final = f"({_NAME_PATTERN})?"

_DNS_LABEL: Final = re.compile(_LABEL_PATTERN)
_OLD_LABEL_PATTERN: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_OLD_LABEL: Final = re.compile(_OLD_LABEL_PATTERN)
_SUBDOMAIN: Final = re.compile(_SUBDOMAIN_PATTERN)
_QUALIFIED: Final = re.compile(_NAME_PATTERN)
_LABEL_VALUE: Final = re.compile(_VALUE_PATTERN)

_LONGEST_LABEL: Final = 63
_LONGEST_SUBDOMAIN: Final = 253
_FINALIZERS: Final = ("orphan", "foregroundDeletion", "kubernetes")
_RBAC: Final = "rbac.authorization.k8s.io"

_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN_PATTERN}')"
)
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    f"for validation is '{_LABEL_PATTERN}')"
)
_OLD_LABEL_RULE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    f"regex used for validation is '{_OLD_LABEL_PATTERN}')"
)
_QUALIFIED_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_NAME_PATTERN}')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    f"or '12345', regex used for validation is '{_VALUE_PATTERN}')"
)


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason for a 422: the field and what is wrong with it."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


def invalid_value(field: str, value: Any, rule: str) -> Cause:
    """A cause worded ``Invalid value: ...``."""
    shown = f'"{value}"' if isinstance(value, str) else f"{value}"
    return Cause(field, f"Invalid value: {shown}: {rule}")


def invalid(resource: Resource, name: str, causes: list[Cause], *, qualified: str = "") -> ApiError:
    """422 for an object whose fields are wrong; there must be at least one cause.

    ``qualified`` is how the message names the kind, ``Kind.group`` if not given.
    """
    if not qualified:
        qualified = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    what = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return ApiError(
        422,
        f'{qualified} "{name}" is invalid: {what}',
        details={
            "name": name,
            "group": resource.group,
            "kind": resource.kind,
            "causes": [
                {"reason": cause.reason, "message": cause.message, "field": cause.field}
                for cause in causes
            ],
        },
    )


def check_shape(resource: Resource, obj: Any, old: Obj | None = None) -> None:
    """Refuse with 400 what is no object of this kind, or has metadata of the wrong types.

    Metadata taken over from ``old`` is known to be well.
    """
    if not isinstance(obj, dict):
        raise ApiError(400, f"an object was expected, not {obj!r:.80}")
    _check_kind(resource, obj)
    metadata = obj.get("metadata", {})
    if old is not None and metadata is old["metadata"]:
        return
    if not isinstance(metadata, dict):
        raise _cannot_unmarshal(resource, metadata, "metadata", "v1.ObjectMeta")
    for field in ("name", "namespace", "generateName", "resourceVersion", "uid"):
        if not isinstance(metadata.get(field, ""), str | None):
            raise _cannot_unmarshal(resource, metadata[field], f"metadata.{field}", "string")
    for field in ("labels", "annotations"):
        _check_text_map(resource, metadata.get(field), f"metadata.{field}")
    for field in ("finalizers", "ownerReferences", "managedFields"):
        if not isinstance(metadata.get(field, []), list | None):
            raise _cannot_unmarshal(resource, metadata[field], f"metadata.{field}", "[]")


def _check_kind(resource: Resource, obj: Obj) -> None:
    for field in ("kind", "apiVersion"):
        if not resource.builtin and not obj.get(field):
            raise ApiError(400, f"Object '{field[0].upper()}{field[1:]}' is missing in the body")
    version = obj.get("apiVersion") or resource.api_version
    kind = obj.get("kind") or resource.kind
    if version != resource.api_version:
        raise ApiError(
            400,
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})",
        )
    if kind != resource.kind:
        raise ApiError(
            400,
            f"the kind in the data ({kind}) does not match the expected kind ({resource.kind})",
        )


def _check_text_map(resource: Resource, value: Any, field: str) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        raise _cannot_unmarshal(resource, value, field, "map[string]string")
    for item in value.values():
        if not isinstance(item, str):
            raise _cannot_unmarshal(resource, item, field, "string")


def _cannot_unmarshal(resource: Resource, value: Any, field: str, wanted: str) -> ApiError:
    words = {bool: "bool", int: "number", float: "number", str: "string", dict: "object"}
    found = words.get(type(value), "array" if isinstance(value, list) else "null")
    return ApiError(
        400,
        f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
        f"json: cannot unmarshal {found} into Go struct field ObjectMeta.{field} of type {wanted}",
    )


def check_new(resource: Resource, obj: Obj) -> None:
    """Refuse with 422 a new object whose metadata breaks the API's rules."""
    metadata = obj["metadata"]
    causes = _name_causes(resource, metadata.get("name") or "")
    causes += _metadata_causes(resource, metadata, {})
    if causes:
        raise invalid(resource, metadata.get("name") or "", causes)


def check_changed(resource: Resource, obj: Obj, old: Obj) -> None:
    """Refuse with 422 a change that breaks the API's rules; what did not change is not judged."""
    metadata, before = obj["metadata"], old["metadata"]
    if metadata is before:
        return
    causes = _metadata_causes(resource, metadata, before)
    if before.get("deletionTimestamp"):
        causes += _new_finalizers(metadata, before)
    if causes:
        raise invalid(resource, metadata["name"], causes)


def _new_finalizers(metadata: Obj, before: Obj) -> list[Cause]:
    known = before.get("finalizers") or ()
    added = [f'"{name}"' for name in metadata.get("finalizers") or () if name not in known]
    if not added:
        return []
    text = (
        "Forbidden: no new finalizers can be added if the object is being deleted, found new "
        f"finalizers []string{{{', '.join(added)}}}"
    )
    return [Cause("metadata.finalizers", text, "FieldValueForbidden")]


def _metadata_causes(resource: Resource, metadata: Obj, before: Obj) -> list[Cause]:
    causes = []
    if metadata.get("labels") is not before.get("labels"):
        causes += _labels_causes(metadata.get("labels") or {})
    if metadata.get("annotations") is not before.get("annotations"):
        for key in metadata.get("annotations") or {}:
            causes += _key_causes("metadata.annotations", key)
    if metadata.get("ownerReferences") is not before.get("ownerReferences"):
        causes += _owner_causes(metadata.get("ownerReferences") or [])
    if metadata.get("finalizers") is not before.get("finalizers"):
        for name in metadata.get("finalizers") or []:
            causes += _finalizer_causes(resource, str(name))
    return causes


def _finalizer_causes(resource: Resource, name: str) -> list[Cause]:
    rule = _key_fault(name)
    if not rule and resource.builtin and "/" not in name and name not in _FINALIZERS:
        rule = "name is neither a standard finalizer name nor is it fully qualified"
    return [invalid_value("metadata.finalizers", name, rule)] if rule else []


def _labels_causes(labels: dict[str, str]) -> list[Cause]:
    causes = []
    for key, value in labels.items():
        causes += _key_causes("metadata.labels", key)
        rule = _value_fault(value)
        if rule:
            causes.append(invalid_value("metadata.labels", value, rule))
    return causes


@lru_cache(maxsize=4096)
def _value_fault(value: str) -> str:
    if len(value) > _LONGEST_LABEL:
        return f"must be no more than {_LONGEST_LABEL} characters"
    return "" if _LABEL_VALUE.fullmatch(value) else _VALUE_RULE


def _key_causes(field: str, key: str) -> list[Cause]:
    rule = _key_fault(key)
    return [invalid_value(field, key, rule)] if rule else []


@lru_cache(maxsize=4096)
def _key_fault(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        return "prefix part must be non-empty"
    if prefix and not _SUBDOMAIN.fullmatch(prefix):
        return f"prefix part {_SUBDOMAIN_RULE}"
    if not name:
        return "name part must be non-empty"
    if len(name) > _LONGEST_LABEL:
        return f"name part must be no more than {_LONGEST_LABEL} characters"
    return "" if _QUALIFIED.fullmatch(name) else _QUALIFIED_RULE


def _owner_causes(owners: list[Any]) -> list[Cause]:
    causes = []
    for owner in owners:
        found = owner if isinstance(owner, dict) else {}
        for field in ("apiVersion", "kind", "name", "uid"):
            if not found.get(field):
                word = "version" if field == "apiVersion" else field
                where = f"metadata.ownerReferences.{field}"
                causes.append(invalid_value(where, "", f"{word} must not be empty"))
    controllers = [o for o in owners if isinstance(o, dict) and o.get("controller") is True]
    if len(controllers) > 1:
        rule = "Only one reference can have Controller set to true"
        causes.append(Cause("metadata.ownerReferences", f"Invalid value: {rule}"))
    return causes


def _name_causes(resource: Resource, name: str) -> list[Cause]:
    if not name:
        text = "Required value: name or generateName is required"
        return [Cause("metadata.name", text, "FieldValueRequired")]
    if resource.group == _RBAC:
        rule = _segment_fault(name)
    elif not resource.group and resource.kind == "Namespace":
        rule = _dns_fault(name, _DNS_LABEL, _LONGEST_LABEL, _LABEL_RULE)
        rule = "must not contain dots" if "." in name else rule
    elif not resource.group and resource.kind == "Service":
        rule = _dns_fault(name, _OLD_LABEL, _LONGEST_LABEL, _OLD_LABEL_RULE)
    else:
        rule = _dns_fault(name, _SUBDOMAIN, _LONGEST_SUBDOMAIN, _SUBDOMAIN_RULE)
    return [invalid_value("metadata.name", name, rule)] if rule else []


def _dns_fault(name: str, pattern: re.Pattern[str], longest: int, rule: str) -> str:
    if len(name) > longest:
        return f"must be no more than {longest} characters"
    return "" if pattern.fullmatch(name) else rule


def _segment_fault(name: str) -> str:
    if name in (".", ".."):
        return f"may not be '{name}'"
    bad = [mark for mark in "/%" if mark in name]
    return f"may not contain '{bad[0]}'" if bad else ""
