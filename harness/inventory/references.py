"""Do the parts of an inventory fit each other? Asked of plain data, so it works on a broken file.

Whatever has the wrong type is passed over here: validation against the models reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from harness.inventory.naming import HELM_LIMIT, is_trial_name, release_name
from harness.inventory.suggest import choice

Path = tuple[str | int, ...]
Data = dict[str, Any]

NOT_OF_GUESTS = (
    "management",
    "tenant",
    "probeImage",
    "cudaImage",
    "cudaCommand",
    "cudaSuccess",
    "linstor",
    "prometheus",
    "hosts",
    "gpus",
    "schematics",
    "storageClasses",
    "pools",
)
"""What a lab of QEMU guests has none of: there is no cluster."""
_OF_CLUSTERS = (
    ("schematics", "Talos images of this lab, by a name of your choice"),
    ("storageClasses", "StorageClasses of the management cluster, by their own name"),
    ("pools", "worker pools, by name"),
)
_OPEN = "nvidia-open-gpu-kernel-modules"
_PROPRIETARY = "nonfree-kmod-nvidia"
_OPEN_ONLY = frozenset({"gb202"})


@dataclass(frozen=True, slots=True)
class Slip:
    """Parts that do not fit: where, what stands there, what may."""

    path: Path
    found: str
    allowed: str

    def __str__(self) -> str:
        return f"{'.'.join(map(str, self.path))}: found {self.found}; allowed: {self.allowed}"


def slips(data: Data, claims: Collection[str] | None = None) -> list[Slip]:
    """Every misfit of an inventory given as plain data with YAML's keys.

    ``claims`` are the known claim ids; without them the lanes' claims are not looked up.
    """
    checks: tuple[Callable[[Data], Iterator[Slip]], ...] = (
        _kind,
        _nodes,
        _access,
        _hosts,
        _cards,
        _pools,
        _lanes,
    )
    found = [slip for check in checks for slip in check(data)]
    return found + (list(_claims(data, claims)) if claims is not None else [])


def _part(data: Data, key: str) -> Data:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _parts(data: Data, key: str) -> Iterator[tuple[str, Data]]:
    return ((name, part) for name, part in _part(data, key).items() if isinstance(part, dict))


def _items(data: Data, key: str) -> list[tuple[int, Any]]:
    value = data.get(key)
    return list(enumerate(value)) if isinstance(value, (list, tuple)) else []


def _nodes(data: Data) -> Iterator[Slip]:
    """Containers share a kernel that loads no DRBD, and have no cards (lanes.md sections 1, 3)."""
    if data.get("nodes") != "containers":
        return
    if data.get("kind") != "cluster":
        yield Slip(("nodes",), "containers", "a lab of kind cluster, whose nodes may be containers")
    for name, stored in _parts(data, "storageClasses"):
        if stored.get("drbd") is True:
            says = "false: no node that is a container loads DRBD"
            yield Slip(("storageClasses", name, "drbd"), "true", says)
    for name, pool in _parts(data, "pools"):
        if pool.get("gpu") is not None:
            yield Slip(
                ("pools", name, "gpu"), str(pool["gpu"]), "no card where nodes are containers"
            )


def _kind(data: Data) -> Iterator[Slip]:
    """A lab has what its kind has, and nothing of another's."""
    kind = data.get("kind")
    if kind == "qemu":
        if "guests" not in data:
            yield Slip(("guests",), "nothing", "sets of QEMU guests, by name")
        for key in NOT_OF_GUESTS:
            if key in data:
                yield Slip((key,), "what a cluster has", f"no {key} in a lab of kind qemu")
        if data.get("clock") == "virtual":
            yield Slip(("clock",), '"virtual"', "real: only a twin has virtual time")
    elif kind in ("twin", "cluster"):
        for key, what in _OF_CLUSTERS:
            if key not in data:
                yield Slip((key,), "nothing", what)
        if "guests" in data:
            yield Slip(("guests",), "QEMU guests", f"no guests in a lab of kind {kind}")


def _access(data: Data) -> Iterator[Slip]:
    kind, access = data.get("kind"), data.get("management")
    if kind == "cluster":
        if access is None:
            yield Slip(("management",), "nothing", "kubeconfig and context of the real cluster")
        if data.get("clock") == "virtual":
            yield Slip(("clock",), '"virtual"', "real: only a twin has virtual time")
        if "clockUrl" in _part(data, "management"):
            yield Slip(("management", "clockUrl"), "a clock", "no clockUrl: a real lab has none")
    if isinstance(access, dict):
        yield from _ways(access)
    if kind == "twin" and isinstance(access, dict) and "clockUrl" not in access:
        allowed = "the clock of the running twin, or no management for the embedded one"
        yield Slip(("management", "clockUrl"), "nothing", allowed)


def _ways(access: Data) -> Iterator[Slip]:
    """One way in, and whole: a kubeconfig with its context, or the pod's own service account."""
    if access.get("inCluster") is True:
        for key in ("kubeconfig", "context"):
            if key in access:
                allowed = f"no {key} with inCluster: true, or no inCluster"
                yield Slip(("management", key), "a second way in", allowed)
        return
    if "kubeconfig" not in access:
        allowed = "{file: PATH}, {env: NAME} or a path; or inCluster: true in a pod of the cluster"
        yield Slip(("management", "kubeconfig"), "nothing", allowed)
    if "context" not in access:
        allowed = "the kubeconfig's context to use: its current one never is"
        yield Slip(("management", "context"), "nothing", allowed)


def _hosts(data: Data) -> Iterator[Slip]:
    seen: set[str] = set()
    for index, host in _items(data, "hosts"):
        name = host.get("name") if isinstance(host, dict) else None
        if isinstance(name, str):
            if name in seen:
                yield Slip(("hosts", index, "name"), f'"{name}" again', "a name of its own")
            seen.add(name)


def _cards(data: Data) -> Iterator[Slip]:
    for key, gpu in _parts(data, "gpus"):
        if key in _OPEN_ONLY and gpu.get("flavour") == "proprietary":
            allowed = "open: with proprietary modules this card stays invisible, without an error"
            yield Slip(("gpus", key, "flavour"), '"proprietary"', allowed)


def _pools(data: Data) -> Iterator[Slip]:
    for name, pool in _parts(data, "pools"):
        yield from _names(data, name, pool)
        yield from _length(data, name)
        if is_trial_name(name):
            allowed = "a name that does not begin as those of the harness's own trials (hil1-)"
            yield Slip(("pools", name), f'"{name}"', allowed)
        yield from _fit(data, name, pool)
        if "count" in pool and "gpu" not in pool:
            yield Slip(("pools", name, "count"), "cards", "no count in a pool without a gpu")


def _names(data: Data, name: str, pool: Data) -> Iterator[Slip]:
    tables = (("gpu", "gpus"), ("schematic", "schematics"), ("storageClass", "storageClasses"))
    for key, table in tables:
        default = "replicated" if key == "storageClass" else None
        value = pool.get(key, default)
        known = data.get(table, {} if table == "gpus" else None)
        if isinstance(value, str) and isinstance(known, dict) and value not in known:
            yield Slip(
                ("pools", name, key), f'"{value}"', f"a name in {table}: {choice(value, known)}"
            )


def _length(data: Data, pool: str) -> Iterator[Slip]:
    cluster = _part(data, "tenant").get("cluster", "lab")
    excess = len(release_name(cluster, pool)) - HELM_LIMIT if isinstance(cluster, str) else 0
    if excess > 0:
        release = release_name(cluster, pool)
        allowed = f"a name shorter by {excess}: the release {release} may have {HELM_LIMIT}"
        yield Slip(("pools", pool), f"{len(pool)} characters", allowed)


def _fit(data: Data, name: str, pool: Data) -> Iterator[Slip]:
    schematic = _part(data, "schematics").get(_text(pool.get("schematic")))
    if not isinstance(schematic, dict) or "misfit" in pool:
        return
    extensions = [str(entry) for _, entry in _items(schematic, "extensions")]
    flavours = {
        flavour
        for flavour, mark in (("open", _OPEN), ("proprietary", _PROPRIETARY))
        if any(mark in entry for entry in extensions)
    }
    card = _part(data, "gpus").get(_text(pool.get("gpu")))
    hint = "; if this is on purpose, say why in `misfit`"
    found = f'"{pool["schematic"]}" with {", ".join(sorted(flavours)) or "no"} NVIDIA modules'
    path = ("pools", name, "schematic")
    if isinstance(card, dict):
        wanted = card.get("flavour", "open")
        if sorted(flavours) != [wanted]:
            yield Slip(path, found, f"a schematic with the card's {wanted} modules{hint}")
    elif "gpu" not in pool and flavours:
        allowed = "no NVIDIA modules without a card: the node would reboot every 70 minutes"
        yield Slip(path, found, allowed + hint)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _lanes(data: Data) -> Iterator[Slip]:
    table = "guests" if data.get("kind") == "qemu" else "pools"
    pools = data.get(table)
    for name, lane in _parts(data, "lanes"):
        for index, pool in _items(lane, "pools"):
            if isinstance(pool, str) and isinstance(pools, dict) and pool not in pools:
                path = ("lanes", name, "pools", index)
                yield Slip(path, f'"{pool}"', f"a name in {table}: {choice(pool, pools)}")


def _claims(data: Data, known: Collection[str]) -> Iterator[Slip]:
    for name, lane in _parts(data, "lanes"):
        for key in ("claims", "exclude"):
            for index, claim in _items(lane, key):
                if isinstance(claim, str) and claim not in known:
                    path = ("lanes", name, key, index)
                    yield Slip(path, f'"{claim}"', f"a known claim: {choice(claim, known)}")
