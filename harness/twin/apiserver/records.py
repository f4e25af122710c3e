"""What the store takes and hands out: options, listings, changes, admission questions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj, Resource

if TYPE_CHECKING:
    from harness.twin.apiserver.access import User

Kind = tuple[str, str]  # (apiVersion, kind)
Key = tuple[str, str]  # (namespace, name); the namespace is "" for cluster-wide kinds
Ref = tuple[Kind, Key]


@dataclass(frozen=True, slots=True)
class Change:
    """One committed revision.

    ``type`` is ADDED, MODIFIED or DELETED. ``obj`` is the object after the change (for DELETED its
    last state, with the deletion's resourceVersion), ``old`` the one before. A change of a stored
    object that a projection shows appears once more, with the projection's resource.
    """

    type: str
    resource: Resource
    obj: Obj
    old: Obj | None
    revision: int


@dataclass(frozen=True, slots=True)
class Options:
    """How a write is asked for: query parameters and DeleteOptions of the API."""

    manager: str = "unknown"
    dry_run: bool = False
    force: bool = False  # server-side apply: take what others own
    field_validation: str = "Ignore"  # Strict | Warn | Ignore
    propagation: str = "Background"  # delete: Background | Foreground | Orphan
    precondition_uid: str = ""
    precondition_version: str = ""
    grace: int | None = None  # seconds; pods only
    user: User | None = None  # who asks; None for the controllers of the world


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list, in (namespace, name) order.

    ``remaining`` is None where the API does not count what is left (last page, or a selector).
    """

    items: list[Obj]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """A write about to be committed. ``verb``: CREATE, UPDATE or DELETE.

    ``user`` is who asks for a new object; None for the controllers of the world.
    """

    verb: str
    resource: Resource
    obj: Obj
    old: Obj | None
    subresource: str
    user: User | None = None


def kind_of(resource: Resource) -> Kind:
    """The name under which a store keeps a kind."""
    return resource.api_version, resource.kind


def key_of(obj: Obj) -> Key:
    """(namespace, name) of an object."""
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]
