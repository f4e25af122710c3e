from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.pci import PciCard, PciCards, addresses, id_files, read_cards
from harness.facts.reply import Output

FOUND = ("0000:07:00.0", "0000:08:00.0")


def listing(stdout: str, exit_code: int | None = 0) -> object:
    return addresses(Output(("ls",), exit_code, stdout), at=1.0, source="guest w1")


def cards(stdout: str, exit_code: int | None = 0) -> object:
    return read_cards(FOUND, Output(("cat",), exit_code, stdout), at=1.0, source="guest w1")


def test_addresses_are_listed() -> None:
    assert listing("0000:07:00.0\n0000:08:00.0\n") == FOUND


@pytest.mark.parametrize("text", ["", "0000:07:00.0\nls: cannot access\n", "0000:07:00"])
def test_what_is_no_listing(text: str) -> None:
    assert isinstance(listing(text), Unread)


def test_a_listing_without_an_exit_status_is_none() -> None:
    assert isinstance(listing("0000:07:00.0\n", None), Unread)


def test_each_function_has_two_files() -> None:
    assert id_files(FOUND[:1]) == [
        "/sys/bus/pci/devices/0000:07:00.0/vendor",
        "/sys/bus/pci/devices/0000:07:00.0/device",
    ]


def test_only_nvidia_functions_are_cards() -> None:
    found = cards("0x1af4\n0x1042\n0x10de\n0x26b9\n")
    assert isinstance(found, PciCards)
    assert found.cards == (PciCard("0000:08:00.0", "10de", "26b9"),)
    assert found.cards[0].pci_id == "10de:26b9"
    assert found.devices == 2


def test_a_bus_without_cards_is_an_answer() -> None:
    found = cards("0x1af4\n0x1042\n0x1af4\n0x1041\n")
    assert isinstance(found, PciCards)
    assert found.cards == ()


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("0x1af4\n0x1042\n0x10de\n", "3 lines for 4 ids"),
        ("0x1af4\n0x1042\n0x10de\n26b9\n", "'26b9'"),
        ("0x1af4\n0x1042\n0x10de\n0x26b9\n0x26b9\n", "5 lines"),
        ("", "0 lines"),
    ],
)
def test_what_does_not_fit_the_files(text: str, quoted: str) -> None:
    found = cards(text)
    assert isinstance(found, Unread)
    assert quoted in found.reason


def test_one_unreadable_file_makes_no_shorter_list() -> None:
    assert isinstance(cards("0x1af4\n0x1042\n0x10de\n", 1), Unread)


@given(st.text(), st.sampled_from([0, 2, None]))
def test_any_text_is_read_or_unread(text: str, exit_code: int | None) -> None:
    assert isinstance(listing(text, exit_code), tuple | Unread)
    assert isinstance(cards(text, exit_code), PciCards | Unread)
