"""What the mini-lab is told to run, from the inventory's words."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.inventory.loading import load
from harness.inventory.models import DiskImage, Guests, KernelModule
from harness.qemulab.errors import Unfit
from harness.qemulab.lab import MiniLab, Wants
from harness.session.labs import LabChoice
from harness.session.minilab import PROBE_IMAGE, wants

MINI = Path(__file__).resolve().parents[2] / "inventory" / "qemu-mini.yaml"

MiB = 1 << 20


def test_the_inventorys_guests() -> None:
    modules = (
        KernelModule(name="nvidia", parameters=("NVreg_NvLinkDisable=1",)),
        KernelModule(name="nvidia_uvm"),
    )
    found = wants(Guests(replicas=3, memory="256Mi", disk="32Mi", kernel_modules=modules))
    assert (found.guests, found.memory, found.disk) == (3, 256 * MiB, 32 * MiB)
    assert found.modules == (("nvidia", ("NVreg_NvLinkDisable=1",)), ("nvidia_uvm", ()))
    assert found.prepare == (PROBE_IMAGE,)
    assert found.image is None


def test_no_image_of_a_container_where_no_card_is_looked_for() -> None:
    assert wants(Guests()).prepare == ()


def test_an_image_of_ones_own_is_booted_and_not_prepared() -> None:
    image = DiskImage(path="/images/talos.raw.xz", sha256="ab" * 32)
    found = wants(Guests(talos=image, kernel_modules=(KernelModule(name="nvidia"),)))
    assert found.image == (Path("/images/talos.raw.xz"), "ab" * 32)
    assert found.prepare == ()


def test_guests_that_run_are_those_of_the_inventory_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = load(MINI)
    started = {"control": str(tmp_path), "guests": [], "about": {}}

    def attach(_: Path) -> MiniLab:
        return MiniLab(tmp_path, started)

    monkeypatch.setattr(MiniLab, "attach", attach)
    monkeypatch.setattr(MiniLab, "status", lambda _: started)
    choice = LabChoice(inventory, "run", tmp_path, attach=tmp_path, pools=("mini",))
    started["about"] = {"made_by": Wants().command}
    with pytest.raises(Unfit, match="start others, with `hil qemu up --guests 2 --memory 320"):
        choice.see()
    started["about"] = {"made_by": wants(inventory.guests["mini"]).command}
    choice.see()
