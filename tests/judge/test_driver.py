from __future__ import annotations

import pytest

from harness import claims
from harness.facts.fact import Origin, Unread
from harness.facts.nvidia import SmiCard, SmiCards, SmiFailed
from harness.judge.driver import driver_sees_gpu

AT = Origin(1.0, "guest w1:nvidia-smi -L", "")
CARD = SmiCard(0, "NVIDIA L40S", "GPU-a")
NONE = SmiCards(AT, (), "No devices found")


@pytest.mark.parametrize(
    ("smi", "cards", "outcome", "said"),
    [
        (SmiCards(AT, (CARD,)), 1, "holds", "lists 1 card (NVIDIA L40S GPU-a), expected 1"),
        (SmiCards(AT, (CARD, CARD)), 2, "holds", "lists 2 cards"),
        (SmiCards(AT, (CARD,)), 2, "broken", "lists 1 card (NVIDIA L40S GPU-a), expected 2"),
        (SmiCards(AT, (CARD, CARD)), 1, "broken", "lists 2 cards"),
        (NONE, 1, "broken", "lists 0 cards (No devices found), expected 1"),
        (SmiFailed(AT, "Failed to initialize NVML"), 1, "broken", "answer: Failed to initialize"),
        (NONE, 0, "unknown", "asked for no card"),
        (SmiFailed(AT, "x"), 0, "unknown", "asked for no card"),
        (Unread(AT, "nvidia-smi -L", "ended with 127"), 1, "unknown", "ended with 127"),
    ],
)
def test_driver_sees_gpu(
    smi: SmiCards | SmiFailed | Unread, cards: int, outcome: str, said: str
) -> None:
    verdict = driver_sees_gpu(smi, cards, "node w1")
    assert (verdict.claim, verdict.subject) == ("driver-sees-gpu", "node w1")
    assert verdict.claim in claims.load()
    assert verdict.outcome == outcome
    assert said in verdict.because
    assert verdict.facts == (smi,)
