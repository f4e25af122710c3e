"""A tenant cluster whose control plane is up, with no workers yet (objects.md section 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world import conditions, pods, projection
from harness.twin.world.heartbeats import LEASES
from harness.twin.world.landscape import DATASTORE, MANAGER, adopt, namespace
from harness.twin.world.objects import (
    CAPI,
    CONTROL_PLANE,
    COZY,
    INFRA,
    KAMAJI,
    Obj,
    encode,
    meta,
    owner,
)
from harness.twin.world.pool_machineconfig import POD_CIDR, SERVICE_CIDR

if TYPE_CHECKING:
    from harness.twin.world.cluster import Cluster
    from harness.twin.world.world import World

VERSION = "v1.35.0"
TOKEN_ID = "hil7kq"
_TOKEN = f"{TOKEN_ID}.q3t9mz4vb2xk7wd8"
_CERTIFICATE = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"


def build(world: World, name: str, space: str) -> None:
    """The management side of tenant cluster ``name`` in namespace ``space``, and its own side."""
    full = f"kubernetes-{name}"
    values: Obj = {
        "storageClass": "replicated",
        "version": "v1.35",
        "host": "",
        "controlPlane": {"replicas": 2},
        "addons": {"gpuOperator": {"enabled": True}},
    }
    _inside(world.tenant_clusters[name])
    adopt(world, projection.KUBERNETES, name, space, values)
    world.operators[name].adopt()
    for secret in _secrets(full, space):
        world.cluster.create(secret, manager="kamaji")
    for obj in _control_plane(full, space, world.engine.now):
        made = world.cluster.create(obj, manager=MANAGER)
        if obj["kind"] == "Cluster":
            _link(world, made, full, space)
    world.cluster.create(_monitor(name, full, space), manager="helm-controller")
    _deployments(world, full, space)


def _link(world: World, cluster: Obj, full: str, space: str) -> None:
    """Cluster API makes the Cluster the owner of what it refers to."""
    for api_version, kind in ((INFRA, "KubevirtCluster"), (CONTROL_PLANE, "KamajiControlPlane")):
        found = world.cluster.find(api_version, kind, space, full)
        if found is not None:
            world.cluster.edit(
                found,
                lambda stored: stored["metadata"].update(ownerReferences=[owner(cluster)]),
                manager="capi-controller-manager",
            )


def _service(full: str, space: str) -> Obj:
    # S-DOC: without 50001 no worker's apid ever gets its certificate
    ports = (("kube-apiserver", 6443), ("konnectivity-server", 8132), ("talos-trustd", 50001))
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta(full, space, labels={"kamaji.clastix.io/name": full}),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "10.96.71.18",
            "clusterIPs": ["10.96.71.18"],
            "selector": {"kamaji.clastix.io/name": full},
            "ports": [
                {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}
                for name, port in ports
            ],
        },
    }


def _control_plane(full: str, space: str, now: float) -> list[Obj]:
    found = [
        _service(full, space),
        _kubevirt_cluster(full, space),
        _kamaji(full, space),
        _tenant_control_plane(full, space),
        _cluster(full, space),
    ]
    states = {
        "KubevirtCluster": ("Ready", "LoadBalancerAvailable"),
        "Cluster": ("Ready", "ControlPlaneInitialized", "ControlPlaneReady", "InfrastructureReady"),
        "KamajiControlPlane": (
            "TenantControlPlaneCreated",
            "TenantControlPlaneAddressReady",
            "ControlPlaneEndpointPatched",
            "InfrastructureClusterPatched",
            "KamajiControlPlaneIsInitialized",
            "KamajiControlPlaneIsReady",
            "KubeadmResourcesCreated",
        ),
    }
    for obj in found:
        strict = obj["kind"] == "KamajiControlPlane"
        reason = "Succeeded" if strict else ""
        good = [conditions.true(kind, reason) for kind in states.get(obj["kind"], ())]
        if good:
            conditions.write(obj, now, *good, metav1=strict)
    return found


def _endpoint(full: str, space: str) -> Obj:
    return {"host": f"{full}.{space}.svc", "port": 6443}


def _kubevirt_cluster(full: str, space: str) -> Obj:
    return {
        "apiVersion": INFRA,
        "kind": "KubevirtCluster",
        "metadata": meta(
            full,
            space,
            labels={"cluster.x-k8s.io/cluster-name": full},
            annotations={"cluster.x-k8s.io/managed-by": "kamaji"},
        ),
        "spec": {"controlPlaneEndpoint": _endpoint(full, space)},
        "status": {"ready": True},
    }


def _cluster(full: str, space: str) -> Obj:
    def ref(api_version: str, kind: str) -> Obj:
        return {"apiVersion": api_version, "kind": kind, "name": full, "namespace": space}

    return {
        "apiVersion": CAPI,
        "kind": "Cluster",
        "metadata": meta(full, space, labels={"cluster.x-k8s.io/cluster-name": full}),
        "spec": {
            "clusterNetwork": {
                "pods": {"cidrBlocks": [POD_CIDR]},
                "services": {"cidrBlocks": [SERVICE_CIDR]},
            },
            "controlPlaneEndpoint": _endpoint(full, space),
            "controlPlaneRef": ref(CONTROL_PLANE, "KamajiControlPlane"),
            "infrastructureRef": ref(INFRA, "KubevirtCluster"),
        },
        "status": {
            "phase": "Provisioned",
            "controlPlaneReady": True,
            "infrastructureReady": True,
            "observedGeneration": 1,
        },
    }


def _kamaji(full: str, space: str) -> Obj:
    return {
        "apiVersion": CONTROL_PLANE,
        "kind": "KamajiControlPlane",
        "metadata": meta(full, space, labels={"cluster.x-k8s.io/cluster-name": full}),
        "spec": {
            "version": VERSION,
            "replicas": 2,
            "dataStoreName": DATASTORE,
            "addons": {"konnectivity": {"server": {"port": 8132}}},
            "network": {
                "serviceType": "ClusterIP",
                "certSANs": [f"{full}.{space}.svc", "10.96.71.18"],
                "additionalServicePorts": [
                    {"name": "talos-trustd", "port": 50001, "targetPort": 50001, "protocol": "TCP"}
                ],
            },
        },
        "status": {
            "externalManagedControlPlane": True,
            "initialized": True,
            "ready": True,
            "readyReplicas": 2,
            "replicas": 2,
            "updatedReplicas": 2,
            "unavailableReplicas": 0,
            "selector": f"kamaji.clastix.io/name={full}",
            "version": VERSION,
        },
    }


def _tenant_control_plane(full: str, space: str) -> Obj:
    return {
        "apiVersion": KAMAJI,
        "kind": "TenantControlPlane",
        "metadata": meta(full, space),
        "spec": {
            "dataStore": DATASTORE,
            "controlPlane": {
                "deployment": {"replicas": 2},
                "service": {
                    "serviceType": "ClusterIP",
                    "additionalPorts": [
                        {
                            "name": "talos-trustd",
                            "port": 50001,
                            "targetPort": 50001,
                            "protocol": "TCP",
                        }
                    ],
                },
            },
            "kubernetes": {"version": VERSION, "kubelet": {"cgroupfs": "systemd"}},
            "networkProfile": {"port": 6443, "podCidr": POD_CIDR, "serviceCidr": SERVICE_CIDR},
        },
        "status": {
            "controlPlaneEndpoint": f"{full}.{space}.svc:6443",
            "kubernetesResources": {
                "version": {"status": "Ready", "version": VERSION},
                "service": {"name": full, "namespace": space, "port": 6443},
            },
            "storage": {"dataStoreName": DATASTORE, "driver": "etcd"},
        },
    }


def _secrets(full: str, space: str) -> list[Obj]:
    contents: dict[str, dict[str, str]] = {
        "admin-kubeconfig": {"super-admin.conf": "", "super-admin.svc": ""},
        "ca": {"ca.crt": _CERTIFICATE.format("dGVuYW50IENB"), "ca.key": ""},
        "talos-ca": {"tls.crt": _CERTIFICATE.format("dGFsb3MgQ0E="), "tls.key": ""},
        "talos-tls-cert": {"tls.crt": _CERTIFICATE.format("dHJ1c3Rk"), "tls.key": ""},
        "talos-secrets": {
            "token": "t4losx.8f3kq2mz7vb9wd5x",
            "clusterId": "aGlsLWxhYi1jbHVzdGVyLWlk",
            "clusterSecret": "aGlsLWxhYi1jbHVzdGVyLXNlY3JldA==",
            "bootstrapToken": _TOKEN,
            "bootstrapTokenId": TOKEN_ID,
            "bootstrapTokenSecret": _TOKEN.partition(".")[2],
        },
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": meta(f"{full}-{suffix}", space),
            "type": "Opaque",
            "data": {key: encode(text) for key, text in data.items()},
        }
        for suffix, data in contents.items()
    ]


def _monitor(name: str, full: str, space: str) -> Obj:
    labels = {
        "apps.cozystack.io/application.group": projection.GROUP,
        "apps.cozystack.io/application.kind": "Kubernetes",
        "apps.cozystack.io/application.name": name,
    }
    return {
        "apiVersion": COZY,
        "kind": "WorkloadMonitor",
        "metadata": meta(full, space, labels=labels),
        "spec": {
            "kind": "kubernetes",
            "type": "control-plane",
            "minReplicas": 2,
            "replicas": 2,
            "selector": {"kamaji.clastix.io/name": full},
            "version": VERSION,
        },
        "status": {"availableReplicas": 2, "observedReplicas": 2, "operational": True},
    }


def _deployments(world: World, full: str, space: str) -> None:
    """The control plane's Deployment and its pods, and the controllers beside it."""
    for suffix, replicas in (("", 2), ("-cluster-autoscaler", 1), ("-kccm", 1)):
        name = f"{full}{suffix}"
        labels = {"kamaji.clastix.io/name": full} if not suffix else {"app": name}
        container = {"name": "main", "image": f"ghcr.io/cozystack/{suffix or 'control-plane'}:v1"}
        made = world.cluster.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": meta(name, space, labels=labels),
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": {"containers": [container]},
                    },
                },
                "status": {
                    "replicas": replicas,
                    "readyReplicas": replicas,
                    "availableReplicas": replicas,
                    "updatedReplicas": replicas,
                    "observedGeneration": 1,
                },
            },
            manager=MANAGER,
        )
        for index in range(replicas):
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": meta(
                    f"{name}-{'abcdef'[index]}{world.identities.suffix()}",
                    space,
                    labels=labels,
                    ownerReferences=[owner(made)],
                ),
                "spec": {"nodeName": f"hv-{1 + index}", "containers": [container]},
            }
            pods.creating(pod, f"192.168.100.{11 + index}", world.engine.now)
            pods.running(pod, world.hosts.address(f"hv-{1 + index}"), world.engine.now)
            world.cluster.create(pod, manager=MANAGER)


def _inside(cluster: Cluster) -> None:
    """What is in a fresh tenant cluster before its first worker."""
    for name in ("default", "kube-system", "kube-public", LEASES):
        cluster.create(namespace(name), manager="kube-apiserver")
    privileged = {"pod-security.kubernetes.io/enforce": "privileged"}
    for name in ("cozy-cilium", "cozy-gpu-operator"):
        made = namespace(name)
        made["metadata"]["labels"] |= privileged
        cluster.create(made, manager="helm-controller")
    for obj in (
        _tenant_service("kubernetes", "default", "10.95.0.1", 443),
        _bootstrap_token(),
    ):
        cluster.create(obj, manager="kubeadm")


def _tenant_service(name: str, space: str, address: str, port: int) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta(name, space),
        "spec": {
            "type": "ClusterIP",
            "clusterIP": address,
            "clusterIPs": [address],
            "ports": [{"name": name, "port": port, "targetPort": port, "protocol": "TCP"}],
        },
    }


def _bootstrap_token() -> Obj:
    data = {
        "token-id": TOKEN_ID,
        "token-secret": _TOKEN.partition(".")[2],
        "usage-bootstrap-authentication": "true",
        "usage-bootstrap-signing": "true",
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": meta(f"bootstrap-token-{TOKEN_ID}", "kube-system"),
        "type": "bootstrap.kubernetes.io/token",
        "data": {key: encode(text) for key, text in data.items()},
    }
