"""What the chart of a tenant cluster renders, as far as it lives on: the addons' HelmReleases.

Shape: objects.md section 3 and CZ ``packages/apps/kubernetes/templates/helmreleases``. The control
plane that the chart renders too stands in `landscape_tenant`; here are the releases that helm
installs into the tenant cluster, through the Secret with its kubeconfig.
"""

from __future__ import annotations

from harness.twin.world import addons_chart, gpu_values
from harness.twin.world.addons_chart import COREDNS, CSI, INGRESS, METRICS
from harness.twin.world.chart_behaviour import KubernetesChart
from harness.twin.world.objects import HELM, Obj

CILIUM = "cilium"
GPU_OPERATOR = "gpu-operator"
HAMI = "hami"
GPU_NAMESPACE = "cozy-gpu-operator"
CILIUM_NAMESPACE = "cozy-cilium"
HAMI_NAMESPACE = "cozy-hami"  # objects.md section 9
_ARTIFACT = "cozystack-iaas-kubernetes-"


def render(
    values: Obj,
    release: str,
    namespace: str,
    chart: KubernetesChart,
    classes: list[Obj] | None = None,
) -> list[Obj]:
    """The addons' HelmReleases for a cluster's values; ``classes`` are the platform's storage
    classes. Raises RenderRefused.
    """
    found = [_release(release, namespace, CILIUM, CILIUM_NAMESPACE, None, ())]
    for addon in (COREDNS, CSI, METRICS, *([INGRESS] if _has_ingress(values) else [])):
        inner = addons_chart.values_of(addon, values, classes or [])
        target = addons_chart.NAMESPACES[addon]
        found.append(_release(release, namespace, addon, target, inner, (CILIUM,)))
    if gpu_values.enabled(values, "gpuOperator"):
        inner = gpu_values.gpu_operator(values, chart)
        found.append(_release(release, namespace, GPU_OPERATOR, GPU_NAMESPACE, inner, (CILIUM,)))
    if gpu_values.enabled(values, HAMI):
        inner, needs = gpu_values.hami(values), (CILIUM, GPU_OPERATOR)
        found.append(_release(release, namespace, HAMI, HAMI_NAMESPACE, inner, needs))
    return found


def _has_ingress(values: Obj) -> bool:
    return gpu_values.enabled(values, "ingressNginx")


def addon_of(release: Obj) -> str:
    """Which addon a HelmRelease installs; "" for one that is none of these."""
    reference = (release.get("spec") or {}).get("chartRef") or {}
    name = str(reference.get("name", ""))
    return name.removeprefix(_ARTIFACT) if name.startswith(_ARTIFACT) else ""


def _release(
    parent: str, namespace: str, addon: str, target: str, values: Obj | None, needs: tuple[str, ...]
) -> Obj:
    spec: Obj = {
        "releaseName": addon,
        "chartRef": {
            "kind": "ExternalArtifact",
            "name": f"{_ARTIFACT}{addon}",
            "namespace": "cozy-system",
        },
        "kubeConfig": {
            "secretRef": {"name": f"{parent}-admin-kubeconfig", "key": "super-admin.svc"}
        },
        "targetNamespace": target,
        "storageNamespace": target,
        "interval": "5m",
        "timeout": "10m",
        "install": {"createNamespace": True, "remediation": {"retries": -1}},
        "upgrade": {"force": True, "remediation": {"retries": -1}},
    }
    if values is not None:
        spec["values"] = values
    if needs:
        spec["dependsOn"] = [{"name": f"{parent}-{one}", "namespace": namespace} for one in needs]
    labels = {
        "cozystack.io/repository": "system",
        "cozystack.io/target-cluster-name": parent,
    }
    return {
        "apiVersion": HELM,
        "kind": "HelmRelease",
        "metadata": {"name": f"{parent}-{addon}", "namespace": namespace, "labels": labels},
        "spec": spec,
    }
