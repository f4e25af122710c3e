"""Requests that a chart must refuse, or must not, driven on a twin: what comes back, what stays."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness import judge
from harness.bringup.breaches import (
    Breach,
    Golden,
    allowed_requests,
    golden_breaches,
    os_image_breaches,
)
from harness.bringup.pool import HeldPool
from harness.bringup.refusals import Refusals
from harness.bringup.scratch_pools import ScratchPools
from harness.facts.access import AccessAnswer
from harness.facts.applied import Allowed, AppliedPool
from harness.facts.fact import Origin, Unread
from harness.facts.objects import name_of
from harness.facts.refusals import RefusalTrial
from harness.reach.errors import ApiRefused

GOLDEN = Golden("talos-worker-x-v1.13.6", "replicated", "6Gi", "Succeeded")
ABSENT = Unread(Origin(1.0, "m", ""), "golden cozy-public/g", "it is not there")
NODES = ("apps.cozystack.io/v1alpha1", "KubernetesNodes", "tenant-hil")


@pytest.fixture
def refusals(cloned_pool: HeldPool) -> Iterator[Refusals]:
    """The pool's trials; nothing of them is left after a test, and the pool is as it was."""
    before = cloned_pool.state()
    yield Refusals(cloned_pool)
    left = [name_of(one) for one in cloned_pool.lab.management.list(*NODES)]
    assert left == ["lab-cloned"]
    after = cloned_pool.state()
    assert judge.unchanged_since(before, after, "x").outcome == "holds"


def test_bad_images_are_refused_by_their_own_words(refusals: Refusals) -> None:
    trials = refusals.os_image()
    assert judge.os_image_refused(trials, "x").outcome == "holds"
    rows = [one.row for one in trials if isinstance(one, RefusalTrial)]
    assert sorted(set(rows)) == ["R1", "R10", "R11", "R12", "R2", "R3", "R4"]
    foreign = trials[-1]
    assert isinstance(foreign, RefusalTrial)
    assert foreign.before and foreign.before == foreign.after
    assert foreign.reason == "UpgradeFailed"


def test_what_the_golden_cannot_give_is_refused(refusals: Refusals) -> None:
    trials = refusals.golden()
    verdict = judge.golden_refused(trials, "x")
    assert verdict.outcome == "holds"
    read = {one.row: one for one in trials if isinstance(one, RefusalTrial)}
    assert read["R9"].wrong == ("4Gi", "6Gi")
    asked = [json.loads(one.asked) for one in trials if isinstance(one, RefusalTrial)]
    assert "" in [one.get("storageClass") for one in asked], "the default is another class here"


def test_what_only_looks_wrong_is_rendered(refusals: Refusals) -> None:
    tried, untried = refusals.allowed()
    assert judge.os_image_allowed(tried, untried, "x").outcome == "holds"
    assert all(isinstance(one.seen, AppliedPool) for one in tried)
    told = {one.asked: one.reason for one in untried}
    assert told["an empty class that stands for the golden's"] == (
        "the default class is local, the golden's replicated"
    )


def test_an_edit_under_a_failing_release_is_told_step_by_step(refusals: Refusals) -> None:
    assert judge.spec_applied(refusals.applied(), "x").outcome == "holds"
    edit = refusals.hazard()
    verdict = judge.spec_applied_while_refused(
        edit.valid, edit.refused, edit.edited, edit.shown, edit.mended, edit.old, edit.new, "x"
    )
    assert verdict.outcome == "holds"
    # the harness tells it of the pool itself as well: accepted, applied nowhere
    told = judge.spec_applied(edit.shown, "x")
    assert told.outcome == "broken"
    assert told.because.startswith("accepted, applied nowhere")
    assert isinstance(edit.shown, AppliedPool)
    assert edit.shown.asked.disk_size == edit.new
    assert edit.shown.rendered is not None and edit.shown.rendered.disk_size == edit.old


def test_the_mended_version_is_another_so_that_a_template_that_stays_is_found(
    refusals: Refusals,
) -> None:
    edit = refusals.hazard()
    assert isinstance(edit.valid, AppliedPool) and isinstance(edit.mended, AppliedPool)
    assert (edit.valid.asked.version, edit.mended.asked.version) == ("v1.13.6", "v1.13.0")
    stays = dataclasses.replace(edit.mended, installer=edit.valid.installer)
    verdict = judge.spec_applied_while_refused(
        edit.valid, edit.refused, edit.edited, edit.shown, stays, edit.old, edit.new, "x"
    )
    assert verdict.outcome == "broken" and "the installer is" in verdict.because


def test_adopting_a_golden_moves_nobody_else(refusals: Refusals) -> None:
    seen = refusals.adoption()
    verdict = judge.os_image_rolls(
        seen.before, seen.after, seen.around_before, seen.around_after, seen.held, "x"
    )
    assert verdict.outcome == "holds"
    own = seen.around_before.of("kubernetes-lab-cloned")
    assert own is not None
    assert sum(part.startswith("DataVolume ") for part in own.parts) == 2
    assert sum(part.startswith("boot of ") for part in own.parts) == 2


def test_a_tenant_may_clone_and_no_more(refusals: Refusals) -> None:
    answers, binding = refusals.clone_access()
    assert judge.clone_rbac(answers, binding, "x").outcome == "holds"
    assert [one.allowed for one in answers if isinstance(one, AccessAnswer)].count(True) == 1


def test_an_interrupt_leaves_nothing(
    refusals: Refusals, cloned_pool: HeldPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> bool:
        assert len(cloned_pool.lab.management.list(*NODES)) > 1
        raise KeyboardInterrupt

    for step in ("await_verdicts", "await_rendered", "await_generation"):
        with monkeypatch.context() as patched:
            patched.setattr(ScratchPools, step, interrupted)
            with pytest.raises(KeyboardInterrupt):
                refusals.os_image() if step == "await_verdicts" else refusals.hazard()


def test_an_api_that_refuses_is_told_row_by_row(
    refusals: Refusals, cloned_pool: HeldPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise ApiRefused(422, "Invalid", "spec.version: Unsupported value")

    with monkeypatch.context() as patched:
        patched.setattr(type(cloned_pool.lab.management), "create", refuse)
        verdict = judge.os_image_refused(refusals.os_image(), "x")
    assert verdict.outcome == "unknown"
    assert verdict.because.count("was not for the chart to refuse") == 10
    assert "not tried: R12" in verdict.because


# -- what is asked


def test_a_parent_that_says_nothing_leaves_its_row_untried(cloned_pool: HeldPool) -> None:
    last = os_image_breaches(cloned_pool, "")[-1]
    assert isinstance(last, Unread)
    assert last.asked == "R11"
    ahead = os_image_breaches(cloned_pool, "v1.34.9")[-1]
    assert isinstance(ahead, Breach)
    assert ahead.variant.merge["version"] == "v1.35"
    assert ahead.wrong == ("v1.35",)


def rows(breaches: list[Breach | Unread]) -> list[tuple[str, bool]]:
    return [(one.row, True) if isinstance(one, Breach) else (one.asked, False) for one in breaches]


def test_without_a_golden_only_its_absence_is_tried(cloned_pool: HeldPool) -> None:
    found = golden_breaches(cloned_pool, ABSENT, "local", ["local", "replicated"])
    assert rows(found) == [
        ("R5", True), ("R6", False), ("R7", False), ("R8", False), ("R9", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("classes", "default", "expected"),
    [
        (["local", "replicated"], "local", ["local", ""]),
        (["local", "replicated"], "replicated", ["local"]),
        (["local", "replicated"], "", ["local"]),
    ],
)
def test_every_other_class_that_an_empty_one_stands_for(
    cloned_pool: HeldPool, classes: list[str], default: str, expected: list[str]
) -> None:
    found = golden_breaches(cloned_pool, GOLDEN, default, classes)
    tried = [one for one in found if isinstance(one, Breach) and one.row == "R8"]
    assert [one.variant.merge["storageClass"] for one in tried] == expected
    assert all(one.wrong == ("local", "replicated") for one in tried)
    # a class that is left empty is tried where a chart could take it for the pool's own
    assert [one.variant.name for one in tried] == ["", "clone"][: len(tried)]


@pytest.mark.parametrize(
    ("golden", "classes"),
    [(GOLDEN, ["replicated"]), (dataclasses.replace(GOLDEN, storage_class=""), ["a", "b"])],
)
def test_no_other_class_leaves_it_untried(
    cloned_pool: HeldPool, golden: Golden, classes: list[str]
) -> None:
    assert ("R8", False) in rows(golden_breaches(cloned_pool, golden, "replicated", classes))


@pytest.mark.parametrize(("size", "tried"), [("6Gi", True), ("4Gi", False), ("", False)])
def test_a_disk_is_smaller_only_than_a_larger_golden(
    cloned_pool: HeldPool,
    size: str,
    tried: bool,  # noqa: FBT001 - parametrized
) -> None:
    golden = dataclasses.replace(GOLDEN, size=size)
    assert rows(golden_breaches(cloned_pool, golden, "", ["a"]))[-1] == ("R9", tried)


def test_an_empty_class_is_tried_where_it_is_the_goldens(cloned_pool: HeldPool) -> None:
    wanted = allowed_requests(cloned_pool, GOLDEN, "replicated")
    named = [one[1].what for one in wanted if isinstance(one, tuple)]
    assert "an empty class that stands for the golden's" in named
    variant, expected = wanted[-1] if isinstance(wanted[-1], tuple) else (None, None)
    assert variant is not None and variant.merge["storageClass"] == ""
    assert isinstance(expected, Allowed)
    assert (expected.form, expected.storage_class) == ("pvc", "replicated")
    without = allowed_requests(cloned_pool, ABSENT, "replicated")
    assert [one.what for pair in without if isinstance(pair, tuple) for one in pair[1:]] == [
        "osImage.factory {}",
        "a Talos minor that no matrix lists",
    ]


def test_no_value_does_harm_should_a_chart_let_it_through(cloned_pool: HeldPool) -> None:
    """No factory that exists is asked, and no other registry is named."""
    for one in os_image_breaches(cloned_pool, "v1.35.0"):
        text = json.dumps(dict(one.variant.merge)) if isinstance(one, Breach) else ""
        assert "://" not in text or "://factory.invalid" in text
