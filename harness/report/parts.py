"""Which part of the system a claim is about, for policies and for whoever sorts by it."""

from __future__ import annotations

from collections.abc import Mapping

from harness.claims.catalogue import Claim

GPU = "gpu"
MODULES = "modules"
IMAGES = "images"
STORAGE = "storage"
WORKERS = "workers"
PARTS: Mapping[str, str] = {
    GPU: "cards, their driver, the GPU operator, and what a pod gets of them",
    MODULES: "kernel modules: asked for, rendered, loaded",
    IMAGES: "golden images, clones, and the disks made from them",
    STORAGE: "replicated volumes, LINSTOR, DRBD",
    WORKERS: "workers that join, stay, and are what was asked for",
}
"""Every part, with what it covers."""
_NAMED: Mapping[str, str] = {
    **dict.fromkeys(("disk-source", "disk-phases", "disk-shape", "os-image-refused"), IMAGES),
    **dict.fromkeys(("modules-live", "kernel-module-order", "rollout", "render-modules"), MODULES),
    **dict.fromkeys(("render-module-order", "render-module-params"), MODULES),
    **dict.fromkeys(("render-no-kernel-block", "spec-read-back"), MODULES),
    **dict.fromkeys(("kernel-modules-refused", "kernel-modules-verbatim"), MODULES),
}
"""Claims whose part their needs do not tell."""


def part_of(claim: Claim) -> str:
    """One of PARTS: by name, else by what the claim needs of a pool."""
    named = _NAMED.get(claim.id)
    if named:
        return named
    needs = {need.partition("=")[0] for need in claim.needs}
    if needs & {"clone", "platform"}:
        return IMAGES
    if needs & {"storage", "linstor"}:
        return STORAGE
    return GPU if needs & {"gpu", "nvidia"} else WORKERS
