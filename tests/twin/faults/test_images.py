"""What the faults of images do to a world, seen from the guest."""

from __future__ import annotations

from typing import Any

import pytest

from harness.twin.engine import Engine
from harness.twin.faults.catalogue import plant
from harness.twin.world.images import NVIDIA_OPEN, VANILLA
from harness.twin.world.objects import APPS
from harness.twin.world.world import World

SPACE = "tenant-hil"
L40S = "nvidia.com/AD102GL_L40S"


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
