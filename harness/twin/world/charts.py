"""Which chart a HelmRelease installs, in which revision, where to, and what it renders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world import (
    addons_chart,
    golden_chart,
    gpu_chart,
    kubernetes_chart,
    pool_chart,
)
from harness.twin.world.lookups import Lookups
from harness.twin.world.objects import STORAGE, Obj, deep, labels_of
from harness.twin.world.pool_disk import Release
from harness.twin.world.projection import APPLICATION, APPLICATIONS, KUBERNETES, NODES

if TYPE_CHECKING:
    from harness.twin.world.cluster import Cluster
    from harness.twin.world.world import World


class Charts:
    """The charts that this platform has installed, by the HelmRelease that names one."""

    def __init__(self, world: World) -> None:
        self._world = world

    def name(self, release: Obj) -> str:
        """The chart's name; "" for a release of a chart that nothing here knows."""
        kind = labels_of(release).get(f"{APPLICATION}.kind", "")
        application = next((a.chart for a in APPLICATIONS if a.kind == kind), "")
        if deep(release, "spec", "chartRef", "name") == golden_chart.ARTIFACT:
            return golden_chart.CHART
        return application or kubernetes_chart.addon_of(release)

    def version(self, release: Obj) -> str:
        """The chart's revision, as it is installed now."""
        platform = self._world.chart.version
        name = self.name(release)
        if name == NODES.chart:
            return platform
        if name == golden_chart.CHART:
            return self._world.catalogue_chart.version or platform
        return self._world.kubernetes_chart.version or platform

    def target(self, release: Obj) -> Cluster:
        """The cluster that the release installs into."""
        secret = str(deep(release, "spec", "kubeConfig", "secretRef", "name") or "")
        tenant = self._world.tenant_of(secret.removesuffix("-admin-kubeconfig"))
        return self._world.cluster if tenant is None else tenant

    @staticmethod
    def identity(release: Obj) -> tuple[str, str]:
        """(namespace, name) of Helm's own release."""
        metadata, spec = release["metadata"], release.get("spec") or {}
        namespace = spec.get("targetNamespace") or metadata["namespace"]
        return str(namespace), str(spec.get("releaseName") or metadata["name"])

    def render(self, release: Obj) -> list[Obj]:
        """The manifests of a release. Raises RenderRefused."""
        metadata, values = release["metadata"], deep(release, "spec", "values") or {}
        name = self.name(release)
        if name == NODES.chart:
            return pool_chart.render(values, self._context(release), self._world.chart)
        if name == golden_chart.CHART:
            chart = self._world.catalogue_chart
            return golden_chart.render(values, self._context(release), chart)
        if name == KUBERNETES.chart:
            revision = self._world.kubernetes_chart
            classes = self._world.cluster.all(STORAGE, "StorageClass")
            return kubernetes_chart.render(
                values, metadata["name"], metadata["namespace"], revision, classes
            )
        target = self.identity(release)[0]
        addon = addons_chart.render(name, values, target)
        return gpu_chart.render(name, values, target) if addon is None else addon

    def _context(self, release: Obj) -> Release:
        metadata = release["metadata"]
        account = str(deep(release, "spec", "serviceAccountName") or "")
        look = Lookups(self._world.cluster, self._world.access, metadata["namespace"], account)
        return Release(metadata["name"], metadata["namespace"], look.one, look.all)
