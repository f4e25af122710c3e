from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.facts.applied import AppliedPool, PoolShape
from harness.facts.fact import Origin, Unread
from harness.facts.refusals import RefusalTrial
from harness.judge.application import differences, spec_applied, spec_applied_while_refused
from harness.judge.verdict import Verdict

AT = Origin(1.0, "management", "")
LOST = Unread(AT, "HelmRelease", "it is not there")
SHAPE = PoolShape("u1.medium", "20Gi", "replicated", "2", "2", "abc", "v1.13.6", "pvc")
MINOR = 'nodeGroup "x": Talos version "v1.13" is not a vMAJOR.MINOR.PATCH release.'


def message(text: str) -> str:
    return f"Helm upgrade failed for release t/r: execution error at (a.yaml:3:4): {text}"


def shape(**change: str) -> PoolShape:
    return dataclasses.replace(SHAPE, **change)


def pool(**more: Any) -> AppliedPool:
    given: dict[str, Any] = {
        "name": "x",
        "asked": SHAPE,
        "rendered": SHAPE,
        "installer": "abc:v1.13.6",
        "address": "cozy-public/g",
        "unequal": (),
        "generation": 3,
        "observed": 3,
        "ready": "True",
        "released": "True",
        "reason": "UpgradeSucceeded",
        "message": "",
        "history": ("3 deployed", "2 superseded"),
        "machine_template": "kubernetes-lab-x-000000",
        "bootstrap_template": "kubernetes-lab-x-111111",
        **more,
    }
    return AppliedPool(AT, **given)


def failed(**more: Any) -> AppliedPool:
    given: dict[str, Any] = {
        "ready": "False",
        "released": "False",
        "reason": "UpgradeFailed",
        "message": message(MINOR),
        **more,
    }
    return pool(**given)


def judged(seen: AppliedPool | Unread) -> Verdict:
    return spec_applied(seen, "pool x")


def test_what_is_asked_and_in_use_holds() -> None:
    verdict = judged(pool())
    assert verdict.outcome == "holds"
    assert "revision 3 deployed of generation 3" in verdict.because
    assert "diskSize 20Gi" in verdict.because
    assert "earlier revisions" not in verdict.because


def test_an_earlier_failure_is_told() -> None:
    verdict = judged(pool(history=("3 deployed", "2 failed", "1 superseded")))
    assert verdict.outcome == "holds"
    assert verdict.because.endswith("earlier revisions: 2 failed")


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"instance_type": "u1.xlarge"}, "instanceType"),
        ({"storage_class": "local"}, "storageClass"),
        ({"minimum": "1"}, "minReplicas"),
        ({"maximum": "5"}, "maxReplicas"),
        ({"schematic": "other"}, "schematic"),
        ({"version": "v1.13.5"}, "version"),
        ({"form": "http"}, "source of the disk"),
        ({"disk_size": "30Gi"}, "diskSize"),
        ({"disk_size": "20G"}, "diskSize"),
        ({"disk_size": ""}, "diskSize"),
        ({"instance_type": ""}, "instanceType"),
    ],
)
def test_a_template_with_another_value_breaks_it(change: dict[str, str], name: str) -> None:
    verdict = judged(pool(rendered=shape(**change)))
    assert verdict.outcome == "broken"
    assert verdict.because.startswith(f"the release is Ready, and {name} is ")


def test_one_size_may_be_written_in_two_ways() -> None:
    assert judged(pool(rendered=shape(disk_size="20480Mi"))).outcome == "holds"


def test_what_the_object_leaves_out_is_not_compared() -> None:
    asked = shape(instance_type="", storage_class="", disk_size="")
    assert judged(pool(asked=asked)).outcome == "holds"


def test_another_installer_breaks_it() -> None:
    verdict = judged(pool(installer="abc:v1.13.5"))
    assert verdict.outcome == "broken"
    assert "the installer is abc:v1.13.5, the object says abc:v1.13.6" in verdict.because


def test_an_edit_under_a_failing_release_is_accepted_and_applied_nowhere() -> None:
    verdict = judged(failed(asked=shape(disk_size="30Gi")))
    assert verdict.outcome == "broken"
    assert verdict.because.startswith("accepted, applied nowhere: ")
    assert f"UpgradeFailed ({MINOR})" in verdict.because
    assert "diskSize is 30Gi in the object, 20Gi in use" in verdict.because


def test_a_failing_release_is_told_even_when_no_field_differs() -> None:
    verdict = judged(failed())
    assert verdict.outcome == "broken"
    assert "what is in use is of an earlier one" in verdict.because
    assert "nothing is rendered for it" in judged(failed(rendered=None, history=())).because


def test_a_release_that_failed_before_its_chart_leaves_it_open() -> None:
    assert judged(failed(reason="ArtifactFailed")).outcome == "unknown"


@pytest.mark.parametrize(
    "seen",
    [
        pool(observed=2),
        pool(ready=""),
        pool(ready="Unknown"),
        failed(observed=2),
        pool(rendered=None),
        pool(rendered=shape(form="", schematic="", version="")),
        pool(installer=""),
        pool(history=()),
        LOST,
    ],
)
def test_what_was_not_judged_or_read_leaves_it_open(seen: AppliedPool | Unread) -> None:
    assert judged(seen).outcome == "unknown"


@pytest.mark.parametrize(
    "seen",
    [
        pool(history=("3 failed", "2 deployed")),
        pool(history=("3 uninstalled",)),
        pool(history=("3 superseded",)),
        pool(released="False"),
        pool(released=""),
        pool(unequal=("diskSize",)),
    ],
)
def test_a_ready_release_that_contradicts_itself_breaks_it(seen: AppliedPool) -> None:
    assert judged(seen).outcome == "broken"


def test_no_template_is_no_difference() -> None:
    assert differences(pool(rendered=None)) == []


# -- an edit while the release fails

BEFORE = {"KubevirtMachineTemplate k": "u d"}


def trial(**more: Any) -> RefusalTrial:
    given: dict[str, Any] = {
        "row": "R3",
        "name": "hil1-x",
        "asked": '{"talos": {"version": "v1.13"}}',
        "wrong": ("v1.13",),
        "altered": (),
        "api": "",
        "ready": "False",
        "released": "False",
        "reason": "UpgradeFailed",
        "message": message(MINOR),
        "warnings": (),
        "before": BEFORE,
        "after": BEFORE,
        **more,
    }
    return RefusalTrial(AT, **given)


SHOWN = failed(asked=shape(disk_size="30Gi", version="v1.13"))
MENDED = pool(
    asked=shape(disk_size="30Gi"), rendered=shape(disk_size="30Gi"), machine_template="k-222222"
)


def driven(**more: Any) -> Verdict:
    given: dict[str, Any] = {
        "valid": pool(),
        "refused": trial(),
        "edited": trial(asked='{"diskSize": "30Gi"}'),
        "shown": SHOWN,
        "mended": MENDED,
        "old": "20Gi",
        "new": "30Gi",
        "subject": "a scratch pool",
        **more,
    }
    return spec_applied_while_refused(**given)


def test_accepted_applied_nowhere_then_applied_holds() -> None:
    verdict = driven()
    assert verdict.outcome == "holds"
    assert verdict.because == (
        "accepted, applied nowhere while version v1.13 was refused: diskSize 30Gi stood in object "
        "and values, 20Gi in kubernetes-lab-x-000000, and the release said UpgradeFailed; mended, "
        "k-222222 has 30Gi"
    )
    assert len(verdict.facts) == 5


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"refused": trial(ready="True", reason="UpgradeSucceeded")}, "was not refused"),
        ({"refused": trial(message=message("something else"))}, "refused by another text"),
        ({"refused": trial(after={})}, "KubevirtMachineTemplate k is gone"),
        ({"edited": trial(after={**BEFORE, "Job j": "u d"})}, "Job j was made"),
        (
            {"shown": dataclasses.replace(SHOWN, rendered=shape(disk_size="30Gi"))},
            "the release failed, and diskSize 30Gi is in use, before 20Gi",
        ),
        (
            {"shown": pool(asked=shape(disk_size="30Gi"))},
            "the release is Ready with diskSize 20Gi in use and 30Gi in the object",
        ),
        ({"shown": dataclasses.replace(SHOWN, unequal=("diskSize",))}, "differ in diskSize"),
        (
            {"mended": pool(asked=shape(disk_size="30Gi"))},
            "mended: the release is Ready, and diskSize is 30Gi in the object, 20Gi in use",
        ),
        ({"mended": failed(asked=shape(disk_size="30Gi"))}, "mended: accepted, applied nowhere"),
    ],
)
def test_what_is_not_told_for_what_it_is_breaks_it(more: dict[str, Any], told: str) -> None:
    verdict = driven(**more)
    assert verdict.outcome == "broken"
    assert told in verdict.because


@pytest.mark.parametrize(
    "more",
    [
        {"valid": LOST},
        {"valid": pool(ready="")},
        {"refused": LOST},
        {"refused": trial(ready="")},
        {"refused": trial(reason="ArtifactFailed")},
        {"refused": trial(message=message("Talos version..."))},
        {"refused": trial(ready="True", reason="UpgradeSucceeded", altered=("talos",))},
        {"edited": trial(altered=("diskSize",))},
        {"edited": LOST},
        {"edited": trial(api="422 Invalid", ready="")},
        {"shown": LOST},
        {"shown": dataclasses.replace(SHOWN, observed=2)},
        {"shown": dataclasses.replace(SHOWN, asked=SHAPE)},
        {"mended": LOST},
        {"mended": dataclasses.replace(MENDED, observed=2)},
        {"mended": pool()},
    ],
)
def test_a_step_that_shows_nothing_leaves_it_open(more: dict[str, Any]) -> None:
    assert driven(**more).outcome == "unknown"


def test_templates_that_went_while_it_failed_break_it() -> None:
    verdict = driven(shown=dataclasses.replace(SHOWN, rendered=None))
    assert verdict.outcome == "broken"
    assert "the release failed, and diskSize none is in use, before 20Gi" in verdict.because


def test_what_the_api_said_is_told() -> None:
    verdict = driven(edited=trial(api="422 Invalid", ready=""))
    assert verdict.because.startswith("the API would not have ")
    assert verdict.because.endswith("422 Invalid")


def test_a_pool_that_was_wrong_before_any_edit_is_judged_as_that() -> None:
    verdict = driven(valid=pool(rendered=shape(disk_size="30Gi")))
    assert verdict.outcome == "broken"
    assert verdict.because.startswith("before any edit: ")
