"""What holds for anything that may lie in a folder: bytes of any sort, captures cut anywhere."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.diagnose.case import Case, Thing
from harness.diagnose.reading import describe_unused, read_folder
from harness.facts.objects import at_path
from tests.diagnose.reading.reading_files import CAPTURES, REAL, within

# pieces that steer noise into every reader
PIECES = st.sampled_from(
    [
        "$ kubectl get pods -A\n",
        "$ kubectl get ds -n kube-system -o yaml\n",
        "n1# cat /proc/modules\n",
        "[exit 0]\n",
        "[exit 1]\n",
        "No resources found in default namespace.\n",
        "No resources found\n",
        "NAMESPACE   NAME   READY   STATUS    RESTARTS   AGE\n",
        "NAME   READY   STATUS   RESTARTS   AGE\n",
        "default     web    1/1     Running   0          5m\n",
        "apiVersion: v1\nkind: List\nitems:\n",
        "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n    uid: b\n",
        "kind: List\nmetadata:\n  resourceVersion: ''\n",
        '{"apiVersion": "v1", "items": [',
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "uid": "b"}}',
        "]}",
        "---\n",
        "Name:         x\nNamespace:    y\nLabels:       <none>\n",
        "API Version:  kubevirt.io/v1\nKind:         VirtualMachine\nStatus:\n  Conditions:\n",
        "Events:  <none>\n",
        "[    0.000000] Linux version 6.1.0\n",
        "nvidia 16384 0 - Live 0xffffffffc0314000 (OE)\n",
        "| Node | NodeType | State |\n|===|\n| n1 | SATELLITE | Online |\n+----+\n",
        "\x1b[31m",
        "\r\n",
        "\0",
        "\b\b",
        "&a [*a, *a]\n",
        "<<: *a\n",
        "key: 0o7\nother: 2020-01-01\n",
        "\ufeff",
    ]
)
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=14).map("".join)
NOISE = st.one_of(
    st.binary(max_size=300),
    TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")),
    TEXTS.map(lambda text: text.encode("utf-16", "replace")),
    st.tuples(
        st.sampled_from([b"\x1f\x8b\x08", b"PK\x03\x04", b"\x89PNG\r\n\x1a\n"]), st.binary()
    ).map(b"".join),
)


def case_of(*contents: bytes, names: tuple[str, ...] = ("a.txt", "b.yaml")) -> Case:
    with tempfile.TemporaryDirectory() as directory:
        for name, content in zip(names, contents, strict=False):
            Path(directory, name).write_bytes(content)
        return read_folder(Path(directory))


@given(st.binary(max_size=2000))
def test_bytes_of_any_sort_are_no_listing_and_raise_nothing(content: bytes) -> None:
    case = case_of(content)
    assert case.listings == ()
    describe_unused(case)


@given(NOISE, NOISE)
@settings(max_examples=150)
def test_noise_raises_nothing_and_reads_the_same_twice(first: bytes, second: bytes) -> None:
    case = case_of(first, second)
    assert case_of(first, second) == case
    for said in describe_unused(case):
        said.encode("utf-8")
        assert "\n" not in said


CUTTABLE = sorted(path.name for path in CAPTURES.iterdir())


@cache
def whole(name: str) -> tuple[bytes, Case]:
    content = (CAPTURES / name).read_bytes()
    return content, case_of(content, names=(name,))


@pytest.mark.parametrize("name", CUTTABLE)
@given(data=st.data())
@settings(max_examples=25)
def test_a_cut_capture_gives_nothing_that_the_whole_does_not(
    name: str, data: st.DataObject
) -> None:
    content, full = whole(name)
    cut = data.draw(st.integers(0, len(content)))
    case = case_of(content[:cut], names=(name,))
    known = [(one.kind, one.namespace, one.source) for one in full.listings]
    assert all((one.kind, one.namespace, one.source) in known for one in case.listings)
    for thing in case.objects:
        origin = [
            other
            for other in full.objects
            if (other.kind, other.name, other.source) == (thing.kind, thing.name, thing.source)
        ]
        assert any(shown_is_whole(thing, other) for other in origin), (cut, thing)


def shown_is_whole(thing: Thing, origin: Thing) -> bool:
    """Whether a thing says no more than where it is from, and what it says to be whole is."""
    if thing.shown is None:
        return thing.obj == origin.obj
    return within(thing.obj, origin.obj) and all(
        same(at_path(thing.obj, *path), at_path(origin.obj, *path)) for path in thing.shown
    )


def same(one: Any, other: Any) -> bool:
    return bool(one == other)


@pytest.mark.skipif(not REAL.is_dir(), reason=f"the captures of real machines are not at {REAL}")
@pytest.mark.parametrize("name", sorted(path.name for path in REAL.glob("*.txt")) or ["none"])
def test_every_capture_of_a_real_machine_is_read_without_objects_or_listings(name: str) -> None:
    case = case_of((REAL / name).read_bytes(), names=(name,))
    assert case.objects == ()
    assert case.listings == ()
    assert case.texts
