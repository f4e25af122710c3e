"""Where the collectors of a stuck join ask, in a lab that is within reach."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from harness.bringup.connect import ConnectedLab
from harness.bringup.hosts import log_in
from harness.bringup.linstor import linstor_of
from harness.observe.joining_context import JoinContext

if TYPE_CHECKING:
    from harness.inventory.models import Host
    from harness.reach.nodeshell import NodeShell


@contextmanager
def join_context(
    lab: ConnectedLab,
    pool: str,
    *,
    machine: str = "",
    console: Callable[[str], str] = lambda _vmi: "",
) -> Iterator[JoinContext]:
    """Where to ask about a pool's workers, or the one of a Machine. Every connection that it opens
    is closed at the end. ``console(vmi)`` is what is captured already, "" for nothing.

    Nothing is opened before somebody asks for it.
    """
    place = lab.inventory.tenant
    with ExitStack() as opened:
        yield JoinContext(
            management=lab.management,
            tenant=lambda: lab.tenant,
            namespace=place.namespace,
            cluster=place.cluster,
            pool=pool,
            now=lab.clock.now,
            machine=machine,
            linstor=lambda: opened.enter_context(linstor_of(lab)),
            hosts={one.name: partial(_login, lab, one) for one in lab.inventory.hosts if one.ssh},
            console=console,
        )


def _login(lab: ConnectedLab, host: Host) -> AbstractContextManager[NodeShell]:
    return closing(log_in(host, lab.clock))
