"""What a scenario needs, what a pool in a lab has, and what is missing between the two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from harness.inventory.models import Card, Lab
from harness.inventory.suggest import choice

CARDS: tuple[str, ...] = get_args(Card)
TERMS: tuple[str, ...] = (
    "kubernetes",
    "shell",
    "gpu",
    *(f"gpu={card}" for card in CARDS),
    "no-gpu",
    "nvidia",
    "modules",
    "storage=drbd",
    "storage=pair",
    "storage=quorum",
    "clone",
    "linstor",
    "platform",
    "disruption",
    "console",
    "ssh",
    "soak",
)
"""Every need that can be written, in full."""
PAIR = 2
"""Replicas that have no majority, so that each side may go on alone."""
QUORUM = 3
"""Replicas of which two are a majority; 8.4 has two nodes and no quorum (lab/qemu_drbd.md)."""


class NeedError(ValueError):
    """A need that no lab can understand or meet: a mistake in the scenario, not a lack."""


WINDOW = 93 * 60.0
"""Seconds of uptime that are asked for where nobody names a window: 70 minutes is when Talos gives
a boot up, at 71 it has booted anew (uptime_and_diagnosis section 3)."""


@dataclass(frozen=True, slots=True)
class Need:
    """One need: a term, and its value for ``term=value`` ("" without one)."""

    term: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.term}={self.value}" if self.value else self.term


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one pool, or one set of guests, of one lab has.

    ``shell`` is a way to its machines' operating system; ``gpu`` is the card's key, None without
    one; ``cards`` counts them for each worker; ``nvidia`` is whether its machines load the NVIDIA
    driver, a card's or the mini-lab's stub of it;
    ``modules`` whether it calls for kernel modules; ``replicas`` are the copies that DRBD keeps of
    its disks, 0 where it keeps none; ``console`` is a serial console; ``ssh`` is a hypervisor host
    that can be logged in to; ``disruptable`` is whether the lab lets anybody cut its machines'
    links and switch them off, ``disruption`` whether this run may; ``clone`` is whether its disks
    are clones of the platform's golden image, ``linstor`` whether LINSTOR's controller can be
    asked, ``platform`` whether this run may edit the platform's catalogue; ``soak`` is whether the
    run's lane lets a node grow old, ``lane`` its name, "" for none.
    """

    lab: str
    pool: str
    gpu: str | None
    cards: int
    storage_class: str
    replicas: int
    console: bool
    ssh: bool
    kubernetes: bool = True
    shell: bool = True
    nvidia: bool = False
    modules: bool = False
    disruptable: bool = False
    disruption: bool = False
    clone: bool = False
    linstor: bool = False
    platform: bool = False
    soak: bool = False
    lane: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """A need that is not met; ``because`` is one sentence on what the pool has instead."""

    need: str
    because: str

    def __str__(self) -> str:
        return self.because


def window(lab: Lab, lane: str) -> float:
    """Seconds that each node of a run of this lane ("" for none) is to stay on one boot; 0 for no
    such window. Where time is virtual, a run without a lane has one: it costs seconds there.
    """
    run = lab.lanes.get(lane)
    if run is None:
        return WINDOW if lab.kind == "twin" and lab.clock == "virtual" else 0.0
    return run.soak.seconds if run.soak is not None else 0.0


def capabilities(lab: Lab, pool: str, *, lane: str = "") -> Capabilities:
    """What the pool of this name has in this lab, in a run of this lane ("" for none).

    KeyError when the lab has no such pool.
    """
    run = lab.lanes.get(lane)
    soak = window(lab, lane) > 0
    if lab.kind == "qemu":
        return replace(_of_guests(lab, pool), soak=soak, lane=lane)
    asked = lab.pools[pool]
    storage = lab.storage_classes[asked.storage_class]
    return Capabilities(
        lab=lab.name,
        pool=pool,
        gpu=asked.gpu,
        cards=asked.cards,
        storage_class=asked.storage_class,
        replicas=storage.replicas if storage.drbd else 0,
        console=lab.console,
        ssh=lab.hands_out_keys or any(host.ssh is not None for host in lab.hosts),
        nvidia=asked.gpu is not None,
        modules=asked.gpu is not None or bool(asked.kernel_modules),
        disruptable=lab.hands_out_keys,
        disruption=lab.hands_out_keys and run is not None and run.disruption,
        clone=asked.os_image == "builtin",
        linstor=lab.hands_out_keys or lab.linstor is not None,
        platform=run is not None and run.platform,
        soak=soak,
        lane=lane,
    )


def _of_guests(lab: Lab, name: str) -> Capabilities:
    guests = lab.guests[name]
    ours = guests.talos is None
    return Capabilities(
        lab=lab.name,
        pool=name,
        gpu=None,
        cards=0,
        storage_class="the guests' own",
        replicas=guests.replicas if ours and guests.replicas > 1 else 0,
        console=lab.console,
        ssh=False,
        kubernetes=False,
        shell=ours,
        nvidia=ours and guests.has_nvidia,
        modules=ours and bool(guests.kernel_modules),
        disruptable=True,
        disruption=True,
    )


def parse_need(text: str) -> Need:
    """One need from its text ("gpu", "gpu=l40s"); NeedError with the nearest for an unknown one."""
    spelt = re.sub(r"\s*=\s*", "=", text.strip())
    if spelt not in TERMS:
        raise NeedError(f'unknown need "{text}"; allowed: {choice(spelt, TERMS)}')
    term, _, value = spelt.partition("=")
    return Need(term, value)


def parse_needs(texts: Iterable[str]) -> tuple[Need, ...]:
    """The needs of a scenario, each once, in order; NeedError also when two exclude each other."""
    needs = tuple(dict.fromkeys(parse_need(text) for text in texts))
    cards = [need for need in needs if need.term == "gpu"]
    if cards and Need("no-gpu") in needs:
        raise NeedError(f'no pool can meet both "{cards[0]}" and "no-gpu"')
    named = [str(need) for need in cards if need.value]
    if len(named) > 1:
        raise NeedError(f"no pool can meet both {' and '.join(named)}: a pool has one kind of card")
    return needs


def match(needs: Sequence[Need], has: Capabilities) -> tuple[Missing, ...]:
    """What is missing of ``needs``, one sentence each; empty when the pool has it all."""
    lacks = ((need, _lack(need, has)) for need in needs)
    return tuple(Missing(str(need), because) for need, because in lacks if because)


def pools_for(lab: Lab, needs: Sequence[Need]) -> tuple[str, ...]:
    """Names of the lab's pools that meet all ``needs``, in the inventory's order."""
    return tuple(pool for pool in lab.sets if not match(needs, capabilities(lab, pool)))


def _lack(need: Need, has: Capabilities) -> str:
    pool, lab = f"pool {has.pool} of lab {has.lab}", f"lab {has.lab}"
    run = f"lane {has.lane} of {lab}" if has.lane else f"a run of {lab} without a lane"
    disks = f"disks on {has.storage_class}, which does not use DRBD"
    answers = {
        Need("kubernetes"): (has.kubernetes, f"{lab} has no Kubernetes cluster"),
        Need("shell"): (has.shell, f"{pool} runs an image that nobody can log in to"),
        Need("gpu"): (has.gpu is not None, f"{pool} has no GPU, and one is needed"),
        Need("no-gpu"): (has.gpu is None, f"{pool} has a GPU ({has.gpu}), and none may be there"),
        Need("nvidia"): (has.nvidia, f"{pool} has no NVIDIA driver, and one is needed"),
        Need("modules"): (has.modules, f"{pool} calls for no kernel module"),
        Need("storage", "drbd"): (has.replicas > 0, f"{pool} has its {disks}"),
        Need("storage", "pair"): (has.replicas == PAIR, _no_pair(has)),
        Need("storage", "quorum"): (has.replicas >= QUORUM, _no_quorum(has)),
        Need("clone"): (has.clone, f"{pool} downloads its disks: no golden image is cloned"),
        Need("linstor"): (has.linstor, f"{lab} says nothing of LINSTOR's controller"),
        Need("platform"): (has.platform, f"{run} lets nobody edit the platform's catalogue"),
        Need("disruption"): (has.disruption, _no_disruption(has, run)),
        Need("console"): (has.console, f"{lab} gives no serial console"),
        Need("ssh"): (has.ssh, f"{lab} names no host with an SSH key"),
        Need("soak"): (has.soak, f"{run} has no soak, so no node grows old enough"),
    }
    for card in CARDS:
        because = f"{pool} has {has.gpu or 'no GPU'}, and {card} is needed"
        answers[Need("gpu", card)] = (has.gpu == card, because)
    met, because = answers[need]
    return "" if met else because


def _no_disruption(has: Capabilities, run: str) -> str:
    who = run if has.disruptable else f"lab {has.lab}"
    return f"{who} lets nobody cut a link, switch a machine off or reboot it"


def _no_pair(has: Capabilities) -> str:
    pool = f"pool {has.pool} of lab {has.lab}"
    if has.replicas >= QUORUM:
        return (
            f"{pool} has {has.replicas} DRBD replicas, whose quorum keeps two from going on apart"
        )
    return f"{pool} has no two DRBD replicas"


def _no_quorum(has: Capabilities) -> str:
    if has.kubernetes:
        return f"pool {has.pool} of lab {has.lab} has {has.replicas} DRBD replicas, 3 make a quorum"
    return f"lab {has.lab} has DRBD 8.4, which knows no quorum and no third node"
