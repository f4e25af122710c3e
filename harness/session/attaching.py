"""Where the lab is that runs already, when nobody says."""

from __future__ import annotations

from pathlib import Path

from harness.commandline import WHEREVER
from harness.qemulab.options import DIRECTORY as OF_GUESTS

OF_TWIN = Path(".hil")


def directory(given: Path | None, kind: str) -> Path | None:
    """Where the verb of this kind of lab leaves one, where ``given`` is `WHEREVER`."""
    if given is not WHEREVER:
        return given
    return OF_GUESTS if kind == "qemu" else OF_TWIN
