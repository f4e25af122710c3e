"""Ask a machine about its DRBD: the module's version first, then in the words that it knows.

DRBD 9 answers in JSON; 8.4 refuses that (exit status 20) and is read as text, with /proc/drbd as
the second view. The commands are those of a NodeShell on the machine or of a shell in a LINSTOR
satellite's pod. Where the machine cannot be asked at all, reach's LabError passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from harness.facts import drbd8, drbd9, drbdevents, drbdlog, drbdproc
from harness.facts.drbd import DrbdAbsent, DrbdHistory, DrbdLog, DrbdStatus
from harness.facts.drbdproc import DrbdProc
from harness.facts.fact import Origin, Unread
from harness.observe.guest import output_of
from harness.reach.errors import LabError
from harness.reach.nodeshell import NodeShell

_Fact = TypeVar("_Fact")

EVENTS = ("drbdsetup", "events2")

_GRACE = 20.0
"""Seconds beyond its own that a stream may take until its command is given up."""


def drbd_version(shell: NodeShell, *, node: str = "") -> DrbdProc | DrbdAbsent | Unread:
    """/proc/drbd: the module's version and, of 8.4, each device."""
    reply = shell.run(["cat", drbdproc.PROC])
    source = f"{shell.where}:{drbdproc.PROC}"
    return drbdproc.read_proc(
        output_of(reply), at=reply.ended, source=source, node=node or _node(shell)
    )


def drbd_status(
    shell: NodeShell, resource: str = "", *, node: str = ""
) -> DrbdStatus | DrbdAbsent | Unread:
    """How a resource stands, as this machine sees it; all of them without a name.

    ``node`` is what the machine's peers call it, the last word of the shell's ``where`` if not
    given. Two commands, so 8.4's two views may be milliseconds apart: the fact tells where they
    disagree.
    """
    name = node or _node(shell)
    proc = drbd_version(shell, node=name)
    if not isinstance(proc, DrbdProc):
        return proc
    wanted = (resource,) if resource else ()
    nine = proc.generation >= 9
    reply = shell.run([*(drbd9.STATUS if nine else drbd8.STATUS), *wanted])
    output, source = output_of(reply), f"{shell.where}:drbdsetup status"
    if nine:
        return drbd9.read_status9(
            output,
            at=reply.ended,
            source=source,
            node=name,
            version=proc.version,
            resource=resource,
        )
    return drbd8.read_status8(
        output, proc, at=reply.ended, source=source, node=name, resource=resource
    )


def drbd_history(
    shell: NodeShell, resource: str = "", *, seconds: int = 0, node: str = ""
) -> DrbdHistory | Unread:
    """What is there now and, for ``seconds`` of the machine's time, every change, with times.

    Without seconds only the list. It blocks for as long: start it beside what it is to see, and
    look only once its list is closed at what it has. Ended by ``timeout`` on the machine.
    """
    wanted = (resource,) if resource else ()
    if seconds:
        command = ["timeout", str(seconds), *EVENTS, "--timestamps", "--statistics", *wanted]
    else:
        command = [*EVENTS, "--now", "--statistics", *wanted]
    reply = shell.run(command, timeout=seconds + _GRACE)
    return drbdevents.read_events(
        output_of(reply),
        at=reply.ended,
        source=f"{shell.where}:drbdsetup events2",
        node=node or _node(shell),
        ended_by_timer=bool(seconds) and seconds <= reply.ended - reply.started < seconds + _GRACE,
    )


def drbd_log(shell: NodeShell, *, node: str = "") -> DrbdLog | Unread:
    """What the kernel log still holds of DRBD."""
    reply = shell.run(["dmesg"])
    return drbdlog.read_log(
        output_of(reply),
        at=reply.ended,
        source=f"{shell.where}:dmesg",
        node=node or _node(shell),
    )


def drbd_statuses(
    shells: Mapping[str, NodeShell], now: Callable[[], float]
) -> tuple[DrbdStatus | DrbdAbsent | Unread, ...]:
    """How each machine sees all of its resources; ``shells`` by the name that its peers use.

    One that cannot be asked is Unread, and does not silence the others.
    """
    return tuple(
        _or_unread(partial(drbd_status, shell, node=node), shell, "drbdsetup status", now)
        for node, shell in shells.items()
    )


def standalone_logs(
    shells: Mapping[str, NodeShell],
    statuses: Sequence[DrbdStatus | DrbdAbsent | Unread],
    now: Callable[[], float],
) -> tuple[DrbdLog | Unread, ...]:
    """The kernel log of each machine that tells of a StandAlone connection: why it is that."""
    alone = {one.node for one in statuses if isinstance(one, DrbdStatus) and one.stands_alone}
    return tuple(
        _or_unread(partial(drbd_log, shell, node=node), shell, "dmesg", now)
        for node, shell in shells.items()
        if node in alone
    )


def _or_unread(
    ask: Callable[[], _Fact], shell: NodeShell, what: str, now: Callable[[], float]
) -> _Fact | Unread:
    try:
        return ask()
    except LabError as out_of_reach:
        return Unread(Origin(now(), shell.where, ""), f"{what} on {shell.where}", str(out_of_reach))


def _node(shell: NodeShell) -> str:
    return shell.where.rpartition(" ")[2]
