"""Which pools of one run may stand at the same time, and which only one after the other.

Where each pool has a lab of its own, all may. On one lab that pools share, those that draw on the
same cards take turns: how many cards there are is known to the lab alone, and a pool whose cards
another has waits for its workers in vain. Where the run takes machines away, or edits the
platform's golden catalogue, all take turns: what one pool does there another would be blamed for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.claims.catalogue import Claim
from harness.claims.catalogue import load as load_claims
from harness.session.attaching import embedded
from harness.session.choice import Choice

LAB_WIDE = {
    "disruption": "takes machines of the lab away",
    "platform": "edits the platform's golden catalogue",
}
"""Needs of claims whose scenarios change what all pools of a lab share, and what they do."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Pools that take turns, in the inventory's order, and why; one alone waits for nobody."""

    pools: tuple[str, ...]
    why: str = ""


def shared(choice: Choice, *, attached: bool) -> bool:
    """Whether the pools of a run are on one lab, neither on a twin of their own nor on guests."""
    lab = choice.inventory
    return lab.kind != "qemu" and not embedded(lab, attached=attached)


def turns(choice: Choice, *, attached: bool) -> tuple[Turns, ...]:
    """Every pool of the run, in sets of which one pool at a time may stand."""
    pools = choice.pools
    if not shared(choice, attached=attached):
        return tuple(Turns((pool,)) for pool in pools)
    lab_wide = _lab_wide(choice)
    if lab_wide and len(pools) > 1:
        return (Turns(tuple(pools), lab_wide),)
    sets: dict[str, list[str]] = {}
    for pool in pools:
        card = choice.inventory.card(pool)
        sets.setdefault(card.resource_name if card else f"pool {pool}", []).append(pool)
    return tuple(
        Turns(tuple(some), f"the same cards, {what}" if len(some) > 1 else "")
        for what, some in sets.items()
    )


def _lab_wide(choice: Choice) -> str:
    """What the run does to what all pools share, "" for nothing."""
    asked = {pool: _asked(choice, pool) for pool in choice.pools}
    done = [
        f"{what} ({', '.join(names)})"
        for need, what in LAB_WIDE.items()
        if (names := [pool for pool, claims in asked.items() if _needs(claims, need)])
    ]
    return f"this run {' and '.join(done)}" if done else ""


def _asked(choice: Choice, pool: str) -> list[Claim]:
    claims = [claim for claim in load_claims().values() if choice.asks(claim.id)]
    return [claim for claim in claims if not choice.missing([claim], pool)]


def _needs(claims: Sequence[Claim], need: str) -> bool:
    return any(need in claim.needs for claim in claims)
