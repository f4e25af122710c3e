"""DRBD 8.4: ``drbdsetup status`` as text and /proc/drbd, one fact of the two.

The text (the captures drbd84_*; drbd-utils 9.22): a resource at the margin, below it its volumes,
below them its peers with theirs, lines folded at 80 columns, a blank line at the end of each
resource. A StandAlone resource has no peer in it at all; /proc/drbd has, without a name. DRBD 9's
text has the same shape with more keys, and is read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from harness.facts.drbd import (
    CONNECTED,
    ESTABLISHED,
    KIB,
    NO_RESOURCE,
    NOTHING,
    STANDALONE,
    UNNAMED_PEER,
    DrbdAbsent,
    DrbdDevice,
    DrbdPeer,
    DrbdPeerDevice,
    DrbdResource,
    DrbdStatus,
)
from harness.facts.drbd9 import no_such_resource, reasons
from harness.facts.drbdproc import DrbdProc, ProcDevice
from harness.facts.fact import Origin, Unread
from harness.facts.reply import Output, plain, quote, unfinished

STATUS = ("drbdsetup", "status", "--verbose", "--statistics")
ASKED = "drbdsetup status"

_NONE = "# No currently configured DRBD found."
_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,128}", re.ASCII)
_PAIR = re.compile(r"(?P<key>[a-z][A-Za-z0-9_/-]*):(?P<value>\S+)", re.ASCII)
_VOLUME = re.compile(r"\d{1,5}", re.ASCII)
_FLAGS: Mapping[str, bool] = {"yes": True, "no": False}


@dataclass(slots=True)
class _Node:
    """A line's subject with all its keys, and what stands below it."""

    name: str
    keys: dict[str, str] = field(default_factory=dict)
    volumes: list[_Node] = field(default_factory=list)
    peers: list[_Node] = field(default_factory=list)
    whole: bool = False


def read_status8(
    status: Output,
    proc: DrbdProc | None,
    *,
    at: float,
    source: str,
    node: str = "",
    resource: str = "",
) -> DrbdStatus | DrbdAbsent | Unread:
    """Read the reply of `STATUS`, with /proc/drbd as it was a moment before.

    ``resource`` is the one asked for, "" for all. Without ``proc`` nothing is filled in and
    nothing compared. A line that is none of DRBD's is quoted in ``strange``.
    """
    raw = status.text if proc is None else f"{proc.origin.raw}{status.text}"
    origin = Origin(at, source, raw)
    version = "" if proc is None else proc.version
    if no_such_resource(status, resource):
        said = status.stderr.strip() or status.stdout.strip()
        return DrbdAbsent(origin, node, NO_RESOURCE, resource, version, said)
    return (
        unfinished(status, ASKED, origin)
        or _nothing(status, proc, origin, node, resource)
        or _status(status.stdout, proc, origin, node, resource)
    )


def _nothing(
    status: Output, proc: DrbdProc | None, origin: Origin, node: str, resource: str
) -> DrbdAbsent | Unread | None:
    """What an answer without a resource is: none is up, or it is no answer."""
    said = plain(status.stdout).strip()
    if said not in ("", _NONE):
        return None
    if status.stderr.strip():
        # drbdsetup that may not ask the kernel complains, lists nothing, and ends with 0
        return Unread(origin, ASKED, f"nothing listed, but it said {quote(status.stderr.strip())}")
    if not resource and (said or (proc is not None and not proc.devices and proc.whole)):
        version = "" if proc is None else proc.version
        return DrbdAbsent(origin, node, NOTHING, resource, version, said)
    return Unread(origin, ASKED, f"it ended with 0 and said {quote(status.stdout)}")


def _status(
    text: str, proc: DrbdProc | None, origin: Origin, node: str, resource: str
) -> DrbdStatus:
    nodes, strange = _read(text)
    version = "" if proc is None else proc.version
    if proc is not None and proc.generation != 8:
        proc = None  # 9 shows no device there
    resources = tuple(_filled(_resource(one), proc) for one in nodes)
    told = () if proc is None else tuple(_disagreements(resources, proc, everything=not resource))
    strange += () if proc is None else proc.strange
    whole = bool(nodes) and all(one.whole for one in nodes) and not strange
    return DrbdStatus(origin, node, version, resources, told, whole, strange)


def _read(text: str) -> tuple[list[_Node], tuple[str, ...]]:
    """The resources of the text, and the lines that are none of DRBD's."""
    lines = plain(text).split("\n")
    lines.pop()  # what stands after the last line's end was cut off
    found: list[_Node] = []
    strange: list[str] = []
    for line in lines:
        if not _take(line, found):
            strange.append(quote(line))
    return found, tuple(strange)


def _take(line: str, found: list[_Node]) -> bool:
    """Take one line in; False where it is none of DRBD's, or names an object twice."""
    opened = found[-1] if found and not found[-1].whole else None
    words = line.split()
    if not words:
        if opened is not None:
            opened.whole = True
        return opened is not None
    first = words[0]
    if ":" not in first:
        return _take_named(line, words, found, opened)
    keys = _pairs(words)
    if opened is None or keys is None or line[0] != " ":
        return False
    owner = opened.peers[-1] if opened.peers else opened
    if "volume" not in keys:
        return _add((owner.volumes[-1] if owner.volumes else owner).keys, keys)
    if any(one.name == keys["volume"] for one in owner.volumes):
        return False
    owner.volumes.append(_Node(keys["volume"], keys))
    return _VOLUME.fullmatch(keys["volume"]) is not None


def _take_named(line: str, words: list[str], found: list[_Node], opened: _Node | None) -> bool:
    """A line that begins with a name: a resource at the margin, else a peer."""
    keys = _pairs(words[1:])
    if keys is None or not _NAME.fullmatch(words[0]):
        return False
    siblings = found if line[0] != " " else opened.peers if opened else None
    if siblings is None or any(one.name == words[0] for one in siblings):
        return False
    if siblings is found and opened is not None:
        return False
    siblings.append(_Node(words[0], keys))
    return bool(keys)


def _pairs(words: list[str]) -> dict[str, str] | None:
    """The keys of a line, or None where a word is no pair or a key comes twice."""
    found: dict[str, str] = {}
    for word in words:
        pair = _PAIR.fullmatch(word)
        if pair is None or pair["key"] in found:
            return None
        found[pair["key"]] = pair["value"]
    return found


def _add(known: dict[str, str], more: dict[str, str]) -> bool:
    """Add a folded line's keys to those of its subject; False where one is there already."""
    if known.keys() & more.keys():
        return False
    known.update(more)
    return True


def _resource(node: _Node) -> DrbdResource:
    volumes = [one for one in node.volumes if _VOLUME.fullmatch(one.name)]
    return DrbdResource(
        name=node.name,
        role=node.keys.get("role", ""),
        node_id=_number(node.keys, "node-id"),
        suspended=reasons(node.keys.get("suspended", "")),
        force_io_failures=_FLAGS.get(node.keys.get("force-io-failures", "")),
        devices=tuple(_device(one) for one in volumes),
        peers=tuple(_peer(one) for one in node.peers),
        whole=node.whole,
    )


def _device(node: _Node) -> DrbdDevice:
    return DrbdDevice(
        volume=int(node.name),
        minor=_number(node.keys, "minor"),
        disk_state=node.keys.get("disk", ""),
        size=_bytes(node.keys, "size"),
        quorum=_FLAGS.get(node.keys.get("quorum", "")),
        client=_FLAGS.get(node.keys.get("client", "")),
        blocked=node.keys.get("blocked", ""),
        backing=node.keys.get("backing_dev", ""),
    )


def _peer(node: _Node) -> DrbdPeer:
    volumes = [one for one in node.volumes if _VOLUME.fullmatch(one.name)]
    return DrbdPeer(
        name=node.name,
        node_id=_number(node.keys, "node-id"),
        connection=node.keys.get("connection", ""),
        role=node.keys.get("role", ""),
        devices=tuple(_peer_device(one) for one in volumes),
    )


def _peer_device(node: _Node) -> DrbdPeerDevice:
    return DrbdPeerDevice(
        volume=int(node.name),
        replication=node.keys.get("replication", ""),
        disk_state=node.keys.get("peer-disk", ""),
        client=_FLAGS.get(node.keys.get("peer-client", "")),
        out_of_sync=_bytes(node.keys, "out-of-sync"),
        done=_share(node.keys.get("done", "")),
        resync_suspended=reasons(node.keys.get("resync-suspended", "")),
    )


def _number(keys: Mapping[str, str], key: str) -> int | None:
    said = keys.get(key, "")
    return int(said) if re.fullmatch(r"\d{1,20}", said, re.ASCII) else None


def _bytes(keys: Mapping[str, str], key: str) -> int | None:
    kib = _number(keys, key)
    return None if kib is None else kib * KIB


def _share(said: str) -> float | None:
    return float(said) if re.fullmatch(r"\d{1,3}\.\d{1,4}", said, re.ASCII) else None


def _filled(resource: DrbdResource, proc: DrbdProc | None) -> DrbdResource:
    """A resource with the peer that the text leaves out, where /proc/drbd calls it StandAlone."""
    if proc is None or resource.peers or not resource.whole or not resource.devices:
        return resource
    seen = [(one.volume, proc.find(one.minor)) for one in resource.devices]
    devices = [_as_peer(volume, one) for volume, one in seen if one and one.state == STANDALONE]
    if len(devices) != len(seen):
        return resource
    role = next((one.peer_role for _, one in seen if one), "")
    peer = DrbdPeer(UNNAMED_PEER, None, STANDALONE, role, tuple(devices))
    return replace(resource, peers=(peer,))


def _as_peer(volume: int, proc: ProcDevice) -> DrbdPeerDevice:
    return DrbdPeerDevice(
        volume,
        replication=proc.replication,
        disk_state=proc.peer_disk_state,
        out_of_sync=proc.out_of_sync,
    )


def _disagreements(
    resources: tuple[DrbdResource, ...], proc: DrbdProc, *, everything: bool
) -> Iterator[str]:
    """Where the two views differ, a figure only while nothing is on the move."""
    listed: set[int | None] = set()
    for resource in resources:
        for device in resource.devices:
            listed.add(device.minor)
            seen = proc.find(device.minor)
            here = f"{resource.name}/{device.volume}"
            if seen is None:
                yield f"{here} has minor {device.minor}, which /proc/drbd does not list"
            else:
                yield from _differ(here, resource, device, seen)
    for one in proc.devices:
        if everything and one.minor not in listed and one.state != "Unconfigured":
            yield f"/proc/drbd lists minor {one.minor}, which is of no resource"


def _differ(
    here: str, resource: DrbdResource, device: DrbdDevice, seen: ProcDevice
) -> Iterator[str]:
    pairs = [
        ("role", resource.role, seen.role),
        ("disk", device.disk_state, seen.disk_state),
        *_peer_pairs(resource, device.volume, seen),
    ]
    for what, status, proc in pairs:
        if status and proc and status != proc:
            yield f"{here}: status says {what} {status}, /proc/drbd {proc}"
    if not resource.peers and resource.whole:
        yield f"{here}: status lists no peer, /proc/drbd has cs:{seen.state}"


def _peer_pairs(
    resource: DrbdResource, volume: int, seen: ProcDevice
) -> Iterator[tuple[str, str, str]]:
    for peer in resource.peers[:1]:
        yield "connection", peer.connection, seen.connection
        yield "peer's role", peer.role, seen.peer_role
        device = peer.device(volume)
        if device is None:
            continue
        yield "replication", device.replication, seen.replication
        yield "peer's disk", device.disk_state, seen.peer_disk_state
        still = (peer.connection, device.replication) == (CONNECTED, ESTABLISHED)
        figures = device.out_of_sync, seen.out_of_sync
        if still and seen.state == CONNECTED and None not in figures:
            yield "bytes out of sync", str(figures[0]), str(figures[1])
