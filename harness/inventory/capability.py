"""What a scenario needs, what a pool in a lab has, and what is missing between the two."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import get_args

from harness.inventory.models import Card, Lab
from harness.inventory.suggest import choice

CARDS: tuple[str, ...] = get_args(Card)
TERMS: tuple[str, ...] = (
    "gpu",
    *(f"gpu={card}" for card in CARDS),
    "no-gpu",
    "storage=drbd",
    "console",
    "ssh",
    "soak",
)
"""Every need that can be written, in full."""


class NeedError(ValueError):
    """A need that no lab can understand or meet: a mistake in the scenario, not a lack."""


@dataclass(frozen=True, slots=True)
class Need:
    """One need: a term, and its value for ``term=value`` ("" without one)."""

    term: str
    value: str = ""

    def __str__(self) -> str:
        return f"{self.term}={self.value}" if self.value else self.term


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one pool of one lab has.

    ``gpu`` is the card's key, None without one; ``cards`` counts them for each worker; ``drbd``
    is whether the system disk's StorageClass replicates through DRBD; ``console`` is a serial
    console through KubeVirt; ``ssh`` is a hypervisor host that can be logged in to; ``soak`` is
    whether the run's lane lets a node grow old, ``lane`` its name, "" for none.
    """

    lab: str
    pool: str
    gpu: str | None
    cards: int
    storage_class: str
    drbd: bool
    console: bool
    ssh: bool
    soak: bool = False
    lane: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """A need that is not met; ``because`` is one sentence on what the pool has instead."""

    need: str
    because: str

    def __str__(self) -> str:
        return self.because


def capabilities(lab: Lab, pool: str, *, lane: str = "") -> Capabilities:
    """What the pool of this name has in this lab, in a run of this lane ("" for none).

    KeyError when the lab has no such pool.
    """
    asked = lab.pools[pool]
    run = lab.lanes.get(lane)
    return Capabilities(
        lab=lab.name,
        pool=pool,
        gpu=asked.gpu,
        cards=asked.cards,
        storage_class=asked.storage_class,
        drbd=lab.storage_classes[asked.storage_class].drbd,
        console=lab.console,
        ssh=lab.hands_out_keys or any(host.ssh is not None for host in lab.hosts),
        soak=run is not None and run.soak is not None,
        lane=lane,
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
    return tuple(pool for pool in lab.pools if not match(needs, capabilities(lab, pool)))


def _lack(need: Need, has: Capabilities) -> str:
    pool, lab = f"pool {has.pool} of lab {has.lab}", f"lab {has.lab}"
    run = f"lane {has.lane} of {lab}" if has.lane else f"a run of {lab} without a lane"
    disks = f"disks on {has.storage_class}, which does not use DRBD"
    answers = {
        Need("gpu"): (has.gpu is not None, f"{pool} has no GPU, and one is needed"),
        Need("no-gpu"): (has.gpu is None, f"{pool} has a GPU ({has.gpu}), and none may be there"),
        Need("storage", "drbd"): (has.drbd, f"{pool} has its {disks}"),
        Need("console"): (has.console, f"{lab} gives no serial console"),
        Need("ssh"): (has.ssh, f"{lab} names no host with an SSH key"),
        Need("soak"): (has.soak, f"{run} has no soak, so no node grows old enough"),
    }
    for card in CARDS:
        because = f"{pool} has {has.gpu or 'no GPU'}, and {card} is needed"
        answers[Need("gpu", card)] = (has.gpu == card, because)
    met, because = answers[need]
    return "" if met else because
