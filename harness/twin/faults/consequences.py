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

NO_GUEST = frozenset(
    {
        *NOTHING_LOADED,
        *UNSERVED,
        "cdi-spec",
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
