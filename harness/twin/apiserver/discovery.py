"""What the server says of itself: groups, versions, kinds, health, its own version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.twin.apiserver.builtin_kinds import is_review
from harness.twin.apiserver.namespaces import is_namespace
from harness.twin.apiserver.resources import Obj, Registry, Resource
from harness.twin.apiserver.routing import subresources

_VERBS = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)
# (group, version, kind) of what a subresource takes and gives where it is not the kind itself
_FORMS: dict[str, tuple[str, str, str]] = {
    "exec": ("", "v1", "PodExecOptions"),
    "eviction": ("policy", "v1", "Eviction"),
    "token": ("authentication.k8s.io", "v1", "TokenRequest"),
    "scale": ("autoscaling", "v1", "Scale"),
}
_SUB_VERBS: dict[str, tuple[str, ...]] = {
    "exec": ("create", "get"),
    "log": ("get",),
    "console": ("get",),
    "eviction": ("create",),
    "token": ("create",),
    "status": ("get", "patch", "update"),
    "scale": ("get", "patch", "update"),
}
_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")
_STAGES = {None: 3, "beta": 2, "alpha": 1}


def verbs_of(resource: Resource) -> tuple[str, ...]:
    """The verbs a kind answers to."""
    if not resource.stored:
        return ()
    if is_review(resource):
        return ("create",)
    # as in the API: nobody deletes all namespaces at once
    return tuple(v for v in _VERBS if not is_namespace(resource) or v != "deletecollection")


class Discovery:
    """The discovery documents of one registry, made when asked for: kinds may be added."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def page(self, parts: tuple[str, ...], *, aggregated: bool) -> Obj | None:
        """The document at a path, or None where there is none.

        ``aggregated`` asks for one ``apidiscovery.k8s.io/v2`` document at /api and at /apis.
        """
        match parts:
            case ("api",):
                return self._aggregated([""]) if aggregated else self._legacy()
            case ("apis",):
                groups = self._groups()
                return self._aggregated(groups) if aggregated else self._group_list(groups)
            case ("apis", group) if group in self._groups():
                return {"kind": "APIGroup", "apiVersion": "v1", **self._group(group)}
            case ("api", "v1"):
                return self._resource_list("", "v1")
            case ("apis", group, version):
                return self._resource_list(group, version)
        return None

    def group_versions(self) -> list[tuple[str, str]]:
        """Every (group, version) served, the core first."""
        return [(group, v) for group in ["", *self._groups()] for v in self._versions(group)]

    def kinds(self, group: str, version: str) -> list[Resource]:
        """The kinds of one group-version."""
        return [r for r in self._registry if (r.group, r.version) == (group, version)]

    def _groups(self) -> list[str]:
        return sorted({resource.group for resource in self._registry if resource.group})

    def _versions(self, group: str) -> list[str]:
        found = {resource.version for resource in self._registry if resource.group == group}
        return sorted(found, key=_priority, reverse=True)

    def _legacy(self) -> Obj:
        return {
            "kind": "APIVersions",
            "versions": self._versions(""),
            "serverAddressByClientCIDRs": [],
        }

    def _group_list(self, groups: list[str]) -> Obj:
        listed = [self._group(group) for group in groups]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}

    def _group(self, group: str) -> Obj:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version}
            for version in self._versions(group)
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _resource_list(self, group: str, version: str) -> Obj | None:
        kinds = self.kinds(group, version)
        if not kinds:
            return None
        listed = [entry for resource in kinds for entry in _entries(resource)]
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": listed,
        }

    def _aggregated(self, groups: list[str]) -> Obj:
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": [
                {
                    "metadata": {"name": group} if group else {},
                    "versions": [self._aggregated_version(group, v) for v in self._versions(group)],
                }
                for group in groups
            ],
        }

    def _aggregated_version(self, group: str, version: str) -> Obj:
        resources = [_aggregated_entry(resource) for resource in self.kinds(group, version)]
        return {"version": version, "resources": resources, "freshness": "Current"}


def _priority(version: str) -> tuple[int, int, int, str]:
    found = _VERSION.fullmatch(version)
    if found is None:
        return (0, 0, 0, version)
    return (_STAGES[found[2]], int(found[1]), int(found[3] or 0), version)


def _naming(resource: Resource) -> Obj:
    more: Obj = {}
    if resource.short_names:
        more["shortNames"] = list(resource.short_names)
    if resource.categories:
        more["categories"] = list(resource.categories)
    return more


def _entries(resource: Resource) -> Iterator[Obj]:
    if resource.stored:
        yield {
            "name": resource.plural,
            "singularName": resource.singular or resource.kind.lower(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(verbs_of(resource)),
            **_naming(resource),
        }
    for name in subresources(resource):
        entry: Obj = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(_SUB_VERBS[name]),
        }
        if name in _FORMS:
            group, version, entry["kind"] = _FORMS[name]
            entry |= {"group": group, "version": version} if group else {}
        yield entry


def _aggregated_entry(resource: Resource) -> Obj:
    entry: Obj = {
        "resource": resource.plural,
        "responseKind": _own_kind(resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular or resource.kind.lower(),
        "verbs": list(verbs_of(resource)),
        **_naming(resource),
    }
    names = subresources(resource)
    if names:
        entry["subresources"] = [_aggregated_subresource(resource, name) for name in names]
    return entry


def _aggregated_subresource(resource: Resource, name: str) -> Obj:
    form = _FORMS.get(name, (resource.group, resource.version, resource.kind))
    return {
        "subresource": name,
        "responseKind": _response_kind(*form),
        "verbs": list(_SUB_VERBS[name]),
    }


def _own_kind(resource: Resource) -> Obj:
    # a parent that is not served has an empty kind, by which clients know to pass over it
    if not resource.stored:
        return _response_kind("", "", "")
    return _response_kind(resource.group, resource.version, resource.kind)


def _response_kind(group: str, version: str, kind: str) -> Obj:
    return {"group": group, "version": version, "kind": kind}


PLATFORM = "hil/twin"
"""Where a real API server says linux/amd64: by this alone a client can tell what it talks to."""


def version_page(version: str) -> Obj:
    """The document at /version for a version such as ``v1.33.4``."""
    major, minor, *_ = version.lstrip("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": version,
        "gitCommit": "0" * 40,
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "none",
        "platform": PLATFORM,
    }
