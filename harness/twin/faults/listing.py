"""`hil faults`: the catalogue for people."""

from __future__ import annotations

import sys
import textwrap

from harness.twin.faults.catalogue import FAULTS, UnknownFault, find


def show(name: str) -> int:
    """Print the catalogue, or one fault whole. 2 for a fault that it does not have."""
    if not name:
        width = max(map(len, FAULTS))
        lines = [f"{fault.id:<{width}}  {fault.sentence}" for fault in FAULTS.values()]
        sys.stdout.write("\n".join(lines) + "\n")
        return 0
    try:
        fault = find(name)
    except UnknownFault as unknown:
        sys.stderr.write(f"hil: {unknown}\n")
        return 2
    fields = {
        "what": fault.sentence,
        "seen": fault.seen,
        "tempting": fault.wrong_diagnosis,
        "breaks": ", ".join(sorted(fault.breaks)),
        "blinds": ", ".join(sorted(fault.blinds)) or "nothing",
        "where": ", ".join(fault.where),
        "source": fault.source,
    }
    sys.stdout.write(fault.id + "\n")
    for label, text in fields.items():
        indent = " " * 12
        wrapped = textwrap.fill(text, 96, initial_indent=f"  {label:<10}", subsequent_indent=indent)
        sys.stdout.write(wrapped + "\n")
    return 0
