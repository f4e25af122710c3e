"""Which failures are the lab's: told apart from the product's, and never in its favour.

A lab that is unfit leaves claims unknown, seldom broken. A row is the lab's only where each finding
that does not hold is: its scenario ended with the lab lost or never had; its pool's host went away
and nothing is broken by it; or its workers could not be made because others had the cards. Whatever
else is broken stays the product's, whatever happened to the lab beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.report.ledger import LedgerView
    from harness.report.outcome import Finding

NO_LAB = "lab unfit"
"""How a scenario ends whose lab could not be had, or was lost on the way."""
OF_THE_LAB = ("golden-ready", "headroom")
"""Claims about the lab and not the product: broken ones are why a pool is refused."""
CARDS_TAKEN = "cards-taken"
"""Kind of the note that others had a pool's cards before it was asked for."""
HOST_LOST = "host-lost"
"""Kind of the note that a host on which a pool ran went away, and nobody of the run did it."""
NEEDS_CARDS = ("node-joins", "passthrough")
"""Claims that are broken where a worker that asks for a card finds none."""
OURS = "the harness failed: "
"""How the reason begins where a bug of the harness left a claim unknown: never the lab's."""

_NO_CARD = re.compile(r"\bInsufficient [^\s,/]+/")
"""As kube-scheduler says that nodes lack an extended resource, whose name has a domain."""
_NO_WORKER = re.compile(r"\bworkers? joined\b|\bno disk yet\b")


@dataclass(frozen=True, slots=True)
class Environment:
    """What a ledger says of its lab: how scenarios ended, and the notes of each pool."""

    ends: Mapping[tuple[str, str], str]
    cards_taken: Mapping[str, str]
    host_lost: Mapping[str, str]

    def why(self, claim: str, pool: str, findings: Sequence[Finding]) -> str:
        """Why a row's failure is the lab's, a sentence; "" where it is not, or nothing failed."""
        failing = [one for one in findings if one.outcome.value != "holds"]
        reasons = [self._why(claim, pool, one) for one in failing]
        return reasons[0] if reasons and all(reasons) else ""

    def _why(self, claim: str, pool: str, finding: Finding) -> str:
        lost = self.ends.get((finding.scenario, pool)) == NO_LAB
        taken = self.cards_taken.get(pool, "")
        if finding.outcome.value == "broken":
            if claim in OF_THE_LAB and lost:
                return finding.because
            return taken if claim in NEEDS_CARDS and _for_want(finding.because) else ""
        if finding.outcome.value != "unknown" or finding.because.startswith(OURS):
            return ""
        if lost:
            return finding.because
        return (taken if _NO_WORKER.search(finding.because) else "") or self.host_lost.get(pool, "")


def _for_want(because: str) -> bool:
    """Whether all that a reason tells of workers is that the scheduler found no card for them: a
    worker that got one and stands elsewhere is the product's.
    """
    stuck = because.split(" got to ")[1:] or [because]
    return all(map(_NO_CARD.search, stuck)) and " became Ready " not in because


def environment_of(view: LedgerView) -> Environment:
    """Read what a ledger says of its lab."""
    ends = {(r.text("scenario"), r.text("pool")): r.text("outcome") for r in view.of("end")}
    return Environment(ends, _notes(view, CARDS_TAKEN), _notes(view, HOST_LOST))


def _notes(view: LedgerView, kind: str) -> dict[str, str]:
    """The notes of a kind, by the pool whose shard has them."""
    notes = [one for one in view.of("note") if one.text("kind") == kind]
    return {one.shard.removeprefix("pool-").partition(".")[0]: one.text("text") for one in notes}
