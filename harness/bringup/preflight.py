"""What a pool needs of its lab is there: looked at before anything of the pool is written.

A name in an inventory that the lab does not know is the inventory's mistake, or the lab's lack; a
pool asked for all the same would wait for it for half an hour. What cannot be looked at is told and
refuses nothing. LINSTOR, free space and the tenant's quota: `harness.bringup.headroom`.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.bringup.pool import HeldPool
from harness.facts.clones import WantedDisk
from harness.facts.goldenname import GOLDENS
from harness.facts.goldens import Golden, GoldenAbsent
from harness.facts.objects import name_of
from harness.reach.errors import ApiRefused, LabError
from harness.reach.kube import Kube

Log = Callable[[str, str], None]

STORAGE = "storage.k8s.io/v1"
INSTANCETYPE = "instancetype.kubevirt.io/v1beta1"
_SHOWN = 12  # names of what is there instead


class NoGolden(LabError):
    """Nothing is there that a pool's disks could be cloned from; ``golden`` is the fact of it."""

    def __init__(
        self, tried: str, saw: str, do: str, *, golden: GoldenAbsent, wanted: WantedDisk
    ) -> None:
        super().__init__(tried, saw, do)
        self.golden = golden
        self.wanted = wanted


def check(held: HeldPool, log: Log) -> None:
    """See that the lab has what the pool names. Raises LabError, NoGolden for its golden image."""
    asked, kube = held.request, held.lab.management
    user = f"pool {held.name} of the inventory names"
    for api_version, kind, name in (
        (STORAGE, "StorageClass", asked.storage_class),
        (INSTANCETYPE, "VirtualMachineClusterInstancetype", asked.instance_type),
    ):
        _named(kube, api_version, kind, name, user, log)
    if asked.os_image == "builtin":
        _golden(held, log)


def _named(kube: Kube, api_version: str, kind: str, name: str, user: str, log: Log) -> None:
    try:
        if kube.get(api_version, kind, "", name) is not None:
            return
        there = sorted(name_of(one) for one in kube.list(api_version, kind))
    except ApiRefused as refused:
        log("preflight", f"whether there is a {kind} {name} could not be looked at: {refused}")
        return
    raise LabError(
        f"find {kind} {name}, which {user}",
        f"none of that name on {kube.name}; there is {_list(there)}",
        "name one that is there, or install it",
    )


def _golden(held: HeldPool, log: Log) -> None:
    """The golden, as a DataVolume or as its PVC alone, which the newest chart takes as well."""
    wanted, found = held.clones.wanted, held.clones.golden()
    if isinstance(found, GoldenAbsent) and not found.claim:
        raise NoGolden(
            f"find golden image {found.golden}, which pool {held.name} of the inventory is to be "
            "cloned from",
            f"no DataVolume and no PVC of that name in {GOLDENS}; there is {_list(found.others)}",
            "add the image to the platform's catalogue (package "
            "cozystack.kubernetes-worker-image), or let the pool download it (osImage: factory)",
            golden=found,
            wanted=wanted,
        )
    if not isinstance(found, Golden | GoldenAbsent):
        why = f"whether there is a golden image could not be looked at: {found.reason}"
        log("preflight", why)


def _list(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(names[:_SHOWN]) or "none"
    return shown + f" and {len(names) - _SHOWN} more" * (len(names) > _SHOWN)
