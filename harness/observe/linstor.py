"""Ask LINSTOR's controller, and the kernels below it, how things stand.

What the controller refuses or answers with something that cannot be read is Unread, with its own
message; where it cannot be reached at all, reach's LabError passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from harness.facts import linstor_json as read
from harness.facts.fact import Origin, Unread
from harness.facts.linstor import (
    LinstorErrors,
    LinstorNodes,
    LinstorPools,
    LinstorResources,
    LinstorVersion,
)
from harness.facts.linstorlooks import LinstorLook
from harness.observe.drbd import drbd_statuses
from harness.reach.errors import Garbled
from harness.reach.linstor import Linstor, LinstorRefused
from harness.reach.nodeshell import NodeShell

REPORTS = 20
"""Error reports that are asked for, the last."""

_Fact = TypeVar("_Fact")
_Now = Callable[[], float]


def nodes(linstor: Linstor, *, now: _Now) -> LinstorNodes | Unread:
    """Every node that the controller knows."""
    return _ask(linstor, read.NODES, read.read_nodes, now)


def pools(linstor: Linstor, *, now: _Now) -> LinstorPools | Unread:
    """Every storage pool of every node, with what is free in it."""
    return _ask(linstor, read.POOLS, read.read_pools, now)


def resources(linstor: Linstor, *, now: _Now) -> LinstorResources | Unread:
    """Every resource on every node, as the controller views it now."""
    return _ask(linstor, read.RESOURCES, read.read_resources, now)


def errors(linstor: Linstor, *, now: _Now) -> LinstorErrors | Unread:
    """The last error reports."""
    return _ask(linstor, read.ERRORS, read.read_errors, now, {"limit": str(REPORTS)})


def version(linstor: Linstor, *, now: _Now) -> LinstorVersion | Unread:
    """The controller's version."""
    return _ask(linstor, read.VERSION, read.read_version, now)


def look(linstor: Linstor, satellites: Mapping[str, NodeShell], *, now: _Now) -> LinstorLook:
    """LINSTOR's view, what the kernel of each storage node says, and LINSTOR's view again.

    A kernel that cannot be asked is Unread, and the others are asked all the same.
    """
    known, before = nodes(linstor, now=now), resources(linstor, now=now)
    kernels = drbd_statuses(satellites, now)
    return LinstorLook(known, before, kernels, resources(linstor, now=now))


def _ask(
    linstor: Linstor,
    path: str,
    parse: Callable[[str, Origin], _Fact | Unread],
    now: _Now,
    query: Mapping[str, str] | None = None,
) -> _Fact | Unread:
    try:
        answer = linstor.get(path, query)
    except (LinstorRefused, Garbled) as refused:
        return Unread(Origin(now(), f"LINSTOR {path}", ""), path, refused.saw)
    return parse(answer.text, Origin(answer.at, answer.source, answer.text))
