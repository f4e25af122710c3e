"""Which chart a HelmRelease installs, in which revision, where to, and what it renders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world import gpu_chart, kubernetes_chart, pool_chart
from harness.twin.world.objects import Obj, deep, labels_of
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
        return application or kubernetes_chart.addon_of(release)

    def version(self, release: Obj) -> str:
        """The chart's revision, as it is installed now."""
        platform = self._world.chart.version
        if self.name(release) == NODES.chart:
            return platform
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
            context = Release(metadata["name"], metadata["namespace"], self._world.cluster.find)
            return pool_chart.render(values, context, self._world.chart)
        if name == KUBERNETES.chart:
            chart = self._world.kubernetes_chart
            return kubernetes_chart.render(values, metadata["name"], metadata["namespace"], chart)
        return gpu_chart.render(name, values, self.identity(release)[0])
