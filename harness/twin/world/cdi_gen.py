"""What ``nvidia-ctk cdi generate`` writes: the CDI spec of a machine's driver and its cards.

Shape: toolkit 1.18 ``cmd/nvidia-ctk/cdi/generate``; names are the index, the UUID and "all" (its
default strategies), the order of keys is its YAML writer's. Where Talos keeps the libraries is
inferred; nvidia-smi's place: gpu_path.md section 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from harness.twin.world.filesystem import Filesystem
from harness.twin.world.images import DRIVER_VERSION
from harness.twin.world.nvidia import Card

KIND = "nvidia.com/gpu"
SPEC = "/run/cdi/nvidia.yaml"
LIBRARY_DIRECTORY = "/usr/local/lib"
LIBRARIES = tuple(f"lib{one}.so.{DRIVER_VERSION}" for one in ("cuda", "nvidia-ml"))
SMI = "/usr/local/bin/nvidia-smi"
_HOOK = "/usr/local/bin/nvidia-cdi-hook"
_SHARED = ("/dev/nvidia-modeset", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidiactl")
_INSIDE = "/usr/lib64"
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def document(cards: Sequence[Card], host: Filesystem, kind: str = KIND) -> dict[str, Any]:
    """The spec for the cards that a machine's driver drives, by minor number; no card, no device.

    ``host`` decides which of the driver's device nodes, libraries and programs go in.
    """
    devices = [
        {"name": name, "containerEdits": _nodes([f"/dev/nvidia{minor}"])}
        for minor, card in enumerate(cards)
        for name in (str(minor), card.uuid)
    ]
    if cards:
        every = [f"/dev/nvidia{minor}" for minor in range(len(cards))]
        devices.append({"name": "all", "containerEdits": _nodes(every)})
    return {
        "cdiVersion": "0.5.0",
        "kind": kind,
        "devices": devices,
        "containerEdits": _common(host),
    }


def text(cards: Sequence[Card], host: Filesystem) -> bytes:
    """/run/cdi/nvidia.yaml."""
    body = yaml.dump(document(cards, host), Dumper=_DUMPER, sort_keys=True)
    return f"---\n{body}".encode()


def _nodes(paths: Sequence[str]) -> dict[str, Any]:
    return {"deviceNodes": [{"path": path} for path in paths]}


def _common(host: Filesystem) -> dict[str, Any]:
    mounts = [(f"{LIBRARY_DIRECTORY}/{name}", f"{_INSIDE}/{name}") for name in LIBRARIES]
    mounts.append((SMI, "/usr/bin/nvidia-smi"))
    return {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        **_nodes([path for path in _SHARED if host.exists(path)]),
        "hooks": [
            _hook("create-symlinks", "--link", f"libcuda.so.1::{_INSIDE}/libcuda.so"),
            _hook("enable-cuda-compat", f"--host-driver-version={DRIVER_VERSION}"),
            _hook("update-ldcache", "--folder", _INSIDE),
        ],
        "mounts": [
            {
                "hostPath": outside,
                "containerPath": inside,
                "options": ["ro", "nosuid", "nodev", "rbind", "rprivate"],
            }
            for outside, inside in mounts
            if host.exists(outside)
        ],
    }


def _hook(*arguments: str) -> dict[str, Any]:
    return {
        "hookName": "createContainer",
        "path": _HOOK,
        "args": ["nvidia-cdi-hook", *arguments],
        "env": ["NVIDIA_CTK_DEBUG=false"],
    }
