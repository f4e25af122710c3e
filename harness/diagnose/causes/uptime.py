"""Why workers reboot: causes A to H of uptime_and_diagnosis section 2, and what only looks so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from harness.diagnose.boots import Boots, kernel_log
from harness.diagnose.case import MANAGEMENT, TENANT, Kind, Text, Thing
from harness.diagnose.causes.shown import NO_GPU, TIMER_REBOOTS
from harness.diagnose.causes.signs import fits, proves, rules_out, speaks_against
from harness.diagnose.findings import Cause, Seen
from harness.diagnose.view import PRESENT, Pool, View
from harness.facts.kernellog import What
from harness.facts.objects import at_path, listed, mapped, text_at

TRUSTD = 50001
"""The port at which talos-csr-signer signs apid's certificate (objects.md 4)."""
API = 6443
PAST_TIMER = 4500.0
"""Seconds of uptime that a boot which does not finish never reaches."""

_NVIDIA_SERVICES = ("ext-nvidia-persistenced", "ext-nvidia-cdi-gen")
_WAITS = re.compile(
    r"(?i)(?=.*(?:wait|startAllServices|not (?:yet )?up|to be .?up))"
    r"(?=.*\b(?:ext-[\w-]+|apid|kubelet|cri|udevd)\b)"
)
_SERVICE = re.compile(
    r"\b(ext-nvidia-persistenced|ext-nvidia-cdi-gen|ext-[\w-]+|apid|kubelet|cri|udevd)\b"
)
_STATE = re.compile(r"\b(Waiting|Preparing|Starting|Failed|Running|Finished|Pre)\b")


_UP = re.compile(r"service\[([\w-]+)\]\((?:Running|Finished)\)")


def waiting_services(view: View) -> tuple[tuple[str, Text, str], ...]:
    """Services that a console or `talosctl services` shows not to be up: id, text, line."""
    return view.once(_waiting)


def _waiting(view: View) -> tuple[tuple[str, Text, str], ...]:
    found = []
    for text in view.texts(Kind.CONSOLE, Kind.DMESG):
        found += [(service, text, line) for service, line in _stuck(text)]
    for text, line in view.lines(_SERVICE, Kind.TALOS_SERVICES):
        service, state = _SERVICE.search(line), _STATE.search(line)
        if service and state and state[1] not in ("Running", "Finished"):
            found.append((service[1], text, line))
    return tuple(found)


def _stuck(text: Text) -> list[tuple[str, str]]:
    """Services that a log shows waiting, and not up at any time after: each waits at first."""
    waiting: list[tuple[str, str]] = []
    for line in text.text.splitlines():
        up = _UP.search(line)
        if up:
            waiting = [one for one in waiting if one[0] != up[1]]
        elif _WAITS.search(line):
            found = _SERVICE.search(line)
            waiting += [(found[1], line.strip()[:200])] if found else []
    return waiting


def waits_for(view: View, services: Iterable[str]) -> Iterator[Seen]:
    """What shows that the boot waits for one of these services; one line for each text."""
    told: set[str] = set()
    for service, text, line in waiting_services(view):
        if service in services and text.source not in told:
            told.add(text.source)
            where = f"node {text.node}" if text.node else ""
            yield Seen(f"the boot waits for {service}: {line!r}", text.source, where)


def node_subject(name: str) -> str:
    """How evidence names a node."""
    return f"node {name}"


def at_timer(view: View) -> Iterator[tuple[Thing, Boots]]:
    """Nodes whose boots end where Talos' timer ends them."""
    for node in view.tenant_nodes:
        boots = view.boots[node.name]
        if boots.at_timer:
            yield node, boots


def given_up(view: View) -> Iterator[tuple[Text, str]]:
    """Consoles on which Talos gave up a boot."""
    for text in view.texts(Kind.CONSOLE, Kind.DMESG):
        log = kernel_log(text)
        if log and log.of(What.GIVEN_UP):
            yield text, log.of(What.GIVEN_UP)[-1].said


def past_timer(view: View, nodes: Iterable[Thing]) -> Iterator[Seen]:
    """Nodes that are on one boot for longer than the timer lets a boot that does not finish."""
    for node in nodes:
        current = view.boots[node.name].current if node.name in view.boots else None
        if current is not None and current > PAST_TIMER:
            yield Seen(
                f"{node.name} is on one boot for {current:.0f} s, past the {PAST_TIMER:.0f} s that "
                "a boot which does not finish never reaches",
                node.source,
            )


# -- A


def image_without_card(view: View) -> Iterator[Pool]:
    """Pools that ask for no card and boot a schematic known to carry NVIDIA's extensions."""
    for pool in view.pools:
        if pool.cardless and pool.boot and pool.boot.schematic in view.nvidia_schematics:
            yield pool


@proves(
    "KubernetesNodes: spec.gpus beside spec.talos.schematicID (KubevirtMachineTemplate: the boot "
    "URL)",
    "no card, and a schematic that carries NVIDIA's extensions",
)
def _image_without_card(view: View) -> Iterator[Seen]:
    for pool in image_without_card(view):
        assert pool.boot is not None
        why = view.nvidia_schematics[pool.boot.schematic]
        yield Seen(
            f"{pool.subject} asks for no card and boots schematic {pool.boot.schematic[:8]}…, of "
            f"which {why}",
            pool.machine_template.where,
            pool.subject,
        )


@proves(
    "talosctl services and the PCI devices of the same node",
    "ext-nvidia-persistenced waits for /sys/bus/pci/drivers/nvidia, and there is no 10de device",
)
def _service_without_device(view: View) -> Iterator[Seen]:
    for seen in waits_for(view, _NVIDIA_SERVICES):
        name = seen.subject.removeprefix("node ")
        pool = view.pool_of(name) if name else None
        node = view.find("Node", name, TENANT) if name else None
        labels = mapped(node.obj, "metadata", "labels") if node else {}
        none_there = pool is not None and pool.cardless
        unlabelled = bool(node and node.name and node.whole and _discovered(view))
        if none_there or (unlabelled and PRESENT not in labels):
            yield Seen(f"{seen.text}, and the node has no NVIDIA card", seen.source, seen.subject)


def _discovered(view: View) -> bool:
    """Whether node feature discovery labels nodes of this cluster at all."""
    labelled = (mapped(one.obj, "metadata", "labels") for one in view.tenant_nodes)
    return any(key.startswith("feature.node.kubernetes.io/pci-") for one in labelled for key in one)


@fits("reboots of nodes without a card", "each boot lasts about 4206 s")
def _cardless_reboot(view: View) -> Iterator[Seen]:
    for node, boots in at_timer(view):
        pool = view.pool_of(node.name)
        if pool is None or not pool.has_nvidia:
            yield Seen(f"{node.name}: {boots.told}", node.source, node_subject(node.name))


@fits("the console, or talosctl services", "the boot waits for an NVIDIA service")
def _waits_for_nvidia(view: View) -> Iterator[Seen]:
    yield from waits_for(view, _NVIDIA_SERVICES)


@rules_out("the boot URL of every pool without a card", "a schematic known to have none")
def _only_vanilla(view: View) -> Iterator[Seen]:
    cardless = [pool for pool in view.pools if pool.cardless]
    if cardless and all(pool.boot and view.lacks_nvidia(pool.boot.schematic) for pool in cardless):
        yield Seen(
            f"no pool without a card boots an NVIDIA schematic ({len(cardless)} looked at: "
            f"{', '.join(pool.name for pool in cardless)})",
            cardless[0].machine_template.where,
        )


@speaks_against("nodes of pools with a card that works", "they reboot in the same way")
def _cards_reboot_too(view: View) -> Iterator[Seen]:
    for node, boots in at_timer(view):
        pool = view.pool_of(node.name)
        if pool is not None and pool.has_nvidia:
            yield Seen(f"{node.name} has a card and reboots too: {boots.told}", node.source)


@speaks_against("the node's uptime", "more than 75 minutes on one boot")
def _cardless_past_timer(view: View) -> Iterator[Seen]:
    for pool in image_without_card(view):
        for seen in past_timer(view, pool.nodes):
            yield Seen(seen.text, seen.source, pool.subject)


# -- B


def _control_planes(view: View) -> Iterator[Thing]:
    """Services of tenant control planes: by Kamaji's label, or by the API's port and the name."""
    for one in view.things("Service", MANAGEMENT):
        labels = mapped(one.obj, "metadata", "labels")
        named = one.name.startswith("kubernetes-") and API in _ports(one)
        if "kamaji.clastix.io/name" in labels or named:
            yield one


def _ports(service: Thing) -> list[object]:
    return [at_path(one, "port") for one in listed(service.obj, "spec", "ports")]


def no_trustd_port(view: View) -> Iterator[Seen]:
    """Control planes' Services that lack the port."""
    for one in _control_planes(view):
        ports = _ports(one)
        if ports and one.knows("spec", "ports") and TRUSTD not in ports:
            yield Seen(
                f"Service {one.namespace}/{one.name} has ports {', '.join(map(str, ports))}, and "
                f"no {TRUSTD}",
                one.where,
                one.name,
            )


_no_trustd_port = proves("Service kubernetes-<cluster>, spec.ports", "6443 and 8132, and no 50001")(
    no_trustd_port
)


@rules_out("Service kubernetes-<cluster>, spec.ports", "50001 is there, and the signer runs")
def _trustd_port(view: View) -> Iterator[Seen]:
    if list(_signer_trouble(view)) or list(no_trustd_port(view)):
        return
    for one in _control_planes(view):
        if TRUSTD in _ports(one):
            yield Seen(f"Service {one.namespace}/{one.name} has port {TRUSTD}", one.where)


def _signer_trouble(view: View) -> Iterator[Seen]:
    for pod in view.things("Pod", MANAGEMENT):
        for status in listed(pod.obj, "status", "containerStatuses"):
            if text_at(status, "name") != "talos-csr-signer" or status.get("ready") is not False:
                continue
            reason = text_at(status, "state", "waiting", "reason") or "not ready"
            yield Seen(f"container talos-csr-signer of {pod.name}: {reason}", pod.where, "")


@fits("container talos-csr-signer of the control plane", "not ready, or its log is of errors")
def _signer_fails(view: View) -> Iterator[Seen]:
    yield from _signer_trouble(view)


@fits("reboots of all pools", "nodes with a card too, each boot about 4206 s")
def _every_pool_reboots(view: View) -> Iterator[Seen]:
    found = list(at_timer(view))
    if found and len(found) == len(view.tenant_nodes) and len(view.pools) > 1:
        yield Seen(
            f"every node of the tenant reboots: {found[0][0].name}, "
            f"{found[0][1].told}; and {len(found) - 1} more alike",
            found[0][0].source,
        )


@fits("the console", "the boot waits for apid")
def _waits_for_apid(view: View) -> Iterator[Seen]:
    yield from waits_for(view, ("apid",))


@speaks_against("the pools that do not reboot", "some node is past 75 minutes on one boot")
def _some_stay_up(view: View) -> Iterator[Seen]:
    yield from past_timer(view, view.tenant_nodes)


# -- C and D


@proves(
    "a pool with a card on an NVIDIA schematic: /proc/modules of its node, beside "
    "talosctl services or the reboots",
    "no nvidia is loaded, and the boot waits for it or is given up",
)
def _not_loaded_and_waiting(view: View) -> Iterator[Seen]:
    waiting = {seen.subject: seen for seen in waits_for(view, _NVIDIA_SERVICES) if seen.subject}
    for text, table in view.module_tables:
        subject = node_subject(text.node)
        boots = view.boots.get(text.node)
        why = waiting[subject].text if subject in waiting else boots.told if boots else ""
        if table.find("nvidia") is None and (subject in waiting or (boots and boots.at_timer)):
            pool = view.pool_of(text.node)
            if pool is None or not pool.cardless:
                yield Seen(f"nvidia is not loaded on {text.node}, and {why}", text.source, subject)


@proves(
    "a pool with a card on an NVIDIA schematic: its machine configuration, beside the reboots",
    "no nvidia at machine.kernel.modules, and each boot lasts about 4206 s",
)
def _not_declared_and_rebooting(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        known = pool.boot and pool.boot.schematic in view.nvidia_schematics
        if not (known and pool.has_nvidia and pool.modules and "nvidia" not in pool.modules.names):
            continue
        for node in pool.nodes:
            if view.boots[node.name].at_timer:
                yield Seen(
                    f"{pool.subject} declares no nvidia module, its image waits for the driver, "
                    f"and {node.name} reboots: {view.boots[node.name].told}",
                    pool.config_template.where,
                    pool.subject,
                )


@fits("reboots of nodes with a card that offer none", "each boot lasts about 4206 s")
def _carded_reboot(view: View) -> Iterator[Seen]:
    for node, boots in at_timer(view):
        pool = view.pool_of(node.name)
        if pool is not None and pool.has_nvidia:
            offered = mapped(node.obj, "status", "allocatable").get("nvidia.com/gpu")
            if offered in (None, "0"):
                yield Seen(f"{node.name}: {boots.told}", node.source, pool.subject)


@rules_out("nvidia.com/gpu in the Node's allocatable", "cards are offered: the driver works")
def _driver_serves(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        for node in pool.nodes:
            if str(mapped(node.obj, "status", "allocatable").get("nvidia.com/gpu", "0")) != "0":
                yield Seen(f"{node.name} offers its card", node.source, pool.subject)


# -- E


# -- F


# -- G and H


CAUSES = (
    Cause(
        id="port-50001-missing",
        family="uptime",
        title="apid never gets its certificate: port 50001 is missing",
        story="The control plane's Service has no port 50001, so that apid on every worker never "
        "gets its certificate, no boot ever finishes, and Talos reboots each worker after 70 "
        "minutes.",
        signs=(
            _no_trustd_port, _trustd_port, _signer_fails, _every_pool_reboots, _waits_for_apid,
            _some_stay_up,
        ),
        wrong="the schematic: an NVIDIA image on workers without a card",
        why_wrong="that hits only pools without a card; this hits all pools, those with cards "
        "too. Look at the Service before you conclude anything about a schematic; both can hold.",
        check="whether the Service of the control plane has port 50001, and talos-csr-signer runs",
        command="kubectl -n <tenant> get service kubernetes-<cluster> -o "
        "jsonpath='{.spec.ports[*].port}'",
        symptoms=(TIMER_REBOOTS,),
    ),
    Cause(
        id="nvidia-image-without-card",
        family="uptime",
        title="An NVIDIA schematic on a worker without a card",
        story="The pool has no card and boots a schematic with NVIDIA's services: "
        "ext-nvidia-persistenced waits for a driver that never binds, the boot never finishes, and "
        "Talos reboots the worker after 70 minutes.",
        signs=(
            _image_without_card, _service_without_device, _cardless_reboot, _waits_for_nvidia,
            _only_vanilla, _cards_reboot_too, _cardless_past_timer,
        ),
        wrong="out of memory: kubectl top shows 96 % just before",
        why_wrong="that is page cache, MemAvailable is never near zero; and every boot lasts the "
        "same 4206 s, which memory does not.",
        check="port 50001 of the control plane's Service first; then what the schematic holds",
        command="talosctl -n <node> get extensions; talosctl -n <node> services",
        symptoms=(TIMER_REBOOTS,),
    ),
    Cause(
        id="boot-waits-for-driver",
        family="uptime",
        title="The boot of a worker with a card waits for a driver that is not loaded",
        story="The image has NVIDIA's services and nothing loads the modules, so that "
        "ext-nvidia-persistenced waits for ever and Talos reboots the worker after 70 minutes.",
        signs=(
            _not_loaded_and_waiting, _not_declared_and_rebooting, _carded_reboot, _driver_serves,
        ),
        wrong="a flaky card",
        why_wrong="the card is there and unbound: no module is loaded that could drive it, and the "
        "reboots come at one uptime.",
        check="whether /proc/modules of the node has nvidia, and what the machine configuration "
        "declares",
        command="talosctl -n <node> read /proc/modules; kubectl -n <tenant> get "
        "talosconfigtemplates -o yaml",
        symptoms=(TIMER_REBOOTS, NO_GPU),
    ),
)  # fmt: skip
