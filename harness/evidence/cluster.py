"""What is planned of a cluster's pool, in the order in which it is lost.

Logs of containers that ended, logs, Events; then the objects, held ones without a request; the
workers' kernels, through containers that run on them already; consoles as their logs have them;
DRBD, LINSTOR; the hypervisor hosts beneath the pool; and of a worker that has not joined what the
collectors of a stuck join ask. No object is made, and nothing waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from harness.bringup.hosts import log_in
from harness.bringup.joining_context import join_context
from harness.bringup.linstor import linstor_of
from harness.diagnose import inside, live
from harness.diagnose.case import MANAGEMENT, TENANT, Case, Kind, Text, Thing, Unused
from harness.evidence import logs
from harness.evidence.objects import Written, asked, held
from harness.evidence.taking import Got, Part, unlike
from harness.facts.fact import Unread
from harness.facts.joining import Stage
from harness.facts.objects import Obj, text_at
from harness.observe.guest import output_of
from harness.observe.joining_collectors import COLLECTORS, Collector
from harness.observe.satellites import satellites
from harness.reach.errors import LabError
from harness.reach.kube import Kube

if TYPE_CHECKING:
    from harness.bringup.connect import ConnectedLab
    from harness.bringup.pool import HeldPool
    from harness.inventory.models import Host
    from harness.reach.containershell import ContainerShell
    from harness.reach.linstor import Linstor
    from harness.reach.nodeshell import NodeShell

NODES = 8
"""Workers whose inside is planned, at most; those that are not Ready first."""
HOSTS = 4
STUCK = 2
"""Workers that have not joined of which all is collected; the others mostly stand at the same."""


@dataclass(slots=True)
class ClusterPlan:
    """The plan of one pool's evidence, made anew for each failure. ``pool`` is None where it could
    not be had."""

    lab: ConnectedLab
    name: str
    pool: HeldPool | None = None
    written: Written = field(default_factory=Written)
    _logins: dict[str, NodeShell] = field(default_factory=dict)
    _linstor: Linstor | None = None
    _open: ExitStack = field(default_factory=ExitStack)

    def parts(self) -> list[Part]:
        """What is planned, in order; two lists of pods are asked for it."""
        inner, untold = self._tenant_pods()
        return unlike(
            (
                *untold,
                *self._logs(self._outer_pods(), inner),
                *self._objects(),
                *self._nodes(inner),
                *self._joining(),
                *self._drbd(),
                *self._of_linstor(),
                *self._hosts(),
            )
        )

    def close(self) -> None:
        """Log out of what was logged in to."""
        self._logins.clear()
        self._linstor = None
        self._open.close()

    # -- clusters

    @property
    def _namespace(self) -> str:
        return self.lab.inventory.tenant.namespace

    def _clusters(self) -> list[tuple[Kube, str, Sequence[live.Query]]]:
        found: list[tuple[Kube, str, Sequence[live.Query]]] = [
            (self.lab.management, MANAGEMENT, live.MANAGEMENT_QUERIES)
        ]
        tenant = self._tenant()
        return found if tenant is None else [*found, (tenant, TENANT, live.TENANT_QUERIES)]

    def _tenant(self) -> Kube | None:
        try:
            return self.lab.tenant
        except LabError:
            return None  # the part that says so is planned with its pods

    def _outer_pods(self) -> list[Obj]:
        """The tenant's pods on the management cluster, as followed."""
        if self.pool is None:
            return []
        try:
            return self.pool.watched.feeds["pods"].objects()
        except LabError:
            return []  # the feed's own part says why

    def _tenant_pods(self) -> tuple[list[Obj], list[Part]]:
        """The tenant cluster's pods, and a part that tells why there are none."""
        try:
            return self.lab.tenant.list("v1", "Pod", ""), []
        except LabError as failed:
            return [], [Part("tenant pods", "tenant-pods.txt", TENANT, _raising(failed))]

    def _logs(self, outer: Sequence[Obj], inner: Sequence[Obj]) -> Iterator[Part]:
        sides: list[tuple[Kube, str, Sequence[Obj]]] = [(self.lab.management, MANAGEMENT, outer)]
        if inner:
            sides.append((self.lab.tenant, TENANT, inner))
        for kube, cluster, pods in sides:
            yield from logs.previous(kube, cluster, pods)
        for kube, cluster, pods in sides:
            things = [Thing({"kind": "Pod", **one}, cluster) for one in pods]
            yield from logs.current(kube, cluster, pods, list(live.telling_logs(cluster, things)))

    def _objects(self) -> Iterator[Part]:
        feeds = self.lab.observatory.feeds()
        found: list[Part] = []
        for kube, cluster, _ in self._clusters():
            found += held(feeds, kube, cluster, self.written)
        for kube, cluster, queries in self._clusters():
            found += asked(kube, cluster, queries, self._namespace, feeds, self.written)
        # an hour takes Events away, and nothing takes the rest
        yield from sorted(found, key=lambda one: "Event" not in one.name)

    # -- machines

    def _nodes(self, pods: Sequence[Obj]) -> Iterator[Part]:
        """The workers' kernels. A worker without a container that runs is told, not passed over."""
        known = inside.doors(pods)
        own = self.pool.watched.node_names() if self.pool is not None else set()
        for node in sorted(own)[:NODES]:
            for question in inside.OF_NODES:
                if question.absent and self.pool is not None and self.pool.card is None:
                    continue
                doors = known.get(node, [])
                yield Part(
                    f"{' '.join(question.argv)} on {node}",
                    f"machines/{node}/{_file_of(question)}",
                    f"node {node}",
                    partial(self._ask, node, doors, question),
                )

    def _ask(self, node: str, doors: list[inside.Door], question: inside.Question) -> Got:
        if not doors:
            raise LabError(f"ask node {node}", "no container runs there", "see its pods")
        answer = inside.ask(self.lab.tenant, doors, question)
        return _got(answer, question)

    def _hosts(self) -> Iterator[Part]:
        """The hypervisor hosts that the pool's machines run on."""
        for host in self._hosts_beneath()[:HOSTS]:
            for question in inside.OF_HOSTS:
                yield Part(
                    f"{' '.join(question.argv)} on host {host.name}",
                    f"machines/{host.name}/host-{_file_of(question)}",
                    f"host {host.name}",
                    partial(self._ask_host, host, question),
                )
            yield Part(
                f"vgif of host {host.name}",
                f"machines/{host.name}/vgif.txt",
                f"host {host.name}",
                partial(self._vgif, host),
            )

    def _ask_host(self, host: Host, question: inside.Question) -> Got:
        return _got(inside.ask_host(self._login(host), host.name, question), question)

    def _vgif(self, host: Host) -> Got:
        text = inside.vgif_of(self._login(host), host.name, self.lab.clock.now())
        return Got(text.text, Case(texts=(text,)))

    def _hosts_beneath(self) -> list[Host]:
        if self.pool is None or self.pool.card is None:
            return []
        try:
            instances = self.pool.watched.objects().vmis
        except LabError:
            return []  # the feed's own part says why
        names = {text_at(one, "status", "nodeName") for one in instances}
        return [one for one in self.lab.inventory.hosts if one.ssh and one.name in names]

    def _login(self, host: Host) -> NodeShell:
        if host.name not in self._logins:
            shell = log_in(host, self.lab.clock)
            self._open.callback(shell.close)
            self._logins[host.name] = shell
        return self._logins[host.name]

    def _joining(self) -> Iterator[Part]:
        """What the collectors of a stuck join ask, of each worker that has not joined."""
        if self.pool is None:
            return
        try:
            stuck = [one.machine for one in self.pool.join if one.stage is not Stage.READY]
        except LabError:
            return  # the feed's own part says why
        for machine in [one for one in stuck if one][:STUCK]:
            for collector in COLLECTORS:
                yield Part(
                    f"{collector.name} of machine {machine}",
                    f"joining/{machine}/{collector.file}",
                    "joining",
                    partial(self._collect, machine, collector),
                )

    def _collect(self, machine: str, collector: Collector) -> Got:
        with join_context(self.lab, self.name, machine=machine, console=_unheard) as context:
            found = collector.collect(context)
        if isinstance(found, Unread):
            raise LabError(f"collect {collector.name}", found.reason, "see the reason")
        return Got(found)

    # -- storage

    def _drbd(self) -> Iterator[Part]:
        """DRBD as the kernel of each storage node has it, and that kernel's log."""
        try:
            shells = satellites(self.lab.management)
        except LabError as failed:
            yield Part("storage nodes", "drbd.txt", MANAGEMENT, _raising(failed))
            return
        standalone: set[str] = set()
        for node, shell in shells.items():
            yield Part(
                f"drbdsetup status on {node}",
                f"machines/{node}/drbdsetup-status.json",
                f"satellite {node}",
                partial(_status, node, shell, standalone),
            )
        for node, shell in shells.items():
            yield Part(
                f"dmesg of storage node {node}",
                f"machines/{node}/dmesg.txt",
                f"satellite {node}",
                partial(_kernel, node, shell, standalone),
            )

    def _of_linstor(self) -> Iterator[Part]:
        if self.lab.inventory.linstor is None:
            return
        for path in live.LINSTOR_PATHS:
            yield Part(
                f"LINSTOR {path}",
                f"linstor/{path.strip('/').replace('/', '-')}.json",
                "LINSTOR",
                partial(self._ask_linstor, path),
            )

    def _ask_linstor(self, path: str) -> Got:
        if self._linstor is None:
            self._linstor = self._open.enter_context(linstor_of(self.lab))
        assert self._linstor is not None, "planned only where the inventory names a controller"
        answer = self._linstor.get(path)
        text = Text(
            Kind.LINSTOR, answer.text, f"LINSTOR {path}", path, answer.at, cluster=MANAGEMENT
        )
        return Got(answer.text, Case(texts=(text,)))


def _raising(failed: LabError) -> Callable[[], Got]:
    def take() -> Got:
        raise failed

    return take


def _unheard(_vmi: str) -> str:
    """Nothing is heard here of a console: its log is planned by itself, and taking one takes it
    from whoever listens."""
    return "not attached: see the log of the container guest-console-log"


def _file_of(question: inside.Question) -> str:
    return f"{question.kind.value}.txt"


def _got(answer: Text | Unused, question: inside.Question) -> Got:
    if isinstance(answer, Text):
        return Got(answer.text, Case(texts=(answer,)))
    if question.absent:
        return Got("", why=answer.why)
    raise LabError(answer.source, answer.why, "see the reason")


def _status(node: str, shell: ContainerShell, standalone: set[str]) -> Got:
    reply = shell.run(["drbdsetup", "status", "--json"], timeout=inside.SECONDS)
    answer, source = output_of(reply), f"drbdsetup status on {node}"
    if answer.exit_code != 0:
        said = (answer.text or answer.problem).strip()[:160]
        raise LabError(source, f"ended with {answer.exit_code}: {said}", "see the reason")
    if "StandAlone" in answer.stdout:
        standalone.add(node)
    text = Text(Kind.DRBD, answer.stdout, source, node, reply.ended, cluster=MANAGEMENT)
    return Got(answer.stdout, Case(texts=(text,)))


def _kernel(node: str, shell: ContainerShell, standalone: set[str]) -> Got:
    """A storage node's kernel log, which only a StandAlone connection needs to be explained."""
    reply = shell.run(["dmesg"], timeout=inside.SECONDS)
    answer, source = output_of(reply), f"dmesg of {node}"
    if answer.exit_code != 0:
        raise LabError(source, f"ended with {answer.exit_code}", "see the reason")
    text = Text(Kind.DMESG, answer.stdout, source, node, reply.ended, cluster=MANAGEMENT)
    return Got(answer.stdout, Case(texts=(text,) if node in standalone else ()))
