from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

SHIPPED = Path(__file__).resolve().parents[2] / "inventory"

SMALL: dict[str, Any] = {
    "name": "bench",
    "kind": "cluster",
    "clock": "real",
    "management": {"kubeconfig": {"env": "LAB_KUBECONFIG"}, "context": "admin"},
    "gpus": {
        "l40s": {
            "resourceName": "nvidia.com/AD102GL_L40S",
            "pciId": "10de:26b9",
            "model": "NVIDIA L40S",
        }
    },
    "schematics": {
        "open": {
            "id": "ab" * 32,
            "extensions": ["siderolabs/nvidia-open-gpu-kernel-modules-production"],
        },
        "plain": {"id": "cd" * 32},
    },
    "storageClasses": {
        "replicated": {"drbd": True, "replicas": 3},
        "local": {"drbd": False, "replicas": 1},
    },
    "pools": {
        "cards": {
            "gpu": "l40s",
            "schematic": "open",
            "talosVersion": "v1.13.6",
            "kubernetesVersion": "v1.35",
        },
        "plain": {
            "schematic": "plain",
            "talosVersion": "v1.13.6",
            "kubernetesVersion": "v1.35",
            "storageClass": "local",
        },
    },
    "lanes": {"nightly": {"pools": ["cards"], "soak": "93m"}},
}


@pytest.fixture
def small() -> dict[str, Any]:
    """A valid inventory as data, free to be changed."""
    return copy.deepcopy(SMALL)


@pytest.fixture
def put(tmp_path: Path) -> Callable[[Any], Path]:
    """Write an inventory (text, bytes or data) and give its path."""

    def write(content: Any) -> Path:
        path = tmp_path / "lab.yaml"
        if not isinstance(content, (str, bytes)):
            content = yaml.safe_dump(content, sort_keys=False)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture(params=sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.name)
def shipped(request: pytest.FixtureRequest) -> Path:
    """Each inventory file that comes with the project."""
    path: Path = request.param
    return path
