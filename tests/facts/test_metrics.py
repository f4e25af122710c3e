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
    ("more", "said"),
    [
        ({"isPartial": True}, "partial"),
        ({"warnings": ["store 10.0.0.7 did not answer"]}, "store 10.0.0.7 did not answer"),
        ({"warnings": "x" * 500}, "^the answer comes with warnings: x{120}$"),
    ],
)
def test_an_answer_that_may_lack_something_is_none(more: Any, said: str) -> None:
    text = json.dumps(json.loads(answer("matrix")) | more)
    with pytest.raises(NoResult, match=said):
        read_result(text)


def test_an_answer_that_lacks_nothing_may_say_so() -> None:
    whole = {"isPartial": False, "warnings": [], "infos": ["PromQL info: a name"], "trace": {}}
    assert read_result(json.dumps(json.loads(answer("matrix")) | whole)) == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no JSON"),
        ('{"data": {"resultType": "vector", "result": ["up"]}}', "another shape"),
        ('{"data": {"resultType": "vector", "result": [[1]]}}', "another shape"),
        (answer("vector", {"metric": {}, "value": [10**400, "1"]}), "another shape"),
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
