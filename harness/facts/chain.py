"""The objects that make one worker, found through references, owners and labels.

Machine, KubevirtMachine, VM, VMI, launcher pod, Node (objects 1); never by composing a name. What
is being deleted is another worker's past. Each function gives an empty dict where there is none,
and takes one for an object that is not there: no object of a cluster is without a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.facts.objects import Obj, listed, mapped, name_of, owned_by, text_at, uid_of


def staying(objects: Iterable[Obj]) -> list[Obj]:
    """Those that are not being deleted, by name."""
    kept = [one for one in objects if not text_at(one, "metadata", "deletionTimestamp")]
    return sorted(kept, key=name_of)


def kubevirt_machine_of(machine: Obj, kubevirt_machines: Iterable[Obj]) -> Obj:
    """The KubevirtMachine that a Machine refers to."""
    name = text_at(machine, "spec", "infrastructureRef", "name")
    return next((one for one in kubevirt_machines if name_of(one) == name), {})


def vm_of(kubevirt_machine: Obj, virtual_machines: Iterable[Obj]) -> Obj:
    """A KubevirtMachine's VM."""
    return _made_by(kubevirt_machine, "KubevirtMachine", virtual_machines)


def vmi_of(virtual_machine: Obj, vmis: Iterable[Obj]) -> Obj:
    """A VM's running instance."""
    return _made_by(virtual_machine, "VirtualMachine", vmis)


def launcher_of(vmi: Obj, pods: Iterable[Obj]) -> Obj:
    """The virt-launcher pod of a VMI, by the label that carries the VMI's UID."""

    def is_its(pod: Obj) -> bool:
        return mapped(pod, "metadata", "labels").get("kubevirt.io/created-by") == uid_of(vmi)

    return next((one for one in staying(pods) if is_its(one)), {})


def disks_of(virtual_machine: Obj, data_volumes: Iterable[Obj]) -> list[Obj]:
    """The DataVolumes among a VM's volumes."""
    volumes = listed(virtual_machine, "spec", "template", "spec", "volumes")
    names = {text_at(one, "dataVolume", "name") for one in volumes} - {""}
    return [one for one in data_volumes if name_of(one) in names]


def node_of(machine: Obj, vmi: Obj, nodes: Sequence[Obj]) -> Obj:
    """The last version of a Machine's Node; until nodeRef is set, of the Node of the VMI's name."""
    name = text_at(machine, "status", "nodeRef", "name") or name_of(vmi)
    found = [one for one in nodes if name_of(one) == name]
    return found[-1] if found else {}


def _made_by(maker: Obj, kind: str, candidates: Iterable[Obj]) -> Obj:
    """The object owned by ``maker``, else the one of its name: the three share one (CAPK)."""
    kept = staying(candidates)
    owned = [one for one in kept if owned_by(one, kind, uid_of(maker))]
    named = [one for one in kept if name_of(one) == name_of(maker)]
    return next(iter(owned or named), {})
