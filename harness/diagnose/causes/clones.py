"""What goes wrong where a worker's disk comes from: goldens, imports, clones, their classes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.diagnose.case import MANAGEMENT, Thing
from harness.diagnose.causes.shown import COPIED, NOT_JOINED, NOT_MIGRATABLE, STUCK, TOO_SMALL
from harness.diagnose.causes.signs import fits, proves, rules_out, speaks_against
from harness.diagnose.findings import Cause, Grade, Seen
from harness.diagnose.things import said
from harness.diagnose.view import Pool, View
from harness.facts.clones import GOLDEN, POOL, USE_POPULATOR
from harness.facts.diskclaims import CLONE_TYPE, FALLBACK
from harness.facts.goldenname import GOLDENS, PREFIX, name_of_golden
from harness.facts.objects import at_path, condition, listed, mapped, text_at
from harness.facts.quantity import bytes_of

_FORBIDDEN = re.compile(
    r"(?i)insufficient permissions in clone source namespace"
    r"|cannot create resource \"datavolumes\" .*source|datavolumes/source.*forbidden"
)
_QUOTA = re.compile(r"(?i)exceeded quota")
_CLAIMS = "persistentvolumeclaims"


def marks(thing: Thing) -> dict[str, object]:
    """An object's annotations."""
    return mapped(thing.obj, "metadata", "annotations")


def goldens(view: View) -> tuple[Thing, ...]:
    """The goldens' DataVolumes."""
    found = view.things("DataVolume", MANAGEMENT, GOLDENS)
    return tuple(one for one in found if one.name.startswith(PREFIX))


def disks(view: View) -> Iterator[tuple[Pool | None, Thing, Thing]]:
    """Workers' system disks: pool, DataVolume and claim, either of which may be absent."""
    claims = {(c.namespace, c.name): c for c in view.things("PersistentVolumeClaim", MANAGEMENT)}
    for volume in view.things("DataVolume", MANAGEMENT):
        if volume.namespace != GOLDENS:
            name = text_at(volume.obj, "status", "claimName") or volume.name
            claim = claims.get((volume.namespace, name), Thing({}))
            yield _pool_of(view, volume), volume, claim


def _pool_of(view: View, volume: Thing) -> Pool | None:
    longest_first = sorted(view.pools, key=lambda one: -len(one.name))
    return next((one for one in longest_first if volume.name.startswith(f"{one.name}-")), None)


def subject_of(pool: Pool | None, thing: Thing) -> str:
    """How evidence names a disk."""
    return pool.subject if pool else f"disk {thing.name}"


def wanted_golden(pool: Pool) -> str:
    """The golden that a pool clones from, "" where it does not."""
    if pool.boot and pool.boot.form == "pvc":
        return pool.boot.address.partition("/")[2]
    values = mapped(pool.release.obj, "spec", "values") or mapped(pool.request.obj, "spec")
    built_in = at_path(values, "osImage", "builtin")
    if not isinstance(built_in, dict):
        return ""
    talos = mapped(values, "talos")
    schematic = built_in.get("schematicID") or talos.get("schematicID")
    version = built_in.get("version") or talos.get("version")
    return name_of_golden(str(schematic), str(version)) if schematic and version else ""


# -- goldens


# -- classes


# -- how a disk was made


@proves("PVC annotations cloneType and cloneFallbackReason", "copy, with a reason")
def _fell_back(view: View) -> Iterator[Seen]:
    for pool, volume, claim in disks(view):
        reason = marks(claim).get(FALLBACK)
        if marks(claim).get(CLONE_TYPE) == "copy" and reason and _populated(volume):
            yield Seen(f"{claim.name}: cloneType copy, cloneFallbackReason {reason!r}", claim.where,
                       subject_of(pool, volume))  # fmt: skip


def _populated(volume: Thing) -> bool:
    return marks(volume).get(USE_POPULATOR) != "false"


@rules_out("PVC annotation cloneType", "csi-clone")
def _csi_cloned(view: View) -> Iterator[Seen]:
    for pool, volume, claim in disks(view):
        if marks(claim).get(CLONE_TYPE) == "csi-clone":
            yield Seen(f"{claim.name}: cloneType csi-clone", claim.where, subject_of(pool, volume))


@proves("a cloned disk's annotation usePopulator, and PVC cloneType", '"false", and copy')
def _unpopulated(view: View) -> Iterator[Seen]:
    for pool, volume, claim in disks(view):
        cloned = bool(mapped(volume.obj, "spec", "source", "pvc"))
        if cloned and not _populated(volume):
            how = marks(claim).get(CLONE_TYPE, "not told")
            yield Seen(f"{volume.name} is cloned with usePopulator \"false\" (cloneType {how})",
                       volume.where, subject_of(pool, volume))  # fmt: skip


@proves(
    "CDI CR: cloneStrategyOverride, StorageProfile: cloneStrategy",
    "copy or snapshot, and disks were made so",
)
def _told_to(view: View) -> Iterator[Seen]:
    told = [(one, text_at(one.obj, "spec", "cloneStrategyOverride"))
            for one in view.things("CDI", MANAGEMENT)]  # fmt: skip
    told += [(one, text_at(one.obj, "spec", "cloneStrategy"))
             for one in view.things("StorageProfile", MANAGEMENT)]  # fmt: skip
    for one, strategy in told:
        for pool, volume, claim in disks(view):
            same = marks(claim).get(CLONE_TYPE) == strategy
            if strategy in ("copy", "snapshot") and same and not marks(claim).get(FALLBACK):
                yield Seen(f"{one.kind} {one.name} says {strategy}; {claim.name} is a {strategy}",
                           one.where, subject_of(pool, volume))  # fmt: skip


# -- permission, quota


@proves(
    "KubevirtMachine: VMProvisioned, and Events of the VM",
    "insufficient permissions in clone source namespace",
)
def _clone_denied(view: View) -> Iterator[Seen]:
    for kind in ("KubevirtMachine", "VirtualMachine", "Machine"):
        for one in view.things(kind, MANAGEMENT):
            for each in listed(one.obj, "status", "conditions"):
                message = text_at(each, "message")
                if _FORBIDDEN.search(message):
                    yield Seen(f"{kind} {one.name}: {message}", one.where, "")
    for event in view.events(cluster=MANAGEMENT):
        message = text_at(event.obj, "message")
        if _FORBIDDEN.search(message):
            about = text_at(event.obj, "involvedObject", "name")
            yield Seen(f"{about}: {message}", event.source, "")


@fits("RoleBindings in cozy-public, listed whole", "none to ClusterRole cdi-copy-dv")
def _no_binding(view: View) -> Iterator[Seen]:
    clones = any(wanted_golden(pool) for pool in view.pools)
    if clones and view.lacks("RoleBinding", MANAGEMENT, GOLDENS) and not _bindings(view):
        yield Seen(f"no RoleBinding in {GOLDENS} gives cdi-copy-dv")


def _bindings(view: View) -> list[Thing]:
    found = view.things("RoleBinding", MANAGEMENT, GOLDENS)
    return [one for one in found if text_at(one.obj, "roleRef", "name") == "cdi-copy-dv"]


@rules_out("RoleBindings in cozy-public", "system:serviceaccounts may clone")
def _binding(view: View) -> Iterator[Seen]:
    for one in _bindings(view):
        subjects = [text_at(each, "name") for each in listed(one.obj, "subjects")]
        if "system:serviceaccounts" in subjects:
            yield Seen(f"RoleBinding {one.name} lets system:serviceaccounts clone", one.where)


@proves("ClusterRole cdi-copy-dv: its rules", "more than create on datavolumes/source")
def _wide_role(view: View) -> Iterator[Seen]:
    for one in view.things("ClusterRole", MANAGEMENT):
        for rule in listed(one.obj, "rules") if one.name == "cdi-copy-dv" else ():
            verbs = list(map(str, listed(rule, "verbs")))
            resources = list(map(str, listed(rule, "resources")))
            if set(verbs) - {"create"} or set(resources) - {"datavolumes/source"}:
                yield Seen(f"cdi-copy-dv allows {', '.join(verbs)} on "
                           f"{', '.join(resources)}", one.where)  # fmt: skip


@proves("ClusterRoleBindings", "cdi-copy-dv is bound for the whole cluster")
def _wide_binding(view: View) -> Iterator[Seen]:
    for one in view.things("ClusterRoleBinding", MANAGEMENT):
        if text_at(one.obj, "roleRef", "name") == "cdi-copy-dv":
            to = ", ".join(text_at(each, "name") for each in listed(one.obj, "subjects"))
            yield Seen(f"ClusterRoleBinding {one.name} gives cdi-copy-dv to {to}", one.where)


@proves(
    "Events of DataVolumes and claims",
    "ErrExceededQuota, often of the scratch space beside the disk",
)
def _over_quota(view: View) -> Iterator[Seen]:
    for event in view.events(cluster=MANAGEMENT):
        message = text_at(event.obj, "message")
        if _QUOTA.search(message) and _CLAIMS in message:
            about = text_at(event.obj, "involvedObject", "name")
            yield Seen(f"{about}: {message}", event.source, "")


@fits("ResourceQuota of the tenant's namespace: requests.storage", "used up")
def _quota_used(view: View) -> Iterator[Seen]:
    for one in view.things("ResourceQuota", MANAGEMENT):
        hard = bytes_of(mapped(one.obj, "status", "hard").get("requests.storage"))
        used = bytes_of(mapped(one.obj, "status", "used").get("requests.storage"))
        if hard and used is not None and used * 10 >= hard * 9:
            yield Seen(f"ResourceQuota {one.name}: {used // 2**30} of {hard // 2**30} GiB used",
                       one.where)  # fmt: skip


# -- shape


@proves(
    "a worker's claim: accessModes; VMI: condition LiveMigratable",
    "ReadWriteOnce, DisksNotLiveMigratable",
)
def _not_shared(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        for worker in pool.workers:
            found = condition(worker.vmi.obj, "LiveMigratable")
            if text_at(found, "reason") == "DisksNotLiveMigratable":
                yield Seen(f"VMI {worker.vmi.name}: {said(worker.vmi, 'LiveMigratable')}",
                           worker.vmi.where, pool.subject)  # fmt: skip
    for owner, volume, claim in disks(view):
        modes = listed(claim.obj, "spec", "accessModes")
        if modes == ["ReadWriteOnce"]:
            yield Seen(f"{claim.name} is ReadWriteOnce", claim.where, subject_of(owner, volume))


@speaks_against(
    "VMI: condition LiveMigratable", "HostDeviceNotLiveMigratable: the card, which is normal"
)
def _card_not_migratable(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        for worker in pool.workers:
            reason = text_at(condition(worker.vmi.obj, "LiveMigratable"), "reason")
            if reason == "HostDeviceNotLiveMigratable":
                yield Seen(f"VMI {worker.vmi.name} has a card: {reason}", worker.vmi.where,
                           pool.subject)  # fmt: skip


@proves(
    "a cloned disk's claim: capacity beside what was asked", "smaller: it kept the golden's size"
)
def _not_grown(view: View) -> Iterator[Seen]:
    for pool, volume, claim in disks(view):
        spec = mapped(volume.obj, "spec", "storage") or mapped(volume.obj, "spec", "pvc")
        asked = bytes_of(mapped(spec, "resources", "requests").get("storage"))
        has = bytes_of(mapped(claim.obj, "status", "capacity").get("storage"))
        if asked and has and has < asked:
            yield Seen(f"{claim.name} has {has // 2**30} GiB, {asked // 2**30} GiB were asked for",
                       claim.where, subject_of(pool, volume))  # fmt: skip


@proves("claims, pods and VolumeCloneSources in cozy-public", "tmp-pvc-*, prep-*, left over")
def _left(view: View) -> Iterator[Seen]:
    busy = any(text_at(v.obj, "status", "phase") != "Succeeded" for _, v, _ in disks(view))
    for kind in ("PersistentVolumeClaim", "Pod"):
        for one in view.things(kind, MANAGEMENT, GOLDENS):
            if one.name.startswith(("tmp-pvc-", "prep-")) and not busy:
                phase = text_at(one.obj, "status", "phase")
                yield Seen(f"{kind} {one.name} ({phase}) is still there", one.where)


@proves("the golden's annotation helm.sh/resource-policy", "not keep")
def _not_kept(view: View) -> Iterator[Seen]:
    for one in goldens(view):
        policy = marks(one).get("helm.sh/resource-policy")
        if one.knows("metadata", "annotations") and policy != "keep":
            yield Seen(f"{one.name}: helm.sh/resource-policy is {policy or 'not set'}", one.where,
                       one.name)  # fmt: skip


@proves("a cloned disk's annotations golden and pool", "missing")
def _unmarked(view: View) -> Iterator[Seen]:
    for pool, volume, _ in disks(view):
        missing = [name for name in (GOLDEN, POOL) if name not in marks(volume)]
        if mapped(volume.obj, "spec", "source", "pvc") and volume.whole and missing:
            yield Seen(f"{volume.name} has no annotation {', '.join(missing)}", volume.where,
                       subject_of(pool, volume))  # fmt: skip


LOOK_DISKS = "kubectl -n <tenant> get datavolumes,persistentvolumeclaims -o yaml"
LOOK_PUBLIC = f"kubectl -n {GOLDENS} get datavolumes,persistentvolumeclaims,pods"

CAUSES = (
    Cause(
        id="clone-fell-back-to-copy",
        family="disk",
        title="CDI gave the clone up and copied",
        story="CDI could not clone on the storage and copied through the pod network; the disk is "
        "Succeeded all the same.",
        signs=(_fell_back, _csi_cloned),
        wrong="no importer in the tenant's namespace, so it was a clone",
        why_wrong=f"source and upload pods of a copy are in {GOLDENS}. The claim's cloneType and "
        "cloneFallbackReason tell.",
        check="cloneFallbackReason: the classes' provisioners, volume modes, expansion, snapshots",
        command=LOOK_DISKS,
        symptoms=(COPIED,),
    ),
    Cause(
        id="populator-off",
        family="disk",
        title="A cloned disk has usePopulator \"false\"",
        story="An annotation that belongs to downloads is on a disk that is cloned: CDI cannot use "
        "its populator, and copies.",
        signs=(_unpopulated, _csi_cloned),
        wrong="CSI is slow",
        why_wrong="CSI was not asked: an upload pod ran in the tenant's namespace.",
        check="who writes the annotation",
        command=LOOK_DISKS,
        symptoms=(COPIED,),
    ),
    Cause(
        id="clone-strategy-set",
        family="disk",
        title="CDI is told to copy, or to clone through snapshots",
        story="The CDI CR or a StorageProfile names another clone strategy than csi-clone, and CDI "
        "does as it is told, without a reason given.",
        signs=(_told_to, _csi_cloned),
        wrong="no cloneFallbackReason, so it was a clone",
        why_wrong="it gave nothing up: it was told to. cloneType tells.",
        check="cloneStrategyOverride, and cloneStrategy of the class's profile",
        command="kubectl get cdi,storageprofiles -o yaml | grep -i strategy",
        symptoms=(COPIED,),
    ),
    Cause(
        id="clone-forbidden",
        family="disk",
        title="Tenants may not clone from cozy-public",
        story="The RoleBinding that lets tenants' service accounts clone from cozy-public is gone: "
        "no disk is made.",
        signs=(_clone_denied, _no_binding, _binding),
        wrong="a fault of Cluster API's KubeVirt provider",
        why_wrong="it asks and is refused; the message names the namespace.",
        check="whether a tenant's service account may",
        command="kubectl auth can-i create datavolumes --subresource=source -n cozy-public "
        "--as=system:serviceaccount:<tenant>:default --as-group=system:serviceaccounts",
        symptoms=(STUCK, NOT_JOINED),
    ),
    Cause(
        id="clone-role-too-wide",
        family="disk",
        title="Tenants may do more with goldens than clone them",
        story="The role, or its binding, gives tenants' service accounts more than create on "
        "datavolumes/source in cozy-public.",
        signs=(_wide_role, _wide_binding),
        wrong="clones work, so the permission is right",
        why_wrong="too much permission lets everything work.",
        check="the role's rules, and who binds it where",
        command="kubectl get clusterrole cdi-copy-dv -o yaml; kubectl get "
        "clusterrolebindings,rolebindings -A | grep cdi-copy-dv",
        grade=Grade.HAZARD,
    ),
    Cause(
        id="quota-exceeded",
        family="disk",
        title="The tenant's quota has no room for the disk or its scratch space",
        story="A claim was refused for the namespace's quota; an import takes scratch space beside "
        "the disk, and that counts.",
        signs=(_over_quota, _quota_used),
        wrong="LINSTOR is full",
        why_wrong="LINSTOR was not asked: the API refused the claim.",
        check="the quota beside disks and scratch space together",
        command="kubectl -n <tenant> describe resourcequota",
        symptoms=(STUCK, NOT_JOINED),
    ),
    Cause(
        id="disk-of-one-node",
        family="disk",
        title="The worker's disk is ReadWriteOnce",
        story="The class's StorageProfile gives one access mode that is for one node only: the "
        "machine cannot be migrated.",
        signs=(_not_shared, _card_not_migratable),
        wrong="it is the card that cannot be migrated",
        why_wrong="that is HostDeviceNotLiveMigratable, which is normal with a card; this is "
        "DisksNotLiveMigratable.",
        check="the reason of LiveMigratable, and the StorageProfile",
        command="kubectl -n <tenant> get vmi -o yaml | grep -A3 LiveMigratable; kubectl get "
        "storageprofiles -o yaml",
        symptoms=(NOT_MIGRATABLE,),
        grade=Grade.HAZARD,
    ),
    Cause(
        id="disk-not-grown",
        family="disk",
        title="The disk kept the golden's size",
        story="The clone was not grown to what was asked for: the class does not expand volumes.",
        signs=(_not_grown,),
        wrong="the image is too big: DiskPressure",
        why_wrong="the disk is too small: it has the golden's size.",
        check="the claim's capacity beside diskSize, and allowVolumeExpansion",
        command=LOOK_DISKS,
        symptoms=(TOO_SMALL,),
    ),
    Cause(
        id="clone-left-over",
        family="disk",
        title="Temporary claims of clones are left over",
        story="Claims or pods that a clone made in cozy-public are still there, and take room.",
        signs=(_left,),
        wrong="they belong to a clone under way",
        why_wrong="no disk is being made.",
        check="their finalizers and owners",
        command=LOOK_PUBLIC + " -o yaml",
        grade=Grade.HAZARD,
    ),
    Cause(
        id="golden-not-kept",
        family="disk",
        title="Goldens are not kept when they leave the catalogue",
        story="The golden lacks Helm's policy to keep it: taking its entry out of the catalogue "
        "deletes what pools clone from.",
        signs=(_not_kept,),
        wrong="the catalogue only lists images",
        why_wrong="its release owns the goldens.",
        check="the annotation helm.sh/resource-policy",
        command=LOOK_PUBLIC + " -o yaml",
        grade=Grade.HAZARD,
    ),
    Cause(
        id="cloned-disk-unmarked",
        family="disk",
        title="Cloned disks do not say which golden and pool they are of",
        story="The annotations golden and pool are missing: nobody can tell who still needs a "
        "golden, and the chart takes the pool for one that never cloned.",
        signs=(_unmarked,),
        wrong="cosmetic",
        why_wrong="guards of the chart read them.",
        check="the annotations of the workers' DataVolumes",
        command=LOOK_DISKS,
        grade=Grade.HAZARD,
    ),
)  # fmt: skip
