from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.fingerprint import (
    CUT,
    EMPTY,
    JSON,
    LONGEST,
    TEXT,
    form_of,
    pattern_of,
    source_pattern,
    what_was_asked,
)

CAPTURES = Path(__file__).resolve().parents[2].parent / "shared" / "lab" / "captures"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "nvidia_drm 16384 0 - Live 0xffffffffc0327000 (OE)",
            "nvidia 56807424 14 nvidia_uvm,nvidia_modeset, Live 0x0000000000000000 (POE)",
        ),
        (
            " 0: cs:Connected ro:Secondary/Secondary ds:UpToDate/UpToDate C r-----",
            " 1: cs:WFConnection ro:Primary/Unknown ds:Inconsistent/DUnknown C r-s---",
        ),
        ("version: 8.4.11 (api:1/proto:86-101)", "version: 9.2.14 (api:2/proto:118-122)"),
        ("2026-11-30T08:20:23.088793+00:00 exists -", "2027-01-02T23:00:00.000001+02:00 exists -"),
        ("ef963e3e-3a01-4feb-ae6f-a14443ef8bf2", "2ae2ba0c-b128-4dd0-9738-25cce1b10e81"),
        ("EnablePCIeGen3: 0", "DeviceFileMode: 438"),
        ("NvLinkDisable: 1", "ResmanDebugLevel: 4294967295"),
        ("GPU 0: NVIDIA L40S (UUID: GPU-1)", "GPU 1: NVIDIA RTX PRO 6000 Edition (UUID: GPU-2)"),
        ("GPU 0: Stub (UUID: GPU-1)", "GPU 1: NVIDIA RTX PRO 6000 Edition (UUID: GPU-2)"),
        ("filename: /lib/modules/6.1.0-57/a.ko", "filename: /var/x.ko"),
    ],
)
def test_what_one_program_writes_has_one_pattern(one: str, other: str) -> None:
    assert pattern_of(one) == pattern_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("nvidia 16384 0 - Live 0xffffffffc0327000 (OE)", "nvidia 16384 0 - Live 0xffffffffc0327"),
        ("nvidia 16384 0 - Live 0xffffffffc0327000", "nvidia 16384 - Live 0xffffffffc0327000"),
        ("disk:UpToDate", "disk: UpToDate"),
        ("disk:UpToDate", "disk-state:UpToDate"),
        ("oos:12", "oos:twelve"),
        ("[  12.5] a", "<6>[  12.5] a"),
        ("role:Primary", "role:primary"),
    ],
)
def test_another_form_is_another_pattern(one: str, other: str) -> None:
    a, b = (form_of([text])[TEXT] for text in (one, other))
    assert pattern_of(one) != pattern_of(other) or a.parts != b.parts


def test_a_line_of_keys_is_its_keys() -> None:
    form = form_of(["      size:65496 read:0 written:0\n", "   size:1 read:9\n"])[TEXT]
    assert set(form.parts) == {"size:<number>", "read:<number>", "written:<number>"}
    assert form.always == {"size:<number>", "read:<number>"}
    assert form.parts["read:<number>"] == "size:65496 read:0 written:0"


def test_json_is_paths_and_types() -> None:
    text = json.dumps({"a": [{"b": 1, "c": None}, {"b": "x"}], "notes": {"k8s.io/x": True}})
    form = form_of([text])[JSON]
    assert set(form.parts) == {"a[].b: number", "a[].b: text", "notes.<key>: truth"}
    assert form.parts["a[].b: number"] == "a[].b = 1"


def test_what_tells_nothing() -> None:
    assert set(form_of(["", " \n"])) == {EMPTY}
    assert set(form_of(['{"a": [1, '])) == {CUT}
    assert set(form_of(["[   12.5] not JSON\n"])) == {TEXT}


def test_a_log_is_known_by_the_beginnings_of_its_lines() -> None:
    said = ["module %s is here", "a: (b) = %s", "%s!", "x/y %s", "no %s.", "%s, %s", "<%s>", "q=%s"]
    lines = [f"12:30:01 {text.replace('%s', 'foo')}" for text in said]
    form = form_of(["\n".join(lines)])[TEXT]
    assert form.free
    assert "<time> <name>: (<name>) = <name>" in form.parts
    assert "<time> <name>:" in form.heads().parts
    assert all(part.count(" ") <= 1 for part in form.heads().parts)
    table = "".join(f"m{n} 1 0 - Live 0x{n:x}\n" for n in range(20))
    assert not form_of([table])[TEXT].free


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("guest hil-gpu-x7k2p:/proc/modules", "guest n1:/proc/modules"),
        ("management Pod tenant-hil/virt-launcher-a", "management Pod tenant-b/other"),
        ("tenant lab Node kubernetes-lab-plain-5bxdf", "tenant lab Node n1"),
        ("guest a:dd if=/dev/urandom of=/dev/drbd0", "guest b:dd if=/x of=/dev/drbd1000"),
        ("guest n1: boot id and uptime", "guest other-name: boot id and uptime"),
        ("tenant lab Pod a/b-1:nvidia-smi -L", "tenant lab Pod c/d-2:nvidia-smi -L"),
        ("guest n1 container hil-1:nvidia-smi -L", "guest n2 container other:nvidia-smi -L"),
    ],
)
def test_a_source_is_the_same_for_whomever(one: str, other: str) -> None:
    assert source_pattern(one) == source_pattern(other)


def test_another_place_is_another_source() -> None:
    places = ["guest n1:/proc/modules", "guest n1:/proc/drbd", "host n1:/proc/drbd"]
    commands = ["guest n1:drbdsetup status --json", "guest n1:drbdsetup status"]
    patterns = {source_pattern(one) for one in [*places, *commands]}
    assert len(patterns) == 5


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("guest n1:/proc/modules", "/proc/modules"),
        ("tenant lab Pod a/b:nvidia-smi -L", "nvidia-smi -L"),
        ("guest n1 container b:nvidia-smi -L", "nvidia-smi -L"),
        ("management HelmRelease ns/name", "management HelmRelease <namespace>/<name>"),
    ],
)
def test_what_was_asked_is_told_from_the_way_to_it(source: str, asked: str) -> None:
    assert what_was_asked(source_pattern(source)) == asked


@given(st.text(max_size=200))
def test_no_text_is_too_strange(text: str) -> None:
    for form in form_of([text]).values():
        assert all(len(told) <= LONGEST + 3 for told in form.parts.values())
    source_pattern(text)


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="the captures are not beside this checkout")
def test_real_states_of_one_version_have_keys_in_common() -> None:
    """Two moments of one DRBD: whatever has changed, its keys are those of the other."""
    texts = [
        (CAPTURES / f"drbd84_{name}.txt").read_text()
        for name in ("05_both_secondary", "04_uptodate_uptodate")
        if (CAPTURES / f"drbd84_{name}.txt").exists()
    ]
    assert texts
    keys = [
        {part for part in form_of([text])[TEXT].parts if part.startswith(("disk:", "oos:"))}
        for text in texts
    ]
    assert all(one == keys[0] and one for one in keys)
