"""What a diagnosis reasons over: objects, texts, what was listed whole, and what was not used.

A case is made by `live` from a lab or by `reading` from a folder of captures. Nothing in it says
what anything means. What is not in a case is unknown; only a Listing makes it absent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from harness.facts.objects import Obj, epoch, name_of, text_at, uid_of

MANAGEMENT = "management"
TENANT = "tenant"
OWN = "# hil: "
"""How a text begins that was made out of captures, and is none: it is not read as one."""
UNKNOWN = ""
"""Clusters that an object may be of; ``UNKNOWN`` where nothing tells."""


class Kind(StrEnum):
    """What a text is. ``UNKNOWN`` texts are shown as not used, never read."""

    CONSOLE = "console"  # a guest's serial console
    DMESG = "dmesg"
    MODULES = "modules"  # /proc/modules of a guest, or lsmod
    NVIDIA_SMI = "nvidia-smi"  # nvidia-smi -q
    SMI_LIST = "smi-list"  # nvidia-smi -L, "No devices found" too
    DRBD = "drbd"  # drbdsetup/drbdadm status, text or JSON
    PROC_DRBD = "proc-drbd"  # /proc/drbd of 8.4
    LINSTOR = "linstor"  # a JSON answer of LINSTOR's REST API, or `linstor -m`
    PARAMS = "params"  # /proc/driver/nvidia/params
    DRIVER = "driver"  # /proc/driver/nvidia/version
    LSPCI = "lspci"
    HOST = "host"  # parameters of a host's kernel modules, each with its path
    TALOS_SERVICES = "talos-services"  # talosctl services, table or JSON
    TALOS_EXTENSIONS = "talos-extensions"  # talosctl get extensions
    HELM_MESSAGE = "helm-message"  # the text of a HelmRelease's condition, alone
    LOG = "log"  # a container's
    MEMINFO = "meminfo"
    MEMORY = "memory"  # what was scraped of MemAvailable, as `hil diagnose` writes it
    UPTIME = "uptime"  # /proc/uptime or uptime(1)
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Thing:
    """One Kubernetes object as it stood.

    ``source`` says where a person finds it ("management API", "events.yaml:120"); ``at`` is when it
    was read, epoch seconds of its cluster, None where nothing tells. ``shown`` is None for a whole
    object; else (a table's row, a YAML that was cut) only at and below these paths is what stands
    there all there is, and anything else that it lacks is not known.
    """

    obj: Obj
    cluster: str = UNKNOWN
    source: str = ""
    at: float | None = None
    shown: frozenset[tuple[str, ...]] | None = None

    @property
    def whole(self) -> bool:
        """Whether all of the object is here."""
        return self.shown is None

    def knows(self, *path: str) -> bool:
        """Whether what stands at a path is all there is, so that nothing there means none."""
        if self.shown is None:
            return bool(self.obj)
        return any(path[: len(one)] == one for one in self.shown)

    @property
    def kind(self) -> str:
        """The object's kind."""
        return text_at(self.obj, "kind")

    @property
    def name(self) -> str:
        """metadata.name."""
        return name_of(self.obj)

    @property
    def namespace(self) -> str:
        """metadata.namespace, "" where it has none."""
        return text_at(self.obj, "metadata", "namespace")

    @property
    def where(self) -> str:
        """Cluster, kind, namespace and name in one line, as evidence names it."""
        place = "/".join(part for part in (self.namespace, self.name) if part)
        return " ".join(part for part in (self.cluster, self.kind, place) if part)


@dataclass(frozen=True, slots=True)
class Text:
    """Something captured that is no object: ``text`` as it was, decoded.

    ``node`` is the machine it is of (a tenant Node's, a VM's or a host's name), "" where nothing
    tells; for a log, "namespace/pod/container". ``at``: as in Thing. ``cut`` says that its
    beginning or end is missing: then nothing may be concluded from what it does not hold.
    """

    kind: Kind
    text: str
    source: str = ""
    node: str = ""
    at: float | None = None
    cut: bool = False
    cluster: str = UNKNOWN


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of one kind in one place were read: what is not among them was not there.

    ``kind`` is the object's kind ("DaemonSet"), ``namespace`` "" where all namespaces (or a
    cluster-scoped kind) were listed, ``group`` the API group, "" for core; None where not told.
    """

    cluster: str
    kind: str
    namespace: str = ""
    source: str = ""
    group: str | None = None


@dataclass(frozen=True, slots=True)
class Unused:
    """Something that was there and could not be used, and why; or was not asked, and why not."""

    source: str
    why: str


@dataclass(frozen=True, slots=True)
class Case:
    """All that is known. Several versions of one object may be among ``objects``, any order.

    ``schematics`` are the image factory's ids of which somebody says what is in them, each with
    its extensions: an id is a digest and tells nothing by itself.
    """

    objects: tuple[Thing, ...] = ()
    texts: tuple[Text, ...] = ()
    listings: tuple[Listing, ...] = ()
    unused: tuple[Unused, ...] = ()
    schematics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def things(
        self, kind: str, cluster: str = UNKNOWN, namespace: str = "", group: str | None = None
    ) -> tuple[Thing, ...]:
        """The last version of each object of a kind, in the order in which they came.

        With a cluster, objects of that cluster and those of which nothing tells; with a namespace
        or an API group, only of those.
        """
        newest: dict[tuple[str, ...], Thing] = {}
        for one in self.versions(kind, cluster, namespace, group):
            newest[_identity(one)] = one
        return tuple(newest.values())

    def versions(
        self, kind: str, cluster: str = UNKNOWN, namespace: str = "", group: str | None = None
    ) -> tuple[Thing, ...]:
        """Every version of every object of a kind, oldest first where that can be told."""
        found = [
            one
            for one in self.objects
            if one.kind == kind
            and (not cluster or one.cluster in (cluster, UNKNOWN))
            and (not namespace or one.namespace == namespace)
            and (group is None or _group(one.obj) == group)
        ]
        return tuple(sorted(found, key=_age))

    def listed_whole(self, kind: str, cluster: str, namespace: str = "") -> Listing | None:
        """The listing that covers a kind in a place, None where absence may not be concluded."""
        return next(
            (
                one
                for one in self.listings
                if one.kind == kind and one.cluster == cluster and one.namespace in ("", namespace)
            ),
            None,
        )

    @property
    def known(self) -> tuple[Text, ...]:
        """The texts of which it is known what they are."""
        return tuple(one for one in self.texts if one.kind is not Kind.UNKNOWN)

    def of(self, *kinds: Kind) -> tuple[Text, ...]:
        """The texts of these kinds."""
        return tuple(one for one in self.texts if one.kind in kinds)


def spelt(case: Case) -> Case:
    """The case with every key of its objects a text, as Kubernetes' own are; YAML has others."""
    if all(_all_texts(one.obj) for one in case.objects):
        return case
    objects = tuple(replace(one, obj=_with_texts(one.obj)) for one in case.objects)
    return replace(case, objects=objects)


def _all_texts(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _all_texts(one) for key, one in value.items())
    return all(map(_all_texts, value)) if isinstance(value, list) else True


def _with_texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _with_texts(one) for key, one in value.items()}
    return list(map(_with_texts, value)) if isinstance(value, list) else value


def merged(cases: Iterable[Case]) -> Case:
    """Several cases as one, in their order."""
    parts = list(cases)
    return Case(
        objects=tuple(one for part in parts for one in part.objects),
        texts=tuple(one for part in parts for one in part.texts),
        listings=tuple(one for part in parts for one in part.listings),
        unused=tuple(one for part in parts for one in part.unused),
        schematics={key: value for part in parts for key, value in part.schematics.items()},
    )


def _identity(thing: Thing) -> tuple[str, ...]:
    """What versions of one object share; a table's row has no UID and goes by its name."""
    return (thing.cluster, _group(thing.obj), thing.kind, thing.namespace, thing.name)


def _group(obj: Obj) -> str:
    group, slash, _ = text_at(obj, "apiVersion").partition("/")
    return group if slash else ""


def _age(thing: Thing) -> tuple[float, float, int, bool]:
    """Oldest first: by when it was made, when it was read, its resourceVersion; rows before
    objects, which hold more."""
    born = epoch(text_at(thing.obj, "metadata", "creationTimestamp"))
    version = text_at(thing.obj, "metadata", "resourceVersion")
    return (
        born if born is not None and uid_of(thing.obj) else 0.0,
        thing.at if thing.at is not None else 0.0,
        int(version) if version.isdecimal() else 0,
        thing.whole,
    )
