"""Why a worker does not get its card: KubeVirt, the virtualisation host, the scheduler."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.diagnose.case import MANAGEMENT, Kind, Thing
from harness.diagnose.causes.shown import NOT_JOINED
from harness.diagnose.causes.signs import fits, proves, rules_out, speaks_against
from harness.diagnose.findings import Cause, Seen
from harness.diagnose.things import stuck
from harness.diagnose.view import OPERATOR, Pool, View, Worker
from harness.facts.lspci import PciDrivers, read_lspci
from harness.facts.objects import condition, listed, mapped, text_at
from harness.facts.quantity import bytes_of
from harness.facts.reply import Output
from harness.facts.vmi import compute_container

NOT_PERMITTED = "not permitted in permittedHostDevices"
PRE_INSTALLED = ("nvidia.com/gpu.deploy.driver", "pre-installed")
PASSTHROUGH = ("nvidia.com/gpu.workload.config", "vm-passthrough")
_CHIP = re.compile(r"(?:AD|GB|GA|GH|TU|GV)\d{3}")


def _asking(view: View) -> Iterator[tuple[Pool, str]]:
    """Pools with the cards that they ask for, by resource name."""
    for pool in view.pools:
        for card in dict.fromkeys(pool.cards or ()):
            if card.startswith("nvidia.com/"):
                yield pool, card


def _waiting(view: View) -> Iterator[tuple[Pool, Worker, str]]:
    """Workers whose launcher waits for a card, with the resource's name."""
    for pool, card in _asking(view):
        for worker in pool.workers:
            message = text_at(condition(worker.launcher.obj, "PodScheduled"), "message")
            if f"Insufficient {card}" in message:
                yield pool, worker, card


def _hosts(view: View) -> tuple[Thing, ...]:
    return tuple(one for one in view.things("Node", MANAGEMENT) if one.cluster == MANAGEMENT)


def _offers(view: View, card: str) -> list[tuple[Thing, int]]:
    """Hosts that offer a card of this name, and how many."""
    found = []
    for host in _hosts(view):
        amount = bytes_of(str(mapped(host.obj, "status", "allocatable").get(card, "0")))
        if amount:
            found.append((host, amount))
    return found


def _permitted(view: View) -> list[str] | None:
    """Resource names that KubeVirt permits; None where its CR is not there or has no such list."""
    for one in view.things("KubeVirt", MANAGEMENT):
        block = mapped(one.obj, "spec", "configuration", "permittedHostDevices")
        if block and one.knows("spec", "configuration", "permittedHostDevices"):
            return [text_at(device, "resourceName") for device in listed(block, "pciHostDevices")]
    return None


# -- not permitted


@proves(
    "VMI: condition Synchronized, and Events of it",
    "FailedCreate: not permitted in permittedHostDevices",
)
def _refused(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        for worker in pool.workers:
            said = text_at(condition(worker.vmi.obj, "Synchronized"), "message")
            if NOT_PERMITTED in said:
                yield Seen(f"VMI {worker.vmi.name}: {said}", worker.vmi.where, pool.subject)
    for event in view.events(cluster=MANAGEMENT):
        said = text_at(event.obj, "message")
        if NOT_PERMITTED in said:
            yield Seen(f"Event: {said}", event.source, _pool_of_event(view, event))


def _pool_of_event(view: View, event: Thing) -> str:
    about = text_at(event.obj, "involvedObject", "name")
    for pool in view.pools:
        if any(about in (w.vmi.name, w.vm.name) for w in pool.workers):
            return pool.subject
    return about


@fits("KubeVirt CR: permittedHostDevices.pciHostDevices", "no entry of the card's resource name")
def _unlisted(view: View) -> Iterator[Seen]:
    listed_names = _permitted(view)
    for pool, card in _asking(view) if listed_names is not None else ():
        if card not in (listed_names or ()):
            yield Seen(
                f"KubeVirt permits no {card}, which {pool.subject} asks for", "", pool.subject
            )


@rules_out("KubeVirt CR: permittedHostDevices.pciHostDevices", "the card's resource name is there")
def _listed(view: View) -> Iterator[Seen]:
    for pool, card in _asking(view):
        if card in (_permitted(view) or ()):
            yield Seen(f"KubeVirt permits {card}", "", pool.subject)


# -- no such name, none left, taken by the host


@fits("virt-launcher pod: condition PodScheduled", "Insufficient nvidia.com/...")
def _insufficient(view: View) -> Iterator[Seen]:
    for pool, worker, card in _waiting(view):
        yield Seen(f"{worker.launcher.name} waits: Insufficient {card}", worker.launcher.where,
                   pool.subject)  # fmt: skip


@proves("the hosts' allocatable", "none has this name; one offers the same chip under another name")
def _other_name(view: View) -> Iterator[Seen]:
    for pool, _, card in _waiting(view):
        chips = _CHIP.findall(card)
        if _offers(view, card) or not chips or not view.lacks("Node", MANAGEMENT):
            continue
        for host in _hosts(view):
            for name, amount in mapped(host.obj, "status", "allocatable").items():
                if name.startswith("nvidia.com/") and chips[0] in name and name != card:
                    yield Seen(
                        f"no host offers {card}; {host.name} offers {amount} of {name}",
                        host.where,
                        pool.subject,
                    )


@rules_out("the hosts' allocatable", "a host offers this very name")
def _same_name(view: View) -> Iterator[Seen]:
    for pool, card in _asking(view):
        for host, amount in _offers(view, card):
            yield Seen(f"{host.name} offers {amount} of {card}", host.where, pool.subject)


@proves("the hosts' allocatable beside the pods that have a card", "as many pods as cards")
def _all_taken(view: View) -> Iterator[Seen]:
    for pool, _, card in _waiting(view):
        cards = sum(amount for _, amount in _offers(view, card))
        holding = [pod for pod in view.things("Pod", MANAGEMENT) if _holds(pod, card)]
        if cards and len(holding) >= cards:
            held = ", ".join(f"{one.namespace}/{one.name}" for one in holding[:4])
            yield Seen(
                f"the hosts offer {cards} of {card}, and {len(holding)} pods have one: {held}",
                "",
                pool.subject,
            )


def _holds(pod: Thing, card: str) -> bool:
    ended = text_at(pod.obj, "status", "phase") in ("Succeeded", "Failed")
    placed = bool(text_at(pod.obj, "spec", "nodeName"))
    limits = mapped(compute_container(pod.obj), "resources", "limits")
    return placed and not ended and card in limits


@rules_out("the hosts' allocatable", "no host offers any of this name: none can be in use")
def _none_offered(view: View) -> Iterator[Seen]:
    if not view.lacks("Node", MANAGEMENT) or not _hosts(view):
        return
    for pool, card in _asking(view):
        if not _offers(view, card):
            yield Seen(f"no host offers {card}", "", pool.subject)


@proves(
    "the host's Node: label nvidia.com/gpu.deploy.driver, and its allocatable",
    "pre-installed, and the card is not offered",
)
def _pre_installed(view: View) -> Iterator[Seen]:
    label, value = PRE_INSTALLED
    for pool, card in _asking(view):
        for host in _hosts(view):
            labels = mapped(host.obj, "metadata", "labels")
            if labels.get(label) == value and not _offers(view, card):
                yield Seen(f"{host.name} has {label}={value} and offers no {card}", host.where,
                           pool.subject)  # fmt: skip


@proves("lspci -nnk -d 10de: on the host", "Kernel driver in use: nvidia (not vfio-pci)")
def _driver_in_use(view: View) -> Iterator[Seen]:
    hosts = {one.name for one in _hosts(view)}
    for text in view.texts(Kind.LSPCI):
        found = read_lspci(Output(("lspci",), 0, text.text), at=0.0, source=text.source)
        functions = found.functions if isinstance(found, PciDrivers) else ()
        ours = text.node in hosts or any(one.driver == "vfio-pci" for one in functions)
        for one in functions if ours else ():
            if one.driver in ("nvidia", "nouveau"):
                yield Seen(f"{one.address} ({one.pci_id}) is held by {one.driver} on the host",
                           text.source, text.node)  # fmt: skip


@fits("nvidia-vfio-manager of the management cluster", "Init:CrashLoopBackOff")
def _vfio_manager(view: View) -> Iterator[Seen]:
    for pod in view.pods("nvidia-vfio-manager", MANAGEMENT):
        if pod.namespace != OPERATOR:
            continue
        for status in listed(pod.obj, "status", "initContainerStatuses"):
            why = stuck(status)
            if why:
                host = text_at(pod.obj, "spec", "nodeName")
                yield Seen(f"{pod.name} on {host}: Init:{why}", pod.where, "")


@speaks_against(
    "the host's label nvidia.com/gpu.deploy.driver", "pre-installed: its own driver has the cards"
)
def _is_pre_installed(view: View) -> Iterator[Seen]:
    label, value = PRE_INSTALLED
    for host in _hosts(view):
        if mapped(host.obj, "metadata", "labels").get(label) == value:
            yield Seen(f"{host.name} has {label}={value}", host.where)


@rules_out("the hosts' allocatable", "cards of this chip are offered, so they are not held")
def _is_offered(view: View) -> Iterator[Seen]:
    yield from _same_name.find(view)
    yield from _other_name.find(view)


_LOOK = "kubectl get nodes -o json | jq '.items[].status.allocatable'"

CAUSES = (
    Cause(
        id="card-not-permitted",
        family="card",
        title="KubeVirt does not permit the card",
        story="The KubeVirt CR lists no device of the name that the pool asks for, so that "
        "virt-controller refuses to start the machine.",
        signs=(_refused, _unlisted, _listed),
        wrong="a slow image import, or the scheduler",
        why_wrong="the disk is there, and no pod was made that could be scheduled: "
        "virt-controller refuses before. GB202 has no default entry.",
        check="the VMI's condition Synchronized, and the list in the KubeVirt CR",
        command="kubectl -n cozy-kubevirt get kubevirt kubevirt -o "
        "jsonpath='{.spec.configuration.permittedHostDevices}'",
        symptoms=(NOT_JOINED,),
    ),
    Cause(
        id="card-name-mismatch",
        family="card",
        title="The host offers the card under another name",
        story="The pool asks for a resource name that no host has; the same chip is there under "
        "another.",
        signs=(_other_name, _insufficient, _same_name, _is_pre_installed),
        wrong="all cards are busy",
        why_wrong="the scheduler says Insufficient in both cases; here no host has the name at "
        "all.",
        check="the exact names in the hosts' allocatable",
        command=_LOOK,
        symptoms=(NOT_JOINED,),
    ),
    Cause(
        id="cards-exhausted",
        family="card",
        title="All cards of this name are in use",
        story="As many pods have a card as there are; in a roll the new worker waits for the card "
        "that the old one holds, because maxSurge is maxReplicas.",
        signs=(_all_taken, _insufficient, _none_offered),
        wrong="a broken schematic, or the name of the card",
        why_wrong="the guest never ran, so its image is not the reason, and a host offers this "
        "very "
        "name.",
        check="which pods hold a card, beside what the hosts offer",
        command="kubectl get pods -A -l kubevirt.io=virt-launcher -o wide; " + _LOOK,
        symptoms=(NOT_JOINED,),
    ),
    Cause(
        id="host-driver-holds-card",
        family="card",
        title="The host's own NVIDIA driver holds the card",
        story="A distribution's NVIDIA driver on the virtualisation host has taken the card, so "
        "that it is not bound to vfio-pci and not offered.",
        signs=(_pre_installed, _driver_in_use, _vfio_manager, _insufficient, _is_offered),
        wrong="a bug of the GPU operator; FORCE_REINSTALL",
        why_wrong="the operator gives up because a driver is there that it did not install; "
        "reinstalling does not take it away.",
        check="which driver holds the card on the host",
        command="lspci -nnk -d 10de: (on the host)",
        symptoms=(NOT_JOINED,),
    ),
)
