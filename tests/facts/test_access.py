from __future__ import annotations

from typing import Any

import pytest

from harness.facts.access import (
    CLONE,
    Question,
    access_answer,
    clone_binding,
    clone_questions,
    rule,
)
from harness.facts.goldenname import GOLDENS


@pytest.mark.parametrize(
    ("status", "allowed"),
    [
        ({"allowed": True}, True),
        ({"allowed": False}, False),
        ({"allowed": "true"}, False),
        ({}, False),
        (None, False),
    ],
)
def test_only_a_plain_yes_is_one(status: Any, allowed: bool) -> None:  # noqa: FBT001 - parametrized
    answer = access_answer({"status": status}, CLONE, "u", at=1.0, cluster="m")
    assert answer.allowed is allowed
    assert answer.question == CLONE


def test_why_and_what_went_wrong_are_kept() -> None:
    status = {"allowed": False, "reason": "because", "evaluationError": "role not found"}
    answer = access_answer({"status": status}, CLONE, "u", at=1.0, cluster="m")
    assert (answer.reason, answer.problem) == ("because", "role not found")


def test_a_binding_and_its_role() -> None:
    binding = {
        "kind": "RoleBinding",
        "metadata": {"name": "cdi-clone-dv", "namespace": "cozy-public"},
        "roleRef": {"kind": "ClusterRole", "name": "cdi-copy-dv"},
        "subjects": [
            {"kind": "Group", "name": "system:serviceaccounts"},
            {"kind": "ServiceAccount", "namespace": "x", "name": "y"},
        ],
    }
    role = {
        "rules": [
            {
                "verbs": ["create"],
                "apiGroups": ["cdi.kubevirt.io"],
                "resources": ["datavolumes/source"],
                "resourceNames": [],
            }
        ]
    }
    found = clone_binding(binding, role, at=1.0, cluster="m")
    assert (found.name, found.role) == ("cozy-public/cdi-clone-dv", "ClusterRole cdi-copy-dv")
    assert found.subjects == ("Group system:serviceaccounts", "ServiceAccount x y")
    assert found.rules == (rule(["create"], "cdi.kubevirt.io", ["datavolumes/source"]),)
    assert clone_binding(binding, {}, at=1.0, cluster="m").rules is None


def test_a_rule_is_the_same_in_any_order() -> None:
    assert rule(["get", "list"], "", ["pods"]) == rule(["list", "get"], "", ["pods"])
    assert rule(["get"], "", ["pods"]) != rule(["get"], "", ["secrets"])


def test_what_has_to_be_asked() -> None:
    questions = clone_questions(["default"])
    assert questions[0] == CLONE
    assert Question("create", "datavolumes", "default", "cdi.kubevirt.io", "source") in questions
    assert all(one.namespace == GOLDENS for one in clone_questions([]))
    assert str(CLONE) == "create datavolumes/source.cdi.kubevirt.io in cozy-public"
    assert str(Question("get", "secrets", "x")) == "get secrets in x"
