"""Whether a host on which a pool ran went away meanwhile: the lab's loss, noted, never hidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.facts.objects import condition, epoch, name_of, text_at
from harness.reach.errors import ApiRefused

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

HOST_LOST = "host-lost"
"""Kind of the note (`harness.report.environment`)."""

Log = Callable[[str, str], None]


def note_lost(held: HeldPool, log: Log) -> None:
    """Note each host of the pool's machines that is not Ready, or was not for a while.

    Ready's own date tells that without a watch. Nothing is noted in a lane that takes hosts away
    itself, or before anything ran. Raises LabError where the lab cannot be reached.
    """
    used = _hosts_of(held)
    if held.terms.disruption or not used:
        return
    try:
        nodes = {name_of(one): one for one in held.lab.management.list("v1", "Node")}
    except ApiRefused as refused:
        log("take-down", f"whether a host went away could not be looked at: {refused}")
        return
    for host in sorted(used):
        ready = condition(nodes.get(host, {}), "Ready")
        since = epoch(text_at(ready, "lastTransitionTime"))
        if text_at(ready, "status") != "True":
            how = f"is not Ready: {text_at(ready, 'reason') or 'there is no such Node'}"
            log(HOST_LOST, f"host {host}, on which pool {held.name} ran, {how}")
        elif since is not None and since > held.since:
            when = text_at(ready, "lastTransitionTime")
            log(HOST_LOST, f"host {host}, on which pool {held.name} ran, was away till {when}")


def _hosts_of(held: HeldPool) -> set[str]:
    """Every host that a machine of the pool was ever seen on."""
    own = held.watched.own_names()
    seen = held.watched.feeds["vmis"].history.revisions()
    hosts = {text_at(one.obj, "status", "nodeName") for one in seen if name_of(one.obj) in own}
    return hosts - {""}
