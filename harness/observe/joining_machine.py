"""What to collect inside a stuck worker's launcher pod, on its console, and on its host.

Dearer than what APIs tell: `harness.observe.joining_objects` has those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain as each_of

from harness.facts.fact import Unread
from harness.facts.hostsystem import CpuThrottle, CpuTimes, KvmVgif, KvmVgifAbsent, Virtual
from harness.facts.objects import Obj, listed, name_of, text_at, uid_of
from harness.observe import hostsystem
from harness.observe.guest import output_of
from harness.observe.joining_context import CONSOLE_LOG, KIB, Collector, JoinContext, log_tail
from harness.observe.pool import Worker
from harness.reach.console import Console
from harness.reach.errors import LabError
from harness.reach.execs import run_in_pod
from harness.reach.nodeshell import NodeShell

COMPUTE = "compute"
LISTEN = 20.0
"""Seconds of the lab's time for which a console is listened to that nobody listens to yet."""
_EXEC = 10.0

NETWORK = "/proc/net/dev"
BLOCKS = "/sys/fs/cgroup/io.stat"
THROTTLE = "/sys/fs/cgroup/cpu.stat"
_READ_NETWORK = (
    "eth0 is a dummy, its zeros are normal; the machine's traffic is on eth0-nic, the bridge "
    "k6t-eth0 and tap0. Received on eth0-nic and nothing on tap0: the bridge. Nothing anywhere: "
    "the network plugin.\n"
)
_READ_BLOCKS = "rbytes that grow: the image is being read; that stand still: the disk is idle.\n"
_READ_THROTTLE = "nr_throttled beside nr_periods: the launcher has used up its quota so often.\n"


def _in_launcher(path: str, hint: str) -> Callable[[JoinContext], str]:
    """A file as the launcher's own container sees it: its network, its control group."""

    def look(context: JoinContext) -> str:
        return hint + "".join(_told(context, one, path) for one in context.workers())

    return look


def _told(context: JoinContext, worker: Worker, path: str) -> str:
    head = f"== {worker.name} {path} ==\n"
    if not worker.launcher:
        return f"{head}it has no launcher pod\n"
    pod = name_of(worker.launcher)
    try:
        reply = run_in_pod(
            context.management,
            context.namespace,
            pod,
            ["cat", path],
            container=COMPUTE,
            timeout=_EXEC,
        )
    except LabError as error:
        return f"{head}not read: {error.saw}\n"
    said = output_of(reply)
    if said.exit_code != 0:
        why = said.problem or said.stderr.strip()
        return f"{head}not read: ended with {said.exit_code}: {why}\n"
    return f"{head}{said.stdout}"


def _console(context: JoinContext) -> str:
    found = [
        f"== console of {one.name} ==\n{_printed(context, one)}\n" for one in context.workers()
    ]
    return "".join(found) or "no worker\n"


def _printed(context: JoinContext, worker: Worker) -> str:
    """What a machine printed: as it is captured already, from its log, or listened to now."""
    if not worker.vmi:
        return "it has no VMI"
    captured = context.console(name_of(worker.vmi))
    if captured:
        return captured
    kinds = each_of(
        *(listed(worker.launcher, "spec", key) for key in ("initContainers", "containers"))
    )
    if any(text_at(one, "name") == CONSOLE_LOG for one in kinds):
        return log_tail(context.management, worker.launcher, CONSOLE_LOG)
    return _listened(context, worker.vmi)


def _listened(context: JoinContext, vmi: Obj) -> str:
    try:
        console = Console.attach(context.management, context.namespace, name_of(vmi))
    except LabError as error:
        return f"not listened to: {error.saw}"
    try:
        clock = context.management.clock
        ending = console.capture.wait_for_end(clock.deadline(LISTEN))
    finally:
        console.close()
    said = console.capture.text().decode("utf-8", "backslashreplace")
    end = f"; it ended: {ending.told}" if ending is not None else ""
    return f"[attached for {LISTEN:.0f} s, what was printed before is not shown{end}]\n{said}"


# -- hypervisor hosts, over SSH


def _on_hosts(
    look: Callable[[NodeShell, list[Worker]], Iterator[str]],
) -> Callable[[JoinContext], str]:
    def collect(context: JoinContext) -> str:
        placed: dict[str, list[Worker]] = {}
        for one in context.workers():
            placed.setdefault(text_at(one.launcher, "spec", "nodeName"), []).append(one)
        placed.pop("", None)
        told = [_of_host(context, name, mine, look) for name, mine in sorted(placed.items())]
        return "".join(told) or "no worker is on a host\n"

    return collect


def _of_host(
    context: JoinContext,
    name: str,
    mine: list[Worker],
    look: Callable[[NodeShell, list[Worker]], Iterator[str]],
) -> str:
    head = f"== host {name} ==\n"
    login = context.hosts.get(name)
    if login is None:
        return f"{head}not asked: the inventory gives no SSH key for it (`hosts`)\n"
    try:
        with login() as shell:
            return head + "".join(f"{line}\n" for line in look(shell, mine))
    except LabError as error:
        return f"{head}not asked: {error}\n"


def vgif_told(shell: NodeShell) -> str:
    """Whether a host's kvm_amd has vgif, and whether that matters there, in lines of text.

    Raises LabError where the host cannot be asked.
    """
    return "".join(f"{line}\n" for line in _vgif(shell, []))


def _vgif(shell: NodeShell, _: list[Worker]) -> Iterator[str]:
    found, virtual = hostsystem.vgif(shell), hostsystem.virtual(shell)
    if isinstance(found, KvmVgif):
        yield f"/sys/module/kvm_amd/parameters/vgif: {int(found.on)}"
    elif isinstance(found, KvmVgifAbsent):
        yield "kvm_amd is not loaded, so there is nothing of the kind"
    else:
        yield f"not read: {found.reason}"
    yield _is_virtual(virtual)


def _is_virtual(found: Virtual | Unread) -> str:
    if isinstance(found, Unread):
        return f"whether the host is a machine itself is not known: {found.reason}"
    return (
        "the host is a machine itself: workers are guests of a guest"
        if found.virtual
        else "the host is bare metal, where vgif does not matter"
    )


def _steal(shell: NodeShell, mine: list[Worker]) -> Iterator[str]:
    yield _stolen(hostsystem.cpu_times(shell))
    for one in mine:
        qos = text_at(one.launcher, "status", "qosClass") or "Burstable"
        found = hostsystem.pod_throttle(shell, uid_of(one.launcher), qos)
        yield f"{name_of(one.launcher)}: {_throttled(found)}"


def _stolen(found: CpuTimes | Unread) -> str:
    if isinstance(found, Unread):
        return f"stolen time is not known: {found.reason}"
    share = found.steal_share()
    return f"stolen since boot: {share:.2%}" if share is not None else "no time was counted"


def _throttled(found: CpuThrottle | Unread) -> str:
    if isinstance(found, Unread):
        return f"whether it was throttled is not known: {found.reason}"
    if not found.periods:
        return "it has no processor quota"
    return (
        f"throttled in {found.share:.1%} of {found.periods} periods, {found.seconds:.0f} s in all"
    )


def _modules(shell: NodeShell, _: list[Worker]) -> Iterator[str]:
    reply = output_of(shell.run(["cat", "/proc/modules"], timeout=_EXEC))
    yield reply.stdout if reply.exit_code == 0 else f"not read: {reply.problem or reply.stderr}"


SECOND: tuple[Collector, ...] = (
    Collector(
        "launcher network",
        "launcher-network.txt",
        "a bridge that does not pass frames on from a network that brings none",
        12,
        64 * KIB,
        _in_launcher(NETWORK, _READ_NETWORK),
    ),
    Collector(
        "launcher block I/O",
        "launcher-block-io.txt",
        "an image that is being read from a disk that is idle",
        12,
        64 * KIB,
        _in_launcher(BLOCKS, _READ_BLOCKS),
    ),
    Collector(
        "launcher throttling",
        "launcher-cpu.txt",
        "a launcher that is starved by its quota from a guest that hangs",
        12,
        64 * KIB,
        _in_launcher(THROTTLE, _READ_THROTTLE),
    ),
    Collector(
        "vgif of the hosts",
        "host-vgif.txt",
        "a nested host without vgif, where joining stalls (#3513), from a slow registry",
        15,
        16 * KIB,
        _on_hosts(_vgif),
    ),
    Collector(
        "stolen time of the hosts",
        "host-cpu.txt",
        "a host that has no processors to give from a guest that waits",
        15,
        16 * KIB,
        _on_hosts(_steal),
    ),
    Collector(
        "modules of the hosts",
        "host-modules.txt",
        "a host without KVM or DRBD from one with both",
        15,
        128 * KIB,
        _on_hosts(_modules),
    ),
    Collector(
        "console",
        "console.log",
        "how far the guest's boot got: maintenance mode, no network, kubelet's own words",
        LISTEN + 10,
        512 * KIB,
        _console,
    ),
)
"""Those that go into a pod, onto a host or a console, cheapest first."""
