"""What one object says by itself: its owner, its state, its age."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.diagnose.case import Thing
from harness.facts.objects import at_path, condition, epoch, mapped, text_at
from harness.facts.quantity import bytes_of

DEPLOYMENT = "cluster.x-k8s.io/deployment-name"


GPU = "nvidia.com/gpu"


SETTLING = 600.0
"""Seconds that a worker may take from its Node to an offered card."""


_STUCK = (
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)


ABSENT = Thing({})
ROW = "hil.row"
"""Where an object that was made of a table's row keeps its cells, by their headings."""
_PART = re.compile(r"(\d+)([smhdy])")
_AGE = re.compile(rf"(?:{_PART.pattern})+")
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "y": 365 * 86400.0}
"""An age as kubectl prints it: 45s, 4h12m, 3d2h, 2y11d."""


def deployment_of(thing: Thing) -> str:
    """The MachineDeployment that an object's label names."""
    found = mapped(thing.obj, "metadata", "labels").get(DEPLOYMENT, "")
    return found if isinstance(found, str) else ""


def application(release: Thing) -> str:
    """The kind of Cozystack's application that a HelmRelease is the other side of."""
    labels = mapped(release.obj, "metadata", "labels")
    found = labels.get("apps.cozystack.io/application.kind", "")
    return found if isinstance(found, str) else ""


def on_node(pod: Thing) -> str:
    """The Node that a pod is on."""
    return text_at(pod.obj, "spec", "nodeName")


def ready(thing: Thing) -> str:
    """The Ready condition's status: True, False, Unknown, or "" where there is none."""
    return text_at(condition(thing.obj, "Ready"), "status")


def said(thing: Thing, kind: str) -> str:
    """A condition in words."""
    found = condition(thing.obj, kind)
    why = ": ".join(p for p in (text_at(found, "reason"), text_at(found, "message")) if p)
    return f"{kind}={text_at(found, 'status')} {why}".strip()


def advertised(node: Thing) -> int | None:
    """The cards that a Node offers to pods, None where the object does not tell."""
    allocatable = at_path(node.obj, "status", "allocatable")
    if not isinstance(allocatable, dict) or not node.knows("status", "allocatable"):
        return None
    return bytes_of(str(allocatable.get(GPU, "0")))


def dead(node: Thing) -> bool:
    """Whether a Node that is Ready offers no card, and has had the time to."""
    return advertised(node) == 0 and settled(node) and ready(node) in ("True", "")


def settled(node: Thing) -> bool:
    """Whether a Node is old enough for all that follows its joining; one of unknown age is."""
    known = age(node)
    return known is None or known > SETTLING


def age(thing: Thing) -> float | None:
    """Seconds from an object's making to when it was read; of a table's row as its AGE says."""
    born = epoch(text_at(thing.obj, "metadata", "creationTimestamp"))
    if born is not None and thing.at is not None:
        return thing.at - born
    said = text_at(thing.obj, ROW, "AGE")
    if not _AGE.fullmatch(said):
        return None
    return sum(int(count) * _UNITS[unit] for count, unit in _PART.findall(said))


def stuck(status: object) -> str:
    """Why a container does not run and will not by itself, "" where it runs or has only begun."""
    reason = text_at(status, "state", "waiting", "reason")
    return reason if reason in _STUCK else ""


def names(things: Iterable[Thing]) -> str:
    """Names as a sentence lists them, five at most."""
    found = [one.name for one in things]
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return ", ".join(found[:5]) + more
