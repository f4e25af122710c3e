"""A machine's inside, read through what is there already: nothing is made and nothing changed.

/proc/modules, /proc/uptime and /proc/driver/nvidia are the machine's in every container on it; its
kernel's log takes a privileged one (dmesg: syslog(2), CAP_SYSLOG). `nvidia-smi` speaks for the
machine only where it is run in the machine's own root, or where it lists cards: a container without
the driver's files says so of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.diagnose.case import MANAGEMENT, TENANT, Kind, Text, Unused
from harness.facts import lspci
from harness.facts.driver import VERSION
from harness.facts.objects import Obj, at_path, listed, mapped, name_of, text_at
from harness.observe.guest import SMI, output_of
from harness.observe.joining_machine import vgif_told
from harness.reach.containershell import ContainerShell
from harness.reach.errors import LabError
from harness.reach.execs import Reply
from harness.reach.kube import Kube
from harness.reach.nodeshell import COMPONENT, NodeShell

DOORS = 4
"""Containers that are tried on a machine, at most."""
SECONDS = 10.0
"""What one question may take, of the runner's time."""
SHELL = {COMPONENT: "node-shell"}
"""Labels of a pod that has the machine's root at /host, where a run has left one open."""
_NO_FILES = ("not found", "no such file", "libnvidia-ml")


@dataclass(frozen=True, slots=True)
class Door:
    """A running container on a node. ``privileged``: it may read the kernel's log; ``rooted``: it
    has the machine's root at /host."""

    node: str
    namespace: str
    pod: str
    container: str
    privileged: bool
    rooted: bool

    def shell(self, kube: Kube) -> ContainerShell:
        """The container as a shell that stands for its node."""
        root = "/host" if self.rooted else ""
        where = f"node {self.node}"
        return ContainerShell(kube, self.namespace, self.pod, self.container, where, root)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of a machine. ``deep``: only a privileged container is answered."""

    kind: Kind
    argv: tuple[str, ...]
    deep: bool = False
    absent: bool = False
    """Whether a machine may well have none of it, which is no failure."""


OF_NODES = (
    Question(Kind.DMESG, ("dmesg",), deep=True),
    Question(Kind.MODULES, ("cat", "/proc/modules")),
    Question(Kind.UPTIME, ("cat", "/proc/uptime")),
    Question(Kind.MEMINFO, ("cat", "/proc/meminfo")),
    Question(Kind.PARAMS, ("cat", "/proc/driver/nvidia/params"), absent=True),
    Question(Kind.DRIVER, ("cat", VERSION), absent=True),
    Question(Kind.SMI_LIST, ("nvidia-smi", "-L"), absent=True),
)
"""What a worker is asked, what is lost first before the rest."""
OF_HOSTS = (
    Question(Kind.LSPCI, lspci.ARGV),
    Question(Kind.DMESG, ("dmesg",), absent=True),
)
"""What a hypervisor host is asked, beside `vgif_of`."""


def doors(pods: Iterable[Obj]) -> dict[str, list[Door]]:
    """Running containers by node, those first that are told most: with the machine's root, then
    privileged ones."""
    found: dict[str, list[Door]] = {}
    for pod in pods:
        for door in _doors(pod):
            found.setdefault(door.node, []).append(door)
    for known in found.values():
        known.sort(key=lambda one: (not one.rooted, not one.privileged, one.namespace, one.pod))
    return dict(sorted(found.items()))


def ask(kube: Kube, known: Sequence[Door], question: Question) -> Text | Unused:
    """Ask a node through the first of its doors that is answered."""
    node = known[0].node
    source = f"{' '.join(question.argv)} on {node}"
    able = [one for one in known if one.privileged or not question.deep]
    if not able:
        return Unused(source, "no privileged container runs there")
    said = ""
    for door in able[:DOORS]:
        try:
            reply = _asked(door.shell(kube), question, rooted=door.rooted)
        except LabError as failed:
            said = said or str(failed.saw)
            continue
        text = _text(reply, question, source, node, TENANT, rooted=door.rooted)
        if isinstance(text, Text):
            return text
        said = said or text.why
    return Unused(source, said)


def ask_host(shell: NodeShell, host: str, question: Question) -> Text | Unused:
    """Ask a hypervisor host that is logged in to. Raises LabError where it cannot be asked."""
    source = f"{' '.join(question.argv)} on host {host}"
    reply = shell.run(list(question.argv), timeout=SECONDS)
    return _text(reply, question, source, host, MANAGEMENT, rooted=True)


def vgif_of(shell: NodeShell, host: str, at: float) -> Text:
    """Whether guests of guests are held up there (kvm_amd without vgif), in lines.

    Raises LabError where the host cannot be asked.
    """
    told, source = vgif_told(shell), f"vgif of host {host}"
    return Text(Kind.LOG, told, source, host, at, cluster=MANAGEMENT)


def _asked(shell: ContainerShell, question: Question, *, rooted: bool) -> Reply:
    if question.kind is Kind.SMI_LIST and rooted:
        return shell.run(["chroot", shell.root, SMI, *question.argv[1:]], timeout=SECONDS)
    return shell.run(list(question.argv), timeout=SECONDS)


def _text(
    reply: Reply, question: Question, source: str, node: str, cluster: str, *, rooted: bool
) -> Text | Unused:
    answer = output_of(reply)
    told = answer.stdout
    if question.kind is Kind.SMI_LIST and rooted and answer.exit_code not in (0, None):
        told = answer.stdout or answer.stderr  # the driver's own complaint, of the machine's root
        if any(word in told.lower() for word in _NO_FILES):
            return Unused(source, told.strip()[:160])
    elif answer.exit_code != 0 or not told.strip():
        said = (answer.stderr or answer.stdout or answer.problem).strip()
        return Unused(source, f"ended with {answer.exit_code}: {said[:160]}")
    cut = question.kind is Kind.DMESG and "Linux version" not in told[:4096]
    return Text(question.kind, told, source, node, reply.ended, cut=cut, cluster=cluster)


def _doors(pod: Obj) -> Iterator[Door]:
    node = text_at(pod, "spec", "nodeName")
    if not node or text_at(pod, "metadata", "deletionTimestamp"):
        return
    labels = mapped(pod, "metadata", "labels")
    rooted = all(labels.get(key) == value for key, value in SHELL.items())
    running = {
        text_at(one, "name")
        for one in listed(pod, "status", "containerStatuses")
        if mapped(one, "state", "running")
    }
    for one in listed(pod, "spec", "containers"):
        name = text_at(one, "name")
        if name in running:
            privileged = at_path(one, "securityContext", "privileged") is True
            place = text_at(pod, "metadata", "namespace")
            yield Door(node, place, name_of(pod), name, privileged, rooted)
