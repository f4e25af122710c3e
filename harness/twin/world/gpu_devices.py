"""What a kubelet and a device plugin say to each other, and who plays a pod's programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest
    from harness.twin.world.objects import Obj


@dataclass(frozen=True, slots=True)
class Allocation:
    """What a device plugin's Allocate answers for the devices of one container.

    ``env`` goes into the container's environment; ``cdi_devices`` are qualified CDI names
    (``k8s.device-plugin.nvidia.com/gpu=GPU-...``) handed to the CRI, as an annotation of the CRI
    container or in its CDI field; ``device_nodes`` are paths below /dev that the kubelet hands on
    by itself (DeviceSpecs, NDP's PASS_DEVICE_SPECS). None of it is ever on the Pod object
    (gpu_path.md section 6).
    """

    env: Mapping[str, str] = field(default_factory=dict)
    cdi_devices: tuple[str, ...] = ()
    device_nodes: tuple[str, ...] = ()


class DevicePlugin(Protocol):
    """A device plugin as the kubelet sees it: one resource, its devices, an answer for some."""

    @property
    def resource(self) -> str:
        """The resource's name, ``nvidia.com/gpu``."""

    def devices(self) -> tuple[str, ...]:
        """Ids of the healthy devices, at this moment."""

    def allocate(self, ids: Sequence[str]) -> Allocation:
        """What a container gets that was given the devices ``ids``."""


class PodDriver(Protocol):
    """Plays the programs of pods with a label ``app``; the kubelet leaves their status to it."""

    def admitted(self, pod: Obj, guest: Guest) -> None:
        """The kubelet took the pod, in this boot of its node: its containers are to start."""

    def removed(self, pod: Obj) -> None:
        """The pod's containers were ended and the pod is gone."""
