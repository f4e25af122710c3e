"""The boots of a cluster's worker: its Node and its VMI show what it does not tell itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.bringup.boots import EVERY, BootLog, Watching
from harness.bringup.machine_boots import MachineBoots
from harness.bringup.reboots import RebootBench
from harness.facts.boots import BootSample
from harness.facts.objects import text_at, uid_of
from harness.inventory.naming import nodes_name
from harness.observe import boots
from harness.observe.kernellog import kernel_log
from harness.reach.errors import LabError
from harness.reach.reattaching import LastingConsole

if TYPE_CHECKING:
    from harness.bringup.worker import Worker

BUDGET = 600.0
"""Seconds of the lab's time for a node's shell to answer after a reboot, its kubelet before it."""
AGAIN = 5.0
SAMPLED = 30.0
"""Seconds between two looks where time passes by itself: shorter than any reboot
(uptime_and_diagnosis section 3). On virtual time each costs what the rest of a soak does."""
API, KIND = "apps.cozystack.io/v1alpha1", "KubernetesNodes"
_BOOT_ID = ("status", "nodeInfo", "bootID")


def node_boots(worker: Worker) -> MachineBoots:
    """The boots of a worker.

    Talos has no command to reboot itself by, and the lab has no hold of its power: of the kinds of
    reboot, those are left that its kernel brings about.
    """
    pool = worker.pool
    clock = pool.lab.clock
    nodes, machines = pool.watched.nodes, pool.watched.feeds["machines"]

    def gone(last: BootSample | None) -> tuple[str, ...]:
        machine, node = machines.object(worker.machine), nodes.object(worker.name)
        found = []
        if machine is None or text_at(machine, "metadata", "deletionTimestamp"):
            found.append("Machine")
        if last is not None and pool.vmi_uid(worker.machine) != last.vmi_uid:
            found.append("VMI")
        if node is None or (last is not None and uid_of(node) != last.node_uid):
            found.append("Node")
        return tuple(found)

    def lost() -> bool:
        return nodes.object(worker.name) is None or machines.object(worker.machine) is None

    def taken() -> str:
        place = pool.lab.inventory.tenant
        name = nodes_name(place.cluster, pool.name)
        pool.lease.renew(clock)
        found = pool.lab.management.get(API, KIND, place.namespace, name)
        if found is None:
            return f"the pool was deleted: there is no {KIND} {name} any more"
        if text_at(found, "metadata", "deletionTimestamp"):
            return f"the pool is being deleted: {KIND} {name}"
        return ""

    watching = Watching(
        node=worker.name,
        now=clock.now,
        ask=lambda: boots.boot_sample(
            worker.shell, pool.lab.tenant, worker.name, vmi_uid=pool.vmi_uid(worker.machine)
        ),
        wait=pool.wait,
        pause=pool.pause,
        told=lambda: text_at(nodes.object(worker.name) or {}, *_BOOT_ID),
        lost=lost,
        gone=gone,
        taken=taken,
        beside=lambda: pool.books.follow() if pool.books is not None else None,
        every=EVERY if clock.follows else SAMPLED,
        log=lambda boot_id: kernel_log(worker.shell, boot_id),
        listen=lambda: _attach(worker),
    )
    return MachineBoots(
        BootLog(watching),
        lambda: RebootBench(
            where=f"guest {worker.name}",
            clock=clock,
            login=lambda: worker.shell,
            come_back=lambda _: worker.shell,
            attach=lambda: _attach(worker),
            budget=BUDGET,
            again=AGAIN,
            renew=pool.renew,
        ),
    )


def _attach(worker: Worker) -> LastingConsole:
    """The console of the VMI that the worker's Machine runs in."""
    pool = worker.pool
    machine = pool.watched.feeds["machines"].object(worker.machine)
    if machine is None:
        gone = f"there is no Machine {worker.machine} any more"
        raise LabError(f"attach to the console of {worker.name}", gone, "see who replaced it")
    name = text_at(machine, "spec", "infrastructureRef", "name")
    return LastingConsole.attach(pool.lab.management, pool.lab.inventory.tenant.namespace, name)
