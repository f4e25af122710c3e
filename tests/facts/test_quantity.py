from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.quantity import bytes_of, told


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("20Gi", 20 * 2**30),
        ("20G", 20 * 10**9),
        ("1.5Gi", 3 * 2**29),
        ("1Ki", 1024),
        ("1k", 1000),
        ("7", 7),
        ("0", 0),
        ("1e3", 1000),
        ("12E2", 1200),
        ("1E", 10**18),
        ("2Ei", 2**61),
        ("500m", 1),
        ("1e-1", 1),
        (".5Ki", 512),
        (4096, 4096),
    ],
)
def test_amounts_in_bytes(text: Any, amount: int) -> None:
    assert bytes_of(text) == amount


def test_a_bare_zero_is_an_amount() -> None:
    assert bytes_of(0) == 0


@pytest.mark.parametrize(
    "text", ["", "Gi", "20 Gi", "20GI", "20gi", "-1", "1e999", "20Gi\n", "٢Gi", None, True, -4, 1.5]
)
def test_what_is_no_amount(text: Any) -> None:
    assert bytes_of(text) is None


@given(st.one_of(st.text(), st.integers(), st.none(), st.floats(), st.booleans()))
def test_nothing_is_an_error(text: Any) -> None:
    found = bytes_of(text)
    assert found is None or found >= 0


@given(st.integers(min_value=0, max_value=10**12), st.sampled_from(["Ki", "Mi", "Gi", "Ti"]))
def test_binary_is_larger_than_decimal(number: int, suffix: str) -> None:
    binary, decimal = (
        bytes_of(f"{number}{suffix}"),
        bytes_of(f"{number}{suffix[0].replace('K', 'k')}"),
    )
    assert binary is not None
    assert decimal is not None
    assert binary >= decimal
    assert (binary == decimal) == (number == 0)


def test_an_amount_is_told_with_its_bytes() -> None:
    assert told(20 * 2**30) == "20Gi (21474836480 bytes)"
    assert told(20 * 10**9) == "20000000000 bytes"
    assert told(None) == "an unknown size"
