from __future__ import annotations

import json
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.judge.guards import GUARDS, OF_CATALOGUE, Said, forms, said, speaker

POOLS = [row for row in GUARDS if row not in OF_CATALOGUE]
VALUES = {
    "R1": (),
    "R2": ("Vanilla_1",),
    "R3": ("v1.13",),
    "R4": ("",),
    "R5": ("talos-worker-none-v1.13.6",),
    "R6": (),
    "R7": (),
    "R8": ("local", "replicated"),
    "R9": ("4Gi", "6Gi"),
    "R10": ("v1.30", "v1.13.6"),
    "R11": ("v1.36",),
    "R12": ("hil-another", "kubernetes-lab-hil1-x"),
}
TEXTS = {
    "R1": 'nodeGroup "x": set only one of osImage.builtin or osImage.factory',
    "R2": 'nodeGroup "x": Talos schematicID "Vanilla_1" is not a plain lowercase alphanumeric '
    "identifier. It is interpolated into the worker DataVolume name.",
    "R3": 'nodeGroup "x": Talos version "v1.13" is not a vMAJOR.MINOR.PATCH release. It is used.',
    "R4": 'nodeGroup "x": imageFactoryURL "" is not a plain http(s) URL. It is interpolated.',
    "R5": 'nodeGroup "x": osImage.builtin requested golden DataVolume '
    '"talos-worker-none-v1.13.6", not found in cozy-public: enable kubernetes-worker-image',
    "R6": 'golden "g" failed to import (phase Failed)',
    "R7": 'golden "g" keeps failing to import (4 importer restarts)',
    "R8": 'nodeGroup "x": storageClass "local" differs from golden image "g" storageClass '
    '"replicated". Neither side can be moved in place.',
    "R9": 'nodeGroup "x": diskSize 4Gi is smaller than golden image g storage 6Gi',
    "R10": "Kubernetes v1.30 is not supported by Talos v1.13.6. Supported versions: [v1.31 v1.35]",
    "R11": 'kubernetes-nodes: pool version "v1.36" is ahead of parent cluster "kubernetes-lab" '
    'version "v1.35.0"',
    "R12": 'kubernetes-nodes: MachineDeployment "kubernetes-lab-hil1-x" in namespace "t" is '
    'already managed by release "hil-another", not this pool release "r"',
}


def message(text: str, place: str = "kubernetes-nodes/templates/nodegroup.yaml:3:4") -> str:
    return (
        f"Helm install failed for release t/r with chart k@1: execution error at ({place}): {text}"
    )


@pytest.mark.parametrize("row", POOLS)
def test_each_guard_is_known_by_its_own_words(row: str) -> None:
    assert said(message(TEXTS[row]), row, VALUES[row]) is Said.EXPECTED
    assert speaker(message(TEXTS[row])) == row


@pytest.mark.parametrize("row", POOLS)
@pytest.mark.parametrize("other", POOLS)
def test_no_guard_passes_for_another(row: str, other: str) -> None:
    if row != other:
        assert said(message(TEXTS[other]), row, ()) is Said.OTHER


@pytest.mark.parametrize("row", [row for row in POOLS if VALUES[row] and row != "R4"])
def test_a_value_that_is_not_named_is_missed(row: str) -> None:
    for value in VALUES[row]:
        text = TEXTS[row].replace(value, "?")
        assert said(message(text), row, VALUES[row]) is Said.UNNAMED


def test_an_empty_value_has_to_be_quoted() -> None:
    text = TEXTS["R4"].replace('""', "here")
    assert said(message(text), "R4", ("",)) is Said.UNNAMED


@pytest.mark.parametrize("row", ["R2", "R3", "R4", "R8", "R9", "R11", "R12"])
def test_the_field_has_to_be_named(row: str) -> None:
    text = TEXTS[row]
    for word in GUARDS[row].field:
        text = text.replace(word, "it")
    assert said(message(text), row, VALUES[row]) is Said.UNNAMED


@given(st.sampled_from(POOLS), st.integers(12, 60), st.sampled_from(["\n", "\n    ", "\r\n", " "]))
def test_wrapped_anywhere_it_says_the_same(row: str, width: int, end: str) -> None:
    text = message(TEXTS[row])
    hard = end.join(text[at : at + width] for at in range(0, len(text), width))
    soft = end.join(textwrap.wrap(text, width))
    assert said(soft, row, VALUES[row]) is Said.EXPECTED
    if "execution error at (" in " ".join(hard.split()):
        assert said(hard, row, VALUES[row]) is Said.EXPECTED


@given(st.sampled_from(POOLS), st.data())
def test_cut_anywhere_it_is_blamed_for_nothing(row: str, data: st.DataObject) -> None:
    text = message(TEXTS[row])
    at = data.draw(st.integers(text.index("): ") + 3, len(text)))
    cut = text[:at] + "..."
    assert said(cut, row, VALUES[row]) in (Said.CUT, Said.EXPECTED)
    for other in POOLS:
        if other != row:
            assert said(cut, other, VALUES[other]) is not Said.EXPECTED


@given(st.sampled_from(POOLS), st.sampled_from(POOLS))
def test_the_one_that_speaks_first_is_meant(row: str, later: str) -> None:
    """A hint or a log's tail may quote another guard."""
    if row == later:
        return
    both = message(f"{TEXTS[row]} (before: {TEXTS[later]})")
    assert said(both, row, VALUES[row]) is Said.EXPECTED
    assert said(both, later, VALUES[later]) is Said.OTHER
    tail = f"{message(TEXTS[row])}\n\nLast Helm logs:\n\n{TEXTS[later]}"
    assert said(tail, row, VALUES[row]) is Said.EXPECTED
    assert said(tail, later, VALUES[later]) is Said.OTHER


@given(st.text(max_size=200), st.sampled_from(list(GUARDS)))
def test_no_text_makes_it_fail(text: str, row: str) -> None:
    assert said(text, row, ("v1.13",)) in Said
    assert speaker(text) in ("", *POOLS)


@given(
    st.sampled_from([row for row in POOLS if len(VALUES[row])]), st.text(min_size=1, max_size=20)
)
def test_a_value_is_found_as_go_quotes_it(row: str, value: str) -> None:
    first = VALUES[row][0]
    quoted = json.dumps(first)
    text = TEXTS[row].replace(quoted, json.dumps(value)).replace(first or '""', value)
    wrong = (value, *VALUES[row][1:])
    fragments = "".join("".join(way) for way in GUARDS[row].ways)
    if not value.strip() or value in fragments or any(one in value for one in ("...", "…")):
        return
    assert said(message(text), row, wrong) in (Said.EXPECTED, Said.OTHER)


def test_a_yaml_error_is_nobodys_even_when_it_is_cut() -> None:
    text = "Helm install failed: YAML parse error on k/templates/x.yaml: error converting YAML..."
    assert said(text, "R3", ("v1.13",)) is Said.FOREIGN


@pytest.mark.parametrize(
    "text",
    [
        "is not a plain lowercase",
        "is not a plain lowercase alphanumeric identi",
        'schematicID "Vanilla_1" is not a pl',
    ],
)
def test_a_fragment_that_breaks_off_is_a_cut(text: str) -> None:
    assert said(message(text), "R2", ("Vanilla_1",)) is Said.CUT


def test_few_words_in_common_are_no_cut() -> None:
    assert said(message("this is not"), "R2", ()) is Said.FOREIGN


def test_the_second_half_without_the_first_is_no_refusal() -> None:
    text = message("Neither side can be moved in place")
    assert said(text, "R8", ()) is Said.FOREIGN
    assert said(message("storageClass a differs from golden image g"), "R8", ()) is Said.FOREIGN


def test_the_catalogue_and_pools_have_guards_of_their_own() -> None:
    text = message('images[] entry version "1.13.6" is not a vMAJOR.MINOR.PATCH Talos release')
    assert said(text, "version", ("1.13.6",)) is Said.EXPECTED
    changed = message(
        'images[] entry (s, v) changed after its golden DataVolume "g" was created: storage '
        '"6Gi" -> "7Gi". Add a NEW entry'
    )
    assert said(changed, "changed", ("g", "7Gi")) is Said.EXPECTED
    assert said(changed, "version", ()) is Said.OTHER
    twice = message('two images[] entries resolve to the same golden DataVolume "g"')
    assert said(twice, "duplicate", ("g",)) is Said.EXPECTED


def test_how_a_value_may_be_shown() -> None:
    assert forms('a"b') == ('a"b', 'a\\"b')
    assert forms("") == ('""', "''")
    assert "\\u2028" in forms("\u2028")


def test_words_at_the_very_beginning_count() -> None:
    first = "set only one of osImage.builtin or osImage.factory"
    other = "failed to import (phase Failed)"
    assert said(first, "R1", ()) is Said.EXPECTED
    assert said(f"{other}; {first}", "R1", ()) is Said.OTHER
    assert said(f"{first}; {other}", "R1", ()) is Said.EXPECTED
    assert speaker(f"{first}; {other}") == "R1"


def test_a_guard_of_another_chart_is_no_rival_and_never_speaks_for_a_pool() -> None:
    quoted = "failed to import (phase Failed)"
    changed = "entry was changed after its golden DataVolume g was created"
    assert said(f"{quoted}: {changed}", "changed", ()) is Said.EXPECTED
    assert said(f"{changed}: {quoted}", "R6", ()) is Said.EXPECTED
    assert speaker(changed) == ""


def test_a_text_that_ends_where_its_guard_would_go_on_is_cut() -> None:
    begun = 'nodeGroup "x": osImage.builtin requested golden DataVolume "g", not found in co'
    assert said(begun, "R5", ()) is Said.CUT
    assert said("keeps failing to import (4 importer rest", "R7", ()) is Said.CUT
    assert said("keeps failing to import (4 restarts of it)", "R7", ()) is Said.FOREIGN
