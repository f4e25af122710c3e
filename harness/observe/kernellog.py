"""Ask for a kernel's log: over a shell, or from what a console has printed."""

from __future__ import annotations

from harness.facts import kernellog
from harness.facts.fact import Unread
from harness.facts.kernellog import KernelLog
from harness.observe.guest import output_of
from harness.reach.capture import Capture
from harness.reach.nodeshell import NodeShell


def kernel_log(
    shell: NodeShell, boot_id: str = "", *, timeout: float = 30.0
) -> KernelLog | Unread:  # fmt: skip
    """The ring buffer of the running kernel; ``boot_id`` is the boot that it is known to be of.

    ``timeout`` in seconds of the runner's time. Raises LabError where the machine can't be asked.
    """
    reply = shell.run([kernellog.DMESG], timeout=timeout)
    source = f"{shell.where}: {kernellog.DMESG}"
    return kernellog.read_dmesg(output_of(reply), boot_id=boot_id, at=reply.ended, source=source)


def console_log(
    capture: Capture, since: int = 0, *, at: float, heard_from: float | None = None
) -> KernelLog:
    """What a console has printed from an offset on, as far as it is still kept.

    ``heard_from`` is the lab's time at which it was attached, where that matters. Where it printed
    more than is kept it counts as heard from the first byte that is: what was dropped may have been
    anything.
    """
    first, text = capture.text_from(since)
    if heard_from is not None and first > since:
        heard_from = max(heard_from, capture.arrival(first) if text else at)
    return kernellog.read_console(
        text,
        lambda offset: capture.arrival(first + offset),
        at=at,
        source=capture.name,
        heard_from=heard_from,
    )
