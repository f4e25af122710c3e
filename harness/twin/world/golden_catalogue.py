"""The platform's operator, as far as the golden catalogue needs it: Packages to a HelmRelease.

objects.md section 2.3: Package ``cozystack.cozystack-platform`` enables PackageSource
``cozystack.kubernetes-worker-image``, which installs HelmRelease ``kubernetes-worker-image`` in
``cozy-system`` with the platform's ``kubernetesWorkerImage`` for values. That the platform's own
release between the two Packages is left out is a simplification.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from harness.twin.world import conditions, golden_seed
from harness.twin.world.golden_chart import ARTIFACT, CHART
from harness.twin.world.objects import CDI, COZY, HELM, Obj, deep
from harness.twin.world.pool_disk import PUBLIC
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

MANAGER = "cozystack-operator"
PLATFORM = "cozystack.cozystack-platform"
PACKAGE = "cozystack.kubernetes-worker-image"
NAMESPACE = "cozy-system"
VARIANT = "default"
VALUES = ("spec", "components", "platform", "values")
_NEEDS = ("cozystack.networking", "cozystack.kubevirt-cdi")


class Catalogue:
    """Keeps the catalogue's Package and HelmRelease in step with the platform's Package."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._queue = Queue(
            world.engine, MANAGER, self.reconcile, lambda: world.timings.draw("package.reconcile")
        )
        self._cluster.on(COZY, "Package", self._hear)
        self._cluster.on(HELM, "HelmRelease", self._hear_release)

    def _hear(self, change: Change) -> None:
        if change.obj["metadata"]["name"] in (PLATFORM, PACKAGE):
            self._queue.add("", PLATFORM)

    def _hear_release(self, change: Change) -> None:
        metadata = change.obj["metadata"]
        ours = (metadata.get("namespace"), metadata["name"]) == (NAMESPACE, CHART)
        if ours and (change.type == "DELETED" or _spec_changed(change)):
            self._queue.add("", PLATFORM)

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at the platform's Package."""
        platform = self._cluster.find(COZY, "Package", namespace, name)
        if platform is None or PACKAGE not in enabled(platform):
            self._disable()
            return
        self._enable(asked(platform))

    def adopt(self) -> None:
        """The catalogue was installed before the story begins."""
        self.reconcile("", PLATFORM)
        release = self._cluster.find(HELM, "HelmRelease", NAMESPACE, CHART)
        assert release is not None
        self._world.helm.adopt(release)
        for golden in self._cluster.all(CDI, "DataVolume", PUBLIC):
            golden_seed.imported(self._world, golden)

    def _enable(self, values: Obj) -> None:
        package = self._cluster.store.apply(_package(values), manager=MANAGER)
        release, found = _release(values), self._cluster.find(HELM, "HelmRelease", NAMESPACE, CHART)
        if found is not None and "suspend" in found["spec"]:
            release["spec"]["suspend"] = found["spec"]["suspend"]  # whoever set it owns it
        self._cluster.store.apply(release, manager=MANAGER)
        now = self._world.engine.now
        good = conditions.true("Ready", "ReconciliationSucceeded", "reconciliation succeeded")

        def change(stored: Obj) -> None:
            conditions.write(stored, now, good, metav1=True)
            stored["status"]["dependencies"] = {one: {"ready": True} for one in _NEEDS}

        self._cluster.status(package, change, manager=MANAGER)

    def _disable(self) -> None:
        """The package goes; helm takes down what it may: goldens are kept."""
        for api_version, kind, namespace, name in (
            (HELM, "HelmRelease", NAMESPACE, CHART),
            (COZY, "Package", "", PACKAGE),
        ):
            found = self._cluster.find(api_version, kind, namespace, name)
            if found is not None:
                self._cluster.delete(found, manager=MANAGER)


def enabled(platform: Obj) -> list[str]:
    """The optional packages that the platform's Package enables."""
    found = deep(platform, *VALUES, "bundles", "enabledPackages")
    return [str(one) for one in found] if isinstance(found, list) else []


def asked(platform: Obj) -> Obj:
    """What the platform's Package says of the catalogue; what it leaves out is the chart's."""
    found = deep(platform, *VALUES, "kubernetesWorkerImage")
    return copy.deepcopy(found) if isinstance(found, dict) else {}


def platform_values(images: list[Obj]) -> Obj:
    """The platform's values with the catalogue enabled, for these images."""
    return {
        "bundles": {"enabledPackages": [PACKAGE]},
        "kubernetesWorkerImage": {
            "imageFactoryURL": "https://factory.talos.dev",
            "storageClass": "replicated",
            "storage": "6Gi",
            "images": images,
        },
    }


def package_source(now: float) -> Obj:
    """The PackageSource that the platform ships."""
    component = {
        "name": CHART,
        "path": f"system/{CHART}",
        "install": {"namespace": NAMESPACE, "releaseName": CHART},
    }
    source: Obj = {
        "apiVersion": COZY,
        "kind": "PackageSource",
        "metadata": {"name": PACKAGE},
        "spec": {
            "sourceRef": {
                "kind": "OCIRepository",
                "name": "cozystack-packages",
                "namespace": NAMESPACE,
                "path": "/",
            },
            "variants": [{"name": VARIANT, "dependsOn": list(_NEEDS), "components": [component]}],
        },
        "status": {"variants": VARIANT},
    }
    ready = conditions.true("Ready", "ReconciliationSucceeded", "reconciliation succeeded")
    conditions.write(source, now, ready, metav1=True)
    return source


def _spec_changed(change: Change) -> bool:
    return change.old is not None and change.old.get("spec") != change.obj.get("spec")


def _package(values: Obj) -> Obj:
    return {
        "apiVersion": COZY,
        "kind": "Package",
        "metadata": {"name": PACKAGE},
        "spec": {"variant": VARIANT, "components": {CHART: {"values": values}}},
    }


def _release(values: Obj) -> Obj:
    action = {"strategy": {"name": "RetryOnFailure", "retryInterval": "30s"}}
    return {
        "apiVersion": HELM,
        "kind": "HelmRelease",
        "metadata": {
            "name": CHART,
            "namespace": NAMESPACE,
            "labels": {"cozystack.io/package": PACKAGE},
        },
        "spec": {
            "releaseName": CHART,
            "chartRef": {
                "kind": "ExternalArtifact",
                "name": ARTIFACT,
                "namespace": NAMESPACE,
            },
            "interval": "5m",
            "timeout": "10m",
            "install": dict(action),
            "upgrade": dict(action),
            "values": values,
        },
    }
