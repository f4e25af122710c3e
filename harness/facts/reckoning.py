"""The sum of a pool's peak against what is free, with the figures in words.

A copy of a volume goes to a node by itself, so a volume of three copies needs three nodes. Where
every node has to take one, the fullest decides (clone_path.md section 7); where there are more
nodes than copies, as many as there are copies must have room for all of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.facts.fact import Unread
from harness.facts.headroom import (
    KIB,
    ClassPlacement,
    Headroom,
    PoolDemand,
    Quota,
    Term,
    disks_alone,
    in_the_namespace,
    on_a_node,
)
from harness.facts.linstor import ONLINE, LinstorNodes, LinstorPools
from harness.facts.reply import quote

_LEAVING = frozenset({"EVICTED", "EVACUATE", "DELETE"})
"""Flags of a node on which LINSTOR puts nothing new."""
_GIB = 1024 * 1024  # in KiB


@dataclass(frozen=True, slots=True)
class Reckoning:
    """Whether it fits, None where that is not known, and the arithmetic as a sentence."""

    fits: bool | None
    because: str


@dataclass(frozen=True, slots=True)
class Place:
    """What one node has free for the class in KiB, None and the reason where that is not known."""

    node: str
    free: int | None
    why: str = ""

    def __str__(self) -> str:
        """As the sum lists it."""
        return f"{self.node} {f'unknown ({self.why})' if self.free is None else gib(self.free)}"


def reckon(headroom: Headroom) -> Reckoning:
    """The peak against the storage pools, then against the tenant's quota.

    Both must fit. One that cannot decides; else one that is not known does.
    """
    parts = (in_pools(headroom), in_quotas(headroom))
    verdicts = [one.fits for one in parts]
    fits = False if False in verdicts else None if None in verdicts else True
    return Reckoning(fits, "; ".join(one.because for one in parts))


def places(headroom: Headroom) -> tuple[Place, ...]:
    """What each node has free that the class may use, by the nodes' names."""
    placement, pools = headroom.placement, headroom.pools
    if isinstance(placement, Unread) or isinstance(pools, Unread):
        return ()
    return tuple(
        _place(one.node, one.free, one.errors, headroom.nodes)
        for one in sorted(pools.pools, key=lambda each: each.node)
        if one.name == placement.pool
        and not one.diskless
        and (not placement.nodes or one.node in placement.nodes)
        and not _leaves(one.node, headroom.nodes)
    )


def _place(
    node: str, free: int | None, errors: tuple[str, ...], nodes: LinstorNodes | Unread
) -> Place:
    if isinstance(nodes, Unread):
        return Place(node, None, "whether it is online is not known")
    found = nodes.find(node)
    connection = found.connection if found else ""
    if connection != ONLINE:
        return Place(node, None, f"it is {connection or 'in a state that is not said'}")
    if errors:
        return Place(node, None, errors[0])
    return Place(node, free, "" if free is not None else "no figure is said")


def _leaves(node: str, nodes: LinstorNodes | Unread) -> bool:
    found = None if isinstance(nodes, Unread) else nodes.find(node)
    return found is not None and bool(_LEAVING.intersection(found.flags))


def in_pools(headroom: Headroom) -> Reckoning:
    """The peak against what LINSTOR's nodes have free."""
    blind = _blind(headroom)
    demands = [one for one in headroom.demands if isinstance(one, PoolDemand)]
    peak = sum(term.kib for one in demands for term in on_a_node(one))
    summed = f"{_sum(demands, headroom)} = {gib(peak)} on each of {_nodes(headroom)} at most"
    if blind:
        return Reckoning(None, f"{summed}; {blind}")
    found = places(headroom)
    assert isinstance(headroom.placement, ClassPlacement), "told by _blind"
    free = _listed(found) or _nowhere(headroom)
    where = f"free in storage pool {headroom.placement.pool}: {free}"
    fits = _fits(found, peak, headroom.kept)
    if fits is None:
        why = ": not known" if any(one.free is None for one in found) else ": it may fit or not"
        return Reckoning(None, f"{summed}; {where}{why}")
    short = "" if fits else f": {_short(found, peak, headroom.kept)}"
    return Reckoning(fits, f"{summed}; {where}{short}")


def _fits(found: tuple[Place, ...], peak: int, copies: int) -> bool | None:
    """Whether as many nodes as there are copies have room, whatever LINSTOR chooses.

    Surely not, where all that the nodes could take at most, each one copy of all, is too little.
    """
    known = [one.free for one in found if one.free is not None]
    if sum(free >= peak for free in known) >= copies:
        return True
    most = sum(min(free, peak) for free in known) + peak * (len(found) - len(known))
    return False if most < peak * copies or len(found) < copies else None


def _short(found: tuple[Place, ...], peak: int, copies: int) -> str:
    if len(found) < copies:
        return f"{copies} copies need {copies} nodes, and {len(found)} could take one"
    lacking = ((one.node, peak - one.free) for one in found if one.free is not None)
    return ", ".join(f"{node} lacks {gib(lack, up=True)}" for node, lack in lacking if lack > 0)


def _blind(headroom: Headroom) -> str:
    """Why the sum cannot be made, "" where it can."""
    unread = [one for one in headroom.unread if not _of_quota(one, headroom)]
    if unread:
        return "; ".join(f"{one.asked} could not be read: {one.reason}" for one in unread)
    unsized = [
        one.pool for one in headroom.demands if isinstance(one, PoolDemand) and not one.known
    ]
    if unsized:
        return f"the size of the golden image of {', '.join(unsized)} is not known"
    placement, pools = headroom.placement, headroom.pools
    if isinstance(placement, ClassPlacement) and not placement.pool:
        return f"class {placement.name} names no single storage pool"
    if headroom.kept < 1:
        return "no copy is expected"
    if isinstance(pools, LinstorPools) and pools.strange:
        return f"not all storage pools are understood: {', '.join(pools.strange)}"
    return "" if headroom.demands else "nothing is asked for"


def _nowhere(headroom: Headroom) -> str:
    """That no node has the pool, and whether that is because LINSTOR has no node at all."""
    if isinstance(headroom.nodes, LinstorNodes) and not headroom.nodes.nodes:
        return "on no node, for LINSTOR has none: no satellite ever registered"
    return "on no node"


def _nodes(headroom: Headroom) -> str:
    """As many as there are copies, and where the inventory is wrong about that."""
    kept, told = headroom.kept, headroom.copies
    return f"{kept} nodes" if kept == told else f"{kept} nodes (the inventory says {told})"


def _of_quota(fact: Unread, headroom: Headroom) -> bool:
    return fact is headroom.quotas


def in_quotas(headroom: Headroom) -> Reckoning:
    """The peak against what the quotas of the tenant's namespace leave."""
    quotas = headroom.quotas
    if isinstance(quotas, Unread):
        why = f"{quotas.asked} could not be read: {quotas.reason}"
        return Reckoning(None, why)
    if quotas.strange:
        return Reckoning(None, f"quota {quote(quotas.strange[0])} is not understood")
    if not quotas.quotas:
        return Reckoning(True, f"no quota limits storage in {quotas.namespace}")
    if any(isinstance(one, Unread) for one in headroom.demands):
        return Reckoning(None, f"what the quotas of {quotas.namespace} are to take is not known")
    told = [_quota(one, headroom) for one in quotas.quotas]
    verdicts = [one.fits for one in told]
    fits = False if False in verdicts else None if None in verdicts else True
    return Reckoning(fits, "; ".join(one.because for one in told))


def _quota(quota: Quota, headroom: Headroom) -> Reckoning:
    demands = [one for one in headroom.demands if isinstance(one, PoolDemand)]
    if quota.storage_class:
        counted = [one for one in demands if one.storage_class == quota.storage_class]
        terms = [term for one in counted for term in disks_alone(one)]
    else:
        terms = [term for one in demands for term in in_the_namespace(one)]
    of_class = f" for class {quota.storage_class}" if quota.storage_class else ""
    if quota.number:
        return _number(quota, of_class, sum(term.count for term in terms))
    needed = sum(term.count * term.each for term in terms)
    summed = f"claims of {_terms(terms) or 'nothing'} = {gib(-(-needed // KIB))}"
    left = quota.hard - (quota.used or 0)
    if quota.used is None and needed <= left:  # of what is more than all of it no rest is asked
        return Reckoning(None, f"{summed}; what quota {quota.name}{of_class} has left is not said")
    room = f"quota {quota.name}{of_class} leaves {_signed(left)} of {gib(quota.hard // KIB)}"
    if needed <= left:
        return Reckoning(True, f"{summed}; {room}")
    return Reckoning(False, f"{summed}; {room}: {gib(-(-(needed - left) // KIB), up=True)} short")


def _number(quota: Quota, of_class: str, needed: int) -> Reckoning:
    """How many claims there may be, whatever their sizes."""
    left = quota.hard - (quota.used or 0)
    if quota.used is None and needed <= left:
        why = f"how many claims quota {quota.name}{of_class} leaves is not said"
        return Reckoning(None, f"{needed} claims; {why}")
    room = f"{needed} claims; quota {quota.name}{of_class} leaves {max(0, left)} of {quota.hard}"
    return Reckoning(needed <= left, room if needed <= left else f"{room}: {needed - left} short")


def _signed(left: int) -> str:
    return gib(left // KIB) if left >= 0 else "less than nothing"


def _sum(demands: Iterable[PoolDemand], headroom: Headroom) -> str:
    """The summands, by pool where there are several."""
    told = [(one.pool, _terms(on_a_node(one)) or "nothing") for one in demands]
    if len(headroom.demands) == 1:
        return "".join(terms for _, terms in told) or "an unknown sum"
    return " + ".join(f"pool {pool} ({terms})" for pool, terms in told) or "an unknown sum"


def _terms(terms: Iterable[Term]) -> str:
    return " + ".join(f"{one.count} x {gib(-(-one.each // KIB))} {one.what}" for one in terms)


def _listed(found: tuple[Place, ...]) -> str:
    return ", ".join(map(str, found))


def gib(kib: int, *, up: bool = False) -> str:
    """KiB in words: whole GiB as such, else two digits, rounded down, or up where it is a lack.

    Less than a hundredth is told in KiB.
    """
    if 0 < kib * 100 < _GIB:
        return f"{kib} KiB"
    hundredths = -(-kib * 100 // _GIB) if up else kib * 100 // _GIB
    whole, part = divmod(hundredths, 100)
    return f"{whole}{f'.{part:02}'.rstrip('0') if part else ''} GiB"
