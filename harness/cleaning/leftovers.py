"""What runs left on a lab's clusters: whose it was, since when, and why it is thought dead.

Nothing is taken for ours by its name alone: a pool, a volume, a pod or a namespace is ours by its
label. Dead is what no live Lease covers: the Lease of its pool has no holder, or has run out. What
looks like ours and carries no mark is shown, and never removed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from harness.bringup.addon_trials import MADE_FOR
from harness.bringup.connect import ConnectedLab
from harness.bringup.leasing import RUN, lease_name
from harness.bringup.ownership import OURS, OWNER_LABELS
from harness.bringup.probes import PROBE_OF
from harness.bringup.scratch_pools import TRIAL_OF
from harness.facts.objects import listed, mapped, name_of, text_at, uid_of
from harness.inventory.naming import deployment_name
from harness.reach.errors import ApiRefused
from harness.reach.history import Obj
from harness.reach.kube import Kube
from harness.reach.lease import API, KIND, LeaseState, lease_state, micro_time
from harness.reach.nodeshell import RUN as SHELL_RUN

POOLS = "apps.cozystack.io/v1alpha1", "KubernetesNodes"
CLAIM = "PersistentVolumeClaim"
_MADE_FOR = (PROBE_OF, MADE_FOR)


@dataclass(frozen=True, slots=True)
class Leftover:
    """One object. ``pool`` is the pool whose Lease covers it, "" for none; ``run`` the run it is
    of, "" where nobody says; ``live`` and ``why`` whether and why it is in use or dead; ``ours``
    False for what carries no mark.
    """

    cluster: str
    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    since: str
    pool: str = ""
    run: str = ""
    live: bool = False
    why: str = ""
    ours: bool = True

    @property
    def what(self) -> str:
        """As a person names it."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place}"


@dataclass(slots=True)
class Finding:
    """All that was found, and what could not be looked at."""

    leftovers: list[Leftover] = field(default_factory=list)
    leases: dict[str, LeaseState] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    """The run that each Lease names, by the Lease's name."""
    unseen: list[str] = field(default_factory=list)


def find(lab: ConnectedLab) -> Finding:
    """Everything that runs left on both clusters. Raises LabError where they cannot be reached,
    and where Leases may not be listed: without them nothing can be told dead.
    """
    found, place = Finding(), lab.inventory.tenant
    pools = _listed(found, lab.management, *POOLS, place.namespace, "")
    claims = _listed(found, lab.management, "v1", CLAIM, place.namespace, OURS)
    in_tenant = list(_in_tenant(found, lab))
    # after all else: a run has its Lease before it makes anything. Refused, nothing is dead
    for lease in lab.management.list(API, KIND, place.namespace, labels=OURS):
        state = lease_state(lease)
        found.leases[state.name] = state
        noted = text_at(mapped(lease, "metadata", "annotations"), RUN)
        found.runs[state.name] = state.holder or noted
    for asked in filter(_is_ours, pools):
        pool = _pool_of(asked, lab)
        found.leftovers.append(_of(found, lab, lab.management, *POOLS, asked, pool))
    for claim in claims:
        pool = name_of(claim).removeprefix(f"hil-scratch-{place.cluster}-")
        found.leftovers.append(_of(found, lab, lab.management, "v1", CLAIM, claim, pool))
    found.leftovers += _volumes(found, lab)
    found.leftovers += [_of(found, lab, lab.tenant, "v1", *one) for one in in_tenant]
    found.leftovers += _of_leases(found, lab)
    return found


def _in_tenant(found: Finding, lab: ConnectedLab) -> Iterator[tuple[str, Obj, str, str]]:
    """Probes and shells of ours, in the namespaces that were made for them: kind, object, pool
    and run.
    """
    tenant = lab.tenant
    for namespace in _listed(found, tenant, "v1", "Namespace", "", OURS):
        space = name_of(namespace)
        for kind in ("Pod", CLAIM):
            for one in _listed(found, tenant, "v1", kind, space, OURS):
                labels = mapped(one, "metadata", "labels")
                pool = next((text_at(labels, key) for key in _MADE_FOR if key in labels), "")
                run = text_at(labels, SHELL_RUN)
                yield kind, one, pool, run


def _of_leases(found: Finding, lab: ConnectedLab) -> Iterator[Leftover]:
    """Leases in a run's hands; one that ran out is a dead run's, whether or not more is left."""
    begins, now = lease_name(lab.inventory.tenant.cluster, ""), lab.clock.now()
    for state in found.leases.values():
        if not (state.name.startswith(begins) and state.holder):
            continue
        until = micro_time(state.until) if state.until is not None else "an unknown time"
        yield Leftover(
            lab.management.name,
            API,
            KIND,
            state.namespace,
            state.name,
            "",
            micro_time(state.since) if state.since is not None else "",
            pool=state.name.removeprefix(begins),
            run=state.holder,
            live=state.live(now),
            why=f"it lasts till {until}" if state.live(now) else f"it ran out at {until}",
        )


def _volumes(found: Finding, lab: ConnectedLab) -> Iterator[Leftover]:
    """Volumes of claims that are gone, of the pools that the inventory names. They carry no mark:
    who keeps volumes may want them.
    """
    place = lab.inventory.tenant
    begins = tuple(f"{deployment_name(place.cluster, pool)}-" for pool in lab.inventory.pools)
    for volume in _listed(found, lab.management, "v1", "PersistentVolume", "", ""):
        claim = mapped(volume, "spec", "claimRef")
        mine = text_at(claim, "namespace") == place.namespace
        if mine and text_at(claim, "name").startswith(begins) and _is_free(volume):
            yield Leftover(
                lab.management.name,
                "v1",
                "PersistentVolume",
                "",
                name_of(volume),
                uid_of(volume),
                text_at(volume, "metadata", "creationTimestamp"),
                why=f"{text_at(volume, 'status', 'phase')}, its claim {text_at(claim, 'name')} is "
                "gone; it carries no mark of ours",
                ours=False,
            )


def _is_free(volume: Obj) -> bool:
    return text_at(volume, "status", "phase") in ("Released", "Failed")


def _of(
    found: Finding,
    lab: ConnectedLab,
    kube: Kube,
    api_version: str,
    kind: str,
    obj: Obj,
    pool: str,
    run: str = "",
) -> Leftover:
    state = found.leases.get(lease_name(lab.inventory.tenant.cluster, pool)) if pool else None
    live, why = _standing(found, state, run, lab.clock.now())
    named = found.runs.get(state.name, "") if state is not None else ""
    leaving = text_at(obj, "metadata", "deletionTimestamp")
    if leaving:
        held = ", ".join(map(str, listed(obj, "metadata", "finalizers"))) or "no finalizer"
        why = f"{why}; being deleted since {leaving} ({held})"
    return Leftover(
        kube.name,
        api_version,
        kind,
        text_at(obj, "metadata", "namespace"),
        name_of(obj),
        uid_of(obj),
        text_at(obj, "metadata", "creationTimestamp"),
        pool,
        run or named,
        live,
        why,
    )


def _standing(found: Finding, state: LeaseState | None, run: str, now: float) -> tuple[bool, str]:
    """Whether a live Lease covers it, and why it is thought alive or dead."""
    if run:
        held = [one.name for one in found.leases.values() if one.holder == run and one.live(now)]
        return bool(held), f"run {run} " + (
            f"holds {held[0]}" if held else "holds no pool any more"
        )
    if state is None:
        return False, "no lease was ever taken on its pool"
    if state.live(now):
        till = "an unknown time" if state.until is None else micro_time(state.until)
        return True, f"run {state.holder} holds its pool till {till}"
    if not state.holder:
        return False, "the lease on its pool was given back"
    return False, f"run {state.holder} let the lease on its pool run out"


def _is_ours(pool: Obj) -> bool:
    labels: Mapping[str, object] = mapped(pool, "metadata", "labels")
    return all(labels.get(key) == value for key, value in OWNER_LABELS.items())


def _pool_of(pool: Obj, lab: ConnectedLab) -> str:
    trial = text_at(mapped(pool, "metadata", "labels"), TRIAL_OF)
    return trial or name_of(pool).removeprefix(f"{lab.inventory.tenant.cluster}-")


def _listed(
    found: Finding, kube: Kube, api_version: str, kind: str, namespace: str, labels: str
) -> list[Obj]:
    try:
        return kube.list(api_version, kind, namespace, labels=labels)
    except ApiRefused as refused:
        found.unseen.append(f"{kind} of {kube.name}: {refused.saw}")
        return []
