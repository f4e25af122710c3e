"""A list, page by page and object by object: whole, or refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reach.errors import ApiRefused, Garbled
from harness.reach.listing import read_list, read_page

NAME = st.text(min_size=1, max_size=8)
ITEM = st.builds(lambda name, more: {"metadata": {"name": name}, "x": more}, NAME, st.text())
REST = st.dictionaries(
    st.text().filter(lambda key: key != "items"),
    st.none() | st.integers() | st.lists(st.text()) | st.dictionaries(st.text(), st.text()),
)


@settings(deadline=None)
@given(st.lists(ITEM, max_size=5), REST, REST, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_a_page_is_read_as_json_reads_it(
    items: list[Any], before: Any, after: Any, indent: Any, plain: Any
) -> None:
    document = {**before, "items": items, **after}
    data = json.dumps(document, indent=indent, ensure_ascii=plain).encode("utf-8", "replace")
    found: list[Any] = []
    rest = read_page(data, found.append, "list")
    whole = json.loads(data)
    assert found == whole.pop("items")
    assert rest == whole


@settings(deadline=None)
@given(st.lists(ITEM, max_size=3), st.data())
def test_a_page_that_was_cut_is_no_page(items: list[Any], data: st.DataObject) -> None:
    whole = json.dumps({"metadata": {}, "items": items, "kind": "List"}).encode()
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(Garbled):
        read_page(whole[:cut], lambda item: None, "list")


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"[]",
        b"<html>",
        b"\xff",
        b'{"metadata": {}}',
        b'{"items": null}',
        b'{"items": {}}',
        b'{"items": [1]}',
        b'{"items": [{"metadata": {}}]}',
        b'{"items": [{"metadata": {"name": ""}}]}',
        b'{"items": [{"metadata": {"name": 7}}]}',
        b'{"items": [{"metadata": {"name": "a", "namespace": []}}]}',
        b'{"items" []}',
        b'{"items": [{"metadata": {"name": "a"}} {"metadata": {"name": "b"}}]}',
        b"{7: []}",
    ],
)
def test_what_is_no_page_is_refused_and_quoted(junk: bytes) -> None:
    with pytest.raises(Garbled):
        read_page(junk, lambda item: None, "list pods")


def page(names: str, version: str = "", **more: str) -> bytes:
    items = [{"metadata": {"name": name}} for name in names]
    return json.dumps({"metadata": {"resourceVersion": version, **more}, "items": items}).encode()


def test_all_pages_make_one_list_of_the_first_ones_version() -> None:
    asked: list[dict[str, str]] = []
    pages = [
        page("ab", "7", **{"continue": "x"}),
        page("c", "9", **{"continue": "y"}),
        page("", ""),
    ]

    def ask(query: dict[str, str]) -> bytes:
        asked.append(dict(query))
        return pages[len(asked) - 1]

    found: list[Any] = []
    assert read_list(ask, {"labelSelector": "a=b"}, found.append, "list") == "7"
    assert [item["metadata"]["name"] for item in found] == ["a", "b", "c"]
    assert [query.get("continue") for query in asked] == [None, "x", "y"]
    assert {query["labelSelector"] for query in asked} == {"a=b"}


@pytest.mark.parametrize("first", [page("a", ""), b'{"items": [], "metadata": 7}'])
def test_a_list_from_which_no_watch_can_go_on_is_refused(first: bytes) -> None:
    with pytest.raises(Garbled):
        read_list(lambda query: first, {}, lambda item: None, "list")


def test_a_list_that_expires_between_two_pages_is_raised() -> None:
    def ask(query: dict[str, str]) -> bytes:
        if "continue" in query:
            raise ApiRefused(410, "Expired", "too old")
        return page("a", "7", **{"continue": "x"})

    with pytest.raises(ApiRefused):
        read_list(ask, {}, lambda item: None, "list")
