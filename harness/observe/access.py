"""Ask what a tenant's service account may do on the management cluster, and return facts.

Raises reach's LabError where the cluster cannot be asked; being refused the question is Unread.
``now`` gives the lab's time in epoch seconds.
"""

from __future__ import annotations

from harness.facts import access
from harness.facts.access import AccessAnswer, CloneBinding, Question
from harness.facts.fact import Origin, Unread
from harness.facts.objects import text_at
from harness.observe.pool import Now
from harness.reach.errors import Refused
from harness.reach.kube import Kube

AUTHORIZATION, REVIEW = "authorization.k8s.io/v1", "SubjectAccessReview"
RBAC = "rbac.authorization.k8s.io/v1"
ACCOUNT = "default"
"""The service account of a VirtualMachine's disks: CDI asks for the namespace's own (CDI
pkg/apis/core/v1beta1/authorize_utils.go)."""


def access_answer(
    kube: Kube, namespace: str, question: Question, *, now: Now
) -> AccessAnswer | Unread:
    """Whether the service account of a tenant's namespace may do this."""
    user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    asked = {
        "namespace": question.namespace,
        "verb": question.verb,
        "group": question.group,
        "resource": question.resource,
        "subresource": question.subresource,
    }
    groups = [
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    ]
    review = {
        "apiVersion": AUTHORIZATION,
        "kind": REVIEW,
        "metadata": {},
        "spec": {
            "user": user,
            "groups": groups,
            "resourceAttributes": {key: value for key, value in asked.items() if value},
        },
    }
    try:
        answer = kube.create(review)
    except Refused as refused:
        origin = Origin(now(), f"{kube.name} {REVIEW}", str(refused))
        why = f"the harness may not ask for access reviews: {refused.message}"
        return Unread(origin, f"whether {user} may {question}", why)
    return access.access_answer(answer, question, user, at=now(), cluster=kube.name)


def clone_binding(kube: Kube, namespace: str, name: str, *, now: Now) -> CloneBinding | Unread:
    """A RoleBinding and the role that it names."""
    what = f"RoleBinding {namespace}/{name}"
    try:
        binding = kube.get(RBAC, "RoleBinding", namespace, name)
        if binding is None:
            return Unread(Origin(now(), f"{kube.name} {what}", ""), what, "it is not there")
        kind, role = text_at(binding, "roleRef", "kind"), text_at(binding, "roleRef", "name")
        home = "" if kind == "ClusterRole" else namespace
        found = kube.get(RBAC, kind, home, role) if kind and role else None
    except Refused as refused:
        origin = Origin(now(), f"{kube.name} {what}", str(refused))
        return Unread(origin, what, f"the harness may not read it: {refused.message}")
    return access.clone_binding(binding, found or {}, at=now(), cluster=kube.name)
