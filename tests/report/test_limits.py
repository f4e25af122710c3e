from __future__ import annotations

import pytest

from harness.report.limits import limits


@pytest.mark.parametrize(
    ("kind", "said", "unsaid"),
    [
        ("twin", "every machine of this lab was simulated", "does not record"),
        ("", "does not record what kind of lab", "machine of this lab was"),
        ("cluster", "What no claim here asks", "simulated"),
    ],
    ids=["twin", "unknown", "cluster"],
)
def test_the_kind_of_lab_decides(kind: str, said: str, unsaid: str) -> None:
    text = " ".join(limits(kind, ["L40S"]))
    assert said in text
    assert unsaid not in text


def test_a_card_stands_for_itself_alone() -> None:
    text = " ".join(limits("cluster", ["L40S", "H100"]))
    assert "(L40S, H100)" in text and "does not carry" in text
    assert "Anything of a GPU" not in text


def test_no_card_shows_nothing_of_gpus() -> None:
    text = " ".join(limits("cluster", []))
    assert "Anything of a GPU" in text and "does not carry" not in text
