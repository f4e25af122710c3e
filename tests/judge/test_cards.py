from __future__ import annotations

import pytest

from harness.judge.cards import card_kind


@pytest.mark.parametrize(
    ("pci_id", "generation", "flavours"),
    [
        ("10de:26b9", "Ada", ("open", "proprietary")),
        ("10de:2bb5", "Blackwell", ("open",)),
        ("10DE:2BB5", "Blackwell", ("open",)),
        ("10de:2bb1", "Blackwell", ("open",)),
        ("10de:2bb4", "Blackwell", ("open",)),
        ("10de:2bb3", "Blackwell", ("open",)),
        ("10de:2bb9", "Blackwell", ("open",)),
        ("10de:2b85", "Blackwell", ("open",)),
        ("10de:2b87", "Blackwell", ("open",)),
        ("10de:2b8c", "Blackwell", ("open",)),
    ],
)
def test_a_card_and_what_drives_it(pci_id: str, generation: str, flavours: tuple[str, ...]) -> None:
    found = card_kind(pci_id)
    assert found is not None
    assert (found.generation, found.flavours, found.nvlink) == (generation, flavours, False)


@pytest.mark.parametrize("pci_id", ["", "10de:2330", "1002:26b9"])
def test_a_card_that_the_table_lacks(pci_id: str) -> None:
    assert card_kind(pci_id) is None
