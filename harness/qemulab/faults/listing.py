"""`hil faults --lab` of a mini-lab: its catalogue for people."""

from __future__ import annotations

from harness import pages
from harness.qemulab.faults.catalogue import FAULTS, UnknownFault, find
from harness.qemulab.faults.model import Fault

HARMLESS = "by design: whoever takes it for a fault is mistaken, and every claim must hold"


def show(name: str) -> int:
    """Print the catalogue, or one fault whole. 2 for a fault that it does not have."""
    sentences = {fault.id: fault.sentence for fault in FAULTS.values()}
    return pages.show(name, sentences, lambda one: described(find(one)), UnknownFault)


def described(fault: Fault) -> dict[str, str]:
    """What there is to say of a fault, by label, in the order to be shown."""
    return {
        "what": fault.sentence,
        "seen": fault.seen,
        "tempting": fault.wrong_diagnosis,
        "breaks": ", ".join(sorted(fault.breaks)) or "nothing",
        "blinds": ", ".join(sorted(fault.blinds)) or "nothing",
        "leaves": ", ".join(sorted(fault.controls)) or "nothing that a trial asks",
        **({"harmless": HARMLESS} if fault.harmless else {}),
        "source": fault.source,
    }
