"""`hil doctor --lab FILE --lane LANE`: can these clusters run this lane now; nothing is written.

An access review is a POST that stores nothing. What somebody else uses is told with whose it is;
what the inventory does not name is told as not asked.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.bringup.connect import ConnectedLab, reachable
from harness.bringup.headroom import measure
from harness.bringup.leasing import cards_in_use, lease_name, promised
from harness.bringup.linstor import linstor_of
from harness.bringup.skew import FAR_APART, NTP, Skew, skew_of
from harness.clock import ClockStuck
from harness.doctor.check import Check, State
from harness.doctor.permissions import TENANT, Extent, Permission, of_management, of_tenant
from harness.facts.fact import Unread
from harness.facts.goldenname import GOLDENS, name_of_golden
from harness.facts.objects import name_of, text_at
from harness.facts.reckoning import reckon
from harness.observe import linstor as controller
from harness.observe.platformversion import platform_version
from harness.observe.pool import CAPI, DATA_VOLUMES, HELM, INFRASTRUCTURE, KUBEVIRT
from harness.observe.trials import BOOTSTRAP
from harness.reach.errors import ApiRefused, Garbled, LabError
from harness.reach.kube import Kube
from harness.reach.lease import API, KIND, lease_state, micro_time
from harness.session.choice import Choice
from harness.session.labs import LabChoice
from harness.twin.process import TwinFailed

if TYPE_CHECKING:
    from harness.inventory.models import Host

SKEW = 1.0
"""Seconds between two clocks that are nobody's concern."""
_KINDS = (
    ("apps.cozystack.io/v1alpha1", "KubernetesNodes"),
    (HELM, "HelmRelease"),
    (CAPI, "MachineDeployment"),
    (BOOTSTRAP, "TalosConfigTemplate"),
    (INFRASTRUCTURE, "KubevirtMachine"),
    (KUBEVIRT, "VirtualMachineInstance"),
    (DATA_VOLUMES, "DataVolume"),
)
_STORAGE = "storage.k8s.io/v1"
_SNAPSHOTS = "snapshot.storage.k8s.io/v1"
_TYPES = "instancetype.kubevirt.io/v1beta1"
_REVIEW = "authorization.k8s.io/v1"


def examine(choice: Choice, attach: Path | None, *, asks: bool) -> Iterator[Check]:
    """Everything of the lab that a lane needs; ``asks`` False: only what can be told unasked."""
    lab = choice.inventory
    if attach is None and lab.management is not None:
        try:
            way = reachable(lab)
        except LabError as unfit:
            yield Check("kubeconfig", State.MISSING, unfit.saw, unfit.do)
            return
        yield Check("kubeconfig", State.OK, f"can be read, context {way.context or 'of the pod'}")
    if not asks:
        do = "`hil doctor --try` asks it, `--lane LANE` all that a lane needs"
        yield Check("API", State.UNKNOWN, "not asked", do)
        return
    with tempfile.TemporaryDirectory(prefix="hil-doctor-") as folder:
        picked = LabChoice(lab, "hil-doctor", Path(folder), attach=attach)
        try:
            with picked.open("doctor") as connected:
                yield from _lab(connected, choice)
        except (LabError, TwinFailed, ClockStuck) as unfit:
            do = unfit.do if isinstance(unfit, LabError) else "see whether it still runs"
            yield Check("API", State.MISSING, str(unfit), do)


def _lab(lab: ConnectedLab, choice: Choice) -> Iterator[Check]:
    pools = choice.pools
    asked = [lab.inventory.pools[name] for name in pools]
    lane = lab.inventory.lanes.get(choice.lane)
    extent = Extent(
        cards=any(one.gpu for one in asked),
        clones=any(one.os_image == "builtin" for one in asked),
        platform=lane is not None and lane.platform,
        disruption=choice.disruption,
        console=lab.inventory.console,
    )
    yield from _guarded("API management", lambda: _api(lab.management, lab))
    yield from _guarded(
        "rights management", lambda: _rights(lab, lab.management, of_management(extent))
    )
    yield from _guarded("platform", lambda: _platform(lab))
    yield from _guarded("kinds", lambda: _kinds(lab.management))
    yield from _guarded("classes", lambda: _classes(lab, pools))
    yield from _guarded("leases", lambda: _leases(lab, pools))
    yield from _guarded("cards", lambda: _cards(lab, pools))
    yield from _guarded("LINSTOR", lambda: _linstor(lab, pools))
    yield from _guarded("API tenant", lambda: _api(lab.tenant, lab))
    yield from _guarded("rights tenant", lambda: _rights(lab, lab.tenant, of_tenant(extent)))
    yield from _guarded("console", lambda: _console(lab))
    yield from _guarded("Prometheus", lambda: _prometheus(lab))
    for host in lab.inventory.hosts:
        yield _ssh(lab, host)


def _guarded(subject: str, look: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """What cannot be asked is one line, and the rest is asked all the same."""
    try:
        yield from look()
    except LabError as unfit:
        refused = isinstance(unfit, ApiRefused)
        state = State.UNKNOWN if refused else State.MISSING
        yield Check(subject, state, unfit.saw, unfit.do)


def _api(kube: Kube, lab: ConnectedLab) -> Iterator[Check]:
    """Whether it answers, its version, and its clock against the lab's."""
    subject, asked = f"API {kube.name}", lab.clock.now()
    answer = kube.stream("/version", {}, read_timeout=kube.timeouts.read, verb="get")
    try:
        body, date = answer.read(65536), str(answer.headers.get("Date", ""))
        found = skew_of(date, asked, lab.clock.now())
    finally:
        answer.close()
    try:
        version = str(json.loads(body)["gitVersion"])
    except (ValueError, KeyError, TypeError) as wrong:
        raise Garbled(
            f"read {kube.name}'s version", repr(body[:80]), "look what answers"
        ) from wrong
    yield Check(subject, State.OK, f"answers at {kube.url}, Kubernetes {version}")
    yield _skew(f"clock {kube.name}", date, found)


def _skew(subject: str, date: str, found: Skew | None) -> Check:
    if found is None:
        return Check(subject, State.UNKNOWN, f"it sends no Date that can be read: {date!r}")
    said = f"{abs(found.apart):.0f} s {'ahead' if found.apart > 0 else 'behind'}"
    do = f"{NTP}: times of both sides are compared; a run is refused from {FAR_APART:.0f} s on"
    if abs(found.apart) <= SKEW:
        return Check(subject, State.OK, f"within {SKEW:.0f} s of the runner's")
    state = State.MISSING if found.too_far else State.UNKNOWN
    return Check(subject, state, f"{said} the runner's clock", do)


def _rights(lab: ConnectedLab, kube: Kube, permissions: Iterable[Permission]) -> Iterator[Check]:
    namespace = lab.inventory.tenant.namespace
    allowed, subject = 0, f"rights {kube.name}"
    for one in permissions:
        where = namespace if one.where == TENANT else one.where
        denied = [verb for verb in one.verbs if not may(kube, one, verb, where)]
        allowed += len(one.verbs) - len(denied)
        if denied:
            place = f"in {where}" if where else "in the whole cluster"
            said = f"may not {', '.join(denied)} {one.named} {place} (to {one.why})"
            do = "grant it to these credentials, or use others"
            yield Check(subject, State.MISSING, said, do, one.needed)
    yield Check(subject, State.OK, f"{allowed} verbs on resources are granted")


def may(kube: Kube, asked: Permission, verb: str, namespace: str) -> bool:
    """What the API says of one verb (SelfSubjectAccessReview). Raises LabError."""
    attributes = {
        "verb": verb,
        "group": asked.group,
        "resource": asked.resource,
        "subresource": asked.subresource,
        "namespace": namespace,
    }
    given = {key: value for key, value in attributes.items() if value}
    review = {
        "apiVersion": _REVIEW,
        "kind": "SelfSubjectAccessReview",
        "metadata": {},
        "spec": {"resourceAttributes": given},
    }
    return bool((kube.create(review).get("status") or {}).get("allowed"))


def _platform(lab: ConnectedLab) -> Iterator[Check]:
    """Which release is installed: a run that cannot tell is evidence for none."""
    found = platform_version(lab.management, now=lab.clock.now)
    if found.version:
        told = "; ".join(map(str, found.sources))
        yield Check("platform", State.OK, f"Cozystack {found.version} is installed: {told}")
        return
    do = (
        "let these credentials get deployments.apps and ocirepositories in cozy-system, or finish "
        "the upgrade; no release can be signed with runs here until then"
    )
    yield Check("platform", State.UNKNOWN, found.reason, do, needed=False)


def _kinds(kube: Kube) -> Iterator[Check]:
    lacking = []
    for version, kind in _KINDS:
        try:
            kube.kinds.find(version, kind)
        except ApiRefused as absent:
            lacking.append(f"{kind} ({version})")
            if absent.code != 404:
                raise
    if lacking:
        do = "install what brings them, in this version"
        yield Check("kinds", State.MISSING, f"not served: {', '.join(lacking)}", do)
    else:
        yield Check("kinds", State.OK, f"all {len(_KINDS)} of a pool are served")


def _classes(lab: ConnectedLab, pools: Sequence[str]) -> Iterator[Check]:
    asked = [lab.inventory.pools[name] for name in pools]
    wanted = [(_STORAGE, "StorageClass", str(one.storage_class)) for one in asked]
    wanted += [
        (_TYPES, "VirtualMachineClusterInstancetype", str(one.instance_type)) for one in asked
    ]
    for version, kind, name in dict.fromkeys(wanted):
        if lab.management.get(version, kind, "", name) is not None:
            yield Check(kind, State.OK, f"{name} is there")
            continue
        there = ", ".join(sorted(map(name_of, lab.management.list(version, kind)))) or "none"
        do = "name one that is there, or install it"
        yield Check(kind, State.MISSING, f"no {name}; there is {there}", do)
    clones = [name for name in pools if lab.inventory.pools[name].os_image == "builtin"]
    if clones:
        yield from _clones(lab, clones)


def _clones(lab: ConnectedLab, pools: Sequence[str]) -> Iterator[Check]:
    kube = lab.management
    try:
        found = kube.list(_SNAPSHOTS, "VolumeSnapshotClass")
        names = ", ".join(map(name_of, found))
        said = f"{names}: only clones by snapshot need one" if names else "there is none"
        state = State.OK if found else State.UNKNOWN
        do = "clones by snapshot are not possible; clones by CSI are"
        yield Check("VolumeSnapshotClass", state, said, do, needed=False)
    except ApiRefused as refused:
        yield Check("VolumeSnapshotClass", State.UNKNOWN, refused.saw, needed=False)
    for pool in pools:
        asked = lab.inventory.pools[pool]
        golden = name_of_golden(lab.inventory.schematic_of(pool).id, asked.talos_version)
        image = kube.get(DATA_VOLUMES, "DataVolume", GOLDENS, golden)
        claim = image or kube.get("v1", "PersistentVolumeClaim", GOLDENS, golden)
        phase = text_at(image or {}, "status", "phase") or ("its claim alone" if claim else "")
        if claim is None:
            do = "add the image to the catalogue, or let the pool download"
            yield Check("golden image", State.MISSING, f"no {golden} for pool {pool}", do)
        else:
            state = State.OK if phase in ("Succeeded", "its claim alone") else State.UNKNOWN
            yield Check("golden image", state, f"{golden}: {phase}", "wait for its import")


def _leases(lab: ConnectedLab, pools: Sequence[str]) -> Iterator[Check]:
    """Who holds the lane's pools."""
    place, now = lab.inventory.tenant, lab.clock.now()
    for pool in pools:
        found = lab.management.get(API, KIND, place.namespace, lease_name(place.cluster, pool))
        state = lease_state(found) if found is not None else None
        if state is None or not state.holder:
            yield Check(f"pool {pool}", State.OK, "nobody holds it")
        elif state.live(now):
            since = "an unknown time" if state.since is None else micro_time(state.since)
            do = f"wait for it (`hil run --wait 30m`), or end {state.holder}"
            said = f"held by run {state.holder} since {since}"
            yield Check(f"pool {pool}", State.MISSING, said, do)
        else:
            said = f"run {state.holder} held it and let its lease expire: it is taken over"
            yield Check(f"pool {pool}", State.OK, said)


def _cards(lab: ConnectedLab, pools: Sequence[str]) -> Iterator[Check]:
    """For each kind of card how many the hosts offer, who has them, whom they are promised to."""
    for key, card in lab.inventory.gpus.items():
        users = [
            lab.inventory.pools[name] for name in pools if lab.inventory.pools[name].gpu == key
        ]
        if not users:
            continue
        need = max(one.replicas * one.cards for one in users)
        offered, taken = cards_in_use(lab, card.resource_name)
        promises = promised(lab, card.resource_name, None)
        free = offered - sum(count for _, count in taken)
        told = [f"{offered} offered, {free} free, {need} needed"]
        told += [f"{count} with {pod}" for pod, count in taken]
        told += [
            f"{one.count} leased by run {one.state.holder} ({one.state.name})" for one in promises
        ]
        enough = free >= need
        do = "read the name from the host's allocatable" if not offered else "wait, or free some"
        state = State.OK if enough else State.MISSING
        yield Check(f"cards {card.resource_name}", state, "; ".join(told), do)


def _linstor(lab: ConnectedLab, pools: Sequence[str]) -> Iterator[Check]:
    drbd = [
        name
        for name in pools
        if lab.inventory.storage_classes[lab.inventory.pools[name].storage_class].drbd
    ]
    with linstor_of(lab) as linstor:
        if linstor is None:
            do = "name `linstor` in the inventory; without it claims about DRBD are not asked"
            yield Check("LINSTOR", State.UNKNOWN, "the inventory names none", do, needed=False)
            return
        version = controller.version(linstor, now=lab.clock.now)
        nodes = controller.nodes(linstor, now=lab.clock.now)
        for fact in (version, nodes):
            if isinstance(fact, Unread):
                yield Check("LINSTOR", State.UNKNOWN, fact.reason)
        if not isinstance(nodes, Unread):
            off = [one.name for one in nodes.nodes if one.connection != "ONLINE"]
            said = f"{len(nodes.nodes) - len(off)} of {len(nodes.nodes)} nodes ONLINE"
            state = State.MISSING if off or not nodes.nodes else State.OK
            do = f"bring {', '.join(off) or 'satellites'} back"
            yield Check("LINSTOR", state, said, do)
        for pool in drbd:
            sum_ = reckon(measure(lab, linstor, pool))
            states = {True: State.OK, False: State.MISSING, None: State.UNKNOWN}
            do = "free space, or ask for fewer or smaller disks"
            yield Check(f"headroom {pool}", states[sum_.fits], sum_.because, do)


def _console(lab: ConnectedLab) -> Iterator[Check]:
    """Whether one may attach, and to what; nothing is attached: it would take it from somebody."""
    if not lab.inventory.console:
        yield Check("console", State.UNKNOWN, "the inventory says there is none", needed=False)
        return
    namespace = lab.inventory.tenant.namespace
    asked = Permission(
        "subresources.kubevirt.io", "virtualmachineinstances", ("get",), TENANT, "", "console"
    )
    if not may(lab.management, asked, "get", namespace):
        do = "grant get on virtualmachineinstances/console, or say `console: false`"
        yield Check("console", State.MISSING, "may not be attached", do)
        return
    machines = lab.management.list(KUBEVIRT, "VirtualMachineInstance", namespace)
    told = ", ".join(f"{name_of(one)} {text_at(one, 'status', 'phase')}" for one in machines)
    yield Check("console", State.OK, f"may be attached; machines now: {told or 'none'}")


def _prometheus(lab: ConnectedLab) -> Iterator[Check]:
    from harness.bringup.prometheus import prometheus_of

    with prometheus_of(lab) as prometheus:
        if prometheus is None:
            do = "name `prometheus`: without it memory cannot be told from a timer"
            yield Check("Prometheus", State.UNKNOWN, "the inventory names none", do, needed=False)
            return
        answer = prometheus.instant("up", lab.clock.now())
        series = len(json.loads(answer.text).get("data", {}).get("result", []))
        yield Check("Prometheus", State.OK, f"answers, {series} targets", needed=False)


def _ssh(lab: ConnectedLab, host: Host) -> Check:
    from harness.bringup.hosts import log_in

    subject = f"SSH {host.name}"
    if host.ssh is None:
        do = "name its key: without it nobody looks at the host's PCI bus"
        return Check(subject, State.UNKNOWN, "the inventory names no key", do, needed=False)
    try:
        log_in(host, lab.clock).close()
    except LabError as refused:
        return Check(subject, State.MISSING, refused.saw, refused.do)
    return Check(subject, State.OK, "lets us in")
