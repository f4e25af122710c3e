"""What a golden image is called, and where it lies (objects.md 7, clone_path.md 1)."""

from __future__ import annotations

GOLDENS = "cozy-public"
"""The namespace of the golden images, and of whatever clones them."""
PREFIX = "talos-worker-"


def name_of_golden(schematic: str, version: str) -> str:
    """The DataVolume of an image, and its PVC: talos-worker-<schematic>-<version>."""
    return f"{PREFIX}{schematic}-{version}"
