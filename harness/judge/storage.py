"""The claim about replicated disks: what every replica itself says of DRBD, and whether it agrees.

Everything that reads like health and is none was captured (lab/qemu_drbd.md, the traps): a split
brain whose status lists no peer, a cut peer with exit status 0, blocks out of sync under
UpToDate/UpToDate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from harness.facts.drbd import (
    CONNECTED,
    CONNECTIONS,
    DISK_STATES,
    DISKLESS,
    ESTABLISHED,
    REPLICATIONS,
    UNNAMED_PEER,
    UP_TO_DATE,
    DrbdAbsent,
    DrbdDevice,
    DrbdLog,
    DrbdPeer,
    DrbdPeerDevice,
    DrbdResource,
    DrbdStatus,
)
from harness.facts.fact import Fact, Unread
from harness.judge.splitbrain import NONE, Standing, split_brain
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, named

_TOLD = 8
"""Findings that a sentence lists; more are counted."""

_Disk = DrbdDevice | DrbdPeerDevice

_VERIFYING = ("VerifyS", "VerifyT")
_NOT_KNOWN = "whether it is a split brain is not known"


@dataclass(slots=True)
class _Findings:
    """What speaks against health, and what is not known."""

    wrong: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _View:
    """One resource as one machine sees it.

    ``opposite`` is the only other machine that was asked: 8.4 names no peer, and has one.
    """

    status: DrbdStatus
    resource: DrbdResource
    opposite: str = ""

    @property
    def node(self) -> str:
        return self.status.node or self.status.origin.source

    @property
    def whole(self) -> bool:
        return self.resource.whole and not self.status.strange

    @property
    def eight(self) -> bool:
        return self.status.generation == 8

    def called(self, peer: DrbdPeer) -> str:
        """The peer's name, the other machine's where 8.4 gives none."""
        return self.opposite if self.opposite and peer.name == UNNAMED_PEER else peer.name

    @property
    def holds_disk(self) -> bool:
        """Whether it is a replica, healthy or not, and no diskless client or TieBreaker."""
        return any(one.client is not True for one in self.resource.devices)


def storage_ok(
    statuses: Sequence[DrbdStatus | DrbdAbsent | Unread],
    replicas: int,
    subject: str,
    *,
    resources: Sequence[str] = (),
    logs: Sequence[DrbdLog | Unread] = (),
) -> Verdict:
    """storage-ok: the class's replicas are UpToDate and connected, and nothing stands still.

    ``statuses`` are one per machine that holds a replica, a diskless client's may be among them;
    ``replicas`` is the class's number; ``resources`` names those to judge, none for all that are
    listed. Broken by anything that a machine says is wrong, whatever the others say; unknown where
    one could not be asked, where fewer replicas than the class has spoke for themselves, and where
    a text was cut, is not understood, or contradicts itself. ``logs`` are of the machines that
    tell of a StandAlone connection: they say whether it is a split brain.
    """
    claim = "storage-ok"
    facts = tuple(statuses)
    views = [
        _View(one, each) for one in facts if isinstance(one, DrbdStatus) for each in one.resources
    ]
    names = list(resources) or list(dict.fromkeys(view.resource.name for view in views))
    findings = _Findings()
    for one in facts:
        _machine(one, findings)
    if not facts or replicas < 1:
        findings.unknown.append("no machine was asked" if not facts else "no replica is expected")
    elif not names and not findings.wrong:
        findings.unknown.append("no resource is listed")
    for name in names:
        seen = [one for one in views if one.resource.name == name]
        if seen:
            _resource(seen, name, replicas, findings)
        else:
            (findings.wrong if _complete(facts) else findings.unknown).append(
                f"no machine lists {name}"
            )
    if logs:  # first, for a list that is cut must not lose it
        alone = (_why_alone(split_brain(facts, logs, name), name) for name in names)
        findings.wrong = [*chain.from_iterable(alone), *findings.wrong]
    told = (*facts, *logs)
    return _verdict(claim, subject, findings, told, lambda: _health(views, names, replicas))


def _why_alone(standing: Standing, name: str) -> list[str]:
    """Why connections are StandAlone, which by itself does not say split brain."""
    if standing.cause == NONE:
        return []
    words = {True: "it is a split brain", False: "it is no split brain", None: _NOT_KNOWN}
    return [f"{name}: {words[standing.split_brain]}: {standing.because}"]


def _verdict(
    claim: str,
    subject: str,
    findings: _Findings,
    facts: tuple[Fact, ...],
    health: Callable[[], str],
) -> Verdict:
    if findings.wrong:
        return Verdict(claim, subject, Outcome.BROKEN, _listed(findings.wrong), facts)
    if findings.unknown:
        return Verdict(claim, subject, Outcome.UNKNOWN, _listed(findings.unknown), facts)
    return Verdict(claim, subject, Outcome.HOLDS, health(), facts)


def _listed(findings: list[str]) -> str:
    kept = list(dict.fromkeys(findings))
    more = f"; and {counted(len(kept) - _TOLD, 'finding')} more" if len(kept) > _TOLD else ""
    return "; ".join(kept[:_TOLD]) + more


def _health(views: list[_View], names: list[str], replicas: int) -> str:
    judged = [one for one in views if one.resource.name in names]
    where = named(dict.fromkeys(one.node for one in judged if one.holds_disk))
    voting = dict.fromkeys(one.node for one in judged if not one.eight)
    quorum = f"quorum on {named(voting)}" if voting else "DRBD 8.4 knows no quorum"
    return (
        f"{named(names)}: UpToDate on {where}, {counted(replicas, 'replica')} expected, connected"
        f" as each of them says, nothing suspended or out of sync; {quorum}"
    )


def _complete(facts: tuple[Fact, ...]) -> bool:
    """Whether what no machine listed is not there."""
    return bool(facts) and all(
        isinstance(one, DrbdAbsent) or (isinstance(one, DrbdStatus) and one.whole) for one in facts
    )


def _machine(one: DrbdStatus | DrbdAbsent | Unread, findings: _Findings) -> None:
    """What a whole machine's answer says, before any resource is looked at."""
    if isinstance(one, Unread):
        findings.unknown.append(
            f"{one.asked} of {one.origin.source} could not be read: {one.reason}"
        )
    elif isinstance(one, DrbdAbsent):
        findings.wrong.append(
            f"{one.node or one.origin.source} has {one.what}"
            f"{f' {one.resource}' if one.resource else ''}: {one.said or 'nothing is listed'}"
        )
    else:
        node = one.node or one.origin.source
        findings.unknown += [f"{node} said {line}, which is not understood" for line in one.strange]
        findings.unknown += [f"{node}: {told}" for told in one.disagreements]
        if not one.whole and not one.strange:
            findings.unknown.append(f"what {node} said was cut short")
        if one.generation is None:
            findings.unknown.append(f"the version of DRBD on {node} is not known")


def _resource(views: list[_View], name: str, replicas: int, findings: _Findings) -> None:
    alone = len({one.node for one in views}) == 2
    findings.wrong += [
        said
        for index, one in enumerate(views)
        for other in views[index + 1 :]
        for said in _contradiction(one, other, alone=alone)
    ]
    for view in views:
        others = [one.node for one in views if one.node != view.node]
        _view(replace(view, opposite=others[0] if alone else ""), replicas, findings)
    holders = {one.node for one in views if one.holds_disk}
    if len(holders) < replicas:
        spoke = f"only {named(sorted(holders))} of {counted(replicas, 'replica')}"
        findings.unknown.append(f"{spoke} of {name} spoke for itself")


def _view(view: _View, replicas: int, findings: _Findings) -> None:
    """All that one machine says of one resource."""
    own = _Findings()
    _own(view, own)
    for peer in view.resource.peers:
        _peer(view, peer, own)
    _count(view, replicas, own)
    findings.wrong += own.wrong
    findings.unknown += own.unknown


def _own(view: _View, findings: _Findings) -> None:
    """What a machine says of its own resource: suspended I/O, disks, quorum."""
    resource, where = view.resource, f"{view.resource.name} on {view.node}"
    if resource.suspended:
        findings.wrong.append(f"I/O of {where} is suspended ({', '.join(resource.suspended)})")
    elif resource.suspended is None:
        findings.unknown.append(f"{where}: not said whether I/O is suspended")
    if resource.force_io_failures:
        findings.wrong.append(f"{where} fails its I/O (force-io-failures)")
    if not resource.devices:
        findings.unknown.append(f"{where} lists no volume")
    for device in resource.devices:
        _disk(view, device, f"{resource.name}/{device.volume} on {view.node}", findings)


def _disk(view: _View, device: DrbdDevice, where: str, findings: _Findings) -> None:
    if device.client is not True:
        _disk_state(where, device, view, findings)
    if device.quorum is False:
        findings.wrong.append(f"{where} has no quorum")
    elif device.quorum is None and not view.eight:
        findings.unknown.append(f"{where}: quorum is not said")
    if "upper" in device.blocked.split(","):
        # for a moment it is after every resync; I/O that stays so is told by ``suspended``
        findings.unknown.append(f"{where}: I/O from above was blocked in this moment")


def _disk_state(where: str, disk: _Disk, view: _View, findings: _Findings) -> None:
    """A replica's disk: anything but UpToDate is wrong, a word that is no state is not known.

    Diskless is wrong where it is not on purpose, which 9 says and 8.4 does not know.
    """
    state = disk.disk_state
    if state not in DISK_STATES:
        said = f"{state}, which is no state of a disk" if state else "a disk of unknown state"
        findings.unknown.append(f"{where} has {said}")
    elif state == DISKLESS and disk.client is None and not view.eight:
        findings.unknown.append(f"{where} is Diskless, and it is not said whether on purpose")
    elif state != UP_TO_DATE:
        findings.wrong.append(f"{where} is {state}")


def _peer(view: _View, peer: DrbdPeer, findings: _Findings) -> None:
    """What a machine says of one connection, and of every volume over it."""
    where = f"{view.resource.name} on {view.node}"
    if peer.connection not in CONNECTIONS:
        said = peer.connection or "a state that is not said"
        findings.unknown.append(f"{where}: the connection to {view.called(peer)} is {said}")
    elif peer.connection != CONNECTED:
        findings.wrong.append(f"{where} is {peer.connection} towards {view.called(peer)}")
        return
    for device in view.resource.devices:
        volume, name = f"{view.resource.name}/{device.volume}", view.called(peer)
        other = peer.device(device.volume)
        if other is None:
            findings.unknown.append(f"{view.node} does not say how {volume} stands towards {name}")
        elif other.client is not True:
            _replication(view, other, volume, name, findings)


def _replication(
    view: _View, other: DrbdPeerDevice, volume: str, name: str, findings: _Findings
) -> None:
    _disk_state(f"{volume} of {name}, seen from {view.node},", other, view, findings)
    between = f"{volume} on {view.node} towards {name}"
    done = f" ({other.done:g}% done)" if other.done is not None else ""
    if other.replication not in REPLICATIONS:
        said = other.replication or "not said"
        findings.unknown.append(f"the replication of {between} is {said}")
    elif other.replication in _VERIFYING:
        findings.unknown.append(f"{between} is being verified{done}: what that finds is open")
    elif other.replication != ESTABLISHED:
        findings.wrong.append(f"{between} is in {other.replication}{done}")
    if other.out_of_sync is None:
        findings.unknown.append(f"{between} may be out of sync: no figure is said")
    elif other.out_of_sync:
        findings.wrong.append(f"{between} is out of sync by {other.out_of_sync} bytes")


def _count(view: _View, replicas: int, findings: _Findings) -> None:
    """Whether this view has the class's number of replicas, every volume for itself."""
    for device in view.resource.devices:
        own = _up_to_date(device)
        others = [_serves(one, device.volume) for one in view.resource.peers]
        sure = [own, *others].count(True)
        if sure >= replicas:
            continue
        listed = "" if view.resource.peers else ", which lists no peer"
        said = (
            f"{view.resource.name}/{device.volume} is UpToDate on {sure} of"
            f" {counted(replicas, 'replica')} as {view.node} sees it{listed}"
        )
        open_still = not view.whole or sure + [own, *others].count(None) >= replicas
        kind = findings.unknown if open_still else findings.wrong
        if not kind:  # what was found above says it better
            kind.append(said)


def _up_to_date(disk: _Disk) -> bool | None:
    """Whether this disk is a replica that is UpToDate; None where another finding says more."""
    if disk.client is True:
        return False
    if disk.disk_state == DISKLESS or disk.disk_state not in DISK_STATES:
        return None
    return disk.disk_state == UP_TO_DATE


def _serves(peer: DrbdPeer, volume: int) -> bool | None:
    """Whether this peer has an UpToDate replica within reach; None as in `_up_to_date`."""
    device = peer.device(volume)
    if peer.connection != CONNECTED or device is None:
        return None
    return _up_to_date(device)


def _contradiction(one: _View, other: _View, *, alone: bool) -> Iterator[str]:
    """Where the two ends of a connection do not say the same of it."""
    mine, theirs = _says(one, other, alone=alone), _says(other, one, alone=alone)
    if mine and theirs and mine != theirs:
        yield (
            f"{one.resource.name}: {one.node} says {mine} of {other.node},"
            f" {other.node} says {theirs} of {one.node}"
        )


def _says(view: _View, other: _View, *, alone: bool) -> str:
    """How a view calls its connection to another's machine, "" where that is not known.

    9 is told by node id. 8.4 names no peer: where two machines were asked, it is the other.
    """
    peers = view.resource.peers
    if view.eight or other.eight:
        if not alone:
            return ""
        peer = peers[0] if peers else None
    elif other.resource.node_id is None or any(one.node_id is None for one in peers):
        peer = view.resource.peer(other.status.node)
        if peer is None:
            return ""
    else:
        peer = next((one for one in peers if one.node_id == other.resource.node_id), None)
    if peer is None:
        return "no such peer" if view.whole else ""
    return peer.connection if peer.connection in CONNECTIONS else ""
