"""Ask how long a worker has been on its boot, and whether it is the same worker still."""

from __future__ import annotations

from harness.facts import boots
from harness.facts.boots import BootSample
from harness.facts.fact import Unread
from harness.facts.objects import condition, text_at, uid_of
from harness.observe import guest
from harness.reach.kube import Kube
from harness.reach.nodeshell import NodeShell


def boot_sample(
    shell: NodeShell, tenant: Kube, node: str, *, vmi_uid: str
) -> BootSample | Unread:  # fmt: skip
    """One look at a worker, dated by the answer to its uptime.

    ``vmi_uid`` is that of the VMI that the worker runs in, "" where it is not known. Raises
    LabError where neither machine nor cluster can be asked.
    """
    found = tenant.get("v1", "Node", "", node) or {}
    return boots.boot_sample(
        node,
        guest.boot_id(shell),
        guest.uptime(shell),
        vmi_uid=vmi_uid,
        node_uid=uid_of(found),
        node_ready=text_at(condition(found, "Ready"), "status") == "True",
    )
