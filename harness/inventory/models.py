"""The inventory as frozen data: one class for each kind of thing that a lab has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from harness.inventory.part import Part
from harness.inventory.references import NOT_OF_GUESTS, slips
from harness.inventory.secrets import SecretRef
from harness.inventory.services import Linstor, Prometheus
from harness.inventory.shapes import (
    ClassName,
    Count,
    Duration,
    Flag,
    Guest,
    HomePath,
    HostKey,
    Image,
    KubernetesVersion,
    ModuleName,
    ModuleParameter,
    Name,
    PciId,
    Port,
    Quantity,
    Rate,
    ResourceName,
    SchematicId,
    Sha256,
    TalosVersion,
    TenantNamespace,
    Url,
    Words,
)

Card = Literal["l40s", "gb202"]
"""The cards that scenarios may ask for by key."""

DEFAULT_SHELL_IMAGE = "docker.io/library/busybox:1.37.0"
PROBE_IMAGE = "docker.io/library/ubuntu:24.04"
CUDA_IMAGE = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"
CUDA_SUCCESS = "Test PASSED"
JOIN_BUDGET = Duration("29m")
"""Upstream's own end-to-end budget for a node to join (lanes.md section 2)."""
BOOT_LIMIT = Duration("70m")
"""Uptime at which Talos gives up a boot that does not end (TAL pkg/machinery/constants)."""
_RATE = (
    "Requests that all of a run together sends this cluster in a second, at most; 0 is no limit. "
    "If absent, 50, and no limit on a loopback address."
)


_KUBECONFIG: dict[str, Any] = {"required": ["kubeconfig", "context"]}
_IN_CLUSTER: dict[str, Any] = {
    "required": ["inCluster"],
    "properties": {"inCluster": {"const": True}},
}


class Access(Part):
    """How to reach the management cluster's API: by a kubeconfig, or from inside the cluster."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {**_KUBECONFIG, "not": _IN_CLUSTER},
                {
                    **_IN_CLUSTER,
                    "not": {"anyOf": [{"required": ["kubeconfig"]}, {"required": ["context"]}]},
                },
            ]
        }
    )

    kubeconfig: SecretRef | None = Field(
        default=None,
        description="The kubeconfig: {file: PATH}, {env: NAME} or just a path. The variable may "
        "hold the kubeconfig itself, the path of its file, or several paths with ':' between.",
    )
    context: Words | None = Field(
        default=None, description="Context of the kubeconfig to use; never the current one."
    )
    in_cluster: Flag | None = Field(
        default=None,
        description="true where the run itself is in a pod of the management cluster, and uses "
        "its service account instead of a kubeconfig.",
    )
    requests_per_second: Rate | None = Field(default=None, description=_RATE)
    clock_url: Url | None = Field(
        default=None, description="Clock of a twin that is already running (kind twin only)."
    )

    @field_validator("kubeconfig", mode="before", json_schema_input_type=SecretRef | HomePath)
    @classmethod
    def _plain_path(cls, value: Any) -> Any:
        is_path = isinstance(value, str) and value.startswith(("/", "~/")) and "\n" not in value
        return {"file": value} if is_path else value


class Tenant(Part):
    """Where on the management cluster the tenant cluster lives."""

    namespace: TenantNamespace = Field(
        default="tenant-hil", description="Tenant namespace on the management cluster."
    )
    cluster: Name = Field(default="lab", description="Name of the Kubernetes CR.")
    requests_per_second: Rate | None = Field(default=None, description=_RATE)


class Host(Part):
    """A hypervisor host: a machine that holds cards and runs the workers' virtual machines."""

    name: ClassName = Field(description="Name of its Node in the management cluster.")
    address: Words | None = Field(default=None, description="Name or IP for SSH; else `name`.")
    port: Port | None = Field(default=None, description="Port of its sshd; else 22.")
    user: Words | None = Field(default=None, description="User for SSH; else root.")
    ssh: SecretRef | None = Field(
        default=None, description="Private key for SSH: {file: PATH} or {env: NAME}."
    )
    host_key: HostKey | None = Field(
        default=None,
        description="Fingerprint of the key that its sshd shows (SHA256:...); if absent, its key "
        "must be in ~/.ssh/known_hosts. A key is never learnt.",
    )


class Gpu(Part):
    """A kind of card. Figures of objects.md section 6 and gpu_path.md section 4."""

    resource_name: ResourceName = Field(
        description="Extended resource that offers the card; read it from the host Node."
    )
    pci_id: PciId = Field(description="PCI vendor:device, lowercase hexadecimal (10de:26b9).")
    model: Words = Field(description="The card's name as `nvidia-smi -L` prints it.")
    modules: tuple[ModuleName, ...] = Field(
        default=("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset"),
        min_length=1,
        description="Kernel modules that must be live in the guest, in declared order.",
    )
    flavour: Literal["open", "proprietary"] = Field(
        default="open", description="Flavour of kernel modules used here; GB202 takes only open."
    )


class Schematic(Part):
    """A Talos image-factory schematic, under a name that people can say."""

    id: SchematicId = Field(description="The factory's id: sha256 of the schematic, 64 hex digits.")
    extensions: tuple[Words, ...] = Field(
        default=(), description="Official system extensions in the image (siderolabs/...)."
    )
    note: Words | None = Field(default=None, description="What it is for.")


class StorageClass(Part):
    """A StorageClass of the management cluster."""

    drbd: Flag = Field(description="true if its layers include DRBD.")
    replicas: Count = Field(description="Copies kept of each volume (autoPlace).")


class KernelModule(Part):
    """One entry of `KubernetesNodes.spec.kernelModules`."""

    name: ModuleName = Field(description="Module name.")
    parameters: tuple[ModuleParameter, ...] | None = Field(
        default=None, description="Parameters, each NAME=VALUE."
    )


_OF_LAB = " If absent, the lab's."


@dataclass(frozen=True, slots=True)
class Probes:
    """What the pods run that try a pool's cards.

    ``image`` ships no driver; ``command`` empty is the CUDA image's own; ``success`` is what its
    program writes when a kernel ran.
    """

    image: str
    cuda_image: str
    cuda_command: tuple[str, ...]
    cuda_success: str


class Pool(Part):
    """A worker pool to bring up: one `KubernetesNodes` object."""

    gpu: Card | None = Field(
        default=None, description="Card that each worker gets, by its key in `gpus`."
    )
    count: Count | None = Field(
        default=None, description="Cards for each worker; 1 if absent. Only with `gpu`."
    )
    replicas: Count = Field(default=1, description="Workers in the pool (minReplicas).")
    instance_type: ClassName = Field(
        default="u1.medium", description="VirtualMachineClusterInstancetype of the workers."
    )
    disk_size: Quantity = Field(
        default=Quantity("20Gi"), description="System disk of each worker, in bytes (20Gi)."
    )
    storage_class: ClassName = Field(
        default="replicated", description="StorageClass of the system disk, by name."
    )
    schematic: Words = Field(description="Talos image, by its name in `schematics`.")
    talos_version: TalosVersion = Field(description="Talos release (v1.13.6).")
    kubernetes_version: KubernetesVersion = Field(description="Kubernetes release (v1.35).")
    os_image: Literal["builtin", "factory"] | None = Field(
        default=None,
        description="Where the system disk comes from: builtin clones the golden image, factory "
        "downloads; absent leaves osImage unset, and the chart downloads.",
    )
    kernel_modules: tuple[KernelModule, ...] | None = Field(
        default=None,
        description="Absent: the chart chooses. []: none at all. A list: exactly that list. The "
        "three differ (S-KM).",
    )
    join_budget: Duration = Field(
        default=JOIN_BUDGET, description="Longest wait for every worker to join (29m)."
    )
    shell_image: Image = Field(
        default=DEFAULT_SHELL_IMAGE,
        description="Image of the privileged pod that reads the node; needs `sleep` and `chroot`.",
    )
    probe_image: Image | None = Field(
        default=None, description=f"Image of the pods that look for an injected card.{_OF_LAB}"
    )
    cuda_image: Image | None = Field(
        default=None, description=f"Image that runs one CUDA program and ends.{_OF_LAB}"
    )
    cuda_command: tuple[Words, ...] | None = Field(
        default=None, min_length=1, description=f"Command of the CUDA image.{_OF_LAB}"
    )
    cuda_success: Words | None = Field(
        default=None, description=f"Text that the CUDA program writes on success.{_OF_LAB}"
    )
    misfit: Words | None = Field(
        default=None,
        description="Why schematic and card do not fit on purpose; without it a misfit is refused.",
    )

    @property
    def cards(self) -> int:
        """Cards for each worker; 0 in a pool without a GPU."""
        return (self.count or 1) if self.gpu else 0


class DiskImage(Part):
    """A disk image that is on the machine which runs the guests."""

    path: HomePath = Field(description="The image's file: raw, or compressed with xz or zstd.")
    sha256: Sha256 = Field(description="Checksum of that file; another file is refused.")


class Guests(Part):
    """A set of QEMU guests on the machine of the run: an operating system and no Kubernetes.

    Their figures are those of the project's own guest image (docs/qemu.md).
    """

    replicas: Guest = Field(default=2, description="Guests in the set; 2 replicate a disk by DRBD.")
    memory: Quantity = Field(default=Quantity("192Mi"), description="Memory of each guest.")
    disk: Quantity = Field(
        default=Quantity("64Mi"), description="Size of the disk that the guests replicate."
    )
    kernel_modules: tuple[KernelModule, ...] = Field(
        default=(),
        description="Modules that each guest loads at its boot, in this order. Those of the names "
        "nvidia, nvidia_uvm, nvidia_modeset and nvidia_drm are the project's own stubs.",
    )
    boot_limit: Duration = Field(
        default=BOOT_LIMIT,
        description="Uptime that a guest must pass on one boot before that counts (70m on Talos).",
    )
    talos: DiskImage | None = Field(
        default=None,
        description="A Talos nocloud image to boot instead of the project's own. Not tried.",
    )

    @property
    def has_nvidia(self) -> bool:
        """Whether the guests load the NVIDIA driver's stub."""
        return any(one.name == "nvidia" for one in self.kernel_modules)


class Lane(Part):
    """A kind of run: what it asks, of which pools, for how long."""

    description: Words | None = Field(default=None, description="When and why it is run.")
    pools: tuple[Name, ...] = Field(min_length=1, description="Pools it uses, by name.")
    claims: tuple[Name, ...] | None = Field(
        default=None, min_length=1, description="Claims it asks; every claim if absent."
    )
    exclude: tuple[Name, ...] = Field(default=(), description="Claims it leaves out.")
    soak: Duration | None = Field(
        default=None, description="Window that a node must stay on one boot (93m); none if absent."
    )

    disruption: Flag = Field(
        default=False,
        description="true where a run may cut links, switch storage nodes off and reboot workers.",
    )
    platform: Flag = Field(
        default=False,
        description="true where a run may edit the platform's Package: add images to its catalogue "
        "and take them out again.",
    )

    def asks(self, claim: str) -> bool:
        """Whether the lane asks the claim with this id."""
        return (self.claims is None or claim in self.claims) and claim not in self.exclude


_OF_CLUSTERS = ("schematics", "storageClasses", "pools")


class Lab(Part):
    """A place with clusters and hardware: the whole of an inventory file."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {
                    "properties": {"kind": {"enum": ["twin", "cluster"]}},
                    "required": [*_OF_CLUSTERS],
                    "not": {"required": ["guests"]},
                },
                {
                    "properties": {"kind": {"const": "qemu"}, "clock": {"const": "real"}},
                    "required": ["guests"],
                    "not": {"anyOf": [{"required": [key]} for key in NOT_OF_GUESTS]},
                },
            ]
        }
    )

    name: Name = Field(description="The lab's name; it marks leases and reports.")
    kind: Literal["twin", "cluster", "qemu"] = Field(
        description="twin: the simulated lab that comes along. cluster: real clusters. qemu: the "
        "mini-lab, real QEMU guests on the machine of the run."
    )
    description: Words | None = Field(default=None, description="One line for people.")
    nodes: Literal["machines", "containers"] = Field(
        "machines", description="containers: they share one kernel; no release is signed there."
    )
    clock: Literal["real", "virtual"] = Field(
        description="Whose time waits use: virtual is a twin's own, real the wall's."
    )
    console: Flag = Field(
        default=True, description="false if KubeVirt's serial consoles are disabled or barred."
    )
    management: Access | None = Field(
        default=None, description="The management cluster; absent for the embedded twin."
    )
    tenant: Tenant = Field(default=Tenant(), description="Where the tenant cluster lives.")
    probe_image: Image = Field(
        default=PROBE_IMAGE,
        description="Image of the pods that look for an injected card; has `sleep` and the GNU C "
        "library, and no NVIDIA driver.",
    )
    cuda_image: Image = Field(
        default=CUDA_IMAGE, description="Image that runs one CUDA program and ends."
    )
    cuda_command: tuple[Words, ...] | None = Field(
        default=None, min_length=1, description="Command of the CUDA image; its own if absent."
    )
    cuda_success: Words = Field(
        default=CUDA_SUCCESS, description="Text that the CUDA program writes on success."
    )
    linstor: Linstor | None = Field(
        default=None,
        description="LINSTOR's controller; a twin that a run starts or attaches to names its own.",
    )
    prometheus: Prometheus | None = Field(
        default=None,
        description="What scrapes the tenant's workers; a twin that a run starts or attaches to "
        "names its own.",
    )
    hosts: tuple[Host, ...] = Field(
        default=(),
        description="Hypervisor hosts; a twin that a run starts or attaches to names its own.",
    )
    gpus: Mapping[Card, Gpu] = Field(default={}, description="Cards of this lab, by key.")
    schematics: Mapping[Name, Schematic] = Field(
        default={}, min_length=1, description="Talos images of this lab, by a name of your choice."
    )
    storage_classes: Mapping[ClassName, StorageClass] = Field(
        default={},
        min_length=1,
        description="StorageClasses of the management cluster, by their own name.",
    )
    pools: Mapping[Name, Pool] = Field(
        default={}, min_length=1, description="Worker pools, by name."
    )
    guests: Mapping[Name, Guests] = Field(
        default={}, min_length=1, description="Sets of QEMU guests, by name (kind qemu only)."
    )
    lanes: Mapping[Name, Lane] = Field(default={}, description="Kinds of run, by name.")

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        wrong = slips(self.model_dump(mode="json", exclude_unset=True))
        if wrong:
            text = "; ".join(map(str, wrong))
            raise PydanticCustomError("parts_misfit", "{text}", {"text": text})
        return self

    @property
    def sets(self) -> Mapping[str, Pool | Guests]:
        """What scenarios run on, by name: worker pools, or sets of guests."""
        return self.guests if self.kind == "qemu" else self.pools

    @property
    def hands_out_keys(self) -> bool:
        """Whether the lab is a twin that a run starts or attaches to: it says itself how to log in
        to its hypervisors.
        """
        return self.kind == "twin" and self.management is None

    def card(self, pool: str) -> Gpu | None:
        """The card of the pool of this name; None for a pool without one."""
        key = self.pools[pool].gpu
        return self.gpus[key] if key else None

    def probes(self, pool: str) -> Probes:
        """What the probe pods of the pool of this name run."""
        own = self.pools[pool]
        return Probes(
            image=own.probe_image or self.probe_image,
            cuda_image=own.cuda_image or self.cuda_image,
            cuda_command=own.cuda_command or self.cuda_command or (),
            cuda_success=own.cuda_success or self.cuda_success,
        )

    @property
    def substrate(self) -> str:
        """What stands beneath its runs: its kind, or "containers"."""
        return self.kind if self.nodes == "machines" else self.nodes

    def schematic_of(self, pool: str) -> Schematic:
        """The Talos image of the pool of this name."""
        return self.schematics[self.pools[pool].schematic]
