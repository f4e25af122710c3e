from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.headroom import ClassPlacement, Headroom
from harness.facts.reckoning import gib, places, reckon
from tests.facts.headroom_facts import AT, GIB, GIB_KIB, demand, free, headroom
from tests.facts.linstor_texts import diskless, node, nodes, pool, pools

PEAK = 82


def fits(found: Headroom) -> bool | None:
    return reckon(found).fits


@pytest.mark.parametrize(
    ("free_gib", "copies", "expected"),
    [
        ((PEAK, PEAK, PEAK), 3, True),
        ((PEAK, PEAK, PEAK - 0.001), 3, False),
        ((200, 200, None), 3, None),
        ((200, 10, None), 3, False),
        ((200, 200), 3, False),
        ((200, 200, 200, 10), 3, True),
        ((200, 200, 200, None), 3, True),
        ((200, 200, 10, 10), 3, False),
        ((200, 200, 41, 41), 3, None),
        ((200, 200, 41, 40), 3, False),
        ((0, 0, 0), 3, False),
        ((PEAK,), 1, True),
        ((50, 50), 1, None),
        ((10, 10), 1, False),
        ((), 3, False),
    ],
)
def test_as_many_nodes_as_copies_need_room(
    free_gib: tuple[float | None, ...], copies: int, *, expected: bool | None
) -> None:
    names = [f"n{number + 1}" for number in range(len(free_gib))]
    placement = ClassPlacement(AT, "replicated", "data", copies)
    found = headroom(
        copies=copies,
        placement=placement,
        known=nodes(*(node(name) for name in names)) if names else None,
        there=free(*free_gib),
    )
    assert fits(found) is expected


@given(st.lists(st.one_of(st.none(), st.integers(0, 200)), max_size=6), st.integers(1, 4))
def test_more_room_never_makes_it_worse(free_gib: list[int | None], copies: int) -> None:
    placement = ClassPlacement(AT, "replicated", "data", copies)
    known = nodes(*(node(f"n{number}") for number in range(1, 7)))

    def with_room(more: int) -> bool | None:
        there = free(*(None if one is None else one + more for one in free_gib))
        return fits(headroom(copies=copies, placement=placement, known=known, there=there))

    worth = {False: 0, None: 1, True: 2}
    assume(len(free_gib) > 0)
    assert worth[with_room(0)] <= worth[with_room(30)]
    assert (with_room(0) is True) <= (sum(one is not None for one in free_gib) >= copies)


def test_only_the_pools_of_the_class_on_nodes_that_are_online() -> None:
    found = headroom(
        known=nodes(
            node("n1"),
            node("n2", "OFFLINE"),
            node("n3", flags=["EVICTED"]),
            node("n4"),
            {"name": "n5"},
        ),
        there=pools(
            pool("n4", 7 * GIB_KIB),
            pool("n1", 9 * GIB_KIB),
            diskless("n1"),
            pool("n1", 1, pool_name="ssd"),
            pool("n2", 9 * GIB_KIB),
            pool("n3", 9 * GIB_KIB),
            pool("n5", 9 * GIB_KIB),
            pool("n6", 9 * GIB_KIB),
            pool("n7", 9, provider_kind="DISKLESS"),
        ),
    )
    assert list(map(str, places(found))) == [
        "n1 9 GiB",
        "n2 unknown (it is OFFLINE)",
        "n4 7 GiB",
        "n5 unknown (it is in a state that is not said)",
        "n6 unknown (it is in a state that is not said)",
    ]


def test_only_the_nodes_that_the_class_may_use() -> None:
    placement = ClassPlacement(AT, "replicated", "data", 3, ("n1", "n3"))
    assert [one.node for one in places(headroom(placement=placement))] == ["n1", "n3"]


def test_pool_in_error_is_not_known_whatever_it_says() -> None:
    wrong = {"ret_code": -4611686018427387904, "message": "zpool data is faulted"}
    there = pools(pool("n1", 1), pool("n2", 1), pool("n3", 209715200, reports=[wrong]))
    assert [str(one) for one in places(headroom(there=there))][2] == (
        "n3 unknown (zpool data is faulted)"
    )


def test_what_could_not_be_read_leaves_no_figure() -> None:
    unread = Unread(AT, "it", "cut")
    assert places(headroom(placement=unread)) == ()
    assert places(headroom(there=unread)) == ()
    assert [str(one) for one in places(headroom(known=unread))] == [
        f"n{number} unknown (whether it is online is not known)" for number in (1, 2, 3)
    ]


def test_free_that_is_not_said_is_not_known() -> None:
    assert [str(one) for one in places(headroom(there=free(1, 0, None)))] == [
        "n1 1 GiB",
        "n2 0 GiB",
        "n3 unknown (no figure is said)",
    ]


@pytest.mark.parametrize(
    ("kib", "down", "up"),
    [
        (0, "0 GiB", "0 GiB"),
        (GIB_KIB, "1 GiB", "1 GiB"),
        (122 * GIB_KIB, "122 GiB", "122 GiB"),
        (GIB_KIB * 3 // 2, "1.5 GiB", "1.5 GiB"),
        (GIB_KIB + 1, "1 GiB", "1.01 GiB"),
        (2 * GIB_KIB - 1, "1.99 GiB", "2 GiB"),
        (4, "4 KiB", "4 KiB"),
        (GIB_KIB // 100, "10485 KiB", "10485 KiB"),
        (GIB_KIB // 4, "0.25 GiB", "0.25 GiB"),
        (GIB_KIB // 10, "0.09 GiB", "0.1 GiB"),
    ],
)
def test_sizes_in_words(kib: int, down: str, up: str) -> None:
    assert (gib(kib), gib(kib, up=True)) == (down, up)


@given(st.integers(0, 2**50))
def test_words_never_promise_more_than_there_is(kib: int) -> None:
    number, unit = gib(kib).split()
    factor = 1 if unit == "KiB" else GIB_KIB
    assert float(number) * factor <= kib + 1e-3 * factor * (float(number) * 1e-12 + 1e-9)
    number, unit = gib(kib, up=True).split()
    factor = 1 if unit == "KiB" else GIB_KIB
    assert float(number) * factor >= kib * (1 - 1e-12)


def test_demand_in_bytes_that_do_not_divide_is_not_lost() -> None:
    one_more = demand(workers=1, disk=20 * GIB + 1, clone=True, golden=1)
    exact = 20 + 2 / GIB_KIB
    assert fits(headroom(one_more, there=free(exact, exact, exact))) is True
    less = 20 + 1 / GIB_KIB
    assert fits(headroom(one_more, there=free(less, less, less))) is False
