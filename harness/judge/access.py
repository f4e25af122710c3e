"""Claim clone-rbac: a tenant may clone from the platform's goldens, and do nothing else there."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.facts.access import (
    CDI_GROUP,
    CLONE,
    AccessAnswer,
    CloneBinding,
    clone_questions,
    rule,
)
from harness.facts.fact import Unread
from harness.facts.goldenname import GOLDENS
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, named, unread

BINDING, ROLE, SUBJECT = "cdi-clone-dv", "ClusterRole cdi-copy-dv", "Group system:serviceaccounts"
_RULE = rule(["create"], CDI_GROUP, ["datavolumes/source"])
_SHIPPED = re.compile(rf'(?<!Cluster)RoleBinding "{BINDING}/{GOLDENS}"')
"""How the API's authorizer names it (Kubernetes, plugin/pkg/auth/authorizer/rbac)."""


def clone_rbac(
    answers: Sequence[AccessAnswer | Unread], binding: CloneBinding | Unread, subject: str
) -> Verdict:
    """clone-rbac: create on datavolumes/source in cozy-public is allowed to a tenant's service
    account, by the RoleBinding that ships, and nothing beside it.

    Broken where the clone is denied, anything else is allowed, or the binding is not the shipped
    one: another role, other subjects, more rules. Unknown where an answer, the binding or its role
    could not be had, and where the clone or what must be denied was not asked.
    """
    claim = "clone-rbac"
    facts = (*answers, binding)
    read = [one for one in answers if isinstance(one, AccessAnswer)]
    wrong = [line for one in read for line in _wrong(one)]
    if isinstance(binding, CloneBinding):
        wrong += _not_shipped(binding)
    if wrong:
        return Verdict(claim, subject, Outcome.BROKEN, "; ".join(wrong), facts)
    if len(read) != len(answers) or isinstance(binding, Unread):
        return unread(claim, subject, *facts)
    doubts = [f"{one.question}: {one.problem}" for one in read if one.problem]
    asked = {one.question for one in read}
    doubts += [
        f"nobody asked whether it may {one}" for one in clone_questions(()) if one not in asked
    ]
    if not any(one.subresource and one.namespace != GOLDENS for one in asked):
        doubts.append(f"nobody asked about sources in another namespace than {GOLDENS}")
    if binding.rules is None:
        doubts.append(f"{binding.role} is not there to be read")
    if doubts:
        return Verdict(claim, subject, Outcome.UNKNOWN, "; ".join(doubts), facts)
    because = (
        f"{read[0].user} may {CLONE} by RoleBinding {binding.name} ({binding.role}), and "
        f"{counted(len(read) - 1, 'other request')} are denied"
    )
    return Verdict(claim, subject, Outcome.HOLDS, because, facts)


def _wrong(answer: AccessAnswer) -> list[str]:
    why = f" ({answer.reason})" if answer.reason else ""
    if answer.question != CLONE:
        return [f"{answer.user} may {answer.question}{why}"] if answer.allowed else []
    if not answer.allowed:
        return [f"{answer.user} may not {answer.question}{why}"] if not answer.problem else []
    by_another = "Binding " in answer.reason and not _SHIPPED.search(answer.reason)
    return [f"{answer.user} may {answer.question} by another binding{why}"] if by_another else []


def _not_shipped(binding: CloneBinding) -> list[str]:
    found = []
    if binding.role != ROLE:
        found.append(f"RoleBinding {binding.name} binds {binding.role}, shipped is {ROLE}")
    if binding.subjects != (SUBJECT,):
        found.append(
            f"RoleBinding {binding.name} is for {named(binding.subjects)}, shipped is {SUBJECT}"
        )
    if binding.rules is not None and binding.rules != (_RULE,):
        found.append(f"{binding.role} allows {named(binding.rules)}, shipped is {_RULE}")
    return found
