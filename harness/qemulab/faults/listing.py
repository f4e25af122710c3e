"""`hil faults --lab` of a mini-lab: its catalogue for people."""

from __future__ import annotations

import sys

from harness import pages
from harness.qemulab.faults.catalogue import FAULTS, UnknownFault, find
from harness.qemulab.faults.model import Fault

USER_MISTAKE = 2
HARMLESS = "by design: whoever takes it for a fault is mistaken, and every claim must hold"


def show(name: str) -> int:
    """Print the catalogue, or one fault whole. 2 for a fault that it does not have."""
    if not name:
        sys.stdout.write(pages.index({fault.id: fault.sentence for fault in FAULTS.values()}))
        return 0
    try:
        fault = find(name)
    except UnknownFault as unknown:
        sys.stderr.write(f"hil: {unknown}\n")
        return USER_MISTAKE
    sys.stdout.write(pages.entry(fault.id, described(fault)))
    return 0


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
