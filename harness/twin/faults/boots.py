"""Faults of a worker's boots: memory that runs out, and a boot that cannot be told from another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.faults.model import ALL_POOLS, Fault
from harness.twin.faults.requests import guests
from harness.twin.world import conditions, healthcheck
from harness.twin.world.objects import CAPI, labels_of

if TYPE_CHECKING:
    from harness.twin.apiserver.resources import Obj
    from harness.twin.world.guest import Guest
    from harness.twin.world.world import World

DEPLOYMENT = "cluster.x-k8s.io/deployment-name"

EXHAUSTED_AT = (1310.0, 2875.0, 640.0, 1990.0, 1120.0, 2410.0, 890.0)
"""Seconds of uptime at which memory is out, boot after boot: as irregular as load is."""


REPLACED_AT = 4000.0
"""Seconds after its first start at which a worker is replaced: a window of 93 minutes is not over,
and where somebody counts the minutes of a test it could pass for the timer."""
AGAIN_AFTER = 5.0
"""Seconds from the first start of a kubelet to the boot that follows: its Node is not Ready yet."""
SHORT_LIVED = 300.0
"""Seconds that Events are kept by an API server whose --event-ttl somebody has cut."""


def _repeat(guest: Guest) -> None:
    guest.repeats_boot_id = True


def _boot_twice(world: World) -> None:
    """A worker's first boot after its installation ends soon after its kubelet has come up."""

    def hook(guest: Guest, instance: Obj) -> None:
        del instance
        begun: list[str] = []

        def up(service: str) -> None:
            if service == "kubelet" and not begun:
                begun.append(guest.boot_id)
                world.engine.after(AGAIN_AFTER, guest.reboot, "the second boot of an installation")

        guest.services.on_up.append(up)

    world.on_guest.append(hook)


def _replace_once(world: World) -> None:
    """The first worker of each pool is found unhealthy, late, and its MachineSet makes another."""
    seen: set[str] = set()

    def hook(guest: Guest, instance: Obj) -> None:
        pool = labels_of(instance).get(DEPLOYMENT, "")
        if pool not in seen:
            seen.add(pool)
            what = f"{guest.hostname} is found unhealthy"
            world.engine.after(REPLACED_AT, lambda: _remediate(world, instance), what)

    world.on_guest.append(hook)


def _remediate(world: World, instance: Obj) -> None:
    """What a MachineHealthCheck writes on a Machine that it has given up."""
    meta = instance["metadata"]
    machine = world.cluster.find(CAPI, "Machine", meta["namespace"], meta["name"])
    if machine is None:
        return
    failed = conditions.false("HealthCheckSucceeded", "UnhealthyNode", "", "Warning")
    waiting = conditions.false("OwnerRemediated", "WaitingForRemediation", "", "Warning")
    world.cluster.conditions(machine, failed, waiting, manager=healthcheck.MANAGER)
    text = f"Machine {meta['name']} has been marked as unhealthy"
    world.cluster.events.normal(machine, "MachineMarkedUnhealthy", text, "machinehealthcheck")


def _forget_soon(world: World) -> None:
    for cluster in (world.cluster, *world.tenant_clusters.values()):
        cluster.events.retention = SHORT_LIVED


FAULTS = (
    Fault(
        id="real-oom",
        sentence="Something on each worker eats all memory, until the kernel gives up.",
        seen="MemAvailable near zero, oom-kill lines in the kernel's log, then a panic: deadlocked "
        "on memory; another boot id after another time each",
        wrong_diagnosis="the timer of a boot that does not finish",
        breaks=frozenset({"uptime"}),
        where=ALL_POOLS,
        edit=guests(lambda guest: guest.run_out_of_memory(EXHAUSTED_AT)),
        source="S-DOC",
    ),
    Fault(
        id="vmi-recreated",
        sentence="A MachineHealthCheck gives up one worker of each pool, late in its window.",
        seen="another Machine, VM and VMI with UIDs of their own, and another Node; the old boot "
        "never ended under its own identity",
        wrong_diagnosis="the 70-minute timer",
        breaks=frozenset({"uptime"}),
        where=ALL_POOLS,
        edit=_replace_once,
        source="uptime_and_diagnosis section 2, G",
    ),
    Fault(
        id="install-reboot-flagged",
        sentence="The boot after the installation ends right after its kubelet has come up.",
        seen="the Node shows two boot ids before it is Ready for the first time, an Event "
        "Rebooted, and is younger than its Machine: an installation looks so",
        wrong_diagnosis="a loop of reboots",
        breaks=frozenset(),
        where=ALL_POOLS,
        edit=_boot_twice,
        source="S-GPO (inferred)",
        harmless=True,
    ),
    Fault(
        id="events-expired",
        sentence="The API servers keep Events for five minutes only.",
        seen="nothing, to who asks for Events when something has gone wrong: they were there",
        wrong_diagnosis="nothing happened",
        breaks=frozenset(),
        where=ALL_POOLS,
        edit=_forget_soon,
        source="uptime_and_diagnosis section 7",
        harmless=True,
    ),
    Fault(
        id="boot-id-repeats",
        sentence="A worker's random numbers begin alike at each boot, and its boot id with them.",
        seen="the same boot id before and after a reboot; /proc/uptime begins anew",
        wrong_diagnosis="the machine was never down",
        breaks=frozenset({"reboots-told"}),
        where=ALL_POOLS,
        edit=guests(_repeat),
        source="lab/qemu_drbd.md, Snapshots (inferred for a worker)",
    ),
)
