"""Of which cluster each object, listing and text is; what cannot be told stays unknown.

An object tells by what only one cluster can hold. What tells nothing is of the cluster of its
batch, then of its file, then of its folder below the topmost, where all that tells there agrees.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace

from harness.diagnose.case import (
    MANAGEMENT,
    TENANT,
    UNKNOWN,
    Case,
    Kind,
    Listing,
    Text,
    Thing,
    Unused,
)
from harness.diagnose.reading.found import Batch, Found, Seen
from harness.diagnose.reading.rivals import Strangers, rivals
from harness.diagnose.reading.signs import Machines, cluster_of, machines_of, place_tells
from harness.facts.objects import name_of, text_at

_FOLDERS = {
    "management": MANAGEMENT,
    "management-cluster": MANAGEMENT,
    "mgmt": MANAGEMENT,
    "tenant": TENANT,
    "tenant-cluster": TENANT,
    "guest-cluster": TENANT,
    "workload-cluster": TENANT,
}
"""Folders that say it. A folder named "tenant-x" does not: so is a namespace of the management."""
_STORAGE = frozenset({Kind.DRBD, Kind.PROC_DRBD, Kind.LINSTOR})


def placed(found: Found) -> Case:
    """The Case of what was found, without what is of another cluster of the same sort."""
    machines = machines_of(one.obj for one in found.objects)
    clusters = _Clusters(found, machines)
    things = [(one, clusters.of(one)) for one in found.objects]
    strangers = rivals(things)
    unused = list(found.unused)
    unused += [Unused(source, why) for source, why in strangers.told]
    kept = [(one, cluster) for one, cluster in things if not strangers.holds(one.batch)]
    if any(not cluster for _, cluster in kept):
        unused.append(_untold([one for one, cluster in kept if not cluster]))
    nodes = _Nodes(machines, [one for one, _ in kept])
    return Case(
        objects=tuple(
            _unrepeated(
                Thing(one.obj, cluster, one.source, None, one.shown) for one, cluster in kept
            )
        ),
        texts=tuple(
            nodes.named(text, clusters.near(batch))
            for text, batch in found.texts
            if not strangers.holds(batch)
        ),
        listings=tuple(clusters.listings(found, strangers)),
        unused=tuple(unused),
        schematics=_schematics(text for text, _ in found.texts),
    )


def _untold(seen: list[Seen]) -> Unused:
    kinds = sorted({text_at(one.obj, "kind") for one in seen})
    names = ", ".join(kinds[:6]) + (" and more" if len(kinds) > 6 else "")
    files = sorted({one.batch.file for one in seen})
    where = files[0] + (f" and {len(files) - 1} more" if len(files) > 1 else "")
    why = f"used, but nothing tells whether management or tenant: {len(seen)} objects ({names})"
    return Unused(where, why)


def _unrepeated(things: Iterable[Thing]) -> Iterable[Thing]:
    """Things without those that an earlier one says word for word, from another file or not."""
    known: dict[Hashable, list[Thing]] = {}
    for one in things:
        key = (one.cluster, one.kind, one.namespace, one.name)
        same = known.setdefault(key, [])
        if not any(one.obj == other.obj and one.shown == other.shown for other in same):
            same.append(one)
            yield one


class _Clusters:
    """What each object tells, and what its neighbours do."""

    def __init__(self, found: Found, machines: Machines) -> None:
        self._told = {id(one): cluster_of(one.obj, machines) for one in found.objects}
        self._near: dict[Hashable, set[str]] = {}
        for one in found.objects:
            for key in _keys(one.batch):
                self._near.setdefault(key, set()).add(self._told[id(one)])
        for whole in found.wholes:
            for key in _keys(whole.batch):
                told = place_tells(whole.group, whole.namespace)
                self._near.setdefault(key, set()).add(told)

    def of(self, seen: Seen) -> str:
        return self._told[id(seen)] or self.near(seen.batch)

    def near(self, batch: Batch) -> str:
        """The cluster of what stands nearest, where all that tells there agrees."""
        for key in _keys(batch):
            told = self._near.get(key, set()) - {UNKNOWN}
            if len(told) == 1:
                return next(iter(told))
            if told:
                return UNKNOWN
        parts = batch.folder.lower().split("/")
        return next((_FOLDERS[one] for one in reversed(parts) if one in _FOLDERS), UNKNOWN)

    def listings(self, found: Found, strangers: Strangers) -> Iterable[Listing]:
        for one in found.wholes:
            if strangers.holds(one.batch) or strangers.unsure(one.batch):
                continue
            cluster = place_tells(one.group, one.namespace) or self.near(one.batch)
            source = f"{one.batch.file}:{one.line}"
            yield Listing(cluster, one.kind, one.namespace, source, one.group)


def _keys(batch: Batch) -> list[Hashable]:
    """A batch, the commands of its file with the same kubeconfig, and its folder."""
    keys: list[Hashable] = [batch.number, (batch.file, batch.place)]
    if batch.folder:
        keys.append(("folder", batch.folder, batch.place))
    return keys


class _Nodes:
    """Which machine a text is of, by the names that are known."""

    def __init__(self, machines: Machines, seen: list[Seen]) -> None:
        nodes = {name_of(one.obj) for one in seen if text_at(one.obj, "kind") == "Node"}
        self._machines = machines
        self._names = sorted(machines.guests | machines.hosts | nodes, key=len, reverse=True)
        pods = {
            name_of(one.obj): text_at(one.obj, "metadata", "namespace")
            for one in seen
            if text_at(one.obj, "kind") == "Pod"
        }
        self._pods = sorted(pods.items(), key=lambda one: -len(one[0]))

    def named(self, text: Text, near: str) -> Text:
        node = text.node or (self._pod(text) if text.kind is Kind.LOG else self._node(text))
        return replace(text, node=node, cluster=self._cluster(text, node) or near)

    def _node(self, text: Text) -> str:
        """The longest known name in the file's path; one that is part of a longer word is none."""
        for name in self._names:
            if name in text.source and re.search(
                rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", text.source
            ):
                return name
        return ""

    def _pod(self, text: Text) -> str:
        """The pod that the file's path names, else the path, which may tell a person more."""
        for name, namespace in self._pods:
            if name in text.source:
                container = re.search(r"logs?-([a-z0-9-]+?)(?:-previous)?\.", text.source)
                return "/".join(filter(None, (namespace, name, container and container[1])))
        return re.sub(r"(?:\.[a-z]+)?(?::\d+)?$", "", text.source)

    def _cluster(self, text: Text, node: str) -> str:
        if text.kind in _STORAGE or node in self._machines.hosts:
            return MANAGEMENT
        return TENANT if node in self._machines.guests or text.kind is Kind.CONSOLE else UNKNOWN


_EXTENSION = re.compile(r"(?:\S+\s+)?runtime\s+ExtensionStatus\s+\S+\s+\S+\s+(\S+)\s+(\S+)\s*")


def _schematics(texts: Iterable[Text]) -> Mapping[str, tuple[str, ...]]:
    """What is in each schematic of which a node lists its extensions: the pseudo-extension
    ``schematic`` bears the id as its version (uptime_and_diagnosis section 5)."""
    known: dict[str, tuple[str, ...]] = {}
    for text in texts:
        if text.kind is not Kind.TALOS_EXTENSIONS or text.cut:
            continue
        rows = [found for found in map(_EXTENSION.fullmatch, text.text.split("\n")) if found]
        ids = {row[2] for row in rows if row[1] == "schematic"}
        if len(ids) == 1:
            names = sorted({row[1] for row in rows} - {"schematic"})
            known[ids.pop()] = tuple(names)
    return known
