"""What somebody says was tested, against what was installed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from harness.report.platform import contradicted, said_version

PARTS = some.integers(0, 99)


@pytest.mark.parametrize(
    ("subject", "version"),
    [
        ("Cozystack v1.7.0", "v1.7.0"),
        ("cozystack 1.7.0", "v1.7.0"),
        ("Cozystack: V1.7.0.", "v1.7.0"),
        ("Cozystack-v1.7.0", "v1.7.0"),
        ("release-1.7.0", "v1.7.0"),
        ("v1.7", "v1.7.0"),
        ("Cozystack v1.7.0-rc.2", "v1.7.0-rc.2"),
        ("Cozystack v1.7.0-rc.2.", "v1.7.0-rc.2"),
        ("Cozystack v1.7.0-3-gabc1234", "v1.7.0-3-gabc1234"),
        ("Cozystack v0.0.0-nightly.20261130", "v0.0.0-nightly.20261130"),
        ("Cozystack v1.7.0 with Talos v1.13.6", "v1.7.0"),
        ("Talos v1.13.6 beneath Cozystack v1.7.0", "v1.7.0"),
        ("Cozystack v1.7.0, that is v1.7.0", "v1.7.0"),
        ("", ""),
        ("the December release", ""),
        ("v1.8.0, upgraded from v1.7.0", ""),
        ("Cozystack v1.8.0, upgraded from Cozystack v1.7.0", ""),
        ("build 1700 of 192.168.100.11", ""),
        ("Cozystack v1.7.0.1", ""),
        ("Cozystack v1.7.0-", ""),
        # right behind the product's version stands what makes it another, or one of several
        ("Cozystack v1.7.0/v1.8.0", ""),
        ("Cozystack v1.7.0 and v1.8.0", ""),
        ("Cozystack v1.7.0, 1.8.0", ""),
        ("Cozystack v1.6.0 -> v1.7.0", ""),
        ("Cozystack v1.6.0..v1.7.0", ""),
        ("Cozystack v1.7.0\u2013v1.8.0", ""),
        ("Cozystack v1.7.0\u2011rc.1", ""),
        ("Cozystack v1.7.0~rc1", ""),
        ("Cozystack v1.7.0 (RC 2)", ""),
        ("Cozystack v1.7.x", ""),
        ("1.7.*", ""),
        ("v1.7.x, v1.8.0", ""),
        ("Cozystack v1.7.0/Talos v1.13.6", "v1.7.0"),
        ("Cozystack v1.7.0, rcs of Talos left out", "v1.7.0"),
    ],
)
def test_the_version_that_a_subject_names(subject: str, version: str) -> None:
    assert said_version(subject) == version


def test_each_platform_is_held_against_it() -> None:
    assert list(contradicted("Cozystack v1.7.0", ["Cozystack v1.7.0"])) == []
    assert list(contradicted("Cozystack v1.7.0", [])) == []
    assert list(contradicted("v1.7.0", ["Cozystack v1.7.0", "Cozystack v1.6.0"])) == [
        "the platform installed is 'Cozystack v1.6.0', and not 'v1.7.0'"
    ]
    assert list(contradicted("soon", ["Cozystack v1.7.0"])) == [
        "'soon' names no single version to hold against the installed 'Cozystack v1.7.0'"
    ]


@given(some.tuples(PARTS, PARTS, PARTS), some.tuples(PARTS, PARTS, PARTS))
def test_two_versions_agree_only_where_they_are_one(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    said, installed = (".".join(map(str, parts)) for parts in (one, other))
    found = list(contradicted(f"Cozystack v{said}", [f"Cozystack v{installed}"]))
    assert (found == []) == (one == other)


@given(some.text())
def test_whatever_is_typed_is_read(subject: str) -> None:
    assert said_version(subject) in ("", said_version(said_version(subject)))
