"""What container images carry, as far as it decides what a pod can do with a card.

A small catalogue by reference. An image that is not in it is taken for one of somebody's own: no
driver, busybox's programs, a main process that goes on for ever. What it does not name does not
exist: a host below the reserved domain ``.invalid``, and a name or tag with "does-not-exist" in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

VECTOR_ADD = "/tmp/vectorAdd"
BUSYBOX = "busybox"
COREUTILS = "coreutils"
_DEFAULT_HOST = "docker.io"
_REFERENCE = re.compile(
    r"[a-z0-9]+([._-]+[a-z0-9]+)*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
)
_DRIVER_TAG = re.compile(r"\d+\.\d+(\.\d+)?")
_CUDA_ENV = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}


@dataclass(frozen=True, slots=True)
class ContainerImage:
    """An image's content.

    ``command`` is what it starts where the pod gives none; empty: a process that goes on for ever.
    ``userland`` says whose small programs it has. ``driver`` is the version of the libnvidia-ml,
    libcuda and nvidia-smi in it, "" for none. ``dynamic``: it has the C library that the driver's
    programs are linked with. ``known`` is False for one that is not in the catalogue.
    """

    command: tuple[str, ...] = ()
    userland: str = BUSYBOX
    env: Mapping[str, str] = field(default_factory=dict)
    driver: str = ""
    dynamic: bool = True
    programs: tuple[str, ...] = ()
    known: bool = True


_UNKNOWN = ContainerImage(known=False)
_UBUNTU = ContainerImage(("/bin/bash",), COREUTILS)
_CUDA = ContainerImage(("/bin/bash",), COREUTILS, _CUDA_ENV)
# a static shell without the C library of the distributions
_BUSYBOX = ContainerImage(("sh",), BUSYBOX, dynamic=False)
_SAMPLE = ContainerImage((VECTOR_ADD,), COREUTILS, _CUDA_ENV, programs=(VECTOR_ADD,))
_BY_REPOSITORY: Mapping[str, ContainerImage] = {
    "docker.io/library/ubuntu": _UBUNTU,
    "docker.io/library/debian": _UBUNTU,
    "docker.io/library/busybox": _BUSYBOX,
    "docker.io/library/alpine": ContainerImage(("/bin/sh",), BUSYBOX, dynamic=False),
    "docker.io/nvidia/cuda": _CUDA,
    "nvcr.io/nvidia/cuda": _CUDA,
}
_DRIVERS = ("nvcr.io/nvidia/driver", "docker.io/nvidia/driver")


def named(
    reference: str, mirror: Mapping[str, ContainerImage] = MappingProxyType({})
) -> ContainerImage:
    """The image that a reference means; the caller has asked `problem` first.

    ``mirror`` has by repository what a registry in between gives out instead.
    """
    repository, tag = split(reference)
    if repository in mirror:
        return mirror[repository]
    if repository == "nvcr.io/nvidia/k8s/cuda-sample" and tag.startswith("vectoradd"):
        return _SAMPLE
    version = _DRIVER_TAG.match(tag)
    if repository in _DRIVERS and version:
        # the driver container's own image: user space of the version that its tag names
        return ContainerImage((), COREUTILS, _CUDA_ENV, driver=version[0])
    return _BY_REPOSITORY.get(repository, _UNKNOWN)


def problem(reference: str) -> tuple[str, str]:
    """Why a reference cannot be pulled: (a kubelet's reason, the runtime's words), or two "".

    The reason is InvalidImageName or ErrImagePull.
    """
    if not _REFERENCE.fullmatch(reference):
        text = f'couldn\'t parse image name "{reference}": invalid reference format'
        return "InvalidImageName", f'Failed to apply default image tag "{reference}": {text}'
    repository, tag = split(reference)
    full = reference if "@" in reference else f"{repository}:{tag}"
    head = f'failed to pull and unpack image "{full}": failed to resolve reference "{full}": '
    host = repository.partition("/")[0].partition(":")[0]
    if host.endswith(".invalid"):
        text = f'failed to do request: Head "https://{host}/v2/": dial tcp: lookup {host}: '
        return "ErrImagePull", f"rpc error: code = Unknown desc = {head}{text}no such host"
    if "does-not-exist" in repository or "does-not-exist" in tag:
        return "ErrImagePull", f"rpc error: code = NotFound desc = {head}{full}: not found"
    return "", ""


def split(reference: str) -> tuple[str, str]:
    """(repository with its host, tag) as containerd completes a short reference."""
    name = reference.partition("@")[0]
    path, _, tag = name.rpartition(":") if ":" in name.rpartition("/")[2] else (name, "", "")
    first, _, rest = path.partition("/")
    if not rest:
        path = f"{_DEFAULT_HOST}/library/{path}"
    elif not ("." in first or ":" in first or first == "localhost"):
        path = f"{_DEFAULT_HOST}/{path}"
    return path, tag or "latest"
