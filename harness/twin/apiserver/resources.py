"""What kinds a cluster serves: names, scope, subresources, printer columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

Obj = dict[str, Any]
ATOMIC: Final = "!"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a Table. ``path`` is a dotted path into the object, or a function of it."""

    name: str
    path: str | Callable[[Obj], Any]
    type: str = "string"
    priority: int = 0  # above 0: shown by `-o wide` only


@dataclass(frozen=True, slots=True)
class Projection:
    """A kind that shows another kind's objects in its own form, as an aggregated API does.

    ``source`` is the (apiVersion, kind) stored. ``show`` turns a stored object into the shown one
    or gives None where that object is not of this kind; ``keep`` turns a shown object (and the
    stored one it replaces, if any) into the stored form. Identity (UID, resourceVersion,
    timestamps) is the stored object's.
    """

    source: tuple[str, str]
    show: Callable[[Obj], Obj | None]
    keep: Callable[[Obj, Obj | None], Obj]
    # name of the stored object, from the shown one's
    stored_name: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind a cluster serves."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    status: bool = False  # has a status subresource: main and status ignore each other's half
    scale: bool = False  # has a scale subresource on spec.replicas / status.replicas
    # False: nothing of its own, only what is below another group's objects (routing.CONNECTS)
    stored: bool = True
    builtin: bool = False  # strategic-merge patch is accepted for built-in kinds only (else 415)
    generation: bool = True  # metadata.generation counts changes outside metadata and status
    columns: tuple[Column, ...] = ()
    # keyed lists for strategic merge and server-side apply: dotted path (list indexes left out)
    # to the merge key, "spec.containers" -> "name"; "" means a set of scalars, ATOMIC a map that
    # has one owner
    list_keys: Mapping[str, str] = field(default_factory=dict)
    # dotted paths of the maps and lists that every object of a built-in kind has
    present: frozenset[str] = frozenset()
    # fields a fieldSelector may name beside metadata.name and metadata.namespace
    field_selectors: tuple[str, ...] = ()
    projection: Projection | None = None

    @property
    def api_version(self) -> str:
        """``group/version``, or the version alone in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``plural.group``, as error messages name a kind."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Registry:
    """The kinds of one cluster."""

    def __init__(self, resources: tuple[Resource, ...] = ()) -> None:
        self._by_plural: dict[tuple[str, str, str], Resource] = {}
        self._by_kind: dict[tuple[str, str], Resource] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve a kind."""
        self._by_plural[resource.group, resource.version, resource.plural] = resource
        self._by_kind[resource.api_version, resource.kind] = resource

    def by_plural(self, group: str, version: str, plural: str) -> Resource | None:
        """The kind behind ``/apis/<group>/<version>/<plural>``, or None."""
        return self._by_plural.get((group, version, plural))

    def by_kind(self, api_version: str, kind: str) -> Resource:
        """The kind an object names. Raises KeyError for one that is not served."""
        return self._by_kind[api_version, kind]

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_plural.values())
