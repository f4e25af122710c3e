"""Whether the process that controls a run still lives, as far as that can be told from here."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

from harness.live.heart import STILL
from harness.live.record import born_of

SILENT = 6 * STILL
"""Seconds without a new line after which a process on another machine is taken for dead."""


def controlling(processes: Mapping[str, Mapping[str, Any]]) -> tuple[str, Mapping[str, Any]] | None:
    """The name and the first line of the process that ends the run; None where none has written."""
    found = [item for item in processes.items() if item[1].get("controls") is True]
    return found[-1] if found else None


def why_dead(who: Mapping[str, Any] | None, silent: float) -> str:
    """Why a run that has no exit status will not get one, "" while it may.

    ``who`` is the controlling process's first line, None where there is none; ``silent`` is for
    how many seconds it was seen to write nothing, by the clock of the one who looks.
    """
    if who is None:
        return (
            "" if silent < SILENT else f"no process of it has written anything for {silent:.0f} s"
        )
    pid, host = who.get("pid"), who.get("host")
    if host != platform.node() or not isinstance(pid, int):
        told = f"its process {pid} on {host} has written nothing for {silent:.0f} s"
        return told if silent >= SILENT else ""
    return "" if _lives(pid, who.get("born")) else f"its process {pid} is no more"


def _lives(pid: int, born: object) -> bool:
    """Whether the process of that number is the one that wrote, and not a later one."""
    if born:
        return born_of(pid) == born
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
