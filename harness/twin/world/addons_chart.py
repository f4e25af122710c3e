"""What the charts of a tenant's own addons put into it: network, names, disks, metrics, ingress.

Names, namespaces and the kinds of workload: CZ ``packages/apps/kubernetes/templates/helmreleases``
and ``packages/system/kubevirt-csi-node``; of each chart what decides anything here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.twin.world.objects import STORAGE, Obj, deep, meta
from harness.twin.world.workload_manifests import daemonset, deployment

CILIUM, COREDNS, CSI = "cilium", "coredns", "csi"
INGRESS, METRICS = "ingress-nginx", "metrics-server"
NAMESPACES = {
    CILIUM: "cozy-cilium",
    COREDNS: "kube-system",
    CSI: "cozy-csi",
    INGRESS: "cozy-ingress-nginx",
    METRICS: "cozy-monitoring",
}
DRIVER = "csi.kubevirt.io"
CSI_NODE = "kubevirt-csi-node"
REGISTRATION = "apiregistration.k8s.io/v1"
METRICS_API = "v1beta1.metrics.k8s.io"
DNS_SERVICE, DNS_ADDRESS = "kube-dns", "10.95.0.10"
_EVERYWHERE = [{"operator": "Exists"}]


def render(chart: str, values: Obj, namespace: str) -> list[Obj] | None:
    """The manifests of an addon's chart; None for a chart that is none of these."""
    known: dict[str, Callable[[], list[Obj]]] = {
        CILIUM: lambda: [_cilium(namespace)],
        COREDNS: lambda: _coredns(values, namespace),
        CSI: lambda: _csi(values, namespace),
        INGRESS: lambda: _ingress(values, namespace),
        METRICS: lambda: _metrics(namespace),
    }
    found = known.get(chart)
    return found() if found is not None else None


def values_of(addon: str, cluster: Obj, classes: list[Obj]) -> Obj | None:
    """What the tenant cluster's chart gives to an addon; ``classes`` are the platform's."""
    override = deep(cluster, "addons", _KEYS.get(addon, addon), "valuesOverride")
    given: Obj = dict(override) if isinstance(override, dict) else {}
    if addon == COREDNS:
        return {**given, "coredns": {"service": {"clusterIP": DNS_ADDRESS}}}
    if addon == CSI:
        return {"storageClasses": _propagated(cluster, classes)}
    if addon == INGRESS:
        method = deep(cluster, "addons", "ingressNginx", "exposeMethod") or "Proxied"
        controller: Obj = {"kind": "DaemonSet"}
        if method == "Proxied":
            controller |= {"hostNetwork": True, "service": {"enabled": False}}
        return {**given, INGRESS: {"fullnameOverride": INGRESS, "controller": controller}}
    return None


_KEYS = {INGRESS: "ingressNginx"}


def _propagated(cluster: Obj, classes: list[Obj]) -> Obj:
    """The platform's classes that every node reaches, under their names, one of them the default;
    beside them the alias of old, ``kubevirt``."""
    wanted = str(cluster.get("storageClass") or "replicated")
    remote = "linstor.csi.linbit.com/allowRemoteVolumeAccess"
    found: Obj = {
        one["metadata"]["name"]: {"infraStorageClass": one["metadata"]["name"], "default": False}
        for one in classes
        if one.get("provisioner") == "linstor.csi.linbit.com"
        and (one.get("parameters") or {}).get(remote, "true") != "false"
    }
    found = found or {"replicated": {"infraStorageClass": "replicated", "default": False}}
    found.setdefault("kubevirt", {"infraStorageClass": wanted, "default": False})
    chosen = next((one for one in (wanted, "replicated") if one in found), min(found))
    found[chosen]["default"] = True
    return found


def _cilium(namespace: str) -> Obj:
    spec = {
        "hostNetwork": True,
        "tolerations": _EVERYWHERE,
        "containers": [{"name": "cilium-agent", "image": "quay.io/cilium/cilium:v1.18.6"}],
    }
    return daemonset("cilium", namespace, {"k8s-app": "cilium"}, spec)


def _coredns(values: Obj, namespace: str) -> list[Obj]:
    labels = {"app.kubernetes.io/name": "coredns", "k8s-app": "kube-dns"}
    address = deep(values, "coredns", "service", "clusterIP") or DNS_ADDRESS
    ports = [
        {"name": "udp-53", "port": 53, "targetPort": 53, "protocol": "UDP"},
        {"name": "tcp-53", "port": 53, "targetPort": 53, "protocol": "TCP"},
    ]
    container = {"name": "coredns", "image": "docker.io/coredns/coredns:1.13.2"}
    return [
        deployment("coredns", namespace, labels, container, replicas=2),
        _service(DNS_SERVICE, namespace, labels, ports, str(address)),
    ]


def _csi(values: Obj, namespace: str) -> list[Obj]:
    containers = [
        {
            "name": "csi-driver",
            "image": "ghcr.io/cozystack/cozystack/kubevirt-csi-driver:latest",
            "securityContext": {"privileged": True},
        },
        {
            "name": "csi-node-driver-registrar",
            "image": "quay.io/openshift/origin-csi-node-driver-registrar:latest",
        },
    ]
    spec = {"tolerations": _EVERYWHERE, "containers": containers}
    driver = {
        "apiVersion": STORAGE,
        "kind": "CSIDriver",
        "metadata": meta(DRIVER),
        "spec": {"attachRequired": True, "podInfoOnMount": True},
    }
    classes = deep(values, "storageClasses") or {}
    found = [_class(name, given) for name, given in classes.items()]
    # the pods' label is the release's namespace
    return [driver, daemonset(CSI_NODE, namespace, {"app": namespace}, spec), *found]


def _class(name: str, given: Obj) -> Obj:
    notes = {"storageclass.kubernetes.io/is-default-class": "true"} if given.get("default") else {}
    return {
        "apiVersion": STORAGE,
        "kind": "StorageClass",
        "metadata": meta(name, annotations=notes),
        "provisioner": DRIVER,
        "parameters": {"infraStorageClassName": given["infraStorageClass"], "bus": "scsi"},
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": True,
    }


def _ingress(values: Obj, namespace: str) -> list[Obj]:
    controller = deep(values, INGRESS, "controller") or {}
    labels = {"app.kubernetes.io/name": INGRESS, "app.kubernetes.io/component": "controller"}
    spec = {
        "hostNetwork": bool(controller.get("hostNetwork")),
        "containers": [
            {"name": "controller", "image": "registry.k8s.io/ingress-nginx/controller:v1.14.1"}
        ],
    }
    found = [daemonset("ingress-nginx-controller", namespace, labels, spec)]
    if deep(controller, "service", "enabled") is not False:
        ports = [
            {"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"},
            {"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"},
        ]
        found.append(_service("ingress-nginx-controller", namespace, labels, ports, "10.95.18.80"))
    return found


def _metrics(namespace: str) -> list[Obj]:
    labels = {"app.kubernetes.io/name": METRICS}
    image = "registry.k8s.io/metrics-server/metrics-server:v0.8.0"
    ports = [{"name": "https", "port": 443, "targetPort": "https", "protocol": "TCP"}]
    service = {
        "apiVersion": REGISTRATION,
        "kind": "APIService",
        "metadata": meta(METRICS_API),
        "spec": {
            "group": "metrics.k8s.io",
            "version": "v1beta1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": METRICS, "namespace": namespace, "port": 443},
        },
    }
    container = {"name": METRICS, "image": image}
    return [
        deployment(METRICS, namespace, labels, container, replicas=1),
        _service(METRICS, namespace, labels, ports, "10.95.44.10"),
        service,
    ]


def _service(
    name: str, namespace: str, labels: dict[str, str], ports: list[dict[str, Any]], address: str
) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta(name, namespace, labels=labels),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "clusterIPs": [address],
            "selector": labels,
            "ports": ports,
        },
    }
