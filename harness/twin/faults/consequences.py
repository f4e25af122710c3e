"""What follows from what, along the path of a card: claims that go together under a fault."""

from __future__ import annotations

NOTHING_DECLARED = frozenset({"render-module-order", "render-module-params"})
"""Unknown where no module is declared at all."""
NOTHING_LOADED = frozenset({"kernel-module-order", "nvlink-param", "module-flavour"})
"""Unknown where the driver is not loaded."""
UNSERVED = frozenset({"cdi-injection", "cuda-runs", "early-pod-unserved"})
"""Unknown where no pod can be scheduled that asks for a card: there is nothing to compare."""
NOT_VALIDATED = frozenset({"host-driver-accepted", "gpu-advertised"})
"""Broken where the validator is stuck: the device plugin waits for it (gpu_path 5.1)."""
NO_DRIVER = NOT_VALIDATED | {"modules-live", "cdi-spec"}
"""Broken where the driver is not loaded."""
WAITS_FOR_DRIVER = frozenset({"driver-sees-gpu", "uptime"})
"""Broken besides where the image has NVIDIA's services: nvidia-smi is there and finds no driver,
and a boot that waits for a service is given up after 70 minutes (S-DOC)."""
BLIND_WITHOUT_DRIVER = NOTHING_LOADED | UNSERVED | {"fabric-state"}

ANOTHER_IMAGE = frozenset({"disk-source"})
"""Broken where a client writes another schematic than the pool was asked for with."""

NO_GUEST = frozenset(
    {
        *NOTHING_LOADED,
        *UNSERVED,
        "addons-up",
        "apid-serves",
        "cdi-spec",
        "disk-failover",
        "disk-shape",
        "driver-sees-gpu",
        "fabric-state",
        "gpu-advertised",
        "host-driver-accepted",
        "modules-live",
        "no-roll",
        "reboots-told",
        "uptime",
    }
)
"""Unknown without a worker: there is nobody to ask."""
NO_HOST = NO_GUEST | {"vfio-bound", "operator-live", "no-hidden-helper"}
"""Without a worker that runs there is no host to look at, and nothing that the operator acts on."""
UNFILLED = frozenset({"csi-clone", "disk-phases", "disk-shape", "linstor-agrees", "storage-ok"})
"""Unknown of a disk that was asked for and never came about."""
NO_DISK = UNFILLED | {"disk-source"}
"""Unknown without any disk."""
NO_MACHINE = NO_HOST | NO_DISK | {"passthrough", "os-image-rolls"}
"""Unknown where no Machine is ever made: it could not have been rolled either."""
NOT_RENDERED = (
    NO_MACHINE
    | NOTHING_DECLARED
    | {
        "image-fits",
        "render-modules",
        "render-no-kernel-block",
        "schematic-consistent",
    }
)
"""Unknown where the pool's chart rendered nothing."""
UNGUARDED = frozenset(
    {
        "golden-refused",
        "kernel-modules-refused",
        "kernel-modules-verbatim",
        "os-image-allowed",
        "os-image-refused",
        "rollout",
        "spec-applied",
    }
)
"""Unknown where no pool's chart comes to what it is asked."""
ALL_TRIALS = frozenset(
    {
        "drbd-disk-loss",
        "drbd-failover",
        "drbd-io-policy",
        "drbd-link-loss",
        "drbd-outdated-refused",
        "drbd-primary-loss",
        "drbd-quorum",
        "drbd-replica-loss",
        "drbd-split-brain",
        "drbd-verify",
    }
)
"""Asked of a volume that is made for it."""
NOT_ASKED_FOR = (
    NOT_RENDERED
    | ALL_TRIALS
    | frozenset(
        {
            "catalogue-import",
            "catalogue-kept",
            "catalogue-refused",
            "clone-rbac",
            "class-resolved",
            "golden-lost",
            "golden-refused",
            "kernel-modules-refused",
            "kernel-modules-verbatim",
            "node-joins",
            "nothing-left",
            "operator-default",
            "os-image-allowed",
            "os-image-refused",
            "rollout",
            "spec-applied",
            "spec-read-back",
        }
    )
)
"""Unknown where the pool was refused before anything of it was asked for, beside `golden-ready` and
`headroom`, of which one is why."""
