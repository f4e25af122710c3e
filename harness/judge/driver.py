"""Claims about the driver on a worker: whether it sees the cards."""

from __future__ import annotations

from harness.facts.fact import Unread
from harness.facts.nvidia import SmiCards, SmiFailed
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, outcome, unread


def driver_sees_gpu(smi: SmiCards | SmiFailed | Unread, cards: int, subject: str) -> Verdict:
    """driver-sees-gpu: nvidia-smi -L lists as many cards as the pool asked for.

    Each listed card has its model and UUID, else the reply would be Unread. Unknown where no card
    was asked for.
    """
    claim = "driver-sees-gpu"
    if isinstance(smi, Unread):
        return unread(claim, subject, smi)
    if cards < 1:
        because = "the pool asked for no card, so there is none to see"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, (smi,))
    if isinstance(smi, SmiFailed):
        because = f"the driver does not answer: {smi.reason}; expected {counted(cards, 'card')}"
        return Verdict(claim, subject, Outcome.BROKEN, because, (smi,))
    seen = ", ".join(f"{card.model} {card.uuid}" for card in smi.cards) or smi.note or "none"
    because = f"nvidia-smi -L lists {counted(len(smi.cards), 'card')} ({seen}), expected {cards}"
    return Verdict(claim, subject, outcome(len(smi.cards) == cards), because, (smi,))
