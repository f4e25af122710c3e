"""What the faults of images do to a world, seen from the guest."""

from __future__ import annotations

import re
from typing import Any

import pytest

from harness.twin.engine import Engine
from harness.twin.faults.catalogue import plant
from harness.twin.world import hypervisors
from harness.twin.world.images import NVIDIA_OPEN, VANILLA
from harness.twin.world.objects import APPS
from harness.twin.world.world import World

SPACE = "tenant-hil"
L40S = "nvidia.com/AD102GL_L40S"
EXTENSIONS = "/etc/extensions.yaml"


@pytest.mark.parametrize(
    "image", [{"talos": {"schematicID": NVIDIA_OPEN}}, {"osImage": {"factory": {}}}]
)
def test_an_image_without_modules_has_no_extension_and_stays_up(image: dict[str, Any]) -> None:
    engine = Engine()
    world = World(engine)
    plant(world, "module-missing-from-image")
    spec = {"cluster": "lab", "minReplicas": 1, "gpus": [{"name": L40S}], **image}
    pool = {
        "apiVersion": APPS,
        "kind": "KubernetesNodes",
        "metadata": {"name": "lab-gpu", "namespace": SPACE},
        "spec": spec,
    }
    resource = world.management.registry.by_kind(APPS, "KubernetesNodes")
    world.management.create(resource, pool, namespace=SPACE)
    engine.run_until(engine.now + 6000.0)
    (guest,) = world.guests.all()
    assert guest.image.schematic == VANILLA
    extensions = guest.root.tree().read("/etc/extensions.yaml").decode()
    assert "nvidia" not in extensions
    assert '"nvidia": module not found' in guest.kernel_log().decode().replace("\\", "")
    # what waits for no driver is not ended by the 70-minute limit of a boot
    assert guest.boot_outcome == "done"
    assert guest.uptime > 4500.0


def test_an_sxm_board_without_the_parameter_waits_for_its_fabric(faulty: Any) -> None:
    lab = faulty("nvlink-not-disabled-sxm")
    lab.card()
    assert [card.pci_id for card in lab.guest.cards] == ["10de:2330"]
    host = hypervisors.every(lab.world)["hv-1"].run("lspci -nn -d 10de:").stdout
    assert host.count(b"[10de:2330]") == 4
    listed = lab.guest.run(["chroot", "/host", "/usr/local/bin/nvidia-smi", "-L"])
    assert listed.exit_code == 0 and listed.stdout.startswith(b"GPU 0: NVIDIA H100")
    told = lab.guest.run(["chroot", "/host", "/usr/local/bin/nvidia-smi", "-q"]).stdout.decode()
    assert re.search(r"Fabric\n +State +: In Progress", told)

    def cuda() -> bytes:
        workload = lab.operand("nvidia-cuda-validator")["metadata"]["name"]
        said = lab.world.logs("tenant-lab", "cozy-gpu-operator", workload, "cuda-validation")
        return bytes(said)

    lab.until(lambda: b"system not yet initialized" in cuda(), 60.0)


def test_a_build_that_lacks_the_modules_has_the_label_and_nothing_else(faulty: Any) -> None:
    lab = faulty("gpu-label-without-driver")
    lab.pool()
    lab.run(1500.0)
    labels = lab.node["metadata"]["labels"]
    assert labels["gpu"] == "on" and labels["feature.node.kubernetes.io/pci-10de.present"] == "true"
    assert "nvidia-open-gpu-kernel-modules" in lab.guest.root.tree().read(EXTENSIONS).decode()
    assert not lab.offered() and lab.guest.boot_outcome == "waiting"


@pytest.mark.parametrize(
    ("fault", "gpu", "ends"),
    [
        ("nvidia-schematic-no-gpu", "", True),
        ("nvidia-schematic-no-gpu", L40S, False),
        ("apid-port-50001-missing", "", True),
        ("apid-port-50001-missing", L40S, True),
        ("cdi-gen-not-finished", L40S, True),
        ("gpu-pool-optout-with-nvidia-image", L40S, True),
    ],
)
def test_which_pools_reboot_after_seventy_minutes(
    faulty: Any,
    fault: str,
    gpu: str,
    ends: bool,  # noqa: FBT001 - a column of the table
) -> None:
    lab = faulty(fault)
    lab.pool(gpu=gpu, schematic=NVIDIA_OPEN if gpu else VANILLA)
    lab.until(lambda: lab.tenant.all("v1", "Node") and lab.guest.kubelet_up)
    first = lab.guest.boot_id
    lab.run(4600.0)
    assert (lab.guest.boot_id != first) is ends


def test_the_device_plugins_own_file_is_there_without_the_systems(faulty: Any) -> None:
    lab = faulty("cdi-gen-not-finished")
    lab.card()
    assert "/run/cdi/nvidia.yaml" not in lab.guest.tmpfs
    lab.pod("fresh", cards=1)
    assert b"NVIDIA L40S" in lab.smi("fresh").stdout
