"""What Helm does with a release's manifests: apply, own, leave, discard, wait for.

Ownership and ``helm.sh/resource-policy: keep`` are Helm's own (its ``pkg/kube`` and
``pkg/action``); what is kept is no longer the release's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.world import conditions
from harness.twin.world.charts import Charts
from harness.twin.world.golden_chart import KEEP_POLICY
from harness.twin.world.objects import BOOTSTRAP, Obj, annotations_of, deep, labels_of, terminating
from harness.twin.world.podsecurity import ENFORCE
from harness.twin.world.pool_chart import OWNING_RELEASE, TEMPLATE_LABEL

if TYPE_CHECKING:
    from harness.twin.world.cluster import Cluster

MANAGER = "helm-controller"
OWNING_NAMESPACE = "meta.helm.sh/release-namespace"
MANAGED_BY = "app.kubernetes.io/managed-by"


class Manifests:
    """Brings manifests into the cluster that a release installs into, and takes them down."""

    def __init__(self, cluster: Cluster, charts: Charts) -> None:
        self._cluster = cluster
        self._charts = charts

    def render(self, release: Obj) -> list[Obj]:
        """A release's manifests, marked as its own. Raises RenderRefused."""
        return [_marked(manifest, release) for manifest in self._charts.render(release)]

    def install(self, release: Obj, manifests: list[Obj]) -> None:
        """Apply them, and discard what the release does not hold any more. Raises ApiError."""
        for manifest in manifests:
            self._check_owner(release, manifest)
        target = self._charts.target(release)
        self._ensure_namespace(release, target)
        for manifest in manifests:
            target.store.apply(manifest, manager=MANAGER)
        wanted = [entry_of(manifest) for manifest in manifests]
        for entry in inventory(release):
            found = self._inventoried(release, entry) if entry not in wanted else None
            if found is not None and not _kept(found):
                target.delete(found, manager=MANAGER)

    def _ensure_namespace(self, release: Obj, target: Cluster) -> None:
        name, _ = Charts.identity(release)
        asked = deep(release, "spec", "install", "createNamespace")
        if asked and target.find("v1", "Namespace", "", name) is None:
            # objects.md section 9: the addon's namespace allows privileged pods
            labels = {"kubernetes.io/metadata.name": name, ENFORCE: "privileged"}
            metadata = {"name": name, "labels": labels}
            made = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            target.create(made, manager=MANAGER)

    def _check_owner(self, release: Obj, manifest: Obj) -> None:
        metadata, (_, name) = manifest["metadata"], Charts.identity(release)
        namespace = metadata.get("namespace", "")
        found = self._charts.target(release).find(
            manifest["apiVersion"], manifest["kind"], namespace, metadata["name"]
        )
        holder = annotations_of(found).get(OWNING_RELEASE, "") if found else name
        if holder != name:
            what = f'{manifest["kind"]} "{metadata["name"]}" in namespace "{namespace}"'
            raise ApiError(
                409,
                f"Unable to continue with install: {what} exists and cannot be imported into the "
                f"current release: invalid ownership metadata; annotation validation error: key "
                f'"{OWNING_RELEASE}" must equal "{name}": '
                f'current value is "{holder}"',
            )

    def awaited(self, release: Obj, manifests: list[Obj]) -> list[str]:
        """What a release that waits still waits for, as Kind/namespace/name.

        Only DataVolumes are waited for (S-OSI: the catalogue's release times out on one that is
        stuck): they are current when their Ready condition is True.
        """
        action = "upgrade" if deep(release, "status", "history") else "install"
        if deep(release, "spec", action, "disableWait"):
            return []
        target = self._charts.target(release)
        found = []
        for manifest in manifests:
            place = manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]
            if manifest["kind"] == "DataVolume":
                stored = target.find(manifest["apiVersion"], manifest["kind"], *place)
                if not conditions.holds(stored or {}, "Ready"):
                    found.append("/".join((manifest["kind"], *place)))
        return found

    # -- taking down

    def left(self, release: Obj) -> list[Obj]:
        """What of a release is still there and must go with it."""
        found = [self._inventoried(release, entry) for entry in inventory(release)]
        return [one for one in found if one is not None and not _kept(one)]

    def _inventoried(self, release: Obj, entry: Obj) -> Obj | None:
        # a name that the API would not have may hold a separator
        namespace, _, rest = entry["id"].partition("_")
        name, group, kind = rest.rsplit("_", 2)
        api_version = f"{group}/{entry['v']}" if group else entry["v"]
        return self._charts.target(release).find(api_version, kind, namespace, name)

    def delete_left(self, release: Obj) -> None:
        """Begin to take down what is left, last things first."""
        target = self._charts.target(release)
        for obj in reversed(self.left(release)):
            target.delete(obj, manager=MANAGER)

    def delete_templates(self, release: Obj) -> None:
        """Delete the Talos templates that the release's Job made: they are not Helm's own."""
        name, namespace = release["metadata"]["name"], release["metadata"]["namespace"]
        fixed = [
            entry["id"].split("_")[1]
            for entry in inventory(release)
            if entry["id"].endswith("_MachineDeployment")
        ]
        for template in self._cluster.all(BOOTSTRAP, "TalosConfigTemplate", namespace):
            ours = labels_of(template).get(TEMPLATE_LABEL) == name
            if (ours or template["metadata"]["name"] in fixed) and not terminating(template):
                self._cluster.delete(template, manager=MANAGER)


def entry_of(manifest: Obj) -> Obj:
    """A manifest as the inventory names it."""
    metadata = manifest["metadata"]
    group, _, version = manifest["apiVersion"].rpartition("/")
    identity = "_".join((metadata.get("namespace", ""), metadata["name"], group, manifest["kind"]))
    return {"id": identity, "v": version}


def inventory(release: Obj) -> list[Obj]:
    """The entries of what a release has applied."""
    return list(deep(release, "status", "inventory", "entries") or ())


def _kept(obj: Obj) -> bool:
    return annotations_of(obj).get(KEEP_POLICY) == "keep"


def _marked(manifest: Obj, release: Obj) -> Obj:
    labels = {
        "helm.toolkit.fluxcd.io/name": release["metadata"]["name"],
        "helm.toolkit.fluxcd.io/namespace": release["metadata"]["namespace"],
    }
    namespace, name = Charts.identity(release)
    notes = {OWNING_RELEASE: name, OWNING_NAMESPACE: namespace}
    metadata = {
        **manifest["metadata"],
        # a chart that names its own manager keeps it (clone_path.md section 2: the golden's)
        "labels": {MANAGED_BY: "Helm", **labels_of(manifest), **labels},
        "annotations": {**annotations_of(manifest), **notes},
    }
    return {**manifest, "metadata": metadata}
