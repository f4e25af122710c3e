"""What the API would let somebody do: one answer of an access review, and the binding behind it.

The clone's permission is ClusterRole cdi-copy-dv (create on datavolumes/source of cdi.kubevirt.io),
bound in cozy-public by RoleBinding cdi-clone-dv to the Group system:serviceaccounts (objects 7).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.facts.fact import Fact, Origin
from harness.facts.goldenname import GOLDENS
from harness.facts.objects import at_path, listed, origin_of, text_at


@dataclass(frozen=True, slots=True)
class Question:
    """Whether somebody may do something: the attributes of a request. ``namespace`` is where."""

    verb: str
    resource: str
    namespace: str
    group: str = ""
    subresource: str = ""

    def __str__(self) -> str:
        what = "/".join(part for part in (self.resource, self.subresource) if part)
        return f"{self.verb} {what}{'.' + self.group if self.group else ''} in {self.namespace}"


@dataclass(frozen=True, slots=True)
class AccessAnswer(Fact):
    """The answer for one user. ``reason`` is the authorizer's word on why, "" for none;
    ``problem`` what kept it from looking at everything (evaluationError)."""

    user: str
    question: Question
    allowed: bool
    reason: str
    problem: str


@dataclass(frozen=True, slots=True)
class CloneBinding(Fact):
    """The binding by which disks are cloned across namespaces, as it is.

    ``subjects`` are its subjects ("Group system:serviceaccounts"), ``role`` what it binds
    ("ClusterRole cdi-copy-dv"), ``rules`` the role's rules, each as canonical JSON; None where the
    role is not there.
    """

    name: str
    role: str
    subjects: tuple[str, ...]
    rules: tuple[str, ...] | None


CDI_GROUP = "cdi.kubevirt.io"
CLONE = Question("create", "datavolumes", GOLDENS, CDI_GROUP, "source")
"""What cloning takes (objects 7)."""


def clone_questions(others: Sequence[str]) -> tuple[Question, ...]:
    """What has to be asked: the clone itself, then what must not be allowed.

    ``others`` are namespaces that are neither the goldens' nor the tenant's own.
    """
    at_home = [
        *(Question(verb, "datavolumes", GOLDENS, CDI_GROUP) for verb in ("get", "list", "delete")),
        Question("create", "datavolumes", GOLDENS, CDI_GROUP),
        Question("create", "persistentvolumeclaims", GOLDENS),
        *(Question(verb, "secrets", GOLDENS) for verb in ("get", "list", "create")),
        Question("create", "pods", GOLDENS),
    ]
    elsewhere = [Question("create", "datavolumes", one, CDI_GROUP, "source") for one in others]
    return (CLONE, *at_home, *elsewhere)


def access_answer(
    review: Any, question: Question, user: str, *, at: float, cluster: str
) -> AccessAnswer:
    """Read a SubjectAccessReview that came back; only a plain true is a yes."""
    raw = json.dumps(review, indent=1, sort_keys=True, default=str)
    return AccessAnswer(
        origin=Origin(at, f"{cluster} SubjectAccessReview of {user}", raw),
        user=user,
        question=question,
        allowed=at_path(review, "status", "allowed") is True,
        reason=text_at(review, "status", "reason"),
        problem=text_at(review, "status", "evaluationError"),
    )


def clone_binding(binding: Any, role: Any, *, at: float, cluster: str) -> CloneBinding:
    """Read the binding and the role that it names; ``role`` {} where that is not there."""
    reference = (text_at(binding, "roleRef", key) for key in ("kind", "name"))
    return CloneBinding(
        origin=origin_of(binding, at, cluster),
        name=f"{text_at(binding, 'metadata', 'namespace')}/{text_at(binding, 'metadata', 'name')}",
        role=" ".join(reference),
        subjects=tuple(_subject(one) for one in listed(binding, "subjects")),
        rules=tuple(_rule(one) for one in listed(role, "rules")) if role else None,
    )


def rule(verbs: Sequence[str], group: str, resources: Sequence[str]) -> str:
    """A rule as `CloneBinding` keeps it."""
    return _rule({"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)})


def _rule(found: Any) -> str:
    kept = {key: sorted(map(str, listed(found, key))) for key in found if listed(found, key)}
    return json.dumps(kept, sort_keys=True)


def _subject(found: Any) -> str:
    parts = (text_at(found, "kind"), text_at(found, "namespace"), text_at(found, "name"))
    return " ".join(part for part in parts if part)
