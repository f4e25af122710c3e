from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.facts.applied import Allowed, AppliedPool, PoolShape
from harness.facts.catalogue import Outlived, Resolved
from harness.facts.fact import Origin, Unread
from harness.facts.refusals import RefusalTrial
from harness.judge.classes import class_resolved
from harness.judge.verdict import Verdict

AT = Origin(1.0, "management", "")
LOST = Unread(AT, "it all", "there is no class beside the default, local")
GOLDEN = "cozy-public/talos-worker-g-v1.13.6"
R8 = (
    "Helm install failed: execution error at (kubernetes-nodes/templates/_helpers.tpl:91:8): "
    "storageClass local differs from golden image talos-worker-g-v1.13.6, whose class is "
    "replicated. Neither side can be moved in place: recreate the pool"
)


def applied(klass: str = "replicated", **more: Any) -> AppliedPool:
    shape = PoolShape("u1.medium", "20Gi", klass, "0", "0", "g", "v1.13.6", "pvc")
    given: dict[str, Any] = {
        "name": "hil1-x",
        "asked": dataclasses.replace(shape, storage_class=""),
        "rendered": shape,
        "installer": "g:v1.13.6",
        "address": GOLDEN,
        "unequal": (),
        "generation": 1,
        "observed": 1,
        "ready": "True",
        "released": "True",
        "reason": "ok",
        "message": "",
        "history": ("1 deployed",),
        "machine_template": "k",
        "bootstrap_template": "b",
        **more,
    }
    return AppliedPool(AT, **given)


def allowed(what: str, klass: str, seen: AppliedPool | Unread | None = None) -> Allowed:
    return Allowed(what, "pvc", GOLDEN, klass, seen or applied(klass))


def refusal(**more: Any) -> RefusalTrial:
    given: dict[str, Any] = {
        "row": "R8",
        "name": "hil3-x",
        "asked": "{}",
        "wrong": ("local", "replicated"),
        "altered": (),
        "api": "",
        "ready": "False",
        "released": "False",
        "reason": "InstallFailed",
        "message": R8,
        "warnings": (R8,),
        "before": {},
        "after": {},
        **more,
    }
    return RefusalTrial(AT, **given)


def judged(
    named: Any = None, both: Any = None, refused: Any = None, before: Any = None, moved: Any = None
) -> Verdict:
    resolved = Resolved(
        (named or allowed("named", "replicated"), both or allowed("both", "local")),
        refused or refusal(),
    )
    moved = moved or allowed("moved", "replicated")
    return class_resolved(resolved, Outlived(before or applied(), moved, LOST), "pool x")


def test_each_side_by_its_own_claim_and_else_the_default_holds() -> None:
    verdict = judged()
    assert verdict.outcome == "holds"
    told = (
        "rendered as due: named (replicated), both (local), moved (replicated); 1 request refused"
    )
    assert verdict.because.startswith(told)
    assert "R8 (another class than the golden's)" in verdict.because
    kinds = ["AppliedPool"] * 4 + ["RefusalTrial"]
    assert [one.kind for one in verdict.facts] == kinds


NO = {"ready": "False", "reason": "UpgradeFailed", "message": R8}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"named": allowed("named", "replicated", applied(**NO))}, "(named) is refused: storage"),
        ({"named": allowed("named", "replicated", applied("local"))}, "on local, due is replic"),
        ({"both": allowed("both", "local", applied(""))}, "on no class, due is local"),
        ({"moved": allowed("moved", "replicated", applied(**NO))}, "(moved) is refused: storage"),
        ({"moved": allowed("moved", "replicated", applied("local"))}, "on local, due is replic"),
        (
            {"moved": allowed("moved", "replicated", applied(machine_template="other"))},
            "has template other without its class, had k: it would roll",
        ),
        (
            {"moved": allowed("moved", "replicated", applied(bootstrap_template="other"))},
            "has template other without its class, had b: it would roll",
        ),
        (
            {"refused": refusal(ready="True", after={"MachineDeployment a": "u d"})},
            "is accepted",
        ),
        ({"refused": refusal(wrong=("local", "fast"))}, "R8"),
        ({"named": LOST, "both": allowed("both", "local", applied(""))}, "on no class"),
    ],
)
def test_any_other_class_breaks_it(more: dict[str, Any], told: str) -> None:
    verdict = judged(**more)
    assert verdict.outcome == "broken"
    assert told in verdict.because


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"named": LOST}, "not tried: it all, because there is no class beside"),
        ({"both": LOST}, "not tried: it all"),
        ({"refused": LOST}, "not tried: it all"),
        ({"moved": LOST, "before": LOST}, "not tried: it all"),
        ({"before": LOST}, "the pool before its class was taken out: it all"),
        ({"before": applied(machine_template="")}, "out: not both of its templates are known"),
        ({"before": applied(bootstrap_template="")}, "out: not both of its templates are known"),
        (
            {"moved": allowed("moved", "replicated", applied(bootstrap_template=""))},
            "hil1-x without its class: not both",
        ),
        ({"named": allowed("named", "replicated", applied(ready=""))}, "has not been rendered"),
        ({"moved": allowed("moved", "replicated", applied(rendered=None))}, "no template says"),
        ({"moved": allowed("moved", "replicated", LOST)}, "moved: it all: there is no class"),
        ({"refused": refusal(ready="")}, "has not come to an end"),
    ],
)
def test_what_was_not_seen_leaves_it_open(more: dict[str, Any], told: str) -> None:
    verdict = judged(**more)
    assert verdict.outcome == "unknown"
    assert told in verdict.because
