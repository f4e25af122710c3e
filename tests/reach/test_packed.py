"""Objects as bytes: what goes in comes out, beats of a Node are small, the shelf is bounded."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reach.packed import Packed, Shelf, pack

TEXT = st.text(st.characters(codec=None), max_size=30)  # lone surrogates too: JSON may hold them
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda each: st.lists(each, max_size=4) | st.dictionaries(TEXT, each, max_size=4),
    max_leaves=6,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=6)


@settings(deadline=None)
@given(st.lists(OBJECTS, min_size=1, max_size=6))
def test_what_is_packed_can_be_read_whatever_came_before(objects: list[dict[str, object]]) -> None:
    kept: list[Packed] = []
    for obj in objects:
        kept.append(pack(obj, kept[-1] if kept else None))
    assert [each.obj for each in kept] == objects


def node(beat: int) -> dict[str, object]:
    images = [{"names": [f"registry/{n:064x}"], "sizeBytes": n} for n in range(60)]
    conditions = [{"type": kind, "lastHeartbeatTime": f"00:{beat:02}"} for kind in ("A", "B")]
    return {"metadata": {"name": "n", "resourceVersion": str(beat)}, "images": images} | {
        "status": {"conditions": conditions}
    }


def test_a_beat_is_a_small_difference_and_one_step_from_a_whole() -> None:
    first = last = pack(node(0))
    for beat in range(1, 60):
        last = pack(node(beat), last)
        assert last.base is first
        assert len(last.data) < 150
    assert last.obj == node(59)
    assert first.size == len(json.dumps(node(0), separators=(",", ":")))


def test_an_object_that_became_another_is_kept_whole() -> None:
    other = {"spec": [f"{n * 7919:x}" for n in range(500)]}
    assert pack(other, pack(node(0))).base is None


def test_a_shelf_keeps_what_was_looked_at_last_and_no_more() -> None:
    shelf = Shelf(3 * pack(node(0)).size)
    kept = [pack(node(n), None, shelf) for n in range(3)]
    parsed = [each.obj for each in kept]
    assert all(each.obj is obj for each, obj in zip(kept, parsed, strict=True))
    assert kept[0].obj is parsed[0]
    pack(node(9), None, shelf)
    assert kept[0].obj is parsed[0]
    assert kept[1].obj is not parsed[1]
    assert kept[1].obj == parsed[1]


def test_one_object_larger_than_the_shelf_is_kept_alone() -> None:
    shelf = Shelf(1)
    one = pack(node(0), None, shelf)
    assert one.obj is one.obj
    two = pack(node(1), None, shelf)
    assert shelf.get(one) is None
    assert shelf.get(two) == node(1)
