from __future__ import annotations

import json
from typing import Any

import pytest

from harness.facts.metrics import NoResult, Series, read_result


def answer(kind: str, *result: Any) -> str:
    data = {"resultType": kind, "result": list(result)}
    return json.dumps({"status": "success", "data": data})


def test_a_vector_has_one_point_a_series() -> None:
    text = answer("vector", {"metric": {"node": "w1"}, "value": [10.5, "12800"]})
    assert read_result(text) == (Series({"node": "w1"}, ((10.5, 12800.0),)),)


def test_a_matrix_has_several() -> None:
    text = answer("matrix", {"metric": {}, "values": [[1, "2"], [2, "+Inf"]]})
    assert read_result(text) == (Series({}, ((1.0, 2.0), (2.0, float("inf")))),)
    assert read_result(answer("matrix")) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no JSON"),
        ("<html>", "no JSON"),
        ("[]", "another shape"),
        ('{"data": {"resultType": "matrix"}}', "another shape"),
        (answer("scalar", 1), "neither vector nor matrix"),
        (answer("vector", {"metric": {}}), "another shape"),
        (answer("vector", {"metric": {}, "value": [1]}), "another shape"),
        (answer("vector", {"metric": {}, "value": [1, "many"]}), "another shape"),
        (answer("matrix", {"metric": [], "values": []}), "another shape"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_what_is_no_result_is_quoted(text: str, said: str) -> None:
    with pytest.raises(NoResult, match=said):
        read_result(text)
