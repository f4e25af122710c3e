from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.guest import BootId, Uptime, read_boot_id, read_uptime
from harness.facts.reply import Output


def boot(text: str, exit_code: int | None = 0) -> object:
    return read_boot_id(Output(("cat",), exit_code, text), at=1.0, source="guest w1")


def up(text: str, exit_code: int | None = 0) -> object:
    return read_uptime(Output(("cat",), exit_code, text), at=1.0, source="guest w1")


@given(st.uuids())
def test_a_boot_id(boot_id: object) -> None:
    found = boot(f"{boot_id}\n")
    assert isinstance(found, BootId)
    assert found.boot_id == str(boot_id)


@given(st.integers(0, 10**9), st.integers(0, 99))
def test_an_uptime(seconds: int, hundredths: int) -> None:
    found = up(f"{seconds}.{hundredths:02} 12.50\n")
    assert isinstance(found, Uptime)
    assert found.seconds == pytest.approx(seconds + hundredths / 100)


@pytest.mark.parametrize("text", ["", "up 3 days", "12 13", "12.34\n", "9c6cd353-d611-4b30-910f\n"])
def test_neither(text: str) -> None:
    assert isinstance(boot(text), Unread)
    assert isinstance(up(text), Unread)


@given(st.text(), st.sampled_from([0, 1, None]))
def test_any_text(text: str, exit_code: int | None) -> None:
    assert isinstance(boot(text, exit_code), BootId | Unread)
    assert isinstance(up(text, exit_code), Uptime | Unread)


def test_a_failed_read_is_none() -> None:
    assert isinstance(up("12.34 1.00\n", 1), Unread)
    assert isinstance(boot("9c6cd353-d611-4b30-910f-c90ec5268979\n", None), Unread)
