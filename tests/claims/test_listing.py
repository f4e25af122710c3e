from __future__ import annotations

import pytest

from harness.claims import listing, load


def test_the_list_has_every_claim(capsys: pytest.CaptureFixture[str]) -> None:
    assert listing.show("") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(f"{claim.id} {claim.sentence}" in text for claim in load().values())


def test_one_claim_is_told_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert listing.show("nvlink-param") == 0
    text = " ".join(capsys.readouterr().out.split())
    claim = load()["nvlink-param"]
    for part in (claim.sentence, claim.proof, claim.not_proof, claim.not_shown, "nvidia"):
        assert part in text


def test_an_unknown_claim_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert listing.show("nvlink-parm") == 2
    said = capsys.readouterr()
    assert said.out == "" and "did you mean 'nvlink-param'?" in said.err
