"""Objects of a small tenant, as its APIs would show them, for cases made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from harness.diagnose.case import MANAGEMENT, TENANT, Case, Kind, Listing, Text, Thing
from harness.diagnose.findings import Diagnosis, Standing
from harness.diagnose.ranking import diagnose

NVIDIA, VANILLA = "d4" + "0" * 62, "ce4c9805" + "0" * 51 + "c7515"
L40S, GB202 = "nvidia.com/AD102GL_L40S", "nvidia.com/GB202GL_RTX_PRO_6000"
SCHEMATICS = {
    NVIDIA: ("siderolabs/nvidia-open-gpu-kernel-modules-production",),
    VANILLA: (),
}
NOW = 1_800_000_000.0
AUTOMATIC = (
    "machine: {kernel: {modules: [{name: nvidia, parameters: [NVreg_NvLinkDisable=1]}, "
    "{name: nvidia_uvm}, {name: nvidia_drm}, {name: nvidia_modeset}]}, install: {image: IMAGE}}"
)
NONE_DECLARED = "machine: {type: worker, install: {image: IMAGE}}"


def moment(seconds: float) -> str:
    """A timestamp so many seconds before now."""
    return datetime.fromtimestamp(NOW - seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def obj(kind: str, name: str, namespace: str = "tenant-t", **rest: Any) -> dict[str, Any]:
    """An object that was made a day ago."""
    metadata = {"name": name, "namespace": namespace, "uid": f"{kind}/{name}"}
    metadata["creationTimestamp"] = moment(86400)
    return {"kind": kind, "metadata": {**metadata, **rest.pop("metadata", {})}, **rest}


def here(*objects: dict[str, Any]) -> list[Thing]:
    """Objects of the management cluster."""
    return [Thing(one, MANAGEMENT, "management API", NOW) for one in objects]


def there(*objects: dict[str, Any]) -> list[Thing]:
    """Objects of the tenant cluster."""
    return [Thing(one, TENANT, "tenant API", NOW) for one in objects]


def whole(*kinds: str, cluster: str = MANAGEMENT, namespace: str = "") -> list[Listing]:
    """Listings of these kinds."""
    return [Listing(cluster, kind, namespace) for kind in kinds]


def service(*ports: int) -> list[Thing]:
    """The control plane's Service."""
    spec = {"ports": [{"port": port} for port in ports]}
    labels = {"kamaji.clastix.io/name": "kubernetes-lab"}
    return here(obj("Service", "kubernetes-lab", metadata={"labels": labels}, spec=spec))


def pool(
    name: str,
    schematic: str,
    *cards: str,
    config: str = "",
    values: dict[str, Any] | None = None,
    allocatable: dict[str, str] | None = None,
    reboots: Sequence[float] = (),
) -> list[Thing]:
    """A pool with one worker that joined: all its objects in both clusters.

    ``reboots`` are how long each boot lasted that ended, oldest first.
    """
    full = f"kubernetes-lab-{name}"
    worker = f"{full}-w"
    labels = {"cluster.x-k8s.io/deployment-name": full}
    data = (config or (AUTOMATIC if cards else NONE_DECLARED)).replace(
        "IMAGE", f"factory.talos.dev/installer/{schematic}:v1.13.6"
    )
    url = f"https://factory.talos.dev/image/{schematic}/v1.13.6/openstack-amd64.raw.xz"
    template = {"dataVolumeTemplates": [{"spec": {"source": {"http": {"url": url}}}}]}
    asked = {"gpus": [{"name": one} for one in cards], **(values or {})}
    management = here(
        obj("HelmRelease", f"kubernetes-nodes-lab-{name}", spec={"values": asked}),
        obj("MachineDeployment", full, spec={"replicas": 1}),
        obj("Machine", worker, metadata={"labels": labels}, status={"nodeRef": {"name": worker}}),
        obj(
            "VirtualMachineInstance",
            worker,
            metadata={"labels": labels},
            status={"phase": "Running"},
        ),
        obj(
            "KubevirtMachineTemplate",
            f"{full}-abcdef",
            spec={"template": {"spec": {"virtualMachineTemplate": {"spec": template}}}},
        ),
        obj(
            "TalosConfigTemplate",
            f"{full}-abcdef",
            spec={"template": {"spec": {"data": data}}},
        ),
    )
    ready = [{"type": "Ready", "status": "True"}]
    offers = {"cpu": "4", **({"nvidia.com/gpu": "1"} if cards else {})}
    status = {"conditions": ready, "allocatable": offers if allocatable is None else allocatable}
    nodes = there(obj("Node", worker, "", status=status))
    return [*management, *nodes, *there(*rebooted(worker, reboots))]


def rebooted(node: str, boots: Sequence[float]) -> Iterable[dict[str, Any]]:
    """Four pods on a node that lived through boots that lasted so long each."""
    since = 600.0
    for number in range(4):
        begun = since + sum(boots)
        last = {
            "startedAt": moment(since + boots[-1] - 15) if boots else "",
            "finishedAt": moment(since - number),
            "exitCode": 255,
            "reason": "Unknown",
        }
        status = {
            "name": "c",
            "restartCount": len(boots),
            "state": {"running": {"startedAt": moment(since - 5 - number)}},
            "lastState": {"terminated": last} if boots else {},
        }
        yield obj(
            "Pod",
            f"p{number}",
            "kube-system",
            spec={"nodeName": node},
            status={"startTime": moment(begun), "containerStatuses": [status]},
            metadata={"creationTimestamp": moment(begun), "name": f"{node}-p{number}"},
        )


def text(kind: Kind, said: str, node: str = "", **rest: Any) -> Text:
    """Something captured of a node."""
    return Text(kind, said, f"{node}/{kind}", node, NOW, **rest)


def case(*parts: Iterable[Thing | Text | Listing], known: bool = True) -> Case:
    """A case of these parts."""
    everything = [one for part in parts for one in part]
    return Case(
        tuple(one for one in everything if isinstance(one, Thing)),
        tuple(one for one in everything if isinstance(one, Text)),
        tuple(one for one in everything if isinstance(one, Listing)),
        schematics=SCHEMATICS if known else {},
    )


def standings(found: Diagnosis) -> dict[str, Standing]:
    """Every cause that was told of, with where the evidence leaves it."""
    return {one.cause.id: one.standing for one in found.ranked}


def named(*parts: Iterable[Thing | Text | Listing], known: bool = True) -> list[str]:
    """The causes that are named, first first."""
    return [one.cause.id for one in diagnose(case(*parts, known=known)).named]
