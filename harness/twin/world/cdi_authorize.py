"""Who may clone from another namespace: asked of RBAC when a disk is asked for.

Two ask: KubeVirt, of a VirtualMachine whose disks are clones, for the service account of its
namespace; CDI, of a DataVolume, for whoever creates it. Both ask whether that user may create
``datavolumes/source`` where the source is (objects.md section 7).
"""

from __future__ import annotations

from harness.twin.apiserver.access import Access, Attributes, User, account_user
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.records import Admission
from harness.twin.world.objects import Obj, deep

_GROUP = "cdi.kubevirt.io"
_VM_HOOK = "virtualmachine-validator.kubevirt.io"
_VOLUME_HOOK = "datavolume-mutate.cdi.kubevirt.io"
_SPEC_HOOK = "datavolume-validate.cdi.kubevirt.io"


class Authorization:
    """The two admission hooks."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def refusal(self, user: User, namespace: str, name: str) -> str:
        """Why a user may not clone what is in a namespace; "" where they may."""
        asked = Attributes("create", _GROUP, "datavolumes", "source", namespace, name)
        if self._access.allows(user, asked):
            return ""
        return (
            f"User {user.name} has insufficient permissions in clone source namespace {namespace}"
        )

    def machine(self, question: Admission) -> Obj:
        """The admission hook for VirtualMachines. ApiError 422 for a clone that is not allowed."""
        obj = question.obj
        if question.verb != "CREATE" or question.resource.kind != "VirtualMachine":
            return obj
        own = obj["metadata"].get("namespace", "")
        user = account_user(own, _account(obj))
        for template in deep(obj, "spec", "dataVolumeTemplates") or ():
            self._check(template, own, user, _VM_HOOK, "Authorization failed, message is: ")
        return obj

    def volume(self, question: Admission) -> Obj:
        """The same for DataVolumes, of the user who creates one; controllers of the lab may.

        A DataVolume's spec never changes: ApiError 422.
        """
        obj, old, user = question.obj, question.old, question.user
        if question.resource.kind != "DataVolume":
            return obj
        if question.verb == "CREATE" and user is not None:
            self._check(obj, obj["metadata"].get("namespace", ""), user, _VOLUME_HOOK, "")
        if question.verb == "UPDATE" and old is not None and obj.get("spec") != old.get("spec"):
            text = "Cannot update DataVolume Spec"
            raise ApiError(422, f'admission webhook "{_SPEC_HOOK}" denied the request: {text}')
        return obj

    def _check(self, volume: Obj, own: str, user: User, hook: str, before: str) -> None:
        source = deep(volume, "spec", "source", "pvc")
        namespace = (source or {}).get("namespace") or own
        if not source or namespace == own:
            return
        why = self.refusal(user, namespace, source.get("name", ""))
        if why:
            code = 422 if hook == _VM_HOOK else 403
            raise ApiError(code, f'admission webhook "{hook}" denied the request: {before}{why}')


def _account(machine: Obj) -> str:
    volumes = deep(machine, "spec", "template", "spec", "volumes") or ()
    named = [deep(one, "serviceAccount", "serviceAccountName") for one in volumes]
    return next((name for name in named if name), "default")
