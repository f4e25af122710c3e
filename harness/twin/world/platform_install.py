"""The platform's own installation, as far as it tells which release it is.

The installer's chart makes the operator's Deployment, the operator the source of the packages, the
platform's chart the copy of it that everything is rendered from (cozystack
packages/core/installer/templates/cozystack-operator.yaml,
packages/core/platform/templates/repository.yaml). That no pod of the operator is there is a
simplification.
"""

from __future__ import annotations

import hashlib

from harness.twin.world import conditions
from harness.twin.world.objects import Obj, meta, rfc3339

VERSION = "v1.7.0"
"""The release whose charts the world renders (objects.md section 2)."""
NAMESPACE = "cozy-system"
OPERATOR = "cozystack-operator"
SOURCE = "source.toolkit.fluxcd.io/v1"
SEED, PACKAGES = "cozystack-platform", "cozystack-packages"
_REGISTRY = "ghcr.io/cozystack/cozystack"


def objects(now: float) -> list[Obj]:
    """The operator's Deployment, and the source of the packages with its copy."""
    sources = [_source(name, now) for name in (SEED, PACKAGES)]
    sources[1]["metadata"]["labels"] = {"cozystack.io/deletion-protected": "true"}
    return [_operator(now), *sources]


def _digest(what: str) -> str:
    return f"sha256:{hashlib.sha256(f'{what}:{VERSION}'.encode()).hexdigest()}"


def _operator(now: float) -> Obj:
    labels = {"app": OPERATOR}
    container = {
        "name": OPERATOR,
        "image": f"{_REGISTRY}/{OPERATOR}:{VERSION}@{_digest(OPERATOR)}",
        "args": [
            "--leader-elect=true",
            "--install-flux=true",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=",
            f"--platform-source-name={SEED}",
            f"--platform-source-url=oci://{_REGISTRY}/{PACKAGES}",
            f"--platform-source-ref=digest={_digest(PACKAGES)}",
        ],
        "env": [
            {"name": "COZYSTACK_VERSION", "value": VERSION},
            {"name": "KUBERNETES_SERVICE_HOST", "value": "localhost"},
            {"name": "KUBERNETES_SERVICE_PORT", "value": "7445"},
        ],
    }
    found: Obj = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(OPERATOR, NAMESPACE),
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": "cozystack",
                    "hostNetwork": True,
                    "containers": [container],
                },
            },
        },
        "status": {
            "replicas": 1,
            "readyReplicas": 1,
            "availableReplicas": 1,
            "updatedReplicas": 1,
            "observedGeneration": 1,
        },
    }
    good = conditions.true("Available", "MinimumReplicasAvailable")
    conditions.write(found, now, good)
    return found


def _source(name: str, now: float) -> Obj:
    digest = _digest(PACKAGES)
    found: Obj = {
        "apiVersion": SOURCE,
        "kind": "OCIRepository",
        "metadata": meta(name, NAMESPACE),
        "spec": {
            "interval": "5m0s",
            "ref": {"digest": digest},
            "url": f"oci://{_REGISTRY}/{PACKAGES}",
        },
        "status": {
            "artifact": {
                "digest": digest,
                "lastUpdateTime": rfc3339(now),
                "path": f"ocirepository/{NAMESPACE}/{name}/{digest}.tar.gz",
                "revision": digest,
            },
        },
    }
    ready = conditions.true("Ready", "Succeeded", f"stored artifact for digest '{digest}'")
    conditions.write(found, now, ready, metav1=True)
    return found
