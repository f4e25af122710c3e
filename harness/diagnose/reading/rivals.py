"""Two clusters of one sort in one folder: told and kept apart, never merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.diagnose.reading.found import Batch, Seen
from harness.facts.objects import name_of, text_at, uid_of

_ANCHORS = frozenset(
    {
        ("Namespace", "", "kube-system"),
        ("Namespace", "", "default"),
        ("Namespace", "", "kube-public"),
        ("Namespace", "", "cozy-system"),
        ("Service", "default", "kubernetes"),
    }
)
"""What lives as long as its cluster: another UID is another cluster. Elsewhere it may be a new
object of the same name."""
_LASTING = frozenset({"Namespace", "StorageClass", "KubeVirt", "CDI", "CustomResourceDefinition"})
_AGREEING = 2  # lasting objects of two folders that differ, all of them, make two clusters

_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Strangers:
    """The folders or files of the clusters that are not looked at, and what is told of them."""

    places: frozenset[str] = frozenset()
    told: tuple[tuple[str, str], ...] = ()
    mixed: frozenset[str] = frozenset()
    """Folders in which files of both lie side by side: what tells nothing there is of either."""

    def unsure(self, batch: Batch) -> bool:
        """Whether a batch lies where two clusters do, so that what it lacks says nothing."""
        return _folder(batch.file) in self.mixed

    def holds(self, batch: Batch) -> bool:
        """Whether a batch is of such a place."""
        return batch.file in self.places or any(
            _path(batch.file).startswith(f"{place}/") for place in self.places
        )


def rivals(things: Iterable[tuple[Seen, str]]) -> Strangers:
    """What is of another cluster than most of what was found."""
    uids: dict[tuple[str, _Key], dict[str, list[Seen]]] = {}
    count: dict[str, int] = {}
    for seen, cluster in things:
        count[seen.batch.file] = count.get(seen.batch.file, 0) + 1
        key = (text_at(seen.obj, "kind"), text_at(seen.obj, "metadata", "namespace"))
        named = (*key, name_of(seen.obj))
        uid = uid_of(seen.obj)
        if uid and (named in _ANCHORS or key[0] in _LASTING):
            uids.setdefault((cluster, named), {}).setdefault(uid, []).append(seen)
    pairs = _pairs(uids)
    return _apart(pairs, count)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two UIDs of one object, and where each was seen."""

    cluster: str
    key: _Key
    one: Seen
    other: Seen


def _pairs(uids: dict[tuple[str, _Key], dict[str, list[Seen]]]) -> list[_Pair]:
    found = [
        _Pair(cluster, key, seen[0][0], more[0])
        for (cluster, key), by_uid in uids.items()
        if cluster and len(by_uid) > 1
        for seen in [list(by_uid.values())]
        for more in seen[1:]
    ]
    lasting = [pair for pair in found if pair.key not in _ANCHORS]
    return found if len(lasting) >= _AGREEING else [one for one in found if one.key in _ANCHORS]


def _apart(pairs: list[_Pair], count: dict[str, int]) -> Strangers:
    places: dict[str, str] = {}
    for pair in pairs:
        ours, theirs = _differing(pair.one.batch.file, pair.other.batch.file)
        if _size(theirs, count) > _size(ours, count):
            ours, theirs = theirs, ours
        if theirs not in places and ours not in places:
            places[theirs] = _why(pair, ours, theirs)
    # files, not folders, were told apart: their neighbours may be of either cluster
    mixed = frozenset(_folder(place) for place in places if place in count)
    told = [*places.items(), *((one or "the topmost folder", _MIXED) for one in sorted(mixed))]
    return Strangers(frozenset(places), tuple(told), mixed)


_MIXED = (
    "files of two clusters lie here side by side: each other file may be of either, and nothing "
    "that a list here lacks was taken for absent; give each cluster a folder of its own"
)


def _why(pair: _Pair, ours: str, theirs: str) -> str:
    kind, namespace, name = pair.key
    place = f"{namespace}/{name}" if namespace else name
    if ours == theirs:
        return f"two {pair.cluster} clusters in one file ({kind} {place} has two UIDs): give one"
    return (
        f"another {pair.cluster} cluster than that of {ours} ({kind} {place} has UID "
        f"{uid_of(pair.other.obj)} in one and {uid_of(pair.one.obj)} in the other): not merged; "
        "diagnose it by itself"
    )


def _differing(one: str, other: str) -> tuple[str, str]:
    """Where two files' paths part: two folders, or the files themselves."""
    ours, theirs = _path(one).split("/"), _path(other).split("/")
    at = 0
    while at < min(len(ours), len(theirs)) - 1 and ours[at] == theirs[at]:
        at += 1
    if at < len(ours) - 1 and at < len(theirs) - 1:
        return "/".join(ours[: at + 1]), "/".join(theirs[: at + 1])
    return one, other


def _size(place: str, count: dict[str, int]) -> int:
    return sum(
        number
        for file, number in count.items()
        if file == place or _path(file).startswith(f"{place}/")
    )


def _folder(file: str) -> str:
    return _path(file).rpartition("/")[0]


def _path(file: str) -> str:
    """A file's name as a path, archives taken for folders."""
    return file.replace(":", "/")
