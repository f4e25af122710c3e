from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.facts.applied import Allowed, AppliedPool, PoolShape
from harness.facts.catalogue import CatalogueRelease, Entry, GoldenImport, GoldenVolume, Phase
from harness.facts.fact import Origin, Unread
from harness.facts.refusals import RefusalTrial
from harness.judge.catalogue import (
    ROWS,
    catalogue_import,
    catalogue_kept,
    catalogue_refused,
    golden_lost,
)
from harness.judge.verdict import Verdict

AT = Origin(1.0, "management", "")
LOST = Unread(AT, "a new entry", "every schematic has one")
URL = "https://f/image/abc/v1.13.6/openstack-amd64.raw.xz"
ENTRY = Entry("abc", "v1.13.6", "6Gi", "replicated", URL)
MARKS = {
    "helm.sh/resource-policy": "keep",
    "cdi.kubevirt.io/storage.bind.immediate.requested": "true",
    "cdi.kubevirt.io/storage.usePopulator": "true",
    "kubernetes-worker-image.cozystack.io/schematic-id": "abc",
    "kubernetes-worker-image.cozystack.io/talos-version": "v1.13.6",
}
SHAPE = PoolShape("u1.medium", "20Gi", "replicated", "0", "0", "abc", "v1.13.6", "pvc")


def release(**more: Any) -> CatalogueRelease:
    given: dict[str, Any] = {
        "images": ("talos-worker-old-v1.13.6", ENTRY.golden),
        "generation": 2,
        "ready": "True",
        "reason": "UpgradeSucceeded",
        "message": "",
        "revision": 2,
        **more,
    }
    return CatalogueRelease(AT, **given)


def golden(**more: Any) -> GoldenVolume:
    given: dict[str, Any] = {
        "name": ENTRY.golden,
        "uid": "u",
        "leaving": False,
        "phase": "Succeeded",
        "restarts": 0,
        "running": "False Completed Import Complete",
        "content_type": "kubevirt",
        "url": URL,
        "storage": "6Gi",
        "storage_class": "replicated",
        "content": "d",
        "marks": MARKS,
        "labels": {},
        **more,
    }
    return GoldenVolume(AT, **given)


def history(*phases: Phase, **more: Any) -> GoldenImport:
    seen = phases or (Phase("ImportInProgress", 0, 10.0), Phase("Succeeded", 0, 108.0))
    given: dict[str, Any] = {"seconds": 108.0, "waited": 110.0, "doubt": "", **more}
    return GoldenImport(AT, ENTRY.golden, seen, **given)


def meanwhile(**more: Any) -> Allowed:
    given: dict[str, Any] = {"rendered": SHAPE, "ready": "True", "reason": "ok", **more}
    seen = AppliedPool(
        AT,
        name="hil1-x",
        asked=SHAPE,
        installer="abc:v1.13.6",
        address=f"cozy-public/{ENTRY.golden}",
        unequal=(),
        generation=1,
        observed=1,
        released="True",
        message=given.pop("message", ""),
        history=("1 deployed",),
        machine_template="k",
        bootstrap_template="b",
        **given,
    )
    return Allowed("mid-import", "pvc", f"cozy-public/{ENTRY.golden}", "replicated", seen)


def imported(**more: Any) -> Verdict:
    given: dict[str, Any] = {
        "entry": ENTRY,
        "release": release(),
        "golden": golden(),
        "history": history(),
        "meanwhile": meanwhile(),
        "subject": "pool x",
        **more,
    }
    return catalogue_import(**given)


def test_an_entry_that_becomes_a_golden_holds() -> None:
    verdict = imported()
    assert verdict.outcome == "holds"
    assert "went ImportInProgress (10 s) -> Succeeded (108 s) with 0 importer restarts" in (
        verdict.because
    )
    assert "a pool that asked for it meanwhile was rendered" in verdict.because
    assert [one.kind for one in verdict.facts] == [
        "CatalogueRelease", "GoldenVolume", "GoldenImport", "AppliedPool",
    ]  # fmt: skip


def test_restarts_that_end_well_are_told_and_no_more() -> None:
    verdict = imported(history=history(Phase("Succeeded", 2, 300.0), doubt="a list came late"))
    assert verdict.outcome == "holds"
    assert "with 2 importer restarts (phases may be missing: a list came late)" in verdict.because


@pytest.mark.parametrize("key", MARKS)
@pytest.mark.parametrize("value", ["", "other"])
def test_a_mark_that_is_not_due_breaks_it(key: str, value: str) -> None:
    marks = {one: text for one, text in {**MARKS, key: value}.items() if text}
    verdict = imported(golden=golden(marks=marks))
    assert verdict.outcome == "broken"
    assert f"annotation {key} is {value or None!r}" in verdict.because


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"content_type": ""}, "contentType is ''"),
        ({"storage_class": "local"}, "its class is local"),
        ({"storage": "4Gi"}, "its size is 4Gi"),
        ({"storage": ""}, "its size is not told"),
        ({"url": "https://elsewhere"}, "it comes from https://elsewhere"),
        ({"name": "talos-worker-x"}, "the golden is named talos-worker-x"),
        ({"phase": "ImportInProgress"}, "is ImportInProgress after 110 s with 0 importer restarts"),
        ({"phase": "Failed"}, "is Failed after"),
        ({"phase": ""}, "is in no phase after"),
    ],
)
def test_another_golden_than_is_due_breaks_it(change: dict[str, str], told: str) -> None:
    verdict = imported(golden=golden(**change))
    assert verdict.outcome == "broken"
    assert told in verdict.because


def test_a_size_may_be_written_in_another_way() -> None:
    assert imported(golden=golden(storage="6144Mi")).outcome == "holds"


def test_a_factory_that_the_release_does_not_name_is_not_compared() -> None:
    assert imported(entry=dataclasses.replace(ENTRY, url="")).outcome == "holds"


def test_an_import_that_keeps_failing_is_told_by_its_restarts() -> None:
    running = "False Error Unable to connect to http data source"
    verdict = imported(
        golden=golden(phase="ImportInProgress", running=running),
        history=history(Phase("ImportInProgress", 4, 9.0), seconds=None, waited=300.0),
        release=release(ready=""),
    )
    assert verdict.outcome == "broken"
    assert f"after 300 s with 4 importer restarts (Running {running})" in verdict.because


def test_no_golden_breaks_it() -> None:
    verdict = imported(golden=Unread(AT, "golden", "it is not there"))
    assert verdict.outcome == "broken"
    assert f"no golden {ENTRY.golden} came about in 110 s" in verdict.because


def test_an_entry_that_fails_the_release_breaks_it() -> None:
    text = "Helm upgrade failed: execution error at (a.yaml:1:2): duplicate images"
    verdict = imported(release=release(ready="False", reason="UpgradeFailed", message=text))
    assert verdict.outcome == "broken"
    assert "the entry failed the release: duplicate images" in verdict.because


def test_a_pool_that_is_refused_meanwhile_breaks_it() -> None:
    text = "execution error at (a.yaml:1:2): golden is not Succeeded"
    seen = meanwhile(ready="False", reason="InstallFailed", message=text, rendered=None)
    verdict = imported(meanwhile=seen)
    assert verdict.outcome == "broken"
    assert "is refused: golden is not Succeeded" in verdict.because


@pytest.mark.parametrize("which", ["none", "one that the API refused"])
def test_without_a_pool_that_asked_meanwhile_its_rendering_is_not_shown(which: str) -> None:
    late = Unread(AT, "a golden in the middle of its import", "the import was over")
    asked = late if which == "none" else dataclasses.replace(meanwhile(), seen=late)
    verdict = imported(meanwhile=asked)
    assert verdict.outcome == "unknown"
    assert verdict.because == (
        "no pool asked for it meanwhile: a golden in the middle of its import: the import was over"
    )
    assert late in verdict.facts


@pytest.mark.parametrize(
    "more",
    [
        {"entry": LOST, "release": LOST, "golden": LOST, "history": LOST, "meanwhile": LOST},
        {"release": LOST},
        {"history": LOST},
        {"release": release(ready="")},
        {"release": release(images=())},
        {"release": release(ready="False", reason="ArtifactFailed")},
        {"meanwhile": meanwhile(ready="")},
        {"meanwhile": meanwhile(rendered=None)},
    ],
)
def test_what_was_not_judged_leaves_it_open(more: dict[str, Any]) -> None:
    assert imported(**more).outcome == "unknown"


# -- entries that must be refused

TEXTS = {
    "duplicate": 'two images[] entries resolve to the same golden DataVolume "g"',
    "schematic": 'images[] entry schematicID "v" is not a plain lowercase alphanumeric identifier',
    "version": 'images[] entry version "v" is not a vMAJOR.MINOR.PATCH Talos release',
    "url": 'imageFactoryURL "v" is not a plain http(s) URL',
    "changed": 'images[] entry (a, b) changed after its golden DataVolume "g" was created: v',
}


def trial(row: str, **more: Any) -> RefusalTrial:
    text = f"Helm upgrade failed: execution error at (dv.yaml:1:2): {TEXTS[row]}"
    given: dict[str, Any] = {"ready": "False", "after": {"DataVolume g": "u d"}, **more}
    return RefusalTrial(
        AT,
        row,
        "kubernetes-worker-image",
        "{}",
        (),
        (),
        "",
        given["ready"],
        "False",
        "UpgradeFailed",
        text,
        (text,),
        before={"DataVolume g": "u d"},
        after=given["after"],
    )


def test_bad_entries_that_are_refused_hold() -> None:
    assert catalogue_refused([*map(trial, ROWS)], "x").outcome == "holds"


@pytest.mark.parametrize("row", ROWS)
def test_each_of_them_is_due(row: str) -> None:
    rest = [trial(one) for one in ROWS if one != row]
    assert catalogue_refused(rest, "x").outcome == "unknown"
    assert catalogue_refused([*rest, trial(row, ready="True")], "x").outcome == "broken"
    changed = catalogue_refused([*rest, trial(row, after={"DataVolume g": "u e"})], "x")
    assert changed.outcome == "broken"
    assert "DataVolume g has another content" in changed.because


# -- a golden that outlives its entry


def kept(**more: Any) -> Verdict:
    given: dict[str, Any] = {
        "before": golden(),
        "release_before": release(),
        "after": golden(),
        "release_after": release(images=("talos-worker-old-v1.13.6",), revision=3),
        "subject": "pool x",
        **more,
    }
    return catalogue_kept(**given)


def test_a_golden_that_stays_holds() -> None:
    verdict = kept()
    assert verdict.outcome == "holds"
    assert "revision 3 of the release names talos-worker-old-v1.13.6" in verdict.because


@pytest.mark.parametrize(
    ("after", "told"),
    [
        (Unread(AT, "golden", "it is not there"), "went with its entry: it is not there"),
        (golden(uid="other"), "was made anew"),
        (golden(leaving=True), "is being deleted"),
        (golden(content="e"), "has another content"),
        (golden(phase="Pending"), "is Pending, was Succeeded"),
    ],
)
def test_a_golden_that_does_not_stay_breaks_it(after: GoldenVolume | Unread, told: str) -> None:
    verdict = kept(after=after)
    assert verdict.outcome == "broken"
    assert told in verdict.because


@pytest.mark.parametrize(
    "more",
    [
        {"before": LOST},
        {"release_before": LOST},
        {"release_after": LOST},
        {"release_before": release(images=())},
        {"release_after": release(revision=3)},
        {"release_after": release(images=(), revision=2)},
        {"release_after": release(images=(), revision=3, ready="False")},
    ],
)
def test_a_release_that_did_not_drop_it_shows_nothing(more: dict[str, Any]) -> None:
    assert kept(**more).outcome == "unknown"
    assert kept(**more, after=golden(leaving=True)).outcome == "unknown"


FAILING = (
    "template: kubernetes-nodes/templates/nodegroup.yaml: execution error at (a.tpl:1:1): golden "
    f"DataVolume {ENTRY.golden} keeps failing to import (3 importer restarts)"
)


def failing(**more: Any) -> RefusalTrial:
    refused = trial("schematic", after={"DataVolume g": "u d"})
    texts = {"message": FAILING, "warnings": (FAILING,)}
    changes = {"row": "R7", "wrong": (ENTRY.golden,), "before": {}, "after": {}, **texts, **more}
    return dataclasses.replace(refused, **changes)


def test_a_golden_that_fails_refuses_and_one_that_went_does_not() -> None:
    verdict = golden_lost(failing(), meanwhile(), "pool x")
    assert verdict.outcome == "holds"
    assert "R7 (a golden that keeps failing)" in verdict.because
    assert verdict.because.endswith("; rendered as due: mid-import")
    assert [one.kind for one in verdict.facts] == ["RefusalTrial", "AppliedPool"]


@pytest.mark.parametrize(
    ("one", "two", "told"),
    [
        (failing(ready="True", after={"MachineDeployment a": "u d"}), meanwhile(), "is accepted"),
        (failing(message=FAILING.replace("keeps", "kept")), meanwhile(), "by none of the chart's"),
        (
            failing(),
            meanwhile(ready="False", reason="UpgradeFailed", message="no"),
            "is refused: no",
        ),
        (failing(), meanwhile(rendered=dataclasses.replace(SHAPE, form="http")), "due is pvc"),
        (LOST, meanwhile(ready="False", reason="UpgradeFailed", message="no"), "is refused: no"),
        (failing(ready="True", after={"MachineDeployment a": "u d"}), LOST, "is accepted"),
    ],
)
def test_the_other_way_round_breaks_it(one: Any, two: Any, told: str) -> None:
    verdict = golden_lost(one, two, "pool x")
    assert verdict.outcome == "broken"
    assert told in verdict.because


@pytest.mark.parametrize(
    ("one", "two", "told"),
    [
        (LOST, meanwhile(), "not tried: a new entry"),
        (failing(), LOST, "not tried: a new entry, because every schematic has one"),
        (failing(), meanwhile(ready="", reason=""), "has not been rendered"),
        (failing(ready="", reason=""), meanwhile(), "has not come to an end"),
    ],
)
def test_what_was_not_seen_of_lost_goldens_leaves_it_open(one: Any, two: Any, told: str) -> None:
    verdict = golden_lost(one, two, "pool x")
    assert verdict.outcome == "unknown"
    assert told in verdict.because


def test_what_is_doubted_is_told_by_its_own_words() -> None:
    """Mutants that only a look at the words tells from the code."""
    lost = imported(entry=LOST, history=LOST, meanwhile=LOST)
    assert lost.outcome == "unknown"
    failed = imported(release=release(ready="False", reason="DependencyNotReady"), golden=golden())
    assert failed.outcome == "unknown"
    assert "no verdict on the entry (DependencyNotReady)" in failed.because
    other = imported(
        release=release(images=("talos-worker-old-v1.13.6",), ready="False", reason="UpgradeFailed")
    )
    assert other.outcome == "unknown"  # whatever it refused, it was not this entry
    assert "phases may be missing" not in imported().because


def test_a_golden_that_went_before_its_entry_did_shows_nothing_of_dropping_it() -> None:
    gone = Unread(AT, "golden", "it is not there")
    verdict = kept(after=gone, release_after=release(images=(ENTRY.golden,), revision=3))
    assert verdict.outcome == "unknown"
    assert "went with its entry: it is not there" in verdict.because
    assert "is still in the release's list" in verdict.because


def test_what_a_golden_does_not_tell_is_named_as_that() -> None:
    verdict = imported(golden=golden(phase="", running="", storage_class="", url=""))
    assert verdict.outcome == "broken"
    for told in ("is in no phase", "Running not told", "its class is not told", "from nowhere"):
        assert told in verdict.because
