"""containerd on a worker: what a container is made with, which nothing changes afterwards.

CDI devices are resolved against the files in /run/cdi as they are at this moment; the runtime
``nvidia`` injects by itself what NVIDIA_VISIBLE_DEVICES of the container names (gpu_path.md section
6; toolkit 1.18, ``internal/modifier/cdi.go``, whose mode on a machine like this is to generate a
spec on the fly). Texts: containerd 2.1 ``internal/cri``, runc; lab/captures/cdi_host_podman43_runc.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.twin.world import cdi_gen, cdi_specs, container_images, nodefit
from harness.twin.world.cdi_specs import Edits, Unresolvable
from harness.twin.world.container_images import ContainerImage
from harness.twin.world.filesystem import File, Filesystem, PathError
from harness.twin.world.gpu_devices import Allocation
from harness.twin.world.objects import Obj, deep, digest

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest

RUNC = "runc"
NVIDIA = "nvidia"
"""The one handler that Talos' toolkit extension adds; it is not the default (gpu_path.md 6)."""
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_ON_THE_FLY = "runtime.nvidia.com/gpu"
_TASK = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
_RUNC = "runc create failed: unable to start container process: "
_MODIFIER = "could not apply required modification to OCI specification: error modifying OCI spec: "


class CannotCreate(Exception):
    """There is no container: CreateContainerError. ``str()`` is the runtime's sentence."""


class CannotStart(Exception):
    """The container's process does not start: StartError. ``str()`` is the runtime's sentence."""


@dataclass(frozen=True, slots=True)
class Container:
    """A container as it was made.

    ``nodes`` are its device nodes beside the usual few, ``mounts`` what of the host appears in it;
    both by path in the container, with the path on the host. A privileged one has every device.
    ``files`` are those that its programs wrote, by path; they end with it. ``claims`` are the paths
    at which it has disks of the cluster's.
    """

    image: ContainerImage
    hostname: str
    env: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    mounts: Mapping[str, str] = field(default_factory=dict)
    privileged: bool = False
    files: dict[str, bytes] = field(default_factory=dict)
    claims: tuple[str, ...] = ()


def create(pod: Obj, spec: Obj, guest: Guest, allocation: Allocation, handler: str) -> Container:
    """Make a container of a pod's spec. Raises CannotCreate or CannotStart."""
    host = guest.root.tree()
    image = container_images.named(spec.get("image", ""), guest.mirror)
    edits = _by_cdi(pod, spec, guest, allocation, host)
    env = _environment(pod, spec, image, allocation, edits)
    if handler == NVIDIA:
        more = _by_toolkit(env.get("NVIDIA_VISIBLE_DEVICES"), guest, host)
        edits, env = edits.and_then(more), {**env, **_pairs(more.env)}
    _check(edits, host)
    nodes = {path: path for path in allocation.device_nodes if host.exists(path)}
    return Container(
        image,
        env["HOSTNAME"],
        env,
        {**nodes, **edits.nodes},
        {**host_paths(pod, spec), **{mount.inside: mount.host for mount in edits.mounts}},
        bool(deep(spec, "securityContext", "privileged")),
        claims=claim_paths(pod, spec),
    )


def bare(pod: Obj, spec: Obj) -> Container:
    """A container without a word from plugin or runtime."""
    image = container_images.named(spec.get("image", ""))
    env = _environment(pod, spec, image, Allocation(), Edits())
    privileged = bool(deep(spec, "securityContext", "privileged"))
    return Container(image, env["HOSTNAME"], env, {}, host_paths(pod, spec), privileged)


def claim_paths(pod: Obj, spec: Obj) -> tuple[str, ...]:
    """Where a container mounts persistent volume claims."""
    claims = {
        volume.get("name")
        for volume in nodefit.listed(pod["spec"].get("volumes"))
        if deep(volume, "persistentVolumeClaim", "claimName")
    }
    return tuple(
        str(mount.get("mountPath")).rstrip("/")
        for mount in nodefit.listed(spec.get("volumeMounts"))
        if mount.get("name") in claims
    )


def host_paths(pod: Obj, spec: Obj) -> dict[str, str]:
    """A container's hostPath mounts: path in the container to path on the host."""
    volumes = {
        volume.get("name"): str(deep(volume, "hostPath", "path"))
        for volume in nodefit.listed(pod["spec"].get("volumes"))
        if deep(volume, "hostPath", "path")
    }
    return {
        str(mount.get("mountPath")).rstrip("/"): volumes[mount.get("name")]
        for mount in nodefit.listed(spec.get("volumeMounts"))
        if mount.get("name") in volumes
    }


def program_missing(why: str) -> CannotStart:
    """The main program is not there; ``why`` as runc says it."""
    return CannotStart(f"{_TASK}{_RUNC}{why}: unknown")


# -- devices


def _by_cdi(pod: Obj, spec: Obj, guest: Guest, allocation: Allocation, host: Filesystem) -> Edits:
    if not allocation.cdi_devices:
        return Edits()
    identity = digest([pod["metadata"]["uid"], spec["name"], guest.boot_id])
    head = f'failed to generate container "{identity}" spec: failed to generate spec: '
    head += "CDI device injection failed: "
    try:
        edits = cdi_specs.resolve(guest.tmpfs, allocation.cdi_devices)
    except Unresolvable as unknown:
        raise CannotCreate(f"{head}{unknown}") from unknown
    for path in edits.nodes.values():
        if not host.exists(path):
            text = f'failed to stat CDI host device "{path}": no such file or directory'
            raise CannotCreate(f"{head}failed to inject devices: {text}")
    return edits


def _by_toolkit(visible: str | None, guest: Guest, host: Filesystem) -> Edits:
    """What the nvidia runtime adds: nothing where the variable is not set, empty or ``void``."""
    if visible in (None, "", "void"):
        return Edits()
    cards = guest.kernel.driven()
    if not cards:
        text = "failed to initialize NVML: ERROR_DRIVER_NOT_LOADED"
        if guest.kernel.module("nvidia") is not None:
            text = "no NVIDIA device found"
        raise CannotStart(f"{_TASK}{_MODIFIER}failed to generate CDI spec: {text}: unknown")
    spec = json.dumps(cdi_gen.document(cards, host, _ON_THE_FLY)).encode()
    names = ["all"] if visible == "none" else [one.strip() for one in str(visible).split(",")]
    path = f"{cdi_specs.DIRECTORY}/on-the-fly.json"
    try:
        edits = cdi_specs.resolve({path: spec}, [f"{_ON_THE_FLY}={name}" for name in names])
    except Unresolvable as unknown:
        text = f"{_TASK}{_MODIFIER}failed to inject CDI devices: {unknown}: unknown"
        raise CannotStart(text) from unknown
    if visible == "none":
        # the driver without a card
        return Edits(edits.env, {}, edits.mounts, edits.hooks)
    return edits


def _check(edits: Edits, host: Filesystem) -> None:
    """What runc meets when it carries the edits out."""
    for mount in edits.mounts:
        if not host.exists(mount.host):
            text = f'error mounting "{mount.host}" to rootfs at "{mount.inside}": '
            raise _in_init(f"{text}stat {mount.host}: no such file or directory")
    for index, hook in enumerate(edits.hooks):
        if not _executable(host, hook.path):
            text = f"error running {hook.name} hook #{index}: fork/exec {hook.path}: "
            raise _in_init(f"{text}no such file or directory")


def _in_init(why: str) -> CannotStart:
    return CannotStart(f"{_TASK}{_RUNC}error during container init: {why}: unknown")


def _executable(host: Filesystem, path: str) -> bool:
    try:
        entry = host.find(path)[1]
    except PathError:
        return False
    return isinstance(entry, File) and bool(entry.mode & 0o111)


# -- environment


def _environment(
    pod: Obj, spec: Obj, image: ContainerImage, allocation: Allocation, edits: Edits
) -> dict[str, str]:
    """Image, device plugin, pod, CDI: a later one wins (kubelet_pods.go, CDI's edits last)."""
    return {
        "PATH": _PATH,
        "HOSTNAME": str(pod["spec"].get("hostname") or pod["metadata"]["name"]),
        **image.env,
        **allocation.env,
        **_written(pod, nodefit.listed(spec.get("env"))),
        "KUBERNETES_SERVICE_HOST": "10.95.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        **_pairs(edits.env),
    }


def _written(pod: Obj, listed: Sequence[Obj]) -> dict[str, str]:
    found = {}
    for one in listed:
        path = deep(one, "valueFrom", "fieldRef", "fieldPath")
        value = deep(pod, *str(path).split(".")) if path else one.get("value", "")
        found[str(one.get("name", ""))] = str(value if value is not None else "")
    return found


def _pairs(lines: Sequence[str]) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in lines)
