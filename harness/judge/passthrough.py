"""Claims about a card on its way into a VM: who holds it on the host, and that the VM has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from harness.facts.fact import Unread
from harness.facts.lspci import PciDrivers
from harness.facts.pci import PciCards
from harness.facts.vmi import LauncherGpu, VmiGpus, VmiRefusal, variable_of
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, named, outcome, unread

_CLAIM = "passthrough"
_NOT_PERMITTED = "permittedHostDevices"
_VFIO = "vfio-pci"


def passthrough(
    vmi: VmiGpus | VmiRefusal | Unread,
    launcher: LauncherGpu | Unread,
    guest: PciCards | Unread,
    devices: Sequence[str],
    pci_id: str,
    subject: str,
) -> Verdict:
    """passthrough: the VMI, its virt-launcher and the guest's PCI bus all hold the same cards.

    ``devices`` are the resource names that the pool asked for, one per card; ``pci_id`` is vendor
    and device of the card ("10de:26b9"). A VMI that is refused because permittedHostDevices lacks
    the card, and a launcher that no host has the card for, are broken whatever the other legs
    say; any other refusal leaves it unknown. Unknown where no card was asked for.
    """
    facts = (vmi, launcher, guest)
    if not devices:
        because = "the pool asked for no card, so there is none to hold"
        return Verdict(_CLAIM, subject, Outcome.UNKNOWN, because, facts)
    if isinstance(vmi, VmiRefusal):
        because = f"VMI {vmi.vmi} is refused ({vmi.reason}): {vmi.message}"
        permitted = _NOT_PERMITTED not in vmi.message
        refused = Outcome.UNKNOWN if permitted else Outcome.BROKEN
        return Verdict(_CLAIM, subject, refused, because, facts)
    short = _without_host(launcher, devices)
    if short:
        because = f"no host has {named(devices)} left for {subject}: {short}"
        return Verdict(_CLAIM, subject, Outcome.BROKEN, because, facts)
    if isinstance(vmi, Unread) or isinstance(launcher, Unread) or isinstance(guest, Unread):
        return unread(_CLAIM, subject, *facts)
    wrong = [*_vmi(vmi, devices), *_launcher(launcher, devices), *_guest(guest, devices, pci_id)]
    if wrong:
        return Verdict(_CLAIM, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    addresses = named(card.address for card in guest.cards if card.pci_id == pci_id)
    because = (
        f"VMI {vmi.vmi} asks for {named(devices)}, {launcher.pod} was given as many, and the "
        f"guest has {pci_id} at {addresses}"
    )
    return Verdict(_CLAIM, subject, Outcome.HOLDS, because, facts)


def vfio_bound(found: PciDrivers | Unread, pci_id: str, subject: str) -> Verdict:
    """vfio-bound: on the worker's host, vfio-pci holds every function with the card's id.

    Unknown where the host has no such function, for then there is none to be held. Other NVIDIA
    functions of the host, of another id, are not this pool's.
    """
    claim = "vfio-bound"
    if isinstance(found, Unread):
        return unread(claim, subject, found)
    ours = [one for one in found.functions if pci_id and one.pci_id == pci_id]
    if not ours:
        seen = named(f"{one.address} [{one.pci_id}]" for one in found.functions)
        because = f"the host has no function {pci_id or 'of the card'}; of NVIDIA: {seen}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (found,))
    told = named(f"{one.address} by {one.driver or 'nothing'}" for one in ours)
    because = f"functions {pci_id} of the host are held: {told}; expected {_VFIO}"
    held = all(one.driver == _VFIO for one in ours)
    return Verdict(claim, subject, outcome(held), because, (found,))


def _without_host(launcher: LauncherGpu | Unread, devices: Sequence[str]) -> str:
    """The scheduler's message where it lacks one of these devices, else ""."""
    if isinstance(launcher, Unread):
        return ""
    said = launcher.unscheduled
    if not any(f"Insufficient {name}" in said for name in devices):
        return ""
    mine = [f"{host} {amount}" for host, name, amount in launcher.offered if name in devices]
    if mine:
        return f"all that are offered are in use ({named(mine)}): {said}"
    vendors = {name.partition("/")[0] for name in devices}
    others = named(
        f"{host} {name} {amount}"
        for host, name, amount in launcher.offered
        if name.partition("/")[0] in vendors
    )
    return f"no host offers that name (offered: {others}): {said}"


def _vmi(vmi: VmiGpus, devices: Sequence[str]) -> Iterator[str]:
    if Counter(vmi.gpus) != Counter(devices):
        yield f"VMI {vmi.vmi} asks for {named(vmi.gpus)}, expected {named(devices)}"


def _launcher(launcher: LauncherGpu, devices: Sequence[str]) -> Iterator[str]:
    for resource, count in Counter(devices).items():
        limit = launcher.limits.get(resource, "absent")
        if limit != str(count):
            yield f"{launcher.pod} has the limit {resource}: {limit}, expected {count}"
        variable = variable_of(resource)
        given = launcher.pci_env.get(variable, ())
        if len(given) != count:
            yield f"{launcher.pod} has {variable}={named(given)}, expected {count} of them"


def _guest(guest: PciCards, devices: Sequence[str], pci_id: str) -> Iterator[str]:
    found = [card for card in guest.cards if card.pci_id == pci_id]
    if len(found) != len(devices):
        seen = named(f"{card.pci_id} at {card.address}" for card in guest.cards)
        wanted = f"{counted(len(devices), 'function')} of {pci_id}"
        yield f"the guest's PCI bus has NVIDIA functions: {seen}; expected {wanted}"
