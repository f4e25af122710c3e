from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.facts.applied import AppliedPool, PoolShape
from harness.facts.fact import Origin, Unread
from harness.facts.surroundings import PoolSight, Surroundings
from harness.judge.adoption import os_image_rolls
from harness.judge.verdict import Verdict

AT = Origin(1.0, "management", "")
HELD, OTHER = "kubernetes-lab-x", "kubernetes-lab-y"
HTTP = PoolShape("u1.medium", "20Gi", "replicated", "0", "0", "abc", "v1.13.6", "http")


def pool(template: str, form: str, **more: Any) -> AppliedPool:
    shape = dataclasses.replace(HTTP, form=form)
    given: dict[str, Any] = {
        "rendered": shape,
        "ready": "True",
        "reason": "ok",
        "machine_template": template,
        **more,
    }
    return AppliedPool(
        AT,
        name="hil1-x",
        asked=shape,
        installer="abc:v1.13.6",
        address=f"from-{form}",
        unequal=(),
        generation=1,
        observed=1,
        released="True",
        message="",
        history=("1 deployed",),
        bootstrap_template="b",
        **given,
    )


PARTS = {
    "KubevirtMachineTemplate k": "u d",
    "TalosConfigTemplate b": "u d",
    "Machine m": "u1",
    "VirtualMachineInstance v": "u2",
    "DataVolume d": "u3",
    "boot of n": "b1",
}


def sight(name: str, values: str = "v", **change: str) -> PoolSight:
    parts = {**PARTS, **change}
    return PoolSight(name, values, {key: value for key, value in parts.items() if value})


def around(*pools: PoolSight) -> Surroundings:
    return Surroundings(AT, pools)


BOTH = around(sight(HELD), sight(OTHER))


def judged(
    after: Surroundings = BOTH,
    *,
    was: AppliedPool | Unread | None = None,
    now: AppliedPool | Unread | None = None,
    before: Surroundings = BOTH,
) -> Verdict:
    was, now = was or pool("k-1", "http"), now or pool("k-2", "pvc")
    return os_image_rolls(was, now, before, after, HELD, "pool x")


def test_that_pool_alone_holds() -> None:
    verdict = judged()
    assert verdict.outcome == "holds"
    assert verdict.because == (
        "hil1-x went from k-1 (from-http) to k-2 (from-pvc), and 2 other pools kept 12 objects "
        "and boots"
    )
    assert len(verdict.facts) == 4


def test_the_same_template_breaks_it() -> None:
    verdict = judged(now=pool("k-1", "pvc"))
    assert verdict.outcome == "broken"
    assert "still uses k-1" in verdict.because


@pytest.mark.parametrize("ready", ["False", ""])
def test_a_template_that_was_kept_by_a_refusal_is_no_failure_to_roll(ready: str) -> None:
    assert judged(now=pool("k-1", "http", ready=ready)).outcome == "unknown"


def test_one_that_was_cloned_before_shows_nothing() -> None:
    assert judged(was=pool("k-1", "pvc")).outcome == "unknown"


def test_another_template_that_still_downloads_breaks_it() -> None:
    assert judged(now=pool("k-2", "http")).outcome == "broken"


@pytest.mark.parametrize("name", [HELD, OTHER])
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("value", ["", "another"])
def test_anything_else_that_moves_breaks_it(name: str, part: str, value: str) -> None:
    moved = [sight(one, **({part: value} if one == name else {})) for one in (HELD, OTHER)]
    verdict = judged(around(*moved))
    assert verdict.outcome == "broken"
    assert f"{part} of {name} is {value or 'gone'}, was {PARTS[part]}" in verdict.because


def test_a_new_machine_of_the_held_pool_breaks_it() -> None:
    after = around(sight(HELD, **{"Machine new": "u9"}), sight(OTHER))
    verdict = judged(after)
    assert verdict.outcome == "broken"
    assert "Machine new of kubernetes-lab-x is u9, was not there" in verdict.because


def test_another_pool_that_goes_on_joining_is_no_change() -> None:
    assert judged(around(sight(HELD), sight(OTHER, **{"Machine new": "u9"}))).outcome == "holds"


def test_another_pool_that_somebody_edited_is_told_and_left_out() -> None:
    edited = around(sight(HELD), sight(OTHER, values="w", **{"Machine m": "another"}))
    verdict = judged(edited)
    assert verdict.outcome == "holds"
    assert "1 other pool kept" in verdict.because
    assert f"{OTHER} was changed by somebody meanwhile" in verdict.because
    gone = judged(around(sight(HELD)))
    assert gone.outcome == "holds"


def test_the_held_pool_is_never_left_out() -> None:
    edited = around(sight(HELD, values="w", **{"Machine m": "another"}), sight(OTHER))
    assert judged(edited).outcome == "broken"
    gone = judged(around(sight(OTHER)))
    assert gone.outcome == "broken"
    assert f"{HELD} is gone" in gone.because


def test_without_a_worker_nothing_could_have_moved() -> None:
    bare = around(sight(HELD, **{"Machine m": ""}), sight(OTHER))
    assert judged(bare, before=bare).outcome == "unknown"
    nobody = around(sight(OTHER))
    assert judged(nobody, before=nobody).outcome == "unknown"


@pytest.mark.parametrize(
    "seen",
    [
        Unread(AT, "KubernetesNodes", "gone"),
        pool("", "pvc", rendered=None),
        pool("", "pvc"),
        pool("k-2", "pvc", rendered=None),
        pool("k-2", "pvc", ready="False"),
        pool("k-2", "pvc", ready=""),
        pool("k-2", ""),
    ],
)
def test_a_pool_that_was_not_rendered_leaves_it_open(seen: AppliedPool | Unread) -> None:
    assert judged(now=seen).outcome == "unknown"
    if isinstance(seen, AppliedPool) and seen.machine_template:
        seen = dataclasses.replace(seen, machine_template="k-1")
    assert judged(was=seen).outcome == "unknown"


@pytest.mark.parametrize(("ready", "going"), [(False, False), (True, True)])
def test_a_pool_that_comes_up_or_goes_meanwhile_is_told_and_left_out(
    *, ready: bool, going: bool
) -> None:
    was = dataclasses.replace(sight(OTHER), ready=ready)
    now = dataclasses.replace(sight(OTHER, **{"Machine m": ""}), going=going)
    already = dataclasses.replace(was, ready=True, going=True)
    gone_on = judged(around(sight(HELD), now), before=around(sight(HELD), already))
    assert gone_on.outcome == "holds"
    verdict = judged(around(sight(HELD), now), before=around(sight(HELD), was))
    assert verdict.outcome == "holds"
    assert f"{OTHER} was coming up or going meanwhile" in verdict.because


def test_the_held_pool_is_not_left_out_while_it_comes_up() -> None:
    was = dataclasses.replace(sight(HELD), ready=False)
    now = sight(HELD, **{"Machine m": "another"})
    assert judged(around(now), before=around(was)).outcome == "broken"


def test_a_pool_that_was_up_and_is_not_is_blamed_on_the_adoption() -> None:
    now = dataclasses.replace(sight(OTHER, **{"Machine m": "another"}), ready=False)
    assert judged(around(sight(HELD), now)).outcome == "broken"
