"""DRBD between the guests, from nothing to UpToDate on both sides, by a real full sync.

Commands and texts are those of drbd-utils 9.22 on the 8.4 module of Debian's kernel
(lab/qemu_drbd.md, DRBD 8.4). Only what a lab needs to stand is read here; what DRBD's states mean
is for facts and judges, which share no code with this.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.qemulab.errors import Unfit

if TYPE_CHECKING:
    from harness.clock import Clock
    from harness.reach.execs import Reply
    from harness.reach.ssh import SshShell

RESOURCE = "r0"
PROVED = "8.4"
"""The module's version that this was tried with."""
PATIENCE = 180.0
"""Seconds for the peers to find each other, and again for the full sync of 64 MiB."""

_LOOK = 0.2
_VERSION = re.compile(r"^version:\s*(\S+)", re.MULTILINE)


def module_version(shell: SshShell) -> str:
    """The DRBD module's version, "8.4.11". Raises Unfit where the kernel has none."""
    _do(shell, ["modprobe", "drbd"], "take a kernel that has the drbd module")
    told = _do(shell, ["cat", "/proc/drbd"], "take a kernel that has the drbd module")
    found = _VERSION.search(told)
    if found is None:
        saw = f"{told[:200]!r} in /proc/drbd"
        raise Unfit(f"find DRBD's version on {shell.where}", saw, "take a kernel that has drbd")
    return found[1]


def attach(shell: SshShell) -> None:
    """Make the resource's metadata and bring it up on one guest."""
    _do(shell, ["drbdadm", "create-md", "--force", RESOURCE], "see the guest's kernel log")
    _do(shell, ["drbdadm", "up", RESOURCE], "see the guest's kernel log")


def sync(shells: Sequence[SshShell], clock: Clock) -> None:
    """Have the first guest's disk copied to the others; then nobody is primary. Raises Unfit."""
    first = shells[0]
    _wait(shells, clock, "cstate", "Connected")
    _do(first, ["drbdadm", "primary", "--force", RESOURCE], "see the guest's kernel log")
    _wait(shells, clock, "dstate", "UpToDate/UpToDate")
    _do(first, ["drbdadm", "secondary", RESOURCE], "see the guest's kernel log")


def _wait(shells: Sequence[SshShell], clock: Clock, asked: str, wanted: str) -> None:
    """Wait until every replica says so; `drbdadm cstate` and `dstate` are the same in 8.4 and 9."""
    deadline = clock.deadline(PATIENCE)
    tried = f"bring the replicas to {wanted}"
    for shell in shells:
        while (
            seen := _do(shell, ["drbdadm", asked, RESOURCE], "see its console").strip()
        ) != wanted:
            if deadline.expired:
                saw = f"{seen!r} on {shell.where} after {PATIENCE:g} s"
                raise Unfit(tried, saw, "see the guests' kernel logs; is the private wire there?")
            clock.sleep(_LOOK, tried)


def _do(shell: SshShell, argv: Sequence[str], do: str) -> str:
    reply = shell.run(argv, timeout=60.0)
    if reply.exit_code != 0:
        raise Unfit(f"run `{' '.join(argv)}` on {shell.where}", _told(reply), do)
    return reply.stdout.decode("utf-8", "replace")


def _told(reply: Reply) -> str:
    if reply.problem:
        return reply.problem
    words = " ".join((reply.stderr or reply.stdout).decode("utf-8", "replace").split())
    return f"exit {reply.exit_code}: {words[:300] or 'no word'}"
