"""What the files that come along promise: three twin pools, cards in the labs, DRBD at night."""

from __future__ import annotations

from pathlib import Path

from harness.inventory import Lab, load, parse_needs
from harness.inventory.capability import pools_for
from harness.inventory.shapes import Duration
from harness.twin.world import images

SHIPPED = Path(__file__).resolve().parents[2] / "inventory"


def test_the_twin_has_a_pool_of_each_kind() -> None:
    lab = load(SHIPPED / "twin.yaml")
    assert (lab.kind, lab.clock, lab.management) == ("twin", "virtual", None)
    pools = {name: (pool.gpu, pool.replicas, pool.cards) for name, pool in lab.pools.items()}
    assert pools == {
        "gpu-l40s": ("l40s", 1, 1),
        "gpu-gb202": ("gb202", 1, 1),
        "plain": (None, 2, 0),
        "cloned": (None, 2, 0),
    }
    assert {pool.os_image for pool in lab.pools.values()} == {None, "factory", "builtin"}


def test_schematics_are_ones_that_the_twin_can_build(shipped: Path) -> None:
    for schematic in load(shipped).schematics.values():
        assert images.schematic_id(schematic.extensions) == schematic.id
        assert images.ImageFactory().extensions(schematic.id) == schematic.extensions


def test_the_nightly_lane_has_drbd_and_no_card() -> None:
    lab = load(SHIPPED / "nightly-qemu-drbd.yaml")
    assert pools_for(lab, parse_needs(["storage=drbd", "no-gpu", "console"])) == tuple(lab.pools)
    assert pools_for(lab, parse_needs(["gpu"])) == ()


def test_the_lane_in_front_of_a_merge_clones_nothing() -> None:
    lab = load(SHIPPED / "gate-containers.yaml")
    for need in ("clone", "storage=drbd", "linstor", "platform", "disruption", "gpu", "soak"):
        assert pools_for(lab, parse_needs([need])) == (), need
    nightly = load(SHIPPED / "nightly-qemu-drbd.yaml")
    assert pools_for(nightly, parse_needs(["clone", "storage=quorum", "linstor"])) == ("cloned",)
    assert nightly.lanes["nightly"].platform


def test_each_hardware_lab_has_its_card() -> None:
    for card in ("l40s", "gb202"):
        lab = load(SHIPPED / f"lab-{card}.yaml")
        assert lab.clock == "real"
        assert pools_for(lab, parse_needs([f"gpu={card}", "storage=drbd", "ssh"]))
        assert all(window is None or window.seconds > 70 * 60 for window in soaks(lab))


def soaks(lab: Lab) -> list[Duration | None]:
    return [lane.soak for lane in lab.lanes.values()]
