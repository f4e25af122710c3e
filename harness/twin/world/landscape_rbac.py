"""Who may clone goldens: the RBAC objects that the platform ships (objects.md section 7).

The worker-image charts add none of their own (S-OSI): by this pair alone a tenant's ServiceAccount
may clone from ``cozy-public``, and it may nothing more there.
"""

from __future__ import annotations

from harness.twin.apiserver.access import GROUP
from harness.twin.world.objects import CDI, Obj
from harness.twin.world.pool_disk import PUBLIC

CLUSTER_ROLE = "cdi-copy-dv"
BINDING = "cdi-clone-dv"
ACCOUNTS = "system:serviceaccounts"


def objects() -> list[Obj]:
    """ClusterRole and RoleBinding."""
    rule = {
        "apiGroups": [CDI.partition("/")[0]],
        "resources": ["datavolumes/source"],
        "verbs": ["create"],
    }
    return [
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": CLUSTER_ROLE},
            "rules": [rule],
        },
        {
            "apiVersion": f"{GROUP}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": BINDING, "namespace": PUBLIC},
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": CLUSTER_ROLE},
            "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": ACCOUNTS}],
        },
    ]
