"""From a URL's path to what it names: a kind, a namespace, an object, a subresource."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from harness.twin.apiserver.resources import Registry, Resource

# What a path may name below an object, beside a kind's own status and scale.
CONNECTS: dict[tuple[str, str], frozenset[str]] = {
    ("", "pods"): frozenset({"exec", "log", "eviction"}),
    ("", "serviceaccounts"): frozenset({"token"}),
    ("subresources.kubevirt.io", "virtualmachineinstances"): frozenset({"console"}),
}
_REMEMBERED = 8192


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names. ``namespace`` is "" at cluster scope and across all namespaces."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def segments(path: str) -> tuple[str, ...]:
    """The path's parts, decoded; doubled and trailing slashes do not count."""
    parts = [part for part in path.split("/") if part]
    return tuple(unquote(part) for part in parts) if "%" in path else tuple(parts)


def subresources(resource: Resource) -> tuple[str, ...]:
    """The subresources that a kind serves, in the order discovery lists them."""
    found = set(CONNECTS.get((resource.group, resource.plural), ()))
    found |= {"status"} if resource.status else set()
    found |= {"scale"} if resource.scale else set()
    return tuple(sorted(found))


class Router:
    """Finds the target of a path among the kinds of one registry."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._known: dict[str, Target] = {}

    def target(self, path: str) -> Target | None:
        """What the path names, or None where no kind is served there."""
        known = self._known.get(path)
        if known is None:
            known = self._find(segments(path))
            if known is None:
                return None
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[path] = known
        return known

    def _find(self, parts: tuple[str, ...]) -> Target | None:
        if len(parts) >= 3 and parts[:2] == ("api", "v1"):
            return self._in_version("", "v1", parts[2:])
        if len(parts) >= 4 and parts[0] == "apis":
            return self._in_version(parts[1], parts[2], parts[3:])
        return None

    def _in_version(self, group: str, version: str, rest: tuple[str, ...]) -> Target | None:
        if rest[0] == "namespaces" and len(rest) >= 3:
            resource = self._registry.by_plural(group, version, rest[2])
            if resource is not None and resource.namespaced:
                return _below(resource, rest[1], rest[3:])
        resource = self._registry.by_plural(group, version, rest[0])
        if resource is None or (resource.namespaced and len(rest) > 1):
            return None
        if resource.kind == "Namespace" and not group and len(rest) > 1:
            return _below(resource, rest[1], rest[1:])
        return _below(resource, "", rest[1:])


def _below(resource: Resource, namespace: str, rest: tuple[str, ...]) -> Target | None:
    if len(rest) > 2:
        return None
    name, subresource = (*rest, "", "")[:2]
    if subresource and subresource not in subresources(resource):
        return None
    if not resource.stored and not subresource:
        return None
    return Target(resource, namespace, name, subresource)
