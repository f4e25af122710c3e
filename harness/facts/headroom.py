"""What a pool's disks take at their peak, and what they may take it from.

The arithmetic is clone_path.md section 7's, in its thick view: every node that holds a copy holds
one of everything. What is on the disks already is not taken again: free capacity knows of it.
Bytes become KiB, LINSTOR's unit, rounded up for each volume by itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.linstor import LinstorNodes, LinstorPools
from harness.facts.objects import Obj, mapped, name_of, origin_of, text_at
from harness.facts.quantity import bytes_of

KIB = 1024
SCRATCH = (21, 20)
"""What an import's scratch space takes of its disk's size: upstream counts 21Gi beside 20Gi
(clone_path.md section 7; CZ run-kubernetes.sh)."""
STORAGE = "requests.storage"
"""The part of a ResourceQuota that counts the sizes of claims."""
CLAIMS = ("persistentvolumeclaims", "count/persistentvolumeclaims")
"""Parts that count claims, whatever their sizes."""
OF_CLASS = ".storageclass.storage.k8s.io/"
"""Between a class's name and the part that counts the claims of that class alone (Kubernetes,
quotas)."""

_LINSTOR = re.compile(r"^(?:linstor\.csi\.linbit\.com/)?(\w+)$")


@dataclass(frozen=True, slots=True)
class Term:
    """One summand: so many volumes of ``each`` bytes, and what they are for."""

    count: int
    each: int
    what: str

    @property
    def kib(self) -> int:
        """What they take together on one node, in KiB."""
        return self.count * -(-self.each // KIB)


@dataclass(frozen=True, slots=True)
class PoolDemand(Fact):
    """What a pool is going to take of its storage class. Sizes in bytes.

    ``workers`` is how many it is to have, ``standing`` how many of their disks are there already,
    ``surge`` how many more a roll makes before it takes the old ones away: as many as maxReplicas.
    ``clone``: disks are cloned from the golden image, whose size is ``golden``, None where not
    known; else they are downloaded, each through a scratch space.
    """

    pool: str
    storage_class: str
    workers: int
    standing: int
    surge: int
    disk: int
    clone: bool
    golden: int | None = None

    @property
    def fresh(self) -> int:
        """Disks that are still to be made before any roll."""
        return max(0, self.workers - self.standing)

    @property
    def in_flight(self) -> int:
        """Disks that may be in the making at once: all new ones, or all that a roll adds."""
        return max(self.fresh, self.surge)

    @property
    def known(self) -> bool:
        """Whether all that the sum needs is known."""
        return not self.clone or self.golden is not None or not self.in_flight


@dataclass(frozen=True, slots=True)
class ClassPlacement(Fact):
    """Where LINSTOR puts the volumes of a StorageClass.

    ``pool`` is the storage pool's name, "" where the class names none or several; ``copies`` is
    autoPlace, None where not said; ``nodes`` are those that it may use, empty for any.
    """

    name: str
    pool: str
    copies: int | None
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Quota:
    """One limit of a namespace's quotas on claims: on their sizes, in bytes, or how many.

    ``storage_class`` is "" where it counts every class. ``used`` is None where not said.
    ``number``: it limits how many claims there are.
    """

    name: str
    storage_class: str
    hard: int
    used: int | None
    number: bool = False


@dataclass(frozen=True, slots=True)
class Quotas(Fact):
    """Every limit on the sizes of claims in a namespace; none is no limit.

    ``strange`` quotes limits that are no amount.
    """

    namespace: str
    quotas: tuple[Quota, ...]
    strange: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Headroom:
    """All that a pool's headroom is judged by: who takes how much, and what there is.

    ``copies`` is what the inventory says of the class. ``demands`` has the pool itself first, then
    those that the run may bring up beside it.
    """

    copies: int
    demands: tuple[PoolDemand | Unread, ...]
    placement: ClassPlacement | Unread
    nodes: LinstorNodes | Unread
    pools: LinstorPools | Unread
    quotas: Quotas | Unread

    @property
    def kept(self) -> int:
        """Copies that the class itself asks for; where it says no number, the inventory's."""
        asked = None if isinstance(self.placement, Unread) else self.placement.copies
        return self.copies if asked is None else asked

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All of it."""
        return (*self.demands, self.placement, self.nodes, self.pools, self.quotas)

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What of it could not be read."""
        return tuple(one for one in self.facts if isinstance(one, Unread))


def on_a_node(demand: PoolDemand) -> tuple[Term, ...]:
    """What a pool takes at its peak on each node that holds a copy, but for terms of nothing.

    A clone takes a temporary volume of the golden's size, which is then grown into the disk; an
    import a scratch space. Both count beside the disk: section 7's bound, not its average.
    """
    if demand.clone:
        beside = Term(demand.in_flight, demand.golden or 0, "temporary clones")
    else:
        beside = Term(demand.in_flight, _scratch(demand.disk), "scratch spaces")
    return tuple(one for one in (*_disks(demand), beside) if one.kib)


def in_the_namespace(demand: PoolDemand) -> tuple[Term, ...]:
    """What a pool's claims add to in the tenant's namespace, where each is counted once.

    A clone's temporary claim lies in the golden's namespace, a scratch space in the tenant's.
    """
    scratch = 0 if demand.clone else demand.in_flight
    terms = (*_disks(demand), Term(scratch, _scratch(demand.disk), "scratch spaces"))
    return tuple(one for one in terms if one.kib)


def disks_alone(demand: PoolDemand) -> tuple[Term, ...]:
    """The claims of the pool's own class: a scratch space may be of another."""
    return tuple(one for one in _disks(demand) if one.kib)


def _disks(demand: PoolDemand) -> tuple[Term, Term]:
    return (
        Term(demand.fresh, demand.disk, "disks"),
        Term(demand.surge, demand.disk, "disks more during a roll"),
    )


def _scratch(disk: int) -> int:
    part, whole = SCRATCH
    return -(-disk * part // whole)


def read_placement(storage_class: Obj, *, at: float, cluster: str) -> ClassPlacement | Unread:
    """Read a StorageClass of linstor-csi (objects.md section 8)."""
    origin, name = origin_of(storage_class, at, cluster), name_of(storage_class)
    if "linstor" not in text_at(storage_class, "provisioner"):
        said = text_at(storage_class, "provisioner") or "nobody"
        return Unread(origin, f"the placement of class {name}", f"its provisioner is {said!r}")
    said_of = {
        found[1].lower(): value
        for key, value in mapped(storage_class, "parameters").items()
        if isinstance(value, str) and (found := _LINSTOR.match(key))
    }
    pools = said_of.get("storagepool", "").split()
    copies = said_of.get("autoplace", said_of.get("placementcount", "1")).strip()
    return ClassPlacement(
        origin,
        name,
        pools[0] if len(pools) == 1 else "",
        int(copies) if re.fullmatch("[0-9]{1,3}", copies) else None,
        tuple(said_of.get("nodelist", "").split()),
    )


def read_quotas(quotas: Sequence[Obj], namespace: str, origin: Origin) -> Quotas:
    """Read a namespace's ResourceQuotas."""
    found: list[Quota] = []
    strange: list[str] = []
    for quota in quotas:
        hard, used = mapped(quota, "spec", "hard"), mapped(quota, "status", "used")
        for key, value in sorted(hard.items()):
            klass, _, part = key.rpartition(OF_CLASS)
            if part not in (STORAGE, *CLAIMS):
                continue
            limit, number = bytes_of(value), part in CLAIMS
            if limit is None:
                strange.append(f"{name_of(quota)}: {key} is {value!r}")
            else:
                found.append(Quota(name_of(quota), klass, limit, bytes_of(used.get(key)), number))
    return Quotas(origin, namespace, tuple(found), tuple(strange))
