"""Why workers go down otherwise: a service, memory, health checks, hosts; what only looks so."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.diagnose.boots import kernel_log
from harness.diagnose.case import MANAGEMENT, Kind, Text, Thing
from harness.diagnose.causes.joining import marked_early
from harness.diagnose.causes.shown import NOT_JOINED, REBOOTS, TIMER_REBOOTS
from harness.diagnose.causes.signs import fits, proves, rules_out, speaks_against
from harness.diagnose.causes.uptime import at_timer, node_subject, waits_for
from harness.diagnose.findings import Cause, Grade, Seen
from harness.diagnose.things import names
from harness.diagnose.view import View
from harness.facts.kernellog import Scope, What
from harness.facts.objects import epoch, listed, text_at, uid_of
from harness.facts.quantity import bytes_of

NEARLY_NONE = 64 * 2**20
"""Bytes of MemAvailable below which memory is out."""
LEAST_SCRAPED = 100 * 2**20
"""The same of samples half a minute apart; at 100 MiB kubelet evicts by default."""


@proves("the console, or talosctl services", "the boot waits for kubelet, cri or udevd")
def _waits_for_other(view: View) -> Iterator[Seen]:
    yield from waits_for(view, ("kubelet", "cri", "udevd"))


@speaks_against("the tenant's Nodes", "the worker joined and is Ready")
def _joined(view: View) -> Iterator[Seen]:
    found = list(at_timer(view))
    if found:
        told = names(node for node, _ in found)
        yield Seen(
            f"{told} joined, so its kubelet runs, and reboots all the same", found[0][0].source
        )


@proves(
    "dmesg or the console", "a panic: deadlocked on memory, or an oom-kill right before the end"
)
def _panic_for_memory(view: View) -> Iterator[Seen]:
    for text in view.texts(Kind.CONSOLE, Kind.DMESG):
        log = kernel_log(text)
        for event in log.of(What.PANIC) if log else ():
            if "memory" in event.said.lower():
                subject = node_subject(text.node) if text.node else ""
                yield Seen(f"the kernel panicked for memory: {event.said!r}", text.source, subject)


@fits("dmesg or the console", "the kernel killed a process for want of memory of the machine")
def _oom_kill(view: View) -> Iterator[Seen]:
    for text in view.texts(Kind.CONSOLE, Kind.DMESG):
        log = kernel_log(text)
        for event in log.of(What.OOM_KILL) if log else ():
            if event.scope is not Scope.CGROUP:
                subject = node_subject(text.node) if text.node else ""
                yield Seen(f"the kernel killed {event.comm}: {event.said!r}", text.source, subject)


@fits("the Node: MemoryPressure, and SystemOOM Events", "True, or an Event of the kubelet")
def _memory_pressure(view: View) -> Iterator[Seen]:
    for node in view.tenant_nodes:
        for one in listed(node.obj, "status", "conditions"):
            if text_at(one, "type") == "MemoryPressure" and text_at(one, "status") == "True":
                yield Seen(f"{node.name} has MemoryPressure", node.source, node_subject(node.name))
    for event in view.events("SystemOOM", kind="Node"):
        where = text_at(event.obj, "involvedObject", "name")
        said = text_at(event.obj, "message")
        yield Seen(f"{where}: SystemOOM, {said}", event.source, node_subject(where))


@fits("/proc/meminfo: MemAvailable", "nearly none")
def _nothing_available(view: View) -> Iterator[Seen]:
    for text, available in _available(view):
        if available < NEARLY_NONE:
            subject = node_subject(text.node) if text.node else ""
            yield Seen(f"MemAvailable is {available // 2**20} MiB", text.source, subject)


@fits("how long each boot lasted", "another time each, none of it 4206 s")
def _irregular(view: View) -> Iterator[Seen]:
    for node in view.tenant_nodes:
        boots = view.boots[node.name]
        if boots.irregular:
            yield Seen(f"{node.name}: {boots.told}", node.source, node_subject(node.name))


@rules_out("how long each boot lasted", "the same time each, 4206 s: a timer")
def _regular(view: View) -> Iterator[Seen]:
    for node, boots in at_timer(view):
        yield Seen(f"{node.name}: {boots.told}: a timer", node.source, node_subject(node.name))


@speaks_against("/proc/meminfo: MemAvailable (not MemFree, not kubectl top)", "there is plenty")
def _plenty(view: View) -> Iterator[Seen]:
    if list(_near_zero(view)):
        return  # what is there now came with the next boot
    for text, available in _available(view):
        if available > 8 * NEARLY_NONE:
            yield Seen(f"MemAvailable is {available // 2**20} MiB", text.source)


_LEAST = re.compile(
    r"^MemAvailable of \S+ over (?P<seconds>\d+) s: at least (?P<least>\d+)(?: of (?P<total>\d+))?"
)


def _scraped(view: View) -> Iterator[tuple[Text, int, int, str]]:
    """Texts of scraped memory: the least available, all there is (0: not told), and in words."""
    for text in view.texts(Kind.MEMORY):
        found = _LEAST.match(text.text)
        if found:
            least, total = int(found["least"]), int(found["total"] or 0)
            said = f"MemAvailable of {text.node} was at least {least // 2**20} MiB"
            hours = int(found["seconds"]) / 3600
            yield text, least, total, f"{said} over {hours:.1f} h of samples"


def _near_zero(view: View) -> Iterator[Seen]:
    for text, least, total, said in _scraped(view):
        if least < max(LEAST_SCRAPED, total // 100):
            yield Seen(said, text.source, node_subject(text.node))


_was_near_zero = proves("min_over_time(node_memory_MemAvailable_bytes[30h])", "near zero")(
    _near_zero
)


@speaks_against(
    "min_over_time(node_memory_MemAvailable_bytes[30h])", "never near zero, no sample missing"
)
def _never_near_zero(view: View) -> Iterator[Seen]:
    if list(_near_zero(view)):
        return
    for text, least, total, said in _scraped(view):
        if least >= max(LEAST_SCRAPED, total // 100) and "no sample for" not in text.text:
            yield Seen(said, text.source, node_subject(text.node))


def _available(view: View) -> Iterator[tuple[Text, int]]:
    for text in view.texts(Kind.MEMINFO):
        found = re.search(r"^MemAvailable:\s+(\d+) kB", text.text, re.MULTILINE)
        if found:
            yield text, bytes_of(f"{found[1]}Ki") or 0


@proves("Machine or MachineHealthCheck", "remediation is under way, or was: OwnerRemediated")
def _remediated(view: View) -> Iterator[Seen]:
    for one in view.things("Machine", MANAGEMENT):
        for condition in listed(one.obj, "status", "conditions"):
            kind, status = text_at(condition, "type"), text_at(condition, "status")
            if kind in ("OwnerRemediated", "HealthCheckSucceeded") and status == "False":
                why = text_at(condition, "reason")
                yield Seen(f"Machine {one.name}: {kind}=False {why}", one.where, one.name)


@proves(
    "Events of the Machine, of the last hour",
    "MachineMarkedUnhealthy, and not for want of joining in time",
)
def _marked(view: View) -> Iterator[Seen]:
    early = {name for _, name, _ in marked_early(view)}
    for event in view.events("MachineMarkedUnhealthy", cluster=MANAGEMENT):
        name = text_at(event.obj, "involvedObject", "name")
        if name not in early:
            yield Seen(f"Machine {name}: {text_at(event.obj, 'message')}", event.source, name)


@proves("the UIDs of Machine, VMI and Node across captures", "they change: a new machine each time")
def _replaced(view: View) -> Iterator[Seen]:
    for kind in ("Machine", "VirtualMachineInstance"):
        uids: dict[str, set[str]] = {}
        for one in view.case.versions(kind, MANAGEMENT):
            if uid_of(one.obj):
                uids.setdefault(one.name, set()).add(uid_of(one.obj))
        for name, found in uids.items():
            if len(found) > 1:
                yield Seen(f"{kind} {name} has had {len(found)} UIDs", "", name)


@rules_out("UIDs of VMI and Node", "unchanged, while the boot id changed: the guest rebooted")
def _same_machine(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        for worker in pool.workers:
            boots = view.boots.get(worker.node.name)
            if not (boots and boots.rebooted and worker.vmi.name):
                continue
            born, since = _born(worker.vmi), _born(worker.node)
            if boots.restarts and born is not None and since is not None and born <= since:
                yield Seen(
                    f"VMI {worker.vmi.name} is older than its Node, which is older than "
                    f"{boots.restarts} reboots: the same machine rebooted",
                    worker.vmi.where,
                    worker.vmi.name,
                )


def _born(thing: Thing) -> float | None:
    return epoch(text_at(thing.obj, "metadata", "creationTimestamp"))


@proves("Events of the VMI and its virt-launcher pod", "Migrated, or evicted")
def _launcher_changed(view: View) -> Iterator[Seen]:
    for one in view.events("Migrated", "Evicted", "EvictionRequested", cluster=MANAGEMENT):
        about = text_at(one.obj, "involvedObject", "name")
        kind = text_at(one.obj, "involvedObject", "kind")
        if about.startswith("virt-launcher-") or kind.lower() == "virtualmachineinstance":
            said = f"{text_at(one.obj, 'reason')}: {text_at(one.obj, 'message')}"
            yield Seen(f"{about}: {said}", one.source, _machine_of(about))


def _machine_of(launcher: str) -> str:
    """The VMI that a virt-launcher pod is of, by its name; of another name, that name."""
    bare = launcher.removeprefix("virt-launcher-")
    return bare if bare == launcher else bare.rpartition("-")[0]


@fits("the virtualisation host's Node", "rebooted, or not Ready")
def _host_down(view: View) -> Iterator[Seen]:
    for event in view.events("Rebooted", "NodeNotReady", kind="Node", cluster=MANAGEMENT):
        if event.cluster == MANAGEMENT:
            where = text_at(event.obj, "involvedObject", "name")
            yield Seen(f"host {where}: {text_at(event.obj, 'message')}", event.source, where)


@proves("boot URL beside machine.install.image", "two different schematics or versions")
def _drift(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        if not (pool.boot and pool.installer):
            continue
        boots = (pool.boot.schematic, pool.boot.version)
        installs = (pool.installer.schematic, pool.installer.version)
        if boots != installs:
            yield Seen(
                f"{pool.subject} boots {boots[0][:8]}… {boots[1]} and installs {installs[0][:8]}… "
                f"{installs[1]}",
                pool.config_template.where,
                pool.subject,
            )


CAUSES = (
    Cause(
        id="other-service-never-up",
        family="uptime",
        title="A service of Talos itself never comes up",
        story="kubelet, cri or udevd never comes up, so that the boot does not finish and is given "
        "up after 70 minutes; usually the worker never joins.",
        signs=(_waits_for_other, _joined),
        wrong="the worker is slow to join",
        why_wrong="a service that cannot start (an image that cannot be pulled) stays so; the boot "
        "is given up, and begins again with the same.",
        check="which service the console names",
        command="talosctl -n <node> services (or the console: virtctl console <vmi>)",
        symptoms=(TIMER_REBOOTS, NOT_JOINED),
    ),
    Cause(
        id="out-of-memory",
        family="uptime",
        title="The guest runs out of memory",
        story="Memory of the worker is used up until its kernel gives up: another boot after "
        "another time each.",
        signs=(
            _panic_for_memory, _was_near_zero, _oom_kill, _memory_pressure, _nothing_available,
            _irregular, _regular, _never_near_zero, _plenty,
        ),
        wrong="the timer of a boot that does not finish",
        why_wrong="the timer ends every boot at the same uptime, about 4206 s; these ended at "
        "different ones.",
        check="oom-kill lines in the kernel's log, and MemAvailable's minimum over a day",
        command="talosctl -n <node> dmesg | grep -i oom; PromQL: "
        "min_over_time(node_memory_MemAvailable_bytes[30h])",
        symptoms=(REBOOTS,),
    ),
    Cause(
        id="replaced-by-health-check",
        family="uptime",
        title="MachineHealthCheck replaces the worker",
        story="The worker is not rebooted but replaced: MachineHealthCheck deletes its Machine, "
        "and "
        "another comes under another name.",
        signs=(_remediated, _marked, _replaced, _same_machine),
        wrong="the 70-minute timer",
        why_wrong="the timer reboots the guest in place: Machine, VMI and Node keep their UIDs.",
        check="whether the UIDs of Machine and VMI change, how old the Node is, and what the "
        "controller's log says once the Events are gone (an hour)",
        command="kubectl -n <tenant> get machines,vmi -o "
        "custom-columns=N:.metadata.name,U:.metadata.uid,A:.metadata.creationTimestamp; kubectl -n "
        "cozy-cluster-api logs deployment/capi-controller-manager | grep -i healthcheck",
        symptoms=(REBOOTS,),
    ),
    Cause(
        id="host-or-launcher-restarted",
        family="uptime",
        title="The virtual machine was moved or its host went down",
        story="The virtualisation host rebooted, the VM was evicted, or its launcher crashed; the "
        "guest went down with it.",
        signs=(_launcher_changed, _host_down, _same_machine),
        wrong="the 70-minute timer",
        why_wrong="a guest that the timer reboots keeps its VMI and its virt-launcher pod.",
        check="the virt-launcher pod's age and the VMI's UID against the Node's boots",
        command="kubectl -n <tenant> get pods -l kubevirt.io=virt-launcher -o wide",
        symptoms=(REBOOTS,),
    ),
    Cause(
        id="boot-and-install-differ",
        family="uptime",
        title="The disk boots one schematic and the installer names another",
        story="Boot source and machine.install.image name different images: all works until the "
        "next upgrade or reinstall, which brings another set of extensions.",
        signs=(_drift,),
        wrong="it works today, so it is right",
        why_wrong="what runs came with the disk; what the installer names comes with the next "
        "upgrade.",
        check="what runs: the extensions of the booted node",
        command="talosctl -n <node> get extensions; kubectl -n <tenant> get "
        "kubevirtmachinetemplates,talosconfigtemplates -o yaml",
        grade=Grade.HAZARD,
    ),
)  # fmt: skip
