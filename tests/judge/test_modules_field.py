from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import pytest

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.machineconfig import DeclaredModule, RenderedModules
from harness.facts.trials import RenderTrial
from harness.judge.modules_field import kernel_modules_refused, kernel_modules_verbatim
from harness.judge.verdict import Verdict

AT = Origin(1.0, "management", "")
LOST = Unread(AT, "HelmRelease", "it is not there")
L40S, AMD = "nvidia.com/AD102GL_L40S", "amd.com/mi300x"
AUTOMATIC = (
    DeclaredModule("nvidia", ("NVreg_NvLinkDisable=1",)),
    DeclaredModule("nvidia_uvm"),
    DeclaredModule("nvidia_drm"),
    DeclaredModule("nvidia_modeset"),
)


MADE = ("MachineDeployment kubernetes-lab-gpu-hil1",)


def trial(written: Any, name: str = "gpu-hil1", **more: Any) -> RenderTrial:
    text = "" if written is ABSENT else json.dumps(written, sort_keys=True)
    given: dict[str, Any] = {
        "stored": text,
        "gpus": (L40S,),
        "ready": "True",
        "reason": "InstallSucceeded",
        "message": "",
        "events": (),
        "rendered": None,
        "labels": {"gpu": "on"},
        "created": MADE if more.get("ready", "True") == "True" else (),
        **more,
    }
    return RenderTrial(AT, name, text, **given)


ABSENT = object()


def message(text: str) -> str:
    return (
        "Helm install failed for release tenant-test/kubernetes-nodes-lab-gpu-hil1 with chart "
        f"k@1: execution error at (kubernetes-nodes/templates/job.yaml:3:4): {text}"
    )


def refused(written: Any, text: str, **more: Any) -> RenderTrial:
    given = {"ready": "False", "reason": "InstallFailed", "labels": None, **more}
    return trial(written, **{"message": message(text), **given})


def by_name(value: str, name: str = "gpu-hil1", shown: str = "") -> RenderTrial:
    text = f'pool "{name}": invalid kernelModules name {shown or json.dumps(value)}'
    return refused([{"name": value}], text, name=name)


def by_parameter(value: str, name: str = "gpu-hil1") -> RenderTrial:
    text = f'pool "{name}": invalid kernelModules parameter {json.dumps(value)}'
    return refused([{"name": "nvidia", "parameters": [value]}], text, name=name)


GOOD = (
    by_name("bad name"),
    by_parameter("a=$(id)"),
    by_parameter("a=1\u2028b"),
    by_parameter("a=1\u2029b"),
)


def judged(trials: Sequence[RenderTrial | Unread]) -> Verdict:
    verdict = kernel_modules_refused(trials, "cluster lab")
    assert (verdict.claim, verdict.subject) == ("kernel-modules-refused", "cluster lab")
    assert verdict.facts == tuple(trials)
    return verdict


def test_hostile_input_is_refused() -> None:
    verdict = judged(GOOD)
    assert verdict.outcome == "holds"
    assert "4 hostile inputs refused" in verdict.because


@pytest.mark.parametrize(
    "name", ["bad name", "Nvidia", "nvidia;id", "nvidia.ko", "../nvidia", "", "nvi\u2028dia", "é"]
)
def test_a_name_that_must_be_refused(name: str) -> None:
    assert judged((*GOOD, by_name(name))).outcome == "holds"
    assert judged((*GOOD, trial([{"name": name}]))).outcome == "broken"


@pytest.mark.parametrize(
    "parameter",
    ["a=b c", "a=$x", "a=`id`", "a=\\n", 'a="b"', "a='b'", "a=\t", "a=\u2028", "a=\u2029", "é", ""],
)
def test_a_parameter_that_must_be_refused(parameter: str) -> None:
    assert judged((*GOOD, by_parameter(parameter))).outcome == "holds"
    accepted = trial([{"name": "nvidia", "parameters": [parameter]}])
    assert judged((*GOOD, accepted)).outcome == "broken"


@pytest.mark.parametrize(
    "entry",
    [
        {"name": "nf_tables"},
        {"name": "a-b_9", "parameters": ["NVreg_X=1;NVreg_Y=2", "a=!#%&()*+,-./:;<=>?@[]^_{|}~"]},
    ],
)
def test_what_is_not_hostile_is_no_trial_of_it(entry: dict[str, Any]) -> None:
    verdict = judged((*GOOD, trial([entry])))
    assert (verdict.outcome, "asks for nothing hostile" in verdict.because) == ("unknown", True)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (trial([{"name": "bad name"}]), "gpu-hil1 is accepted with name 'bad name'"),
        (
            refused([{"name": "bad name"}], "error converting YAML to JSON: line 12: bad name"),
            "is refused as a YAML error, not by its own words",
        ),
        (
            refused([{"name": "bad name"}], "cannot unmarshal bad name"),
            "is refused as a YAML error",
        ),
        (
            refused([{"name": "bad name"}], "gpu-hil1: something about bad name"),
            "is refused, not by its own words: gpu-hil1: something",
        ),
        (
            refused([{"name": "bad name"}], "gpu-hil1: invalid kernelModules name"),
            "is refused, not by its own words",
        ),
        (
            refused([{"name": "bad name"}], 'invalid kernelModules name "bad name"'),
            "is refused, not by its own words",
        ),
        (
            refused([{"name": "bad name"}], 'gpu-hil1: invalid kernelModules parameter "bad name"'),
            "is refused, not by its own words",
        ),
        (
            refused(
                [{"name": "nvidia", "parameters": ["a=$x"]}],
                'gpu-hil1: invalid kernelModules name "a=$x"',
            ),
            "is refused, not by its own words",
        ),
        (
            dataclasses.replace(GOOD[0], created=("MachineDeployment kubernetes-lab-gpu-hil1",)),
            "gpu-hil1 with name 'bad name' made MachineDeployment kubernetes-lab-gpu-hil1",
        ),
    ],
)
def test_a_refusal_that_is_none(one: RenderTrial, said: str) -> None:
    verdict = judged((*GOOD, one))
    assert verdict.outcome == "broken"
    assert said in verdict.because
    assert judged((*GOOD, one, LOST)).outcome == "broken"


def test_a_refusal_in_an_event_counts() -> None:
    [good] = [by_name("bad name")]
    told = dataclasses.replace(good, message="install retries exhausted", events=(good.message,))
    assert judged((*GOOD[1:], told)).outcome == "holds"


def test_a_value_may_be_shown_escaped_or_as_it_is() -> None:
    for shown in ('"a\\u2028b"', "a\u2028b"):
        assert judged((*GOOD, by_name("a\u2028b", shown=shown))).outcome == "holds"
    for shown in ('"a\\"b"', 'a"b'):
        assert judged((*GOOD, by_name('a"b', shown=shown))).outcome == "holds"


@pytest.mark.parametrize("shown", ['"x b"', '"a x"', '"a"', '""'])
def test_another_value_in_its_place_is_none(shown: str) -> None:
    assert judged((*GOOD, by_name("a b", shown=shown))).outcome == "broken"


def test_of_several_hostile_values_one_that_is_named_is_enough() -> None:
    both = [{"name": "bad name"}, {"name": "worse name"}]
    text = 'gpu-hil1: invalid kernelModules name "bad name"'
    assert judged((*GOOD, refused(both, text))).outcome == "holds"


def test_the_release_in_helms_own_words_is_no_pool() -> None:
    text = 'invalid kernelModules name "bad name"'
    assert judged((*GOOD, refused([{"name": "bad name"}], text))).outcome == "broken"


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (0, "no trial had a hostile name"),
        (2, "no trial had U+2028"),
        (3, "no trial had U+2029"),
    ],
)
def test_what_was_not_tried_is_not_shown(without: int, said: str) -> None:
    verdict = judged([one for at, one in enumerate(GOOD) if at != without])
    assert (verdict.outcome, said in verdict.because) == ("unknown", True)


def test_without_a_hostile_parameter_nothing_is_shown_of_one() -> None:
    names = (by_name("bad name"), by_name("a\u2028"), by_name("a\u2029"))
    verdict = judged(names)
    assert (verdict.outcome, verdict.because) == ("unknown", "no trial had a hostile parameter")
    assert judged(()).outcome == "unknown"


@pytest.mark.parametrize("ready", ["Unknown", ""])
def test_a_trial_that_has_not_ended(ready: str) -> None:
    one = dataclasses.replace(GOOD[0], ready=ready, created=("Job x",), reason="Progressing")
    verdict = judged((*GOOD, one))
    assert verdict.outcome == "unknown"
    assert "gpu-hil1 has not come to an end (Progressing)" in verdict.because
    silent = dataclasses.replace(GOOD[0], ready=ready, reason="")
    assert "(no condition Ready)" in judged((*GOOD, silent)).because


def test_a_trial_that_could_not_be_read() -> None:
    verdict = judged((*GOOD, LOST))
    assert (verdict.outcome, "it is not there" in verdict.because) == ("unknown", True)


@pytest.mark.parametrize("written", ["no JSON", '"text"', "[1, null]", '[{"parameters": 3}]'])
def test_what_was_written_may_be_anything(written: str) -> None:
    one = dataclasses.replace(GOOD[0], written=written)
    assert judged((*GOOD, one)).outcome in ("unknown", "broken")


# what is kept word for word


def rendered(
    *modules: DeclaredModule, block: bool = True, misplaced: Any = (), extra: Any = ()
) -> RenderedModules:
    return RenderedModules(AT, block, modules, misplaced, extra)


LIST = [{"name": "nvidia", "parameters": ["NVreg_A=1;NVreg_B=2"], "color": "red"}]
DECLARED = DeclaredModule("nvidia", ("NVreg_A=1;NVreg_B=2",))
KEPT = trial(LIST, name="kept", rendered=rendered(DECLARED))
OPTED_OUT = trial([], name="empty", rendered=rendered())
OURS = (KEPT, OPTED_OUT)


def kept(trials: Sequence[RenderTrial | Unread]) -> Verdict:
    verdict = kernel_modules_verbatim(trials, "cluster lab")
    assert (verdict.claim, verdict.subject) == ("kernel-modules-verbatim", "cluster lab")
    assert verdict.facts == tuple(trials)
    return verdict


@pytest.mark.parametrize(
    "more",
    [
        (),
        (dataclasses.replace(OPTED_OUT, rendered=rendered(block=False)),),
        (trial(ABSENT, rendered=rendered(*AUTOMATIC)),),
        (dataclasses.replace(KEPT, events=("kernelModules: a warning",)),),
        (trial(ABSENT, gpus=(AMD,), rendered=rendered(block=False), labels={}),),
        (trial(ABSENT, gpus=(), rendered=rendered(block=False), labels=None),),
        (trial([{"name": "nf"}], gpus=(), rendered=rendered(DeclaredModule("nf")), labels={}),),
        (dataclasses.replace(KEPT, stored=json.dumps([{**LIST[0], "color": None}])),),
        (dataclasses.replace(KEPT, stored=json.dumps([{"name": "nvidia", "parameters": [
            "NVreg_A=1;NVreg_B=2"]}])),),
    ],
)  # fmt: skip
def test_what_is_kept(more: tuple[RenderTrial, ...]) -> None:
    verdict = kept((*OURS, *more))
    assert verdict.outcome == "holds", verdict.because
    assert 'kept (kernelModules [{"color"' in verdict.because


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rendered": rendered(DeclaredModule("nvidia", ("NVreg_A=1",)))}, "declares nvidia NVreg"),
        ({"rendered": rendered(DeclaredModule("nvidia", ("NVreg_A=1", "NVreg_B=2")))}, "declares"),
        ({"rendered": rendered()}, "declares none"),
        ({"rendered": rendered(DECLARED, DeclaredModule("x"))}, "declares nvidia"),
        ({"rendered": rendered(DECLARED, misplaced=("machine.modules",))}, "declares nvidia"),
        ({"rendered": rendered(DECLARED, extra=("color",))}, "declares the keys color too"),
        ({"labels": {}}, "labels its node {}, expected gpu: on"),
        ({"labels": {"gpu": "off"}}, "labels its node {'gpu': 'off'}"),
        ({"stored": ""}, "is stored as absent, written as"),
        ({"stored": "[]"}, "is stored as [], written as"),
        ({"stored": "null"}, "is stored as null, written as"),
    ],
)
def test_what_is_not_kept(changed: dict[str, Any], said: str) -> None:
    one = dataclasses.replace(KEPT, **changed)
    verdict = kept((*OURS, one))
    assert verdict.outcome == "broken"
    assert said in verdict.because
    assert kept((*OURS, one, LOST)).outcome == "broken"


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (dataclasses.replace(OPTED_OUT, rendered=rendered(*AUTOMATIC)), "declares nvidia"),
        (dataclasses.replace(OPTED_OUT, labels={}), "expected gpu: on"),
        (
            trial(ABSENT, stored="[]", rendered=rendered(*AUTOMATIC)),
            "is stored as [], written as kernelModules absent",
        ),
        (trial(ABSENT, rendered=rendered(*AUTOMATIC[:3])), "declares"),
        (trial(ABSENT, gpus=(AMD,), rendered=rendered(*AUTOMATIC)), "declares"),
        (
            trial(ABSENT, gpus=(AMD,), rendered=rendered(block=True)),
            "which asks for nothing, has a kernel block",
        ),
        (
            refused(LIST, "gpu-hil1: invalid kernelModules parameter", events=("another",)),
            "is refused: gpu-hil1: invalid",
        ),
        (
            refused(LIST, 'gpu-hil1: invalid kernelModules parameter "NVreg_A=1;NVreg_B=2"'),
            "is refused: gpu-hil1: invalid",
        ),
    ],
)
def test_a_state_that_is_not_kept(one: RenderTrial, said: str) -> None:
    verdict = kept((*OURS, one))
    assert verdict.outcome == "broken", verdict.because
    assert said in verdict.because


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (dataclasses.replace(KEPT, rendered=None), "kept has no machine configuration"),
        (dataclasses.replace(KEPT, rendered=LOST), "kept: it is not there"),
        (dataclasses.replace(KEPT, ready="Unknown", reason="P", message="m"), "not Ready (P: m)"),
        (dataclasses.replace(KEPT, ready="False", message="timeout"), "not Ready (Install"),
        (dataclasses.replace(KEPT, ready="", reason=""), "not Ready (no condition: )"),
        (dataclasses.replace(KEPT, labels=None), "labels of kept could not be read"),
        (trial("text", rendered=rendered()), 'asks for no list of modules: "text"'),
    ],
)
def test_a_trial_that_shows_nothing(one: RenderTrial, said: str) -> None:
    verdict = kept((*OURS, one))
    assert verdict.outcome == "unknown", verdict.because
    assert said in verdict.because


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        ((), "no trial had a semicolon in a parameter; no trial had an unknown key; no trial had"),
        ((trial(ABSENT, rendered=rendered(*AUTOMATIC)),), "no trial had an unknown key"),
        ((OPTED_OUT, trial([1], rendered=rendered())), "asks for no list of modules: [1]"),
        ((KEPT,), "no trial had [] on a pool with an NVIDIA device"),
        ((OPTED_OUT,), "no trial had a semicolon in a parameter; no trial had an unknown key"),
        (
            (KEPT, trial([], gpus=(AMD,), rendered=rendered(), labels={})),
            "no trial had [] on a pool with an NVIDIA device",
        ),
        (
            (OPTED_OUT, trial([{"name": "a", "x": 1}], rendered=rendered(DeclaredModule("a")))),
            "no trial had a semicolon in a parameter",
        ),
        (
            (
                OPTED_OUT,
                trial(
                    [{"name": "a", "parameters": ["b;c"]}],
                    rendered=rendered(DeclaredModule("a", ("b;c",))),
                ),
            ),
            "no trial had an unknown key",
        ),
    ],
)
def test_what_was_not_tried_is_not_kept(trials: tuple[RenderTrial, ...], said: str) -> None:
    verdict = kept(trials)
    assert verdict.outcome == "unknown"
    assert said in verdict.because


def test_a_trial_that_could_not_be_read_shows_nothing() -> None:
    facts: tuple[Fact, ...] = (*OURS, LOST)
    verdict = kept((*OURS, LOST))
    assert (verdict.outcome, verdict.facts) == ("unknown", facts)
    assert "it is not there" in verdict.because


def test_a_release_that_rendered_no_pool_says_nothing_of_the_field() -> None:
    # a tenant without etcd: the release is Ready, with a ConfigMap for all
    verdict = judged((*GOOD, trial([{"name": "bad name"}], created=())))
    assert verdict.outcome == "unknown"
    assert "gpu-hil1 is Ready with no pool rendered" in verdict.because
