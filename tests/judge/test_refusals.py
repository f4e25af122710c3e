from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any

import pytest

from harness.facts.applied import Allowed, AppliedPool, PoolShape
from harness.facts.fact import Fact, Origin, Unread
from harness.facts.refusals import RefusalTrial
from harness.judge.refusals import (
    GOLDEN_ROWS,
    OS_IMAGE_ROWS,
    golden_refused,
    os_image_allowed,
    os_image_refused,
)
from harness.judge.verdict import Verdict

AT = Origin(1.0, "management", "")
VALUES: dict[str, tuple[str, ...]] = {
    "R1": (),
    "R2": ("Vanilla_1",),
    "R3": ("v1.13",),
    "R4": ("",),
    "R5": ("talos-worker-none-v1.13.6",),
    "R8": ("local", "replicated"),
    "R9": ("4Gi", "6Gi"),
    "R10": ("v1.30", "v1.13.6"),
    "R11": ("v1.36",),
    "R12": ("hil-another",),
}
TEXTS = {
    "R1": 'nodeGroup "x": set only one of osImage.builtin or osImage.factory',
    "R2": 'Talos schematicID "Vanilla_1" is not a plain lowercase alphanumeric identifier.',
    "R3": 'Talos version "v1.13" is not a vMAJOR.MINOR.PATCH release.',
    "R4": 'imageFactoryURL "" is not a plain http(s) URL.',
    "R5": 'osImage.builtin requested golden DataVolume "talos-worker-none-v1.13.6", not found in '
    "cozy-public: enable kubernetes-worker-image",
    "R8": 'storageClass "local" differs from golden image "g" storageClass "replicated". Neither '
    "side can be moved in place.",
    "R9": "diskSize 4Gi is smaller than golden image g storage 6Gi",
    "R10": "Kubernetes v1.30 is not supported by Talos v1.13.6. Supported versions: [v1.35]",
    "R11": 'pool version "v1.36" is ahead of parent cluster "c" version "v1.35.0"',
    "R12": 'MachineDeployment "m" is already managed by release "hil-another"',
}


MADE = {"MachineDeployment m": "u1 c1"}


def message(text: str) -> str:
    return f"Helm install failed for release t/r: execution error at (a.yaml:3:4): {text}"


def trial(row: str, **more: Any) -> RefusalTrial:
    text = message(TEXTS[row])
    given: dict[str, Any] = {
        "name": f"hil-{row}",
        "asked": "{}",
        "wrong": VALUES[row],
        "altered": (),
        "api": "",
        "ready": "False",
        "released": "False",
        "reason": "InstallFailed",
        "message": text,
        "warnings": (text,),
        "before": {},
        "after": MADE if more.get("ready") == "True" else {},
        **more,
    }
    return RefusalTrial(AT, row, **given)


ALL = tuple(map(trial, OS_IMAGE_ROWS))


def judged(trials: Sequence[RefusalTrial | Unread]) -> Verdict:
    return os_image_refused(trials, "pool x")


def but(row: str, **more: Any) -> Verdict:
    """All trials, with one of them otherwise."""
    return judged([trial(row, **more) if one.row == row else one for one in ALL])


def test_all_rows_refused_hold() -> None:
    verdict = judged(ALL)
    assert verdict.outcome == "holds"
    assert verdict.facts == ALL
    assert "7 requests refused" in verdict.because
    assert "R12 (a pool of another release)" in verdict.because


@pytest.mark.parametrize("row", OS_IMAGE_ROWS)
def test_every_row_is_due(row: str) -> None:
    verdict = judged([one for one in ALL if one.row != row])
    assert verdict.outcome == "unknown"
    assert f"no trial of {row} (" in verdict.because


def test_no_trial_at_all_is_no_pass() -> None:
    assert judged([]).outcome == "unknown"
    assert golden_refused([], "x").outcome == "unknown"


@pytest.mark.parametrize("row", OS_IMAGE_ROWS)
def test_one_that_is_accepted_breaks_it(row: str) -> None:
    verdict = but(row, ready="True", released="True", reason="InstallSucceeded", message="")
    assert verdict.outcome == "broken"
    assert f"hil-{row} is accepted" in verdict.because


def test_a_release_that_rendered_no_pool_says_nothing_of_its_guards() -> None:
    # a tenant without etcd: the release is Ready, with a ConfigMap for all
    verdict = but("R3", ready="True", released="True", reason="InstallSucceeded", after={})
    assert verdict.outcome == "unknown"
    assert "hil-R3 is Ready with no pool rendered" in verdict.because


@pytest.mark.parametrize(
    "text",
    [
        "Helm install failed for release t/r: YAML parse error on a.yaml: mapping values",
        message('nodeGroup "x": kubelet.systemReservedMemory is no quantity'),
        message(TEXTS["R2"]),
        'Helm upgrade failed: admission webhook "x" denied the request',
        "",
    ],
)
def test_another_refusal_breaks_it(text: str) -> None:
    verdict = but("R3", message=text, warnings=(text,))
    assert verdict.outcome == "broken"
    assert "R3 (a Talos version that is no release) on hil-R3 is refused by" in verdict.because


def test_whose_words_they_are_is_told() -> None:
    text = message(TEXTS["R2"])
    assert "(R2, a schematic that is no identifier)" in but("R3", message=text).because


def test_a_refusal_that_does_not_name_the_value_breaks_it() -> None:
    text = message('Talos version "v9" is not a vMAJOR.MINOR.PATCH release.')
    verdict = but("R3", message=text, warnings=(text,))
    assert verdict.outcome == "broken"
    assert "without the field or the value" in verdict.because


def test_what_was_made_breaks_it_even_when_it_is_refused() -> None:
    verdict = but("R1", after={"MachineDeployment kubernetes-lab-x": "u d"})
    assert verdict.outcome == "broken"
    assert "MachineDeployment kubernetes-lab-x was made" in verdict.because


def test_of_much_that_was_made_some_is_named() -> None:
    made = {f"Machine {n}": "u d" for n in range(5)}
    assert (
        "Machine 0 was made, Machine 1 was made, Machine 2 was made, and 2 more"
        in but("R1", after=made).because
    )
    accepted = but("R1", ready="True", after=made)
    assert "is accepted (Machine 0 was made" in accepted.because


def test_what_was_changed_breaks_it() -> None:
    before = {"KubevirtMachineTemplate m": "u d"}
    verdict = but("R12", before=before, after={"KubevirtMachineTemplate m": "u e"})
    assert verdict.outcome == "broken"
    assert "KubevirtMachineTemplate m has another content" in verdict.because
    assert but("R12", before=before, after=before).outcome == "holds"


def test_what_was_made_while_nothing_is_decided_breaks_it_too() -> None:
    assert but("R1", ready="Unknown", after={"Machine m": "u d"}).outcome == "broken"


def test_a_release_that_is_not_released_false_breaks_it() -> None:
    assert but("R1", released="True").outcome == "broken"
    assert "Released is not told" in but("R1", released="").because


def test_what_the_release_was_told_otherwise_shows_nothing() -> None:
    """As where a webhook sets a schematic of its own: no chart saw the bad one."""
    made = {"MachineDeployment m": "u d"}
    verdict = but("R2", altered=("talos",), ready="True", reason="InstallSucceeded", after=made)
    assert verdict.outcome == "unknown"
    assert "the release was told another talos than written" in verdict.because


def test_without_a_warning_event_it_is_broken() -> None:
    verdict = but("R1", warnings=())
    assert verdict.outcome == "broken"
    assert "no Warning Event of the release tells it" in verdict.because


def test_with_other_warnings_alone_it_is_broken() -> None:
    assert but("R1", warnings=(message(TEXTS["R2"]),)).outcome == "broken"
    assert but("R1", warnings=(message("something else"), message(TEXTS["R1"]))).outcome == "holds"


def test_a_warning_that_is_cut_leaves_it_open() -> None:
    verdict = but("R3", warnings=(message("Talos version..."),))
    assert verdict.outcome == "unknown"
    assert "its Warning Event tells it by a text that is cut" in verdict.because


def test_a_condition_that_is_cut_leaves_it_open() -> None:
    verdict = but("R3", message=message("Talos version..."))
    assert verdict.outcome == "unknown"
    assert "by a text that is cut" in verdict.because
    assert but("R3", message=message("Talos version..."), warnings=()).outcome == "unknown"


def test_what_the_api_refuses_is_told_and_proves_nothing() -> None:
    verdict = but("R10", api="422 Invalid: version", ready="", released="", message="", warnings=())
    assert verdict.outcome == "unknown"
    assert "was not for the chart to refuse: 422 Invalid: version" in verdict.because


@pytest.mark.parametrize("state", ["", "Unknown"])
def test_one_that_has_not_ended_leaves_it_open(state: str) -> None:
    verdict = but("R1", ready=state, reason="Progressing", message="")
    assert verdict.outcome == "unknown"
    assert "has not come to an end (Progressing)" in verdict.because


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("ArtifactFailed", "could not load chart"),
        ("DependencyNotReady", "dependency 'x' is not ready"),
        ("InstallFailed", "Helm install failed: context deadline exceeded"),
        ("InstallFailed", "Get https://10.0.0.1: dial tcp: connection refused"),
    ],
)
def test_a_failure_that_nobody_meant_leaves_it_open(reason: str, text: str) -> None:
    verdict = but("R1", reason=reason, message=text)
    assert verdict.outcome == "unknown"
    assert "failed before its chart could refuse it" in verdict.because


def test_a_chart_that_speaks_of_a_timeout_is_a_refusal_all_the_same() -> None:
    text = message("nodeStartupTimeout is no duration, got timeout")
    assert but("R1", message=text, warnings=(text,)).outcome == "broken"


def test_a_row_that_was_not_tried_leaves_it_open_with_why() -> None:
    lost = Unread(AT, "R11", "no control plane says its release")
    verdict = judged([*(one for one in ALL if one.row != "R11"), lost])
    assert verdict.outcome == "unknown"
    assert verdict.because == "not tried: R11, because no control plane says its release"


def test_a_broken_row_outweighs_one_that_was_not_tried() -> None:
    lost = Unread(AT, "R11", "why")
    assert judged([trial("R1", ready="True"), lost]).outcome == "broken"


def test_rows_of_a_broken_import_are_told_and_cost_nothing() -> None:
    aside = [Unread(AT, row, "no import was broken") for row in ("R6", "R7")]
    trials = [*map(trial, GOLDEN_ROWS), *aside]
    verdict = golden_refused(trials, "x")
    assert verdict.outcome == "holds"
    assert verdict.because.endswith(
        "not tried: R6, because no import was broken; not tried: R7, because no import was broken"
    )
    lost = Unread(AT, "R8", "there is one class only")
    assert golden_refused([*trials, lost], "x").outcome == "unknown"
    assert golden_refused([trial("R5"), trial("R8"), *aside], "x").outcome == "unknown"


def test_of_several_trials_of_a_row_each_counts() -> None:
    second = dataclasses.replace(trial("R2", ready="True"), name="hil-second")
    verdict = judged([*ALL, second])
    assert verdict.outcome == "broken"
    assert "hil-second" in verdict.because


# -- what must not be refused

SHAPE = PoolShape("u1.medium", "20Gi", "replicated", "0", "0", "abc", "v1.13.6", "pvc")


def applied(**more: Any) -> AppliedPool:
    given: dict[str, Any] = {
        "name": "hil1-x",
        "asked": SHAPE,
        "rendered": SHAPE,
        "installer": "abc:v1.13.6",
        "address": "cozy-public/talos-worker-abc-v1.13.6",
        "unequal": (),
        "generation": 1,
        "observed": 1,
        "ready": "True",
        "released": "True",
        "reason": "InstallSucceeded",
        "message": "",
        "history": ("1 deployed",),
        "machine_template": "m-000000",
        "bootstrap_template": "b-000000",
        **more,
    }
    return AppliedPool(AT, **given)


def builtin(seen: AppliedPool | Unread | None = None) -> Allowed:
    address = "cozy-public/talos-worker-abc-v1.13.6"
    return Allowed("osImage.builtin {}", "pvc", address, "replicated", seen or applied())


def factory(seen: AppliedPool | Unread | None = None) -> Allowed:
    shape = dataclasses.replace(SHAPE, form="http")
    made = applied(asked=shape, rendered=shape, address="https://f/image/abc/v1.13.6/x", name="f")
    return Allowed("osImage.factory {}", "http", "", "replicated", seen or made)


def allowed(*trials: Allowed, untried: Sequence[Unread] = ()) -> Verdict:
    return os_image_allowed(trials, untried, "pool x")


def test_what_only_looks_wrong_holds_when_it_is_rendered() -> None:
    lost = Unread(AT, "an empty class", "the default is local")
    verdict = allowed(builtin(), factory(), untried=[lost])
    assert verdict.outcome == "holds"
    assert verdict.because == (
        "rendered as due: osImage.builtin {}, osImage.factory {}; not tried: an empty class, "
        "because the default is local"
    )
    assert len(verdict.facts) == 3


def test_both_forms_are_due() -> None:
    assert allowed(builtin()).outcome == "unknown"
    assert allowed(factory()).outcome == "unknown"
    assert allowed().outcome == "unknown"


def test_one_that_is_refused_breaks_it() -> None:
    text = message(TEXTS["R4"])
    seen = applied(ready="False", reason="InstallFailed", message=text, rendered=None)
    verdict = allowed(builtin(seen), factory())
    assert verdict.outcome == "broken"
    assert f"hil1-x (osImage.builtin {{}}) is refused: {TEXTS['R4']}" in verdict.because


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"form": "http"}, "takes its disk by http, due is pvc"),
        ({"storage_class": "local"}, "has its disk on local, due is replicated"),
        ({"storage_class": ""}, "has its disk on no class, due is replicated"),
        ({"disk_size": "30Gi"}, "diskSize is 20Gi in the object, 30Gi in use"),
        ({"schematic": "other"}, "schematic is abc in the object, other in use"),
    ],
)
def test_another_disk_than_is_due_breaks_it(change: dict[str, str], told: str) -> None:
    seen = applied(rendered=dataclasses.replace(SHAPE, **change))
    verdict = allowed(builtin(seen), factory())
    assert verdict.outcome == "broken"
    assert told in verdict.because


def test_another_golden_breaks_it() -> None:
    verdict = allowed(builtin(applied(address="cozy-public/another")), factory())
    assert verdict.outcome == "broken"
    assert "takes its disk from cozy-public/another" in verdict.because


@pytest.mark.parametrize(
    "seen",
    [
        applied(ready=""),
        applied(ready="Unknown", reason="Progressing"),
        applied(ready="False", reason="ArtifactFailed", rendered=None),
        applied(ready="False", reason="InstallFailed", message="connection refused"),
        applied(rendered=None),
        applied(rendered=dataclasses.replace(SHAPE, form="")),
        Unread(AT, "KubernetesNodes", "the API refused it"),
    ],
)
def test_one_that_shows_nothing_leaves_it_open(seen: AppliedPool | Unread) -> None:
    verdict = allowed(builtin(seen), factory())
    assert verdict.outcome == "unknown"
    assert re.search(r"osImage.builtin \{\}", verdict.because)


def test_every_fact_is_kept() -> None:
    facts: tuple[Fact, ...] = allowed(builtin(), factory()).facts
    assert [one.kind for one in facts] == ["AppliedPool", "AppliedPool"]
