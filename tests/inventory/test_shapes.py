from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.inventory import check
from harness.inventory.shapes import Duration, Quantity


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("29m", 1740), ("2h", 7200), ("1h30m", 5400), ("1m1s", 61)]
)
def test_durations(text: str, seconds: int) -> None:
    assert Duration(text).seconds == seconds
    assert str(Duration(text)) == text


@pytest.mark.parametrize(
    "text", ["", "90", "m", "0s", "0h0m", "1d", "-1s", "1.5h", "30m1h", "٣s", "1s\n"]
)
def test_no_durations(text: str) -> None:
    with pytest.raises(ValueError, match="its unit"):
        Duration(text)


@pytest.mark.parametrize(
    ("text", "size"), [("20Gi", 20 * 2**30), ("20G", 20 * 10**9), ("1Ki", 1024), ("7", 7)]
)
def test_quantities(text: str, size: int) -> None:
    assert Quantity(text).bytes == size


@pytest.mark.parametrize(
    "text", ["", "0Gi", "20GB", "20GiB", "20gi", "-1Gi", "1.5Gi", "1 Gi", "1Gi\n"]
)
def test_no_quantities(text: str) -> None:
    with pytest.raises(ValueError, match="size in bytes"):
        Quantity(text)


@given(st.text(max_size=8))
def test_any_text_is_a_duration_or_a_value_error(text: str) -> None:
    try:
        assert Duration(text).seconds > 0
    except ValueError as error:
        assert "duration" in str(error)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("talosVersion", "1.13.6"),
        ("talosVersion", "v1.13"),
        ("talosVersion", "v1.13.6\n"),
        ("kubernetesVersion", "v1.35.1"),
        ("diskSize", "20GB"),
        ("joinBudget", 1740),
        ("joinBudget", "29 m"),
        ("replicas", 0),
        ("replicas", True),
        ("replicas", 2.0),
        ("shellImage", "busy box"),
        ("osImage", "golden"),
        ("kernelModules", [{"name": "NVIDIA"}]),
        ("kernelModules", [{"name": "nvidia", "parameters": ["a b"]}]),
        ("kernelModules", [{"name": "nvidia", "parameters": ["a='b'"]}]),
        ("kernelModules", [{"name": "nvidia", "parameters": ["a=$b"]}]),
        ("kernelModules", [{"name": "nvidia", "parameters": ["a\u2028b"]}]),
        ("kernelModules", "nvidia"),
    ],
)
def test_values_of_another_shape_are_refused(
    put: Callable[[Any], Path], small: dict[str, Any], key: str, value: Any
) -> None:
    small["pools"]["cards"][key] = value
    told = [problem.path for problem in check(put(small))]
    assert len(told) == 1
    assert told[0].startswith(f"pools.cards.{key}")


def test_a_parameter_may_hold_semicolons(put: Callable[[Any], Path], small: dict[str, Any]) -> None:
    parameter = "NVreg_RegistryDwords=a=1;b=2"
    small["pools"]["cards"]["kernelModules"] = [{"name": "nvidia", "parameters": [parameter]}]
    assert check(put(small)) == []
