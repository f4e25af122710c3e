"""What a pool's watches show of its workers' boots, kept node by node from bring-up on.

It has no thread and makes no request of its own: the watches keep their histories, and `take` works
off what is new in them whenever the harness is awake anyway. What it has taken it keeps, also when
the cluster has let an Event expire and when a history forgets its oldest revisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.facts.bootledger import (
    NOTHING_SEEN,
    BootLedger,
    Entry,
    NodeBoot,
    PodRestarts,
    PodStay,
    Restart,
    Seen,
    boot_ledger,
)
from harness.facts.fact import Origin
from harness.facts.objects import epoch, listed, mapped, text_at
from harness.inventory.naming import deployment_name
from harness.observe.pool import DEPLOYMENT_LABEL
from harness.reach.errors import LabError
from harness.reach.history import Gap, History, Obj, Revision
from harness.reach.watch import Feed, Target

if TYPE_CHECKING:
    from harness.bringup.boots import BootLog
    from harness.bringup.watched import WatchedPool
    from harness.bringup.worker import Worker

TIMES = 20
"""Occurrences of one Event that are kept each; of more, the last."""
MOST = 2000
"""Events of one worker that are kept, the first ones: a boot's cause comes before its echo."""
LAUNCHER_OF = "vm.kubevirt.io/name"
"""Label of a virt-launcher pod: the VMI that it runs (KubeVirt)."""
_QUOTED = 200


@dataclass(slots=True)
class _Page:
    """What is kept of one worker."""

    boots: list[NodeBoot] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)
    stays: dict[str, PodStay] = field(default_factory=dict)  # by the pod's UID
    counts: dict[tuple[str, str], int] = field(default_factory=dict)  # by that and container
    entries: list[Entry] = field(default_factory=list)
    told: dict[tuple[str, str], str] = field(default_factory=dict)  # kind and name to UID
    events: int = 0


@dataclass(slots=True)
class _Source:
    """One history, and how far it has been taken."""

    name: str
    history: History
    take: Callable[[Revision], None]
    order: int = 0


class BootBooks:
    """The pages of a pool's workers.

    ``machines`` says, by Node, which Machine each worker is of, "" for none yet; what is told of
    other nodes is passed over. ``management`` and ``tenant`` are histories by what they hold:
    "machines", "vmis", "pods", "events" and "nodes", "pods", "events". None of them is needed.
    ``own`` are the watches that end with the books.
    """

    def __init__(
        self,
        machines: Callable[[], Mapping[str, str]],
        management: Mapping[str, History],
        tenant: Mapping[str, History],
        own: Sequence[Feed] = (),
    ) -> None:
        self._machines = machines
        self._own = own
        self._followed: Sequence[Worker] = ()
        self._pages: dict[str, _Page] = {}
        self._nodes: dict[str, str] = {}  # by the name of a Machine or VMI
        self._on: dict[tuple[str, str], str] = {}  # Node by a tenant pod's namespace and name
        self._launched: dict[str, str] = {}  # Node by a virt-launcher's name
        self._often: dict[tuple[str, str], list[int]] = {}  # places of an Event's entries, by UID
        self._gaps: list[Entry] = []
        of_management = {
            "machines": self._machine,
            "vmis": self._vmi,
            "pods": self._launcher,
            "events": self._management_event,
        }
        of_tenant = {"nodes": self._node, "pods": self._pod, "events": self._tenant_event}
        self._sources = [
            *_sources("management", management, of_management),
            *_sources("tenant", tenant, of_tenant),
        ]

    def follow(self, workers: Sequence[Worker] = ()) -> None:
        """Take what is new, and look at the boots of these workers that are due; without any, of
        those that were followed last. A look that fails is kept as that.
        """
        self._followed = workers or self._followed
        self.take()
        for worker in self._followed:
            worker.follow_boot()

    def ledgers(self) -> list[BootLedger]:
        """What is known of the boots of each worker that was followed."""
        return [one for worker in self._followed if (one := worker.boot_ledger()) is not None]

    def close(self) -> None:
        """End its own watches. What they showed until then can still be taken."""
        for feed in self._own:
            feed.stop()
        for feed in self._own:
            feed.close()

    def unwatched(self, what: str, at: float, why: str) -> None:
        """Say that something is not watched, and why."""
        self._gaps.append(Entry(at, "gap", text=f"{what} could not be watched: {why}"[:_QUOTED]))

    def take(self) -> int:
        """Work off what is new since the last time; returns how many revisions that were."""
        machines = self._machines()
        for node, machine in machines.items():
            self._pages.setdefault(node, _Page())
            self._nodes[node] = node  # the VM, the VMI and the Node have one name (CAPK)
            if machine:
                self._nodes[machine] = node
        return sum(map(self._take, self._sources)) if machines else 0

    def seen(self, node: str) -> Seen:
        """What is known of one worker, as of the last `take`."""
        page = self._pages.get(node, _Page())
        return Seen(tuple(page.boots), tuple(page.restarts), (*page.entries, *self._gaps))

    def restarts(self, node: str, at: float) -> PodRestarts:
        """The pods of one worker and their restarts, as of the last `take`; ``at`` is now."""
        page = self._pages.get(node, _Page())
        origin = Origin(at, f"tenant Pods on {node}, watched", "")
        return PodRestarts(origin, node, tuple(page.stays.values()), tuple(page.restarts))

    # -- histories

    def _take(self, source: _Source) -> int:
        new = _since(source.history, source.order)
        place = new[-1].order if new else source.order
        lost = place - source.order - len(new)
        if lost > 0:
            at = new[0].until if isinstance(new[0], Gap) else new[0].arrived
            text = f"{lost} revisions of {source.name} were forgotten before they were taken"
            self._gaps.append(Entry(at, "gap", text=text))
        for entry in new:
            if isinstance(entry, Gap):
                self._note_gap(source.name, entry)
            else:
                source.take(entry)
        source.order = place
        return len(new)

    def _note_gap(self, name: str, gap: Gap) -> None:
        lasted = f"{gap.until - gap.since:.0f} s"
        text = f"what {name} did in {lasted} may have been missed: {gap.reason}"[:_QUOTED]
        self._gaps.append(Entry(gap.until, "gap", text=text))

    # -- the management cluster

    def _machine(self, revision: Revision) -> None:
        name = revision.key[1]
        if name in self._nodes and self._is_news("Machine", revision, self._nodes[name]):
            self._identity("machine", "Machine", revision, self._nodes[name])

    def _vmi(self, revision: Revision) -> None:
        name = revision.key[1]
        if name in self._nodes and self._is_news("VMI", revision, self._nodes[name]):
            self._identity("vmi", "VMI", revision, self._nodes[name])

    def _launcher(self, revision: Revision) -> None:
        name = revision.key[1]
        if not self._launched.get(name):  # its VMI may be known later than it
            labels = mapped(revision.obj, "metadata", "labels")
            self._launched[name] = self._nodes.get(str(labels.get(LAUNCHER_OF, "")), "")
        node = self._launched[name]
        if node and self._is_news("virt-launcher pod", revision, node):
            self._identity("launcher", "virt-launcher pod", revision, node)

    def _is_news(self, kind: str, revision: Revision, node: str) -> bool:
        known = self._pages[node].told.get((kind, revision.key[1]), "")
        return revision.change == "DELETED" or known != revision.uid

    def _identity(self, what: str, kind: str, revision: Revision, node: str) -> None:
        page, name = self._pages[node], revision.key[1]
        before = page.told.get((kind, name), "")
        if revision.change == "DELETED":
            page.told.pop((kind, name), None)
            text = f"{kind} {name} (UID {revision.uid}) is gone"
        else:
            page.told[kind, name] = revision.uid
            text = f"{kind} {name} has UID {revision.uid}" + (
                f", it was {before}" if before else ""
            )
        page.entries.append(Entry(_came(revision), what, text=text))

    def _management_event(self, revision: Revision) -> None:
        about = mapped(revision.obj, "involvedObject")
        name = text_at(about, "name")
        node = self._nodes.get(name) or self._launched.get(name, "")
        if node:
            self._event(revision, node, f"management {text_at(about, 'kind')} {name}")

    # -- the tenant cluster

    def _node(self, revision: Revision) -> None:
        name = revision.key[1]
        page = self._pages.get(name)
        if page is None:
            return
        is_news = self._is_news("Node", revision, name)
        if is_news:
            self._identity("node", "Node", revision, name)
        boot_id = text_at(revision.obj, "status", "nodeInfo", "bootID")
        if revision.change == "DELETED" or not boot_id:
            return
        if not (page.boots and page.boots[-1].boot_id == boot_id):
            # a list after a gap shows a new boot of an old Node
            at = _came(revision) if is_news else revision.arrived
            page.boots.append(NodeBoot(at, boot_id, revision.uid))

    def _pod(self, revision: Revision) -> None:
        pod, uid = revision.obj, revision.uid
        node = text_at(pod, "spec", "nodeName")
        page = self._pages.get(node)
        if page is None:
            return
        self._on[revision.key] = node
        stay = page.stays.get(uid)
        if revision.change == "DELETED":
            if stay is not None and stay.until is None:
                page.stays[uid] = PodStay(stay.pod, stay.since, revision.arrived)
        elif _is_to_stay(pod):
            name = "/".join(part for part in revision.key if part)
            page.stays.setdefault(uid, PodStay(name, _came(revision)))
            self._count(page, name, revision)

    def _count(self, page: _Page, name: str, revision: Revision) -> None:
        for one in listed(revision.obj, "status", "containerStatuses"):
            container, count = text_at(one, "name"), one.get("restartCount")
            if not isinstance(count, int):
                continue
            key = revision.uid, container
            before = page.counts.get(key)
            page.counts[key] = count
            if before is not None and count > before:
                restart = Restart(revision.arrived, name, container, count, count - before)
                page.restarts.append(restart)

    def _tenant_event(self, revision: Revision) -> None:
        about = mapped(revision.obj, "involvedObject")
        kind, name = text_at(about, "kind"), text_at(about, "name")
        node = name if kind == "Node" and name in self._pages else ""
        node = node or self._on.get((text_at(about, "namespace"), name), "")
        if node:
            self._event(revision, node, f"{kind} {name}")

    def _event(self, revision: Revision, node: str, about: str) -> None:
        if revision.change == "DELETED":
            return  # it has expired; what it said is kept
        page, event = self._pages[node], revision.obj
        places = self._often.setdefault((node, revision.uid), [])
        count = event.get("count")
        times = f" ({count} times)" if isinstance(count, int) and count > 1 else ""
        message = " ".join(text_at(event, "message").split())
        said = f"{about}: {text_at(event, 'type')} {text_at(event, 'reason')}{times}: {message}"
        entry = Entry(_when(revision), "event", text=said[:_QUOTED])
        if len(places) >= TIMES:
            page.entries[places[-1]] = entry
        elif page.events < MOST:
            places.append(len(page.entries))
            page.entries.append(entry)
            page.events += 1
            if page.events == MOST:
                text = f"{MOST} Events are kept; those that came later are left out"
                page.entries.append(Entry(entry.at, "gap", text=text))


def watch_boots(watched: WatchedPool) -> BootBooks:
    """The books of a pool, beginning now. What the tenant cluster does not let us watch is told."""
    lab = watched.lab
    feeds: dict[str, Feed] = {}
    refused: dict[str, str] = {}
    for name, kind in (("pods", "Pod"), ("events", "Event")):
        # of its own: it ends with the pool, whose take-down is not to be slower for it
        feed = Feed(lab.tenant, lab.clock, Target("v1", kind))
        try:
            feed.start()
            feeds[name] = feed
        except LabError as error:
            refused[name] = str(error)
    management = {name: watched.feeds[name].history for name in _OF_MANAGEMENT}
    tenant = {name: feed.history for name, feed in feeds.items()}
    tenant["nodes"] = watched.nodes.history
    books = BootBooks(_Machines(watched), management, tenant, tuple(feeds.values()))
    for name, why in refused.items():
        books.unwatched(f"{name} of the tenant", lab.clock.now(), why)
    return books


def ledger_of(worker: Worker, log: BootLog) -> BootLedger:
    """All that is known of a worker's boots now; no request is made for it."""
    pool = worker.pool
    seen = NOTHING_SEEN
    if pool.books is not None:
        pool.books.take()
        seen = pool.books.seen(worker.name)
    return boot_ledger(
        worker.name,
        worker.machine,
        since=pool.since,
        until=pool.lab.clock.now(),
        limit=pool.terms.limit,
        soak=pool.terms.soak,
        samples=log.all_looks,
        logs=log.heard,
        seen=seen,
    )


_OF_MANAGEMENT = ("machines", "vmis", "pods", "events")


class _Machines:
    """By Node, the Machine of each worker that a pool ever had.

    A Node has its VM's name, which its Machine refers to long before there is a Node (CAPK).
    """

    def __init__(self, watched: WatchedPool) -> None:
        self._history = watched.feeds["machines"].history
        cluster = watched.lab.inventory.tenant.cluster
        self._deployment = deployment_name(cluster, watched.pool)
        self._known: dict[str, str] = {}

    def __call__(self) -> Mapping[str, str]:
        for machine in self._history.standing():
            labels = mapped(machine.obj, "metadata", "labels")
            if labels.get(DEPLOYMENT_LABEL) == self._deployment:
                named = text_at(machine.obj, "status", "nodeRef", "name")
                node = named or text_at(machine.obj, "spec", "infrastructureRef", "name")
                self._known[node] = machine.key[1]
        return self._known


def _sources(
    cluster: str,
    histories: Mapping[str, History],
    takers: Mapping[str, Callable[[Revision], None]],
) -> Iterator[_Source]:
    """In the order of the takers: identities come before what is told of them."""
    for name, take in takers.items():
        if name in histories:
            yield _Source(f"{cluster} {name}", histories[name], take)


def _since(history: History, order: int) -> list[Revision | Gap]:
    """What stands behind this place, oldest first; a long history is not gone through for it."""
    entries = history.entries
    found: list[Revision | Gap] = []
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if isinstance(entry, Revision | Gap):
            if entry.order <= order:
                break
            found.append(entry)
    found.reverse()
    return found


def _is_to_stay(pod: Obj) -> bool:
    """Whether a pod's containers are started again when they end."""
    ended = text_at(pod, "status", "phase") in ("Succeeded", "Failed")
    return not ended and text_at(pod, "spec", "restartPolicy") in ("", "Always")


def _came(revision: Revision) -> float:
    """When an object came to be as it is: of one that a list showed, at its creation."""
    if revision.source != "list":
        return revision.arrived
    made = epoch(text_at(revision.obj, "metadata", "creationTimestamp"))
    return revision.arrived if made is None else min(made, revision.arrived)


def _when(revision: Revision) -> float:
    """When an Event last occurred: of one that a list showed, by its own word."""
    if revision.source != "list":
        return revision.arrived
    event = revision.obj
    last = text_at(event, "series", "lastObservedTime") or text_at(event, "lastTimestamp")
    at = epoch(last or text_at(event, "eventTime"))
    return revision.arrived if at is None else min(at, revision.arrived)
