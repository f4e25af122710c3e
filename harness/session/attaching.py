"""Where the lab is that runs already, when nobody says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harness.commandline import WHEREVER
from harness.qemulab.options import DIRECTORY as OF_GUESTS

if TYPE_CHECKING:
    from harness.inventory.models import Lab

OF_TWIN = Path(".hil")


def embedded(lab: Lab, *, attached: bool) -> bool:
    """Whether each pool of a run gets a twin of its own, started by the run."""
    return lab.kind == "twin" and lab.management is None and not attached


def directory(given: Path | None, kind: str) -> Path | None:
    """Where the verb of this kind of lab leaves one, where ``given`` is `WHEREVER`."""
    if given is not WHEREVER:
        return given
    return OF_GUESTS if kind == "qemu" else OF_TWIN
