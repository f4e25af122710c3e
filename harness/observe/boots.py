"""Ask how long a machine has been on its boot, and whether it is the same worker still."""

from __future__ import annotations

from harness.facts import boots
from harness.facts.boots import BootSample
from harness.facts.fact import Unread
from harness.facts.objects import condition, text_at, uid_of
from harness.observe.guest import output_of
from harness.reach.kube import Kube
from harness.reach.nodeshell import NodeShell


def boot_sample(
    shell: NodeShell, tenant: Kube, node: str, *, vmi_uid: str
) -> BootSample | Unread:  # fmt: skip
    """One look at a worker of a cluster, dated by the machine's answer.

    ``vmi_uid`` is that of the VMI that the worker runs in, "" where it is not known. Raises
    LabError where neither machine nor cluster can be asked.
    """
    found = tenant.get("v1", "Node", "", node) or {}
    reply = shell.run(boots.LOOK)
    return boots.read_sample(
        node,
        output_of(reply),
        at=reply.ended,
        vmi_uid=vmi_uid,
        node_uid=uid_of(found),
        node_ready=text_at(condition(found, "Ready"), "status") == "True",
    )


def guest_sample(shell: NodeShell, name: str, *, timeout: float = 30.0) -> BootSample | Unread:
    """One look at a machine of no cluster; ``timeout`` in seconds of the runner's time."""
    reply = shell.run(boots.LOOK, timeout=timeout)
    return boots.read_sample(name, output_of(reply), at=reply.ended)
