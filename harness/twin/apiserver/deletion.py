"""How an object goes away: preconditions, finalizers, the grace of a pod."""

from __future__ import annotations

from typing import Final

from harness.twin.apiserver import namespaces
from harness.twin.apiserver.garbage import FOREGROUND, ORPHAN
from harness.twin.apiserver.lifecycle import modified, rfc3339, with_metadata
from harness.twin.apiserver.records import Options
from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.trees import dig

_HOLDS: Final = {"Foreground": FOREGROUND, "Orphan": ORPHAN}
_DEFAULT_GRACE: Final = 30  # seconds a pod has to stop when it does not say


def check_preconditions(resource: Resource, obj: Obj, options: Options) -> None:
    """Refuse with 409 to delete another object, or another version, than was meant."""
    metadata = obj["metadata"]
    word = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    if options.precondition_uid and options.precondition_uid != metadata["uid"]:
        raise modified(
            resource,
            metadata["name"],
            word=word,
            why=f"the UID in the precondition ({options.precondition_uid}) does not match the UID "
            f"in record ({metadata['uid']}). The object might have been deleted and then recreated",
        )
    version = metadata["resourceVersion"]
    if options.precondition_version and options.precondition_version != version:
        raise modified(
            resource,
            metadata["name"],
            word=word,
            why=f"the ResourceVersion in the precondition ({options.precondition_version}) does "
            f"not match the ResourceVersion in record ({version}). The object might have been "
            "modified",
        )


def plan(resource: Resource, obj: Obj, options: Options, *, now: float) -> Obj | None:
    """The object as a delete leaves it for the time being, or None where it can go at once.

    ``obj`` itself where it is already going away and this delete changes nothing. As in the API,
    what is deleted in the foreground, or to leave orphans, is held for the garbage collector.
    """
    grace = _grace(resource, obj, options)
    finalizers = list(obj["metadata"].get("finalizers", ()))
    held = _HOLDS.get(options.propagation)
    if held and held not in finalizers:
        finalizers.append(held)
    if not finalizers and not grace and not namespaces.is_namespace(resource):
        return None
    marked = _marked(obj, now, grace)
    if finalizers != obj["metadata"].get("finalizers", []):
        marked = with_metadata(marked, finalizers=finalizers)
    return _terminating(marked) if namespaces.is_namespace(resource) else marked


def _marked(obj: Obj, now: float, grace: int) -> Obj:
    metadata = obj["metadata"]
    before = metadata.get("deletionGracePeriodSeconds", 0)
    if metadata.get("deletionTimestamp") and before <= grace:
        return obj
    fields = {"deletionTimestamp": rfc3339(now + grace), "deletionGracePeriodSeconds": grace}
    if "generation" in metadata and not metadata.get("deletionTimestamp"):
        fields["generation"] = metadata["generation"] + 1
    return with_metadata(obj, **fields)


def _terminating(obj: Obj) -> Obj:
    if dig(obj, ("status", "phase")) == "Terminating":
        return obj
    return {**obj, "status": {**obj.get("status", {}), "phase": "Terminating"}}


def _grace(resource: Resource, obj: Obj, options: Options) -> int:
    """Seconds this object may take to stop: only a pod on a node that has not ended takes any."""
    if resource.group or resource.kind != "Pod" or not dig(obj, ("spec", "nodeName")):
        return 0
    if dig(obj, ("status", "phase")) in ("Succeeded", "Failed"):
        return 0
    if options.grace is not None:
        # as in the API, less than nothing is the shortest grace there is
        return options.grace if options.grace >= 0 else 1
    return int(dig(obj, ("spec", "terminationGracePeriodSeconds"), _DEFAULT_GRACE))


def is_complete(resource: Resource, obj: Obj) -> bool:
    """Whether an object that is going away has nothing left to wait for."""
    metadata = obj["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds") or resource.kind != "Pod"
