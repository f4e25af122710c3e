"""OpenAPI v3, as little as clients need: every kind named, its fields left open.

kubectl's apply, create and replace, and helm, fetch the index and the documents of the
group-versions they write; they look for the kind's extension and at which query parameters PATCH
takes (lab/python_kube_stack.md 3.3).
"""

from __future__ import annotations

import hashlib
import json

from harness.twin.apiserver.discovery import Discovery
from harness.twin.apiserver.resources import Obj, Resource

_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force")
# Not strategic merge: where it is listed, kubectl wants every field's schema to build the patch;
# where it is not, it builds it from the types it has compiled in.
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)


class OpenApi:
    """The OpenAPI documents of one cluster."""

    def __init__(self, discovery: Discovery, version: str) -> None:
        self._discovery = discovery
        self._version = version

    def page(self, parts: tuple[str, ...]) -> Obj | None:
        """The document at ``/openapi/v3[/...]``, or None where there is none."""
        if parts == ("openapi", "v3"):
            return self._index()
        if parts[:2] != ("openapi", "v3"):
            return None
        match parts[2:]:
            case ("api", version):
                return self._document("", version)
            case ("apis", group, version):
                return self._document(group, version)
        return None

    def _index(self) -> Obj:
        paths = {}
        for group, version in self._discovery.group_versions():
            root = _root(group, version)
            text = json.dumps(self._document(group, version), sort_keys=True)
            digest = hashlib.sha256(text.encode()).hexdigest()[:32].upper()
            paths[root] = {"serverRelativeURL": f"/openapi/v3/{root}?hash={digest}"}
        return {"paths": paths}

    def _document(self, group: str, version: str) -> Obj | None:
        kinds = self._discovery.kinds(group, version)
        if not kinds:
            return None
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": self._version},
            "paths": {_path(resource): _item(resource) for resource in kinds},
            "components": {"schemas": {_schema_name(r): _schema(r) for r in kinds}},
        }


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _path(resource: Resource) -> str:
    space = "namespaces/{namespace}/" if resource.namespaced else ""
    return f"/{_root(resource.group, resource.version)}/{space}{resource.plural}/{{name}}"


def _schema_name(resource: Resource) -> str:
    group = resource.group or "core"
    return ".".join((*reversed(group.split(".")), resource.version, resource.kind))


def _identity(resource: Resource) -> Obj:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema(resource: Resource) -> Obj:
    return {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
        "x-kubernetes-group-version-kind": [_identity(resource)],
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _item(resource: Resource) -> Obj:
    reference = {"$ref": f"#/components/schemas/{_schema_name(resource)}"}
    answer = {"200": {"description": "OK", "content": {"application/json": {"schema": reference}}}}
    known = {"x-kubernetes-group-version-kind": _identity(resource)}
    return {
        "get": {"x-kubernetes-action": "get", **known, "responses": answer},
        "patch": {
            "x-kubernetes-action": "patch",
            **known,
            "parameters": [
                {"name": name, "in": "query", "schema": {"type": "string"}} for name in _PARAMETERS
            ],
            "requestBody": {
                "content": {media: {"schema": {"type": "object"}} for media in _PATCHES}
            },
            "responses": answer,
        },
    }
