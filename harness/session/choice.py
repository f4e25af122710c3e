"""What the user asked of a run, checked: every mistake is one sentence with the nearest word."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.claims.catalogue import Claim, UnknownClaim
from harness.claims.catalogue import get as claim_of
from harness.claims.catalogue import load as load_claims
from harness.facts.poolstate import PoolState
from harness.inventory.capability import capabilities, match, parse_needs, window
from harness.inventory.loading import load
from harness.inventory.models import Lab
from harness.inventory.problems import InventoryError
from harness.inventory.shapes import Duration
from harness.inventory.suggest import nearest
from harness.session import states
from harness.session.attaching import embedded
from harness.session.mistake import UserMistake

RUN_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
"""A run's id names its directory, holds its leases and labels its pods."""


UNCHANGED = "unchanged-since"
"""The claim that is asked only where there is a record to compare with."""
NO_RECORD = "no recorded state was given to compare with: --against FILE"


@dataclass(frozen=True, slots=True)
class Choice:
    """A run's inventory and what of it is asked.

    ``against`` are the states that an earlier run recorded, by pool; None: none were given.
    """

    inventory: Lab
    sha256: str
    lane: str
    pools: tuple[str, ...]
    claims: tuple[str, ...]
    against: Mapping[str, PoolState] | None = None

    @property
    def soak(self) -> float:
        """How long each node must stay on one boot, in seconds; 0 where there is no such window."""
        return window(self.inventory, self.lane)

    @property
    def disruption(self) -> bool:
        """Whether the lane lets a run take machines away."""
        lane = self.inventory.lanes.get(self.lane)
        return lane is not None and lane.disruption

    def asks(self, claim: str) -> bool:
        """Whether this run asks a claim."""
        chosen = not self.claims or claim in self.claims
        lane = self.inventory.lanes.get(self.lane)
        return chosen and (lane is None or lane.asks(claim)) and not self.lacks_record(claim)

    def lacks_record(self, claim: str) -> bool:
        """Whether a claim is not asked for want of a record to compare with."""
        return claim == UNCHANGED and self.against is None

    def missing(self, claims: Sequence[Claim], pool: str) -> list[str]:
        """What a pool lacks of what the claims need, a sentence each."""
        has = capabilities(self.inventory, pool, lane=self.lane)
        needs = parse_needs(dict.fromkeys(need for claim in claims for need in claim.needs))
        lacks = [str(lack) for lack in match(needs, has)]
        compared = any(claim.id == UNCHANGED for claim in claims)
        if compared and pool not in (self.against or {}):
            lacks.append(f"no state of pool {pool} was recorded")
        return lacks

    def hardware(self, pool: str) -> str:
        """The name of the card a pool runs on, empty for none."""
        if self.inventory.kind == "qemu":
            return "QEMU guests"
        key = self.inventory.pools[pool].gpu
        return key.upper() if key else ""


def choose(
    path: Path,
    lane: str,
    pools: Sequence[str],
    claims: Sequence[str],
    against: Path | None = None,
    *,
    card: str = "",
    soak: str = "",
) -> Choice:
    """Load the inventory and check what was asked against it. Raises UserMistake.

    ``card`` leaves the pools with that card; ``soak`` ("93m") stands for the lane's own window.
    """
    try:
        lab = load(path, claims=load_claims())
    except InventoryError as wrong:
        raise UserMistake(str(wrong)) from wrong
    if lane and lane not in lab.lanes:
        raise UserMistake(_no_such("lane", lane, list(lab.lanes), path))
    if soak:
        lab = _soaking(lab, lane, soak)
    known = list(lab.lanes[lane].pools) if lane else list(lab.sets)
    if card:
        known = _with_card(lab, known, card, path)
    for pool in pools:
        if pool not in known:
            raise UserMistake(_no_such("pool", pool, known, path))
    for claim in claims:
        try:
            claim_of(claim)
        except UnknownClaim as unknown:
            raise UserMistake(str(unknown)) from unknown
        if lane and not lab.lanes[lane].asks(claim):
            raise UserMistake(f"lane {lane!r} of {path} leaves out the claim {claim!r}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    chosen = tuple(pool for pool in known if not pools or pool in pools)
    recorded = None if against is None else states.read(against, lab.name)
    choice = Choice(lab, digest, lane, chosen, tuple(claims), recorded)
    for claim in claims:
        if choice.lacks_record(claim):
            raise UserMistake(f"--claim {claim}: {NO_RECORD}")
    return choice


def _soaking(lab: Lab, lane: str, soak: str) -> Lab:
    """The inventory, with another window in the lane that was chosen."""
    if not lane:
        raise UserMistake(f"--soak {soak} is a lane's window: name one with --lane")
    try:
        window = Duration(soak)
    except ValueError as wrong:
        raise UserMistake(f"--soak {soak!r}: {wrong}") from wrong
    longer = lab.lanes[lane].model_copy(update={"soak": window})
    return lab.model_copy(update={"lanes": {**lab.lanes, lane: longer}})


def _with_card(lab: Lab, pools: Sequence[str], card: str, path: Path) -> list[str]:
    """The pools whose workers have that card, by its name in the inventory, however it is cased."""
    cards = {pool: lab.pools[pool].gpu for pool in pools if pool in lab.pools}
    known = sorted({key for key in cards.values() if key})
    if card.lower() not in (key.lower() for key in known):
        raise UserMistake(_no_such("card", card.lower(), known, path))
    return [pool for pool, key in cards.items() if key and key.lower() == card.lower()]


def refuse_misfit(
    choice: Choice,
    faults: Sequence[str],
    attach: Path | None,
    run_id: str,
    save_state: Path | None = None,
) -> None:
    """Raise UserMistake for what cannot be had together, or would be passed over in silence."""
    lab = choice.inventory
    _check_faults(faults, lab.kind)
    if save_state is not None:
        states.check_writable(save_state)
    option = "--save-state" if save_state is not None else "--against"
    of_standing = save_state is not None or choice.against is not None
    if lab.kind == "qemu" and of_standing:
        raise UserMistake(f"{option} is about pools of a cluster, and lab {lab.name} has none")
    if of_standing and embedded(lab, attached=attach is not None):
        raise UserMistake(
            f"{option} is about pools that stand already, and the embedded twin has none: use a "
            "running twin (--attach) or a real lab"
        )
    if run_id and not RUN_ID.fullmatch(run_id):
        raise UserMistake(
            f"--run-id {run_id!r}: letters, digits, '.', '_' and '-', not at an end, at most 63"
        )
    if attach is not None and lab.kind == "cluster":
        raise UserMistake(
            f"--attach is for a twin or guests that run already, and lab {lab.name} is a cluster: "
            "leave it out"
        )
    if lab.kind == "qemu":
        return
    if faults and attach is not None:
        raise UserMistake(
            f"--fault is for the embedded twin; this one runs already: hil twin fault {faults[0]}"
        )
    if faults and (lab.kind != "twin" or lab.management is not None):
        raise UserMistake(f"--fault is for the embedded twin, and lab {lab.name} is not it")


def _check_faults(names: Sequence[str], kind: str) -> None:
    if not names:
        return
    from harness.qemulab.faults import catalogue as of_guests
    from harness.twin.faults import catalogue as of_twin

    for name in names:
        try:
            (of_guests.find if kind == "qemu" else of_twin.find)(name)
        except (of_guests.UnknownFault, of_twin.UnknownFault) as unknown:
            raise UserMistake(str(unknown)) from unknown


def _no_such(what: str, name: str, known: Sequence[str], path: Path) -> str:
    near = nearest(name, known)
    hint = f"did you mean {near!r}?" if near else f"it has: {', '.join(known) or 'none'}"
    return f"{path} has no {what} {name!r}; {hint}"
