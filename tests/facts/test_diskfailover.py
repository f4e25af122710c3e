"""What a trial of a worker's disk reads: counters, checksums, a write's own record."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.diskfailover import Counters, counters, read_digest, read_span
from harness.facts.drbd import DrbdStatus
from harness.facts.fact import Origin, Unread

SUM = "ab" * 32


def status(raw: str) -> DrbdStatus:
    return DrbdStatus(Origin(1.0, "hv-1", raw), "hv-1", "9.2.14", ())


def test_counters_are_bytes_of_the_resource_named() -> None:
    devices = [{"volume": 0, "read": 3, "written": 8}]
    raw = json.dumps([{"name": "pvc-2"}, {"name": "pvc-1", "devices": devices}])
    assert counters(status(raw), "pvc-1") == Counters(3072, 8192)
    assert counters(status(raw), "pvc-2") == Counters()
    assert counters(status(raw), "pvc-3") == Counters()


@pytest.mark.parametrize(
    "raw",
    ["", "{", "[]", "7", '[{"name": "pvc-1", "devices": 3}]', '[{"name": "pvc-1", "devices": []}]',
     '[{"name": "pvc-1", "devices": [{"read": -1, "written": true}]}]'],
)  # fmt: skip
def test_counters_that_are_not_told_are_none(raw: str) -> None:
    assert counters(status(raw), "pvc-1") == Counters()
    assert counters(Unread(Origin(1.0, "x", ""), "it", "no"), "pvc-1") == Counters()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{SUM}  /host/var/a\n", SUM),
        (f"{SUM} */host/var/a\n", SUM),
        (f"{SUM}  /host/var/b\n", ""),
        (f"{SUM[:-1]}  /host/var/a\n", ""),
        ("sha256sum: can't open '/host/var/a': No such file or directory", ""),
        ("", ""),
    ],
)
def test_a_checksum_is_of_the_file_asked_for(text: str, found: str) -> None:
    assert read_digest(text, "/host/var/a") == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.50 3.00\n0\n72.25 9.00\n", (10.5, 0, 72.25)),
        ("10.50 3.00\n1\n", (10.5, 1, None)),
        ("10.50 3.00\n", (10.5, None, None)),
        ("", (None, None, None)),
        ("cat: no such file\n0\n", (None, 0, None)),
        ("10.50 3.00\nx\n72.25 9.00\n", (10.5, None, 72.25)),
    ],
)
def test_a_writes_own_record(text: str, found: object) -> None:
    assert read_span(text) == found


@given(st.text(max_size=60))
def test_no_text_breaks_the_readers(text: str) -> None:
    read_span(text)
    read_digest(text, "/a")
    counters(status(text), "pvc-1")
