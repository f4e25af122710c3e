"""Whether a pod fits a node: nodeSelector, required node affinity, taints, devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from harness.twin.world import conditions, pods
from harness.twin.world.objects import Obj, deep, labels_of

_HARD = ("NoSchedule", "NoExecute")


def refusals(pod: Obj, node: Obj, running: Sequence[Obj]) -> list[str]:
    """Why a scheduler would not put a pod on a node, in its words; nothing where it would.

    ``running`` are the node's pods that have not ended: what they ask for is taken, whether they
    were given it or not.
    """
    if deep(node, "spec", "unschedulable"):
        return ["node(s) were unschedulable"]
    kept_away = untolerated(listed(deep(pod, "spec", "tolerations")), node)
    if kept_away:
        key, value = kept_away[0].get("key", ""), kept_away[0].get("value", "")
        return [f"node(s) had untolerated taint {{{key}: {value}}}"]
    if not conditions.holds(node, "Ready"):
        return ["node(s) were not ready"]
    if not selects(pod["spec"], node):
        return ["node(s) didn't match Pod's node affinity/selector"]
    allocatable = deep(node, "status", "allocatable") or {}
    short = []
    for resource, count in sorted(pods.requests(pod).items()):
        used = sum(pods.requests(other).get(resource, 0) for other in running)
        if int(allocatable.get(resource, 0)) - used < count:
            short.append(f"Insufficient {resource}")
    return short


def selects(spec: Obj, node: Obj) -> bool:
    """Whether a pod's spec asks for such a node, by its labels or its name."""
    wanted = spec.get("nodeSelector") or {}
    labels = labels_of(node)
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    path = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    terms = deep(spec, *path, "nodeSelectorTerms")
    return terms is None or any(_matches(term, node) for term in listed(terms))


def listed(value: Any) -> list[Obj]:
    """The objects of a list that somebody wrote by hand; nothing where it is no list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def tolerates(tolerations: Sequence[Obj], node: Obj) -> bool:
    """Whether no taint of a node keeps a pod with these tolerations away."""
    return not untolerated(tolerations, node)


def untolerated(tolerations: Sequence[Obj], node: Obj) -> list[Obj]:
    """The taints of a node that keep a pod with these tolerations away."""
    taints = [t for t in listed(deep(node, "spec", "taints")) if t.get("effect") in _HARD]
    return [t for t in taints if not any(_tolerated(one, t) for one in tolerations)]


def _tolerated(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint.get("key"))
    same = toleration.get("value", "") == taint.get("value", "")
    return bool(toleration.get("key") == taint.get("key") and same)


def _matches(term: Obj, node: Obj) -> bool:
    """One term: all its expressions on labels, all its fields; an empty one matches nothing."""
    expressions, fields = listed(term.get("matchExpressions")), listed(term.get("matchFields"))
    name = {"metadata.name": node["metadata"]["name"]}
    checks = [*((one, labels_of(node)) for one in expressions), *((one, name) for one in fields)]
    return bool(checks) and all(_holds(one, found) for one, found in checks)


def _holds(expression: Obj, found: Mapping[str, str]) -> bool:
    value = found.get(str(expression.get("key", "")))
    judge = _OPERATORS.get(str(expression.get("operator", "")))
    return judge is not None and judge(value, expression.get("values") or ())


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


def _compared(value: str | None, values: Iterable[str], sign: int) -> bool:
    left, right = _number(value), _number(next(iter(values), None))
    return left is not None and right is not None and (left - right) * sign > 0


_OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, values: _compared(value, values, 1),
    "Lt": lambda value, values: _compared(value, values, -1),
}
