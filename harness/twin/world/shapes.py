"""What a write may not do to an object's shape: the part of the CRDs' schemas the model lives by.

A real API server checks every write against the schema of its kind, so that no controller ever
meets a list where it looks for a number. Here two rules stand in for the schemas: a field keeps
its JSON type from one version of an object to the next, and what the model cannot do without is
there. A write that breaks one is refused with 422, in the words of the API.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from harness.twin.apiserver.store import Admission
from harness.twin.apiserver.validation import Cause, invalid
from harness.twin.world.objects import CAPI, HELM, INFRA, KUBEVIRT, Obj

_WORDS = {dict: "object", list: "array", bool: "boolean", int: "number", float: "number"}
_QUANTITY = re.compile(r"\d+(\.\d+)?(%|[numkKMGTPE]i?)?")
_NAMED_OR_NUMBERED = frozenset({"port", "targetPort", "containerPort"})
_CHECKED_ELSEWHERE = frozenset({"metadata", "apiVersion", "kind"})
_UNCHECKED = frozenset({"Lease", "Event"})  # many, and of one writer each
_REFERENCE = ("apiVersion", "kind", "name", "namespace")


def _references(machine: str) -> tuple[str, ...]:
    """What a Machine's spec at this path must say."""
    where = ("bootstrap.configRef", "infrastructureRef")
    parts = [f"{machine}.{reference}.{field}" for reference in where for field in _REFERENCE]
    return (f"{machine}.clusterName", *parts)


_REQUIRED: dict[tuple[str, str], tuple[str, ...]] = {
    ("v1", "Pod"): ("spec.containers",),
    ("apps/v1", "DaemonSet"): ("spec.template.spec.containers",),
    ("apps/v1", "Deployment"): ("spec.template.spec.containers",),
    (HELM, "HelmRelease"): ("spec",),
    (CAPI, "MachineDeployment"): ("spec.clusterName", *_references("spec.template.spec")),
    (CAPI, "MachineSet"): ("spec.clusterName", *_references("spec.template.spec")),
    (CAPI, "Machine"): _references("spec"),
    (INFRA, "KubevirtMachine"): ("spec",),
    (KUBEVIRT, "VirtualMachine"): (
        "spec.template.spec.domain",
        "spec.dataVolumeTemplates[].metadata.name",
    ),
}


def well_shaped(question: Admission) -> Obj:
    """The admission hook. ApiError 422 for a write that no schema would let through."""
    obj, kind = question.obj, question.resource
    if question.verb == "DELETE" or kind.kind in _UNCHECKED:
        return obj
    causes = list(_retyped(obj, question.old or {}))
    for path in _REQUIRED.get((kind.api_version, kind.kind), ()):
        causes += [
            Cause(lacking, "Required value", "FieldValueRequired")
            for lacking in _lacking(obj, path.split("."), "")
        ]
    if causes:
        raise invalid(kind, obj["metadata"].get("name", ""), causes)
    return obj


def type_of(value: Any) -> str:
    """The JSON word for a value's type."""
    return "null" if value is None else _WORDS.get(type(value), "string")


def same_type(value: Any, model: Any) -> bool:
    """Whether a value may stand where another stood: same type, or both ways to say a quantity."""
    found, wanted = type_of(value), type_of(model)
    if found == wanted:
        return True
    text = value if found == "string" else model
    return {found, wanted} == {"number", "string"} and bool(_QUANTITY.fullmatch(str(text)))


def _retyped(new: Obj, old: Obj) -> Iterator[Cause]:
    for field, value in new.items():
        if field not in _CHECKED_ELSEWHERE and field in old:
            yield from _compared(value, old[field], field)


def _compared(new: Any, old: Any, path: str) -> Iterator[Cause]:
    if new is old or old is None:
        return
    if not same_type(new, old):
        if path.rpartition(".")[2] not in _NAMED_OR_NUMBERED:
            found, wanted = type_of(new), type_of(old)
            text = f'Invalid value: "{found}": {path} in body must be of type {wanted}: "{found}"'
            yield Cause(path, text, "FieldValueTypeInvalid")
    elif isinstance(new, dict):
        for field, value in new.items():
            if field in old:
                yield from _compared(value, old[field], f"{path}.{field}")
    elif isinstance(new, list) and old:
        for index, value in enumerate(new):
            yield from _compared(value, old[min(index, len(old) - 1)], f"{path}[{index}]")


def _lacking(value: Any, steps: list[str], path: str) -> Iterator[str]:
    """Paths of what is not there; a step that ends in ``[]`` goes through a list that may be."""
    if not steps:
        if value in (None, ""):
            yield path
        return
    step, rest = steps[0], steps[1:]
    name = step.removesuffix("[]")
    below = f"{path}.{name}" if path else name
    inner = value.get(name) if isinstance(value, dict) else None
    if name == step:
        yield from _lacking(inner, rest, below)
    elif isinstance(inner, list):
        for index, one in enumerate(inner):
            yield from _lacking(one, rest, f"{below}[{index}]")
