from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.facts.access import (
    CDI_GROUP,
    CLONE,
    AccessAnswer,
    CloneBinding,
    Question,
    clone_questions,
    rule,
)
from harness.facts.fact import Origin, Unread
from harness.judge.access import clone_rbac
from harness.judge.verdict import Verdict

AT = Origin(1.0, "management", "")
USER = "system:serviceaccount:tenant-hil:default"
BY = (
    'RBAC: allowed by RoleBinding "cdi-clone-dv/cozy-public" of ClusterRole "cdi-copy-dv" to '
    'Group "system:serviceaccounts"'
)
LOST = Unread(AT, "whether it may", "the harness may not ask for access reviews")
QUESTIONS = clone_questions(["default", "kube-system"])
RULE = rule(["create"], CDI_GROUP, ["datavolumes/source"])
BINDING = CloneBinding(
    AT,
    "cozy-public/cdi-clone-dv",
    "ClusterRole cdi-copy-dv",
    ("Group system:serviceaccounts",),
    (RULE,),
)


def answer(question: Question, **more: Any) -> AccessAnswer:
    yes = question == CLONE
    given: dict[str, Any] = {"allowed": yes, "reason": BY if yes else "", "problem": "", **more}
    return AccessAnswer(AT, USER, question, **given)


ALL = [answer(one) for one in QUESTIONS]


def judged(
    answers: list[AccessAnswer | Unread] | None = None, binding: CloneBinding | Unread = BINDING
) -> Verdict:
    return clone_rbac(ALL if answers is None else answers, binding, "pool x")


def but(question: Question, **more: Any) -> Verdict:
    return judged([answer(one, **(more if one == question else {})) for one in QUESTIONS])


def test_the_clone_and_no_more_holds() -> None:
    verdict = judged()
    assert verdict.outcome == "holds"
    assert verdict.because == (
        f"{USER} may create datavolumes/source.cdi.kubevirt.io in cozy-public by RoleBinding "
        "cozy-public/cdi-clone-dv (ClusterRole cdi-copy-dv), and 11 other requests are denied"
    )


@pytest.mark.parametrize("reason", ["", "RBAC: allowed"])
def test_an_authorizer_need_not_say_why(reason: str) -> None:
    assert but(CLONE, reason=reason).outcome == "holds"


def test_a_clone_that_is_denied_breaks_it() -> None:
    verdict = but(CLONE, allowed=False, reason="no")
    assert verdict.outcome == "broken"
    assert "may not create datavolumes/source" in verdict.because
    assert but(CLONE, allowed=False, reason="").because.endswith("in cozy-public")
    absent = Unread(AT, "RoleBinding cozy-public/cdi-clone-dv", "it is not there")
    denied = [answer(one, allowed=False) for one in QUESTIONS]
    assert judged(list(denied), absent).outcome == "broken"


@pytest.mark.parametrize("question", QUESTIONS[1:], ids=str)
def test_anything_more_breaks_it(question: Question) -> None:
    verdict = but(question, allowed=True, reason="by another")
    assert verdict.outcome == "broken"
    assert f"{USER} may {question} (by another)" in verdict.because


@pytest.mark.parametrize(
    "binding",
    [
        'ClusterRoleBinding "tenants-all"',
        'ClusterRoleBinding "cdi-clone-dv/cozy-public"',
        'RoleBinding "cdi-clone-dv-2/cozy-public"',
        'RoleBinding "old-cdi-clone-dv/cozy-public"',
        'RoleBinding "cdi-clone-dv/cozy-public-2"',
    ],
)
def test_another_binding_behind_it_breaks_it(binding: str) -> None:
    verdict = but(CLONE, reason=f'RBAC: allowed by {binding} of ClusterRole "admin"')
    assert verdict.outcome == "broken"
    assert "by another binding" in verdict.because


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"role": "ClusterRole admin"}, "binds ClusterRole admin"),
        ({"subjects": ()}, "is for none"),
        ({"subjects": (*BINDING.subjects, "Group x")}, "Group x"),
        ({"rules": ()}, "allows none"),
        ({"rules": (RULE, rule(["get"], "", ["secrets"]))}, "secrets"),
        ({"rules": (rule(["*"], CDI_GROUP, ["datavolumes/source"]),)}, '"*"'),
    ],
)
def test_another_binding_than_shipped_breaks_it(change: dict[str, Any], told: str) -> None:
    verdict = judged(binding=dataclasses.replace(BINDING, **change))
    assert verdict.outcome == "broken"
    assert told in verdict.because


def test_where_it_may_not_ask_it_is_open_with_that_reason() -> None:
    verdict = judged([LOST for _ in QUESTIONS])
    assert verdict.outcome == "unknown"
    assert "the harness may not ask for access reviews" in verdict.because
    assert judged(binding=LOST).outcome == "unknown"
    assert judged([*ALL[:-1], LOST]).outcome == "unknown"


def test_a_role_that_is_not_there_leaves_it_open() -> None:
    assert judged(binding=dataclasses.replace(BINDING, rules=None)).outcome == "unknown"


@pytest.mark.parametrize("left_out", QUESTIONS[:-2], ids=str)
def test_every_question_is_due(left_out: Question) -> None:
    verdict = judged([one for one in ALL if one.question != left_out])
    assert verdict.outcome == "unknown"
    assert f"nobody asked whether it may {left_out}" in verdict.because


def test_other_namespaces_are_due() -> None:
    verdict = judged(list(ALL[:-2]))
    assert verdict.outcome == "unknown"
    assert "nobody asked about sources in another namespace" in verdict.because
    assert judged([]).outcome == "unknown"


def test_an_answer_with_a_problem_leaves_it_open() -> None:
    assert but(QUESTIONS[1], problem="role not found").outcome == "unknown"
    assert but(CLONE, allowed=False, problem="role not found").outcome == "unknown"
