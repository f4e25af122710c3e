"""What CDI's controllers put into a cluster: claims, pods, sources; names and labels of them.

Names, labels and annotations: objects.md section 7, clone_path.md sections 4 and 5.
"""

from __future__ import annotations

from harness.twin.world.objects import CDI, Obj, annotations_of, deep, meta, owner

MANAGER = "cdi-controller"
GROUP = CDI.partition("/")[0]
IMPORT = f"{GROUP}/storage.import"
CONDITION = f"{GROUP}/storage.condition"
POD_PHASE = f"{GROUP}/storage.pod.phase"
RESTARTS = f"{GROUP}/storage.pod.restarts"
USE_POPULATOR = f"{GROUP}/storage.usePopulator"
BIND_IMMEDIATELY = f"{GROUP}/storage.bind.immediate.requested"
CONTENT_TYPE = f"{GROUP}/storage.contentType"
PRIME = f"{GROUP}/storage.populator.pvcPrime"
CLONE_TYPE = f"{GROUP}/cloneType"
CLONE_PHASE = f"{GROUP}/clonePhase"
CLONE_ERROR = f"{GROUP}/cloneError"
FALLBACK = f"{GROUP}/cloneFallbackReason"
SOURCE_NAMESPACE = f"{GROUP}/dataSourceNamespace"
CLONE_REQUEST = "k8s.io/CloneRequest"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
OWNED_BY = f"{GROUP}/OwnedByUID"
SCRATCH = f"{GROUP}/storage.scratch"
OWNER_REF = f"{GROUP}/storage.ownerRef"  # of a reading pod: the claim that is written
COMPONENT = GROUP  # the label that says what a pod of CDI is for
CLONE_FINALIZER = f"{GROUP}/clonePopulator"
VOLUME_FINALIZER = f"{GROUP}/dataVolumeFinalizer"
PREP, SOURCE_POD, UPLOAD_POD = "cdi-populator-prep", "cdi-clone-source", "cdi-upload-server"
_APP = {"app": "containerized-data-importer"}
_VERSION = "v1.64.0"


def claim(name: str, holder: Obj, spec: Obj, notes: dict[str, str]) -> Obj:
    """A claim in its holder's namespace, controlled by it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": holder["metadata"]["namespace"],
            "labels": dict(_APP),
            "annotations": notes,
            "ownerReferences": [owner(holder)],
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def populated(spec: Obj, kind: str, name: str) -> Obj:
    """A claim's spec that a populator is to fill from a source of CDI's group."""
    reference = {"apiGroup": GROUP, "kind": kind, "name": name}
    return {**spec, "dataSource": dict(reference), "dataSourceRef": reference}


def scratch(working: Obj, importer: Obj) -> Obj:
    """The claim an importer unpacks in; it belongs to the pod and goes with it."""
    spec = {key: working["spec"][key] for key in ("storageClassName", "resources")}
    spec |= {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}
    made = claim(f"{working['metadata']['name']}-scratch", importer, spec, {})
    made["metadata"]["labels"][SCRATCH] = "true"
    return made


def prime(target: Obj, notes: dict[str, str]) -> Obj:
    """The claim that a populator fills in place of ``target``."""
    kept = ("accessModes", "resources", "storageClassName", "volumeMode")
    spec = {key: target["spec"][key] for key in kept if key in target["spec"]}
    made = claim(f"prime-{target['metadata']['uid']}", target, spec, notes)
    made["metadata"]["labels"] |= {f"{GROUP}/excludeFromVeleroBackup": "true"}
    return made


def temporary(target: Obj, namespace: str, size: str) -> Obj:
    """A claim of ``size`` beside the source, to be handed to ``target`` by its volume."""
    spec = {k: v for k, v in target["spec"].items() if not k.startswith("dataSource")}
    spec["resources"] = {**(spec.get("resources") or {}), "requests": {"storage": size}}
    uid = target["metadata"]["uid"]
    chosen = annotations_of(target).get(SELECTED_NODE)
    node = {SELECTED_NODE: chosen} if chosen else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": meta(
            f"tmp-pvc-{uid}",
            namespace,
            labels={**_APP, OWNED_BY: uid, f"{GROUP}/excludeFromVeleroBackup": "true"},
            annotations={f"{GROUP}/storage.populator.kind": "VolumeCloneSource", **node},
        ),
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def import_source(volume: Obj) -> Obj:
    """The VolumeImportSource of a DataVolume that is imported through the populator."""
    spec = {"source": {"http": dict(deep(volume, "spec", "source", "http") or {})}}
    return {
        "apiVersion": CDI,
        "kind": "VolumeImportSource",
        "metadata": meta(
            f"volume-import-source-{volume['metadata']['uid']}",
            volume["metadata"]["namespace"],
            ownerReferences=[owner(volume)],
        ),
        "spec": {"contentType": "kubevirt", **spec},
    }


def clone_source(volume: Obj, target: Obj) -> Obj:
    """The VolumeCloneSource of a DataVolume, beside the claim that it names."""
    namespace, name = source_of(volume)
    where, who = volume["metadata"]["namespace"], volume["metadata"]["name"]
    within = namespace == where
    return {
        "apiVersion": CDI,
        "kind": "VolumeCloneSource",
        "metadata": meta(
            f"volume-clone-source-{volume['metadata']['uid']}",
            namespace,
            labels={OWNED_BY: target["metadata"]["uid"]},
            annotations={} if within else {f"{GROUP}/ownedByDataVolume": f"{where}/{who}"},
            ownerReferences=[owner(volume)] if within else [],
        ),
        "spec": {"source": {"kind": "PersistentVolumeClaim", "name": name}},
    }


def source_of(volume: Obj) -> tuple[str, str]:
    """Namespace and name of the claim that a DataVolume is to be cloned from."""
    said = deep(volume, "spec", "source", "pvc") or {}
    return said.get("namespace") or volume["metadata"]["namespace"], said.get("name", "")


def importer(working: Obj) -> Obj:
    """The pod that fetches an image into a claim."""
    name = working["metadata"]["name"]
    container = {
        "name": "importer",
        "image": f"quay.io/kubevirt/cdi-importer:{_VERSION}",
        "args": ["-v=1"],
        "env": [
            {"name": "IMPORTER_SOURCE", "value": "http"},
            {
                "name": "IMPORTER_ENDPOINT",
                "value": annotations_of(working).get(f"{IMPORT}.endpoint", ""),
            },
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(
            f"importer-{name}",
            working["metadata"]["namespace"],
            labels={**_APP, COMPONENT: "importer"},
            ownerReferences=[owner(working)],
        ),
        "spec": {
            "restartPolicy": "OnFailure",
            "containers": [container],
            "volumes": [
                _volume("cdi-data-vol", name),
                _volume("cdi-scratch-vol", f"{name}-scratch"),
            ],
        },
    }


def prep_pod(target: Obj, temp: Obj) -> Obj:
    """The pod that makes a claim be bound or grown, by using it."""
    return _helper(
        f"prep-{target['metadata']['uid']}", PREP, "cdi-cloner", temp, target["metadata"]["uid"]
    )


def upload_pod(receiving: Obj, uid: str) -> Obj:
    """The pod that writes what a host-assisted clone sends. ``uid``: of whom it is for."""
    made = _helper(
        f"cdi-upload-{receiving['metadata']['name']}",
        UPLOAD_POD,
        "cdi-uploadserver",
        receiving,
        uid,
    )
    made["metadata"]["ownerReferences"] = [owner(receiving)]
    return made


def source_pod(receiving: Obj, namespace: str, name: str, uid: str) -> Obj:
    """The pod that reads the source of a host-assisted clone, where the source is."""
    source = {"metadata": {"name": name, "namespace": namespace}}
    made = _helper(
        f"{receiving['metadata']['uid']}-source-pod", SOURCE_POD, "cdi-cloner", source, uid
    )
    made["spec"]["volumes"][0]["persistentVolumeClaim"]["readOnly"] = True
    reader = receiving["metadata"]
    made["metadata"]["annotations"] = {OWNER_REF: f"{reader['namespace']}/{reader['name']}"}
    return made


def _helper(name: str, component: str, image: str, used: Obj, uid: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(
            name,
            used["metadata"]["namespace"],
            labels={**_APP, COMPONENT: component, OWNED_BY: uid},
        ),
        "spec": {
            "restartPolicy": "OnFailure",
            "containers": [{"name": component, "image": f"quay.io/kubevirt/{image}:{_VERSION}"}],
            "volumes": [_volume("cdi-data-vol", used["metadata"]["name"])],
        },
    }


def _volume(name: str, claim_name: str) -> Obj:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim_name}}
