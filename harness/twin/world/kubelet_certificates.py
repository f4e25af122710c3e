"""How a kubelet gets its certificate: a request under a bootstrap token, approved and signed.

kubernetes pkg/controller/certificates (approver, signer, cleaner: an approved request is kept for
an hour); uptime_and_diagnosis.md section 6: a request that is missing tells of the token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world.objects import digest, encode, rfc3339

if TYPE_CHECKING:
    from harness.twin.engine import Engine
    from harness.twin.world.cluster import Cluster

CERTIFICATES = "certificates.k8s.io/v1"
KIND = "CertificateSigningRequest"
KEPT = 3600.0
"""Seconds for which an approved request is kept."""
_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
_CONTROLLER = "kube-controller-manager"


def ask(cluster: Cluster, engine: Engine, node: str, token: str) -> None:
    """A kubelet asks for its client certificate under a token's id, and is given it."""
    made = cluster.create(
        {
            "apiVersion": CERTIFICATES,
            "kind": KIND,
            "metadata": {"name": f"csr-{digest([node, engine.now])[:5]}"},
            "spec": {
                "request": encode(f"request of system:node:{node}"),
                "signerName": _SIGNER,
                "usages": ["digital signature", "client auth"],
                "username": f"system:bootstrap:{token}",
                "groups": ["system:bootstrappers", "system:authenticated"],
            },
        },
        manager="kubelet",
    )
    now = rfc3339(engine.now)
    approved = {
        "type": "Approved",
        "status": "True",
        "reason": "AutoApproved",
        "message": "Auto approving kubelet client certificate after SubjectAccessReview.",
        "lastUpdateTime": now,
        "lastTransitionTime": now,
    }
    status = {"conditions": [approved], "certificate": encode(f"certificate of {node}")}
    cluster.status(made, lambda stored: stored.update(status=status), manager=_CONTROLLER)
    engine.after(KEPT, lambda: cluster.remove(made), f"{made['metadata']['name']} is cleaned up")
